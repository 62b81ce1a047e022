//! A blocking connection, TCP or Unix, that can carry file descriptors. Used by both sides; knows no frames.

use crate::{Address, client::Timeouts};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketAddrUnix, SocketFlags, SocketType, sockopt,
};
use std::{
    collections::VecDeque,
    fs::File,
    io::{self, ErrorKind, IoSlice, Read, Write},
    mem::MaybeUninit,
    net::{Shutdown, TcpStream, ToSocketAddrs},
    ops::Range,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::Path,
    sync::OnceLock,
    time::{Duration, Instant},
};

/// The most file descriptors the kernel puts into one message.
const MAX_DESCRIPTORS: usize = 253;

/// What is asked of the kernel for the buffer of a Unix socket: a few items, so that the ends seldom wait for each
/// other, and not so many that they leave the processor's cache between writing and reading.
const UNIX_BUFFER_BYTES: usize = 1 << 20;

/// Whether a receive that a signal has interrupted should be given up.
static GIVE_UP: OnceLock<fn() -> bool> = OnceLock::new();

/// Has receives that a signal interrupts ask whether to go on: for programs whose signal handlers only leave a note, and
/// want to be asked (Python's do). A receive that is given up breaks its connection. The first caller's question stays.
pub fn ask_on_signal(give_up: fn() -> bool) {
    let _ = GIVE_UP.set(give_up);
}

fn goes_on() -> bool {
    !GIVE_UP.get().is_some_and(|give_up| give_up())
}

/// A blocking connection.
#[derive(Debug)]
pub enum Socket {
    /// To another host, or to this one.
    Tcp(TcpStream),
    /// On this host; carries file descriptors.
    Unix(UnixStream),
}

impl Socket {
    /// Connects, within the time allowed.
    pub fn connect(address: &Address, timeouts: Timeouts) -> io::Result<Self> {
        let socket = match address {
            Address::Unix(path) => Self::Unix(connect_unix(path, timeouts.connect)?),
            Address::Tcp(address) => Self::Tcp(connect_tcp(address, timeouts.connect)?),
        };
        socket.tune()?;
        socket.set_timeouts(Some(timeouts.progress), Some(timeouts.progress))?;
        Ok(socket)
    }

