//! Telling a node that is slow from one that hangs: greets it over a connection of its own.
//!
//! What must not be here: what is done about it, which is the caller's.

use crate::{
    Address, Timeouts,
    frames::{Hello, Socket},
};
use std::{
    io::{self, ErrorKind, IoSlice},
    time::Duration,
};

/// How long a node may take to be connected to, and again to greet. Some hundred times what a busy one needs.
const GREETING: Duration = Duration::from_secs(2);

/// Whether a node says nothing at all: it is stopped, or cut off. One that refuses, or ends the connection, is not silent: it
/// has too many of them, or takes no new ones because it ends, and may still answer what it was asked.
pub(crate) fn is_silent(address: &Address) -> bool {
    is_silence(greet(address))
}

/// The same without blocking.
pub(crate) async fn is_silent_async(address: &Address) -> bool {
    let address = address.clone();
    tokio::task::spawn_blocking(move || is_silent(&address)).await.unwrap_or(false)
}

fn greet(address: &Address) -> io::Result<usize> {
    let timeouts = Timeouts { connect: GREETING, progress: GREETING, doubt: None };
    let mut socket = Socket::connect(address, timeouts)?;
    socket.send_all(&mut [IoSlice::new(&Hello::OURS.encode())], GREETING)?;
    socket.receive(&mut [0; Hello::BYTES])
}

fn is_silence(greeted: io::Result<usize>) -> bool {
    use ErrorKind::{HostUnreachable, NetworkUnreachable, TimedOut, WouldBlock};
    greeted.is_err_and(|error| matches!(error.kind(), TimedOut | WouldBlock | HostUnreachable | NetworkUnreachable))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::{net::TcpListener, thread};

    #[test]
    fn one_that_never_greets_is_silent_and_one_that_refuses_or_hangs_up_is_not() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address: Address = listener.local_addr().unwrap().to_string().parse().unwrap();
        assert!(is_silent(&address), "it takes connections, and that is all");
        let hangs_up = thread::spawn(move || {
            // The one that was greeted in vain, and the next.
            drop((listener.accept().unwrap(), listener.accept().unwrap()));
        });
        assert!(!is_silent(&address), "it ends the connection");
        hangs_up.join().unwrap();
        assert!(!is_silent(&address), "nobody listens any more");
    }
}
