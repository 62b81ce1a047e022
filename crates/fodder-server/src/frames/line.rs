//! A framed connection as its thread uses it: blocking, over TCP or a Unix socket, encrypted or not. Knows no
//! frames.

use fodder_api::frames::Socket;
use rustls::ServerConnection;
use std::{
    collections::VecDeque,
    fmt,
    fs::File,
    io::{self, ErrorKind, IoSlice, Read, Write},
    net::Shutdown,
    ops::Range,
    os::fd::{BorrowedFd, OwnedFd},
    time::{Duration, Instant},
};

/// How much is encrypted before it is sent: enough that the kernel is seldom asked.
const ENCRYPTED_BYTES: usize = 512 << 10;

/// A connection.
#[derive(Debug)]
pub(crate) enum Line {
    /// As it is.
    Plain(Socket),
    /// With a node that has shown its certificate.
    Tls(Box<Sealed>),
}

/// An encrypted connection.
pub(crate) struct Sealed {
    socket: Socket,
    connection: ServerConnection,
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealed").field("socket", &self.socket).finish_non_exhaustive()
    }
}

impl Line {
    /// An encrypted connection, already greeted.
    pub(crate) fn sealed(socket: Socket, mut connection: ServerConnection) -> Self {
        connection.set_buffer_limit(Some(ENCRYPTED_BYTES));
        Self::Tls(Box::new(Sealed { socket, connection }))
    }

    /// The socket below, to wake a thread that waits for it.
    pub(super) fn socket(&self) -> &Socket {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(sealed) => &sealed.socket,
        }
    }

    /// Whether file descriptors can be sent.
    pub(super) fn carries_descriptors(&self) -> bool {
        self.socket().carries_descriptors()
    }

    /// Whether files can be sent without passing through this process.
    pub(super) fn sends_files(&self) -> bool {
        matches!(self, Self::Plain(_))
    }

    /// Sends a head and behind it a part of a file, where the connection [can](Self::sends_files).
    pub(super) fn send_file(&mut self, head: &[u8], file: &File, range: Range<u64>, limit: Duration) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.send_file(head, file, range, limit),
            Self::Tls(_) => Err(ErrorKind::Unsupported.into()),
        }
    }

    /// Ends one or both directions.
    pub(super) fn shutdown(&mut self, how: Shutdown) {
        if let Self::Tls(sealed) = self {
            sealed.connection.send_close_notify();
            // Worth a try only: the other side may be gone.
            let _ = sealed.connection.write_tls(&mut sealed.socket);
        }
        self.socket().shutdown(how);
    }

    /// Receives some bytes; 0 is the end.
    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.receive(buffer),
            Self::Tls(sealed) => sealed.receive(buffer),
        }
    }

    /// Receives some bytes, and the files that came with them; 0 is the end.
    pub(super) fn receive_with(&mut self, buffer: &mut [u8], files: &mut VecDeque<OwnedFd>) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.receive_with(buffer, files),
            Self::Tls(sealed) => sealed.receive(buffer),
        }
    }

    /// Sends everything, or fails once `limit` has passed.
    pub(super) fn send_all(&mut self, parts: &mut [IoSlice<'_>], limit: Duration) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.send_all(parts, limit),
            Self::Tls(sealed) => sealed.send_all(parts, limit),
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
            Self::Tls(_) => Err(ErrorKind::Unsupported.into()),
        }
    }
}

impl Sealed {
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match rustls::Stream::new(&mut self.connection, &mut self.socket).read(buffer) {
            // Frames say how long they are: what ends without a farewell has ended all the same.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(0),
            other => other,
        }
    }

    fn send_all(&mut self, parts: &[IoSlice<'_>], limit: Duration) -> io::Result<()> {
        let started = Instant::now();
        for part in parts {
            let mut part = &part[..];
            while !part.is_empty() || self.connection.wants_write() {
                part = &part[self.connection.writer().write(part)?..];
                while self.connection.wants_write() {
                    if started.elapsed() > limit {
                        return Err(io::Error::new(ErrorKind::TimedOut, "the other side reads too slowly"));
                    }
                    match self.connection.write_tls(&mut self.socket) {
                        Ok(0) => return Err(ErrorKind::WriteZero.into()),
                        Ok(_) => {}
                        Err(error) if error.kind() == ErrorKind::Interrupted => {}
                        Err(error) => return Err(error),
                    }
                }
            }
        }
        Ok(())
    }
}
