//! The bytes of a connection to another node, however they travel. Knows no frames.

use std::{
    io::{self, IoSlice},
    os::fd::AsRawFd,
    pin::Pin,
    task::{Context, Poll},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::client::TlsStream;

/// A connection to another node.
#[derive(Debug)]
pub(super) enum Stream {
    /// As they are.
    Plain(TcpStream),
    /// Encrypted, between two who have shown their certificates.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// Has who waits to read woken only when so many bytes are here, or no more will come. What is encrypted comes in parts of
    /// its own.
    pub(super) fn wake_from(&self, bytes: usize) -> io::Result<()> {
        match self {
            Self::Plain(stream) => set_low_water(stream, bytes),
            Self::Tls(_) => Ok(()),
        }
    }
}

#[allow(unsafe_code, reason = "rustix does not know this option")]
fn set_low_water(stream: &TcpStream, bytes: usize) -> io::Result<()> {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    // SAFETY: the kernel reads one integer of that size, which outlives the call.
    let outcome = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVLOWAT,
            (&raw const bytes).cast(),
            size_of_val(&bytes) as libc::socklen_t,
        )
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

macro_rules! on_either {
    ($stream:expr, $inner:ident => $call:expr) => {
        match $stream {
            Stream::Plain(inner) => {
                let $inner = Pin::new(inner);
                $call
            }
            Stream::Tls(inner) => {
                let $inner = Pin::new(inner);
                $call
            }
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        on_either!(self.get_mut(), inner => inner.poll_read(cx, buf))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        on_either!(self.get_mut(), inner => inner.poll_write(cx, buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        on_either!(self.get_mut(), inner => inner.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_either!(self.get_mut(), inner => inner.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_either!(self.get_mut(), inner => inner.poll_shutdown(cx))
    }
}
