//! A framed connection as its thread uses it: blocking, over TCP or a Unix socket. Knows no frames.

use fodder_api::frames::Socket;
use std::{
    io::{self, IoSlice},
    net::Shutdown,
    os::fd::BorrowedFd,
    time::Duration,
};

/// A connection.
#[derive(Debug)]
pub(crate) enum Line {
    /// As it is.
    Plain(Socket),
}

impl Line {
    /// The socket below, to wake a thread that waits for it.
    pub(super) fn socket(&self) -> &Socket {
        match self {
            Self::Plain(socket) => socket,
        }
    }

    /// Whether file descriptors can be sent.
    pub(super) fn carries_descriptors(&self) -> bool {
        self.socket().carries_descriptors()
    }

    /// Ends one or both directions.
    pub(super) fn shutdown(&self, how: Shutdown) {
        self.socket().shutdown(how);
    }

    /// Receives some bytes; 0 is the end.
    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.receive(buffer),
        }
    }

    /// Sends everything, or fails once `limit` has passed.
    pub(super) fn send_all(&mut self, parts: &mut [IoSlice<'_>], limit: Duration) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.send_all(parts, limit),
        }
    }

    /// Sends bytes with file descriptors, where the connection carries them.
    pub(super) fn send_with(
        &mut self,
        bytes: &[u8],
        descriptors: &[BorrowedFd<'_>],
        limit: Duration,
    ) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.send_with(bytes, descriptors, limit),
        }
    }
}
