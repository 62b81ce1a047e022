//! The connection of a client, and how long it waits for an answer. Knows no frames.
//!
//! Where there is another node to go to, one whose answer is late is greeted over another connection: a slow one is waited
//! for, and one that hangs is given up long before the timeout.

use crate::{Address, Timeouts, frames::Socket, probe};
use std::{
    collections::VecDeque,
    io::{self, ErrorKind, IoSlice, Read},
    os::fd::OwnedFd,
    time::Instant,
};

/// A connection to a node.
#[derive(Debug)]
pub(super) struct Line {
    socket: Socket,
    address: Address,
    timeouts: Timeouts,
}

impl Line {
    pub(super) fn connect(address: &Address, timeouts: Timeouts) -> io::Result<Self> {
        let socket = Socket::connect(address, timeouts)?;
        if let Some(doubt) = timeouts.doubt {
            socket.set_timeouts(Some(doubt.min(timeouts.progress)), Some(timeouts.progress))?;
        }
        Ok(Self { socket, address: address.clone(), timeouts })
    }

    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    pub(super) fn carries_descriptors(&self) -> bool {
        self.socket.carries_descriptors()
    }

    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.socket.send_all(&mut [IoSlice::new(bytes)], self.timeouts.progress)
    }

    /// Receives some bytes and the file descriptors that came with them; 0 is the end.
    pub(super) fn receive_with(&mut self, buffer: &mut [u8], descriptors: &mut VecDeque<OwnedFd>) -> io::Result<usize> {
        self.patiently(|socket| socket.receive_with(buffer, descriptors))
    }

    fn patiently(&mut self, mut receive: impl FnMut(&mut Socket) -> io::Result<usize>) -> io::Result<usize> {
        let asked = Instant::now();
        loop {
            let received = receive(&mut self.socket);
            let is_late = |error: &io::Error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
            if self.timeouts.doubt.is_none()
                || !received.as_ref().is_err_and(is_late)
                || asked.elapsed() >= self.timeouts.progress
            {
                return received;
            }
            if probe::is_silent(&self.address) {
                let text = "it answers neither what it was asked nor a greeting";
                return Err(io::Error::new(ErrorKind::TimedOut, text));
            }
        }
    }
}

impl Read for Line {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.patiently(|socket| socket.receive(buffer))
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
        assert!(error.contains("nor a greeting"), "{error}");
        assert!(client.is_broken());
        assert_eq!(streams.try_iter().count(), 2, "it was greeted once in doubt, and then in vain");
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
