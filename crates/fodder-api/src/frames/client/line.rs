//! The connection of a client, and how long it waits for an answer. Knows no frames.
//!
//! Where [`Timeouts::doubt`] is set, a node whose answer is late is greeted over another connection. A node that greets is
//! slow and is waited for up to [`Timeouts::progress`]. A node that does not greet hangs: it is given up at once, or at the
//! hang deadline where the caller has set one.

use crate::{Address, Timeouts, frames::Socket, probe};
use std::{
    collections::VecDeque,
    io::{self, ErrorKind, Read, Write},
    os::fd::{BorrowedFd, OwnedFd},
    time::Instant,
};

/// A connection to a node.
#[derive(Debug)]
pub(super) struct Line {
    socket: Socket,
    address: Address,
    timeouts: Timeouts,
    /// Until when a node that hangs is waited for.
    hang_deadline: Option<Instant>,
    timed_out: bool,
}

impl Line {
    pub(super) fn connect(address: &Address, timeouts: Timeouts, hang_deadline: Option<Instant>) -> io::Result<Self> {
        let socket = Socket::connect(address, timeouts)?;
        if let Some(doubt) = timeouts.doubt {
            let slice = doubt.min(timeouts.progress);
            socket.set_timeouts(Some(slice), Some(slice))?;
        }
        Ok(Self { socket, address: address.clone(), timeouts, hang_deadline, timed_out: false })
    }

    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    pub(super) fn set_hang_deadline(&mut self, deadline: Option<Instant>) {
        self.hang_deadline = deadline;
    }

    /// Whether a send or a receive was given up because it took too long.
    pub(super) fn has_timed_out(&self) -> bool {
        self.timed_out
    }

    pub(super) fn carries_descriptors(&self) -> bool {
        self.socket.carries_descriptors()
    }

    pub(super) fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let started = Instant::now();
        while !bytes.is_empty() {
            match self.patiently(started, |socket| socket.write(bytes)) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(sent) => bytes = &bytes[sent..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Sends bytes with file descriptors. Not repeated if it times out: the connection is lost then.
    pub(super) fn send_with(&mut self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.socket.send_with(bytes, descriptors, self.timeouts.progress)
    }

    /// Whether the other side has ended the connection, or sent something that was not asked for. Never waits.
    pub(super) fn has_ended(&self) -> bool {
        self.socket.has_ended()
    }

    /// Receives some bytes and the file descriptors that came with them; 0 is the end.
    pub(super) fn receive_with(&mut self, buffer: &mut [u8], descriptors: &mut VecDeque<OwnedFd>) -> io::Result<usize> {
        self.patiently(Instant::now(), |socket| socket.receive_with(buffer, descriptors))
    }

    /// Repeats a send or a receive that timed out for as long as the node may take since `started`.
    fn patiently(
        &mut self,
        started: Instant,
        mut attempt: impl FnMut(&mut Socket) -> io::Result<usize>,
    ) -> io::Result<usize> {
        loop {
            let done = attempt(&mut self.socket);
            let is_late = |error: &io::Error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
            if !done.as_ref().is_err_and(is_late) {
                return done;
            }
            if self.timeouts.doubt.is_none() || started.elapsed() >= self.timeouts.progress {
                self.timed_out = true;
                return done;
            }
            if probe::is_silent(&self.address) && self.hang_deadline.is_none_or(|deadline| Instant::now() >= deadline) {
                self.timed_out = true;
                let text = "it hangs: it answers no request";
                return Err(io::Error::new(ErrorKind::TimedOut, text));
            }
        }
    }
}

impl Read for Line {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.patiently(Instant::now(), |socket| socket.receive(buffer))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::frames::{FrameClient, Hello, HelloReply};
    use std::{
        io::Write,
        net::{TcpListener, TcpStream},
        sync::mpsc,
        thread,
        time::Duration,
    };

    const PATIENT: Timeouts =
        Timeouts { connect: Duration::from_secs(60), progress: Duration::from_secs(3600), doubt: None };
    const IN_DOUBT: Timeouts = Timeouts { doubt: Some(Duration::from_millis(20)), ..PATIENT };

    fn greet(stream: &mut TcpStream) {
        stream.read_exact(&mut [0; Hello::BYTES]).unwrap();
        let (_, newest) = crate::frames::VERSIONS;
        stream.write_all(&HelloReply { version: newest, newest }.encode()).unwrap();
    }

    /// A node that greets on so many connections, of which the first is the client's, and says when it has.
    fn node(greets: usize) -> (Address, mpsc::Receiver<TcpStream>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string().parse().unwrap();
        let (greeted, streams) = mpsc::channel();
        thread::spawn(move || {
            for _ in 0..greets {
                let mut stream = listener.accept().unwrap().0;
                greet(&mut stream);
                let _ = greeted.send(stream);
            }
            // From now on it takes connections and says nothing, as one that is stopped does.
            thread::park();
        });
        (address, streams)
    }

    #[test]
    fn a_node_that_does_not_greet_any_more_is_given_up_long_before_the_timeout() {
        let (address, streams) = node(2);
        let mut client = FrameClient::connect_with(&address, IN_DOUBT).unwrap();
        let error = client.ping().unwrap_err().to_string();
        assert!(error.contains("it hangs"), "{error}");
        assert!(client.is_broken());
        assert_eq!(streams.try_iter().count(), 2, "it was greeted once in doubt, and then in vain");
    }

    #[test]
    fn a_node_that_hangs_is_waited_for_until_the_hang_deadline_and_not_for_long_after_it() {
        let (address, streams) = node(1);
        let mut client = FrameClient::connect_with(&address, IN_DOUBT).unwrap();
        let wait = Duration::from_secs(3);
        let deadline = Instant::now() + wait;
        client.set_hang_deadline(Some(deadline));
        assert!(client.ping().unwrap_err().to_string().contains("it hangs"));
        assert!(client.has_timed_out());
        assert!(Instant::now() >= deadline, "given up before the deadline");
        assert!(deadline.elapsed() < Duration::from_secs(60), "given up {:?} after the deadline", deadline.elapsed());
        drop(streams);
        // Nor does a connection wait longer to be greeted.
        let failed = FrameClient::connect_until(&address, IN_DOUBT, Instant::now()).unwrap_err().to_string();
        assert!(failed.contains("it hangs"), "{failed}");
    }

    #[test]
    fn a_node_that_greets_is_waited_for() {
        let (address, streams) = node(usize::MAX);
        let mut client = FrameClient::connect_with(&address, IN_DOUBT).unwrap();
        let mut stream = streams.recv().unwrap();
        let answers = thread::spawn(move || {
            // It answers when it was doubted three times.
            let doubted: Vec<TcpStream> = streams.iter().take(3).collect();
            stream.write_all(&[0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]).unwrap();
            (stream, doubted)
        });
        client.ping().unwrap();
        drop(answers.join().unwrap());
    }
}
