//! Connections: taken on TCP and on the Unix socket, counted, and given to the door whose language they begin with.
//!
//! The first four bytes tell: HTTP/2 begins with `PRI `, frames with `FODR`, and TLS with a byte of its own, behind which
//! one of the others is. What must not be here: what is said behind them.

pub(crate) mod bind;
mod caller;
mod stream;

pub(crate) use caller::Caller;
pub(crate) use stream::{Raw, Stream};

use crate::{
    NodeInfo,
    frames::{self, Line},
};
use fodder_api::frames::{MAGIC, Socket};
use std::{
    io::{self, ErrorKind},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, UnixListener},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// The first bytes of HTTP/2.
const HTTP2: [u8; 4] = *b"PRI ";

/// The first byte of TLS.
const TLS: u8 = 0x16;

/// How long a client may take to say its first bytes, and again to agree on TLS.
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
                    Ok(place) => {
                        self.info.state.connections.ever.fetch_add(1, Ordering::Relaxed);
                        welcome(raw, place);
                    }
                    Err(_) => {
                        refused += 1;
                        if refused.is_power_of_two() {
                            tracing::warn!(refused, "too many connections: raise max_connections, or close some");
                        }
                    }
                },
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
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
        let welcome = |raw: Raw, place| {
            let wire = Arc::clone(&self);
            let tasks = &self.reception.tasks;
            tasks.spawn(async move {
                let from = raw.peer();
                if let Err(error) = wire.sort(raw, place).await {
                    tracing::debug!(%error, ?from, "a connection ended before its first request");
                    // Not over TLS, or without a certificate that an authority vouches for.
                    if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::InvalidData) {
                        let strangers = &wire.reception.info.state.strangers;
                        strangers.turned_away(from.map(|address| address.ip()), &error.to_string());
                    }
                }
            });
        };
        self.reception.receive(listener, welcome).await;
    }

    /// A connection and the first bytes of what is said on it, behind TLS if it begins with that.
    async fn first_words(&self, mut raw: Raw) -> io::Result<(Raw, [u8; 4])> {
        let mut first = [0; 4];
        timeout(FIRST_WORDS, raw.read_exact(&mut first)).await??;
        let (caller, state) = (Caller::of(&raw), &self.reception.info.state);
        let (stream, tls) = match (raw, state.tls()) {
            (Raw::Tcp(stream), Some(tls)) => (stream, tls),
            (raw, _) => return Ok((raw, first)),
        };
        if first[0] != TLS {
            return match state.admit(Some(&caller)) {
                Ok(()) => Ok((Raw::Tcp(stream), first)),
                Err(_) => Err(io::Error::new(io::ErrorKind::PermissionDenied, "not over TLS, from another machine")),
            };
        }
        let greet = async {
            let (stream, vouched) = tls.accept(stream, first).await?;
            let mut raw = Raw::Tls(Box::new(stream), vouched);
            raw.read_exact(&mut first).await?;
            io::Result::Ok((raw, first))
        };
        timeout(FIRST_WORDS, greet).await?
    }

    /// Reads the first bytes and passes the connection on.
    async fn sort(&self, raw: Raw, place: OwnedSemaphorePermit) -> io::Result<()> {
        let (mut raw, first) = tokio::select! {
            begun = self.first_words(raw) => begun?,
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
            let caller = Caller::of(&raw);
            return self.frames.serve(blocking(raw)?, caller, place);
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
fn blocking(raw: Raw) -> io::Result<Line> {
    let tcp = |stream: TcpStream| -> io::Result<Socket> {
        let stream = stream.into_std()?;
        stream.set_nonblocking(false)?;
        Ok(Socket::Tcp(stream))
    };
    Ok(match raw {
        Raw::Tcp(stream) => Line::Plain(tcp(stream)?),
        Raw::Unix(stream) => {
            let stream = stream.into_std()?;
            stream.set_nonblocking(false)?;
            Line::Plain(Socket::Unix(stream))
        }
        Raw::Tls(stream, _) => {
            let (stream, connection) = stream.into_inner();
            Line::sealed(tcp(stream)?, connection)
        }
    })
}