    /// Asks the kernel for what bulk transfer wants. Larger buffers are a wish: less is no error.
    pub fn tune(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => {
                stream.set_nodelay(true)?;
                sockopt::set_socket_keepalive(stream, true)?;
            }
            Self::Unix(stream) => {
                if sockopt::set_socket_send_buffer_size_force(stream, UNIX_BUFFER_BYTES).is_err() {
                    let _ = sockopt::set_socket_send_buffer_size(stream, UNIX_BUFFER_BYTES);
                }
            }
        }
        Ok(())
    }

    /// How long one receive and one send may wait; None is for ever.
    pub fn set_timeouts(&self, receive: Option<Duration>, send: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_read_timeout(receive).and_then(|()| stream.set_write_timeout(send)),
            Self::Unix(stream) => stream.set_read_timeout(receive).and_then(|()| stream.set_write_timeout(send)),
        }
    }

    /// Whether file descriptors can be sent.
    pub fn carries_descriptors(&self) -> bool {
        matches!(self, Self::Unix(_))
    }

    /// Another handle on the same connection.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Tcp(stream) => Self::Tcp(stream.try_clone()?),
            Self::Unix(stream) => Self::Unix(stream.try_clone()?),
        })
    }

    /// Ends one or both directions; a thread that waits there wakes.
    pub fn shutdown(&self, how: Shutdown) {
        let _ = match self {
            Self::Tcp(stream) => stream.shutdown(how),
            Self::Unix(stream) => stream.shutdown(how),
        };
    }

    /// Receives some bytes; 0 is the end.
    pub fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let result = match self {
                Self::Tcp(stream) => stream.read(buffer),
                Self::Unix(stream) => stream.read(buffer),
            };
            match result {
                Err(error) if error.kind() == ErrorKind::Interrupted && goes_on() => {}
                other => return other,
            }
        }
    }

    /// Whether the other side has ended the connection, or sent something. Never waits.
    pub fn has_ended(&self) -> bool {
        let fd = match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        };
        let mut byte = [0_u8; 1];
        let peeked = rustix::net::recv(fd, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT);
        !matches!(peeked, Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR))
    }

    /// Receives some bytes and the file descriptors that came with them, which are closed on exec.
    pub fn receive_with(&mut self, buffer: &mut [u8], descriptors: &mut VecDeque<OwnedFd>) -> io::Result<usize> {
        let Self::Unix(stream) = self else { return self.receive(buffer) };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            let parts = &mut [io::IoSliceMut::new(buffer)];
            match rustix::net::recvmsg(&*stream, parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
                Err(rustix::io::Errno::INTR) if goes_on() => {}
                other => break other?,
            }
        };
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                descriptors.extend(rights);
            }
        }
        Ok(received.bytes)
    }

    /// Sends everything, or fails once `limit` has passed: a peer that reads slowly without end is given up.
    pub fn send_all(&mut self, mut parts: &mut [IoSlice<'_>], limit: Duration) -> io::Result<()> {
        let started = Instant::now();
        IoSlice::advance_slices(&mut parts, 0);
        while !parts.is_empty() {
            let result = match self {
                Self::Tcp(stream) => stream.write_vectored(parts),
                Self::Unix(stream) => stream.write_vectored(parts),
            };
            match result {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(sent) => IoSlice::advance_slices(&mut parts, sent),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if !parts.is_empty() && started.elapsed() > limit {
                return Err(io::Error::new(ErrorKind::TimedOut, "the other side reads too slowly"));
            }
        }
        Ok(())
    }

    /// Sends a head and behind it a part of a file, which does not pass through this process. Fails once `limit` has passed, or
    /// if the file ends early: then the other side has received less than it was told, and the connection is of no use.
    pub fn send_file(&mut self, head: &[u8], file: &File, range: Range<u64>, limit: Duration) -> io::Result<()> {
        let started = Instant::now();
        let fd = match &*self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        };
        let mut head = head;
        while !head.is_empty() {
            match rustix::net::send(fd, head, SendFlags::NOSIGNAL | SendFlags::MORE) {
                Ok(sent) => head = &head[sent..],
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let mut at = range.start;
        while at < range.end {
            let left = (range.end - at) as usize;
            match rustix::fs::sendfile(fd, file, Some(&mut at), left) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            if at < range.end && started.elapsed() > limit {
                return Err(io::Error::new(ErrorKind::TimedOut, "the other side reads too slowly"));
            }
        }
        Ok(())
    }

    /// Sends bytes with file descriptors, which arrive with the first of the bytes. Unix only.
    pub fn send_with(&mut self, bytes: &[u8], descriptors: &[BorrowedFd<'_>], limit: Duration) -> io::Result<()> {
        let Self::Unix(stream) = self else { return Err(ErrorKind::Unsupported.into()) };
        if descriptors.is_empty() {
            return self.send_all(&mut [IoSlice::new(bytes)], limit);
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(io::Error::new(ErrorKind::InvalidInput, "too many file descriptors for one message"));
        }
        let sent = loop {
            match rustix::net::sendmsg(stream.as_fd(), &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL) {
                Err(rustix::io::Errno::INTR) => {}
                other => break other?,
            }
        };
        self.send_all(&mut [IoSlice::new(&bytes[sent..])], limit)
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.receive(buffer)
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write_vectored(parts),
            Self::Unix(stream) => stream.write_vectored(parts),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn connect_tcp(address: &str, limit: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, limit) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// A socket whose send timeout is set first, since that is what bounds a connect to a node that does not accept.
fn connect_unix(path: &Path, limit: Duration) -> io::Result<UnixStream> {
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(limit))?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(UnixStream::from(socket))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::io::Seek;

    #[test]
    fn descriptors_arrive_with_the_bytes_they_were_sent_with() {
        let (left, right) = UnixStream::pair().unwrap();
        let (mut left, mut right) = (Socket::Unix(left), Socket::Unix(right));
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"cached").unwrap();
        file.rewind().unwrap();
        left.send_with(b"take this", &[file.as_fd()], Duration::from_secs(5)).unwrap();

        let (mut buffer, mut descriptors) = ([0; 64], VecDeque::new());
        assert_eq!(right.receive_with(&mut buffer, &mut descriptors).unwrap(), 9);
        let mut text = String::new();
        File::from(descriptors.pop_front().unwrap()).read_to_string(&mut text).unwrap();
        assert_eq!(text, "cached");
        assert!(descriptors.is_empty());
    }

    #[test]
    fn a_part_of_a_file_arrives_behind_its_head_and_one_that_ends_early_is_an_error() {
        let (left, right) = UnixStream::pair().unwrap();
        let (mut left, mut right) = (Socket::Unix(left), Socket::Unix(right));
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"some bytes").unwrap();
        let limit = Duration::from_secs(5);
        left.send_file(b"head: ", &file, 5..10, limit).unwrap();
        assert_eq!(left.send_file(b"", &file, 5..11, limit).unwrap_err().kind(), ErrorKind::UnexpectedEof);
        drop(left);
        let (mut buffer, mut all) = ([0; 64], Vec::new());
        while let Ok(received @ 1..) = right.receive(&mut buffer) {
            all.extend_from_slice(&buffer[..received]);
        }
        assert_eq!(all, b"head: bytesbytes");
        let head = vec![0; 4 << 20];
        let limit = Duration::from_millis(50);
        let (left, _right) = UnixStream::pair().unwrap();
        let mut left = Socket::Unix(left);
        left.set_timeouts(None, Some(limit)).unwrap();
        assert!(left.send_file(&head, &file, 0..1, limit).is_err(), "nobody reads");
    }

    #[test]
    fn a_peer_that_does_not_read_is_given_up() {
        let (left, _right) = UnixStream::pair().unwrap();
        let mut left = Socket::Unix(left);
        let limit = Duration::from_millis(50);
        left.set_timeouts(None, Some(limit)).unwrap();
        let bytes = vec![0; 1 << 20];
        let mut parts = [IoSlice::new(&bytes), IoSlice::new(&bytes)];
        assert!(left.send_all(&mut parts, limit).is_err());
    }

    #[test]
    fn nobody_at_the_address_is_an_error_and_no_wait() {
        let dir = tempfile::tempdir().unwrap();
        let address = Address::unix(dir.path().join("none.sock")).unwrap();
        assert_eq!(Socket::connect(&address, Timeouts::default()).unwrap_err().kind(), ErrorKind::NotFound);
    }
}
