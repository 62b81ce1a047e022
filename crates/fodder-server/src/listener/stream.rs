//! A connection of an asynchronous door: counted, closed when the node closes, given up when its client does not read.

use super::{Caller, Count};
use crate::{NodeInfo, cluster::tls::Vouched};
use std::{
    future::Future,
    io::{self, ErrorKind, IoSlice},
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpStream, UnixStream},
    sync::OwnedSemaphorePermit,
    time::{Sleep, sleep},
};
use tokio_rustls::server::TlsStream;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::transport::server::Connected;

/// How long a client that was told everything may take to close its side.
const FAREWELL: Duration = Duration::from_secs(2);

/// A connection as it was taken.
pub(crate) enum Raw {
    Tcp(TcpStream),
    Unix(UnixStream),
    /// Greeted, with whoever is on the other side.
    Tls(Box<TlsStream<TcpStream>>, Arc<Vouched>),
}

impl Raw {
    /// Where it comes from, if it came over a network.
    pub(super) fn peer(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(stream) => stream.peer_addr().ok(),
            Self::Tls(stream, _) => stream.get_ref().0.peer_addr().ok(),
            Self::Unix(_) => None,
        }
    }
}

macro_rules! on_either {
    ($raw:expr, $stream:ident => $call:expr) => {
        match $raw {
            Raw::Tcp($stream) => {
                let $stream = Pin::new($stream);
                $call
            }
            Raw::Unix($stream) => {
                let $stream = Pin::new($stream);
                $call
            }
            Raw::Tls($stream, _) => {
                let $stream = Pin::new($stream);
                $call
            }
        }
    };
}

impl AsyncRead for Raw {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        on_either!(self.get_mut(), stream => stream.poll_read(cx, buf))
    }
}

impl AsyncWrite for Raw {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        on_either!(self.get_mut(), stream => stream.poll_write(cx, buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        on_either!(self.get_mut(), stream => stream.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_either!(self.get_mut(), stream => stream.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_either!(self.get_mut(), stream => stream.poll_shutdown(cx))
    }
}

/// A connection in the node's books.
pub(crate) struct Stream {
    raw: Raw,
    /// Bytes that were read to know the language, and how many of them are still to be read again.
    prefix: ([u8; 4], usize),
    closed: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Runs while a write waits for the client.
    stalled: Option<Pin<Box<Sleep>>>,
    stall: Duration,
    /// Runs once everything was said, while the client may still be reading it.
    farewell: Option<Pin<Box<Sleep>>>,
    _counted: Counted,
}

/// Counts a connection as open, and holds its place among those allowed.
struct Counted {
    info: Arc<NodeInfo>,
    count: Count,
    _place: OwnedSemaphorePermit,
}

impl Drop for Counted {
    fn drop(&mut self) {
        (self.count)(&self.info).fetch_sub(1, Ordering::Relaxed);
    }
}

impl Stream {
    /// Enters a connection into the books. A `prefix` of zeros means that nothing was read yet.
    pub(super) fn new(
        raw: Raw,
        prefix: [u8; 4],
        place: OwnedSemaphorePermit,
        (info, count): (Arc<NodeInfo>, Count),
        closed: CancellationToken,
        stall: Duration,
    ) -> Self {
        if let Raw::Tcp(stream) = &raw {
            // Worth a try only: without it, small answers wait.
            let _ = stream.set_nodelay(true);
        }
        count(&info).fetch_add(1, Ordering::Relaxed);
        let left = if prefix == [0; 4] { 0 } else { prefix.len() };
        let closed = Box::pin(closed.cancelled_owned());
        let counted = Counted { info, count, _place: place };
        Self { raw, prefix: (prefix, left), closed, stalled: None, stall, farewell: None, _counted: counted }
    }

    /// Minds the clock while a write waits, and fails it when the client takes too long.
    fn mind<T>(&mut self, cx: &mut Context<'_>, write: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if write.is_ready() {
            self.stalled = None;
            return write;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(self.stall)));
        ready!(stalled.as_mut().poll(cx));
        tracing::info!(after = ?self.stall, "gave up a client that does not read");
        Poll::Ready(Err(ErrorKind::TimedOut.into()))
    }

    /// Hears the client out until it closes its side too.
    ///
    /// A socket that is closed under a client's last words (it still grants room in its windows, or answers a ping)
    /// makes them fail, and an HTTP/2 client that cannot write gives up what it has not read yet.
    fn hear_out(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let farewell = self.farewell.get_or_insert_with(|| Box::pin(sleep(FAREWELL)));
        while farewell.as_mut().poll(cx).is_pending() && self.closed.as_mut().poll(cx).is_pending() {
            let mut unheard = [0; 1024];
            let mut unheard = ReadBuf::new(&mut unheard);
            match ready!(Pin::new(&mut self.raw).poll_read(cx, &mut unheard)) {
                Ok(()) if !unheard.filled().is_empty() => {}
                _ => break,
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Stream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        // One whose certificate is no longer in order may connect again with one that is.
        let is_distrusted = matches!(&self.raw, Raw::Tls(_, vouched) if !vouched.holds());
        if is_distrusted || self.closed.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(ErrorKind::ConnectionAborted.into()));
        }
        let (prefix, left) = self.prefix;
        if left > 0 {
            let length = left.min(buf.remaining());
            let start = prefix.len() - left;
            buf.put_slice(&prefix[start..start + length]);
            self.prefix.1 -= length;
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.raw).poll_read(cx, buf)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let write = Pin::new(&mut self.raw).poll_write(cx, buf);
        self.mind(cx, write)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let write = Pin::new(&mut self.raw).poll_write_vectored(cx, bufs);
        self.mind(cx, write)
    }

    fn is_write_vectored(&self) -> bool {
        self.raw.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let write = Pin::new(&mut self.raw).poll_flush(cx);
        self.mind(cx, write)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.farewell.is_none() {
            let write = Pin::new(&mut self.raw).poll_shutdown(cx);
            ready!(self.mind(cx, write))?;
        }
        self.hear_out(cx)
    }
}

impl Connected for Stream {
    type ConnectInfo = Caller;

    fn connect_info(&self) -> Caller {
        Caller::of(&self.raw)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{IcacheConfig, testing::Fixture};
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        sync::Semaphore,
    };

    async fn connection() -> (UnixStream, Stream) {
        let (client, server) = UnixStream::pair().unwrap();
        let info = Fixture::empty(IcacheConfig::default()).await.info;
        let place = Arc::new(Semaphore::new(1)).acquire_owned().await.unwrap();
        let books: (_, Count) = (info, |info| &info.state.connections.grpc);
        let stall = Duration::from_secs(30);
        (client, Stream::new(Raw::Unix(server), [0; 4], place, books, CancellationToken::new(), stall))
    }

    #[tokio::test]
    async fn the_last_words_of_a_client_do_not_fail_and_cost_it_nothing() {
        let (mut client, mut server) = connection().await;
        client.write_all(b"unread").await.unwrap();
        server.write_all(b"everything").await.unwrap();
        let closing = tokio::spawn(async move { server.shutdown().await });
        let mut heard = [0; 5];
        client.read_exact(&mut heard).await.unwrap();
        for _ in 0..1000 {
            client.write_all(b"go on, please").await.unwrap();
        }
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, b"thing");
        drop(client);
        closing.await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_close_is_not_waited_for_long() {
        let (_client, mut server) = connection().await;
        server.shutdown().await.unwrap();
    }
}
