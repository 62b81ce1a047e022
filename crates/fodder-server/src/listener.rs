//! Connections: taken on TCP and on the Unix socket, counted, and given to the door whose language they begin with.
//!
//! The first four bytes tell: HTTP/2 begins with `PRI `, frames with `FODR`. What must not be here: what is said
//! behind them.

pub(crate) mod bind;
mod stream;

pub(crate) use stream::{Raw, Stream};

use crate::{NodeInfo, frames};
use fodder_api::frames::{MAGIC, Socket};
use std::{
    io,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, UnixListener},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// The first bytes of HTTP/2.
const HTTP2: [u8; 4] = *b"PRI ";

/// How long a client may take to say its first bytes.
const FIRST_WORDS: Duration = Duration::from_secs(10);

/// How long to wait when connections cannot be taken, for example for want of file descriptors.
const OUT_OF_BREATH: Duration = Duration::from_millis(100);

/// What all listeners of a node share.
pub(crate) struct Reception {
    pub(crate) info: Arc<NodeInfo>,
    /// As many as there may be connections.
    pub(crate) places: Arc<Semaphore>,
    /// How long a client may leave bytes unread.
    pub(crate) stall: Duration,
    /// Take no more connections.
    pub(crate) stop: CancellationToken,
    /// End those that are there.
    pub(crate) closed: CancellationToken,
    pub(crate) tasks: TaskTracker,
}

/// A place to listen at.
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    async fn accept(&self) -> io::Result<Raw> {
        Ok(match self {
            Self::Tcp(listener) => Raw::Tcp(listener.accept().await?.0),
            Self::Unix(listener) => Raw::Unix(listener.accept().await?.0),
        })
    }
}

impl Reception {
    /// Takes connections until told to stop, and gives each to `welcome` with its place among those allowed.
    pub(crate) async fn receive(&self, listener: Listener, mut welcome: impl FnMut(Raw, OwnedSemaphorePermit)) {
        let mut refused = 0u64;
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = self.stop.cancelled() => return,
            };
            match accepted {
                Ok(raw) => match Arc::clone(&self.places).try_acquire_owned() {
                    Ok(place) => welcome(raw, place),
                    Err(_) => {
                        refused += 1;
                        if refused.is_power_of_two() {
                            tracing::warn!(refused, "too many connections: raise max_connections, or close some");
                        }
                    }
                },
                Err(error) => {
                    tracing::warn!(%error, "cannot take a connection");
                    tokio::time::sleep(OUT_OF_BREATH).await;
                }
            }
        }
    }

    /// Wraps a connection for the doors that are asynchronous.
    pub(crate) fn stream(&self, raw: Raw, prefix: [u8; 4], place: OwnedSemaphorePermit, count: Count) -> Stream {
        Stream::new(raw, prefix, place, (Arc::clone(&self.info), count), self.closed.clone(), self.stall)
    }
}

/// Which of the counters of open connections a connection is counted in.
pub(crate) type Count = fn(&NodeInfo) -> &AtomicU64;

/// The port and the socket where gRPC and frames are spoken.
pub(crate) struct Wire {
    pub(crate) reception: Arc<Reception>,
    pub(crate) grpc: mpsc::Sender<io::Result<Stream>>,
    pub(crate) frames: Arc<frames::Door>,
}

impl Wire {
    /// Takes connections until told to stop.
    pub(crate) async fn listen(self: Arc<Self>, listener: Listener) {
        let welcome = |raw, place| {
            let wire = Arc::clone(&self);
            let tasks = &self.reception.tasks;
            tasks.spawn(async move {
                if let Err(error) = wire.sort(raw, place).await {
                    tracing::debug!(%error, "a connection ended before it began");
                }
            });
        };
        self.reception.receive(listener, welcome).await;
    }

    /// Reads the first bytes and passes the connection on.
    async fn sort(&self, mut raw: Raw, place: OwnedSemaphorePermit) -> io::Result<()> {
        let mut first = [0; 4];
        tokio::select! {
            read = timeout(FIRST_WORDS, raw.read_exact(&mut first)) => read??,
            () = self.reception.stop.cancelled() => return Ok(()),
        };
        if first == HTTP2 {
            let count: Count = |info| &info.state.connections.grpc;
            let stream = self.reception.stream(raw, first, place, count);
            // Nobody there to take it means that the node is closing.
            let _ = self.grpc.send(Ok(stream)).await;
            return Ok(());
        }
        if first == MAGIC {
            return self.frames.serve(frames::Line::Plain(blocking(raw)?), place);
        }
        if matches!(&first, b"GET " | b"POST" | b"PUT " | b"HEAD" | b"DELE" | b"OPTI") {
            let rest = self.reception.info.addresses.rest;
            let body = format!("This port speaks gRPC (HTTP/2) and frames. REST is at http://{rest}\n");
            let answer = format!(
                "HTTP/1.1 400 Bad Request\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
            timeout(FIRST_WORDS, raw.write_all(answer.as_bytes())).await??;
        }
        Ok(())
    }
}

/// The connection as a thread uses it.
fn blocking(raw: Raw) -> io::Result<Socket> {
    Ok(match raw {
        Raw::Tcp(stream) => {
            let stream = stream.into_std()?;
            stream.set_nonblocking(false)?;
            Socket::Tcp(stream)
        }
        Raw::Unix(stream) => {
            let stream = stream.into_std()?;
            stream.set_nonblocking(false)?;
            Socket::Unix(stream)
        }
    })
}
