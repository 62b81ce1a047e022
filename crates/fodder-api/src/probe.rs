//! Telling a node that is slow from one that hangs: greets it over a connection of its own.
//!
//! Requests that wait for the same node at the same time share one greeting. A node that hangs would otherwise collect a dead
//! connection for each of them in its backlog.
//!
//! What must not be here: what is done about it, which is the caller's.

use crate::{
    Address, Timeouts,
    frames::{Hello, Socket},
};
use std::{
    io::{self, ErrorKind, IoSlice},
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

/// How long a node may take to be connected to, and again to greet. Some hundred times what a busy one needs.
const GREETING: Duration = Duration::from_secs(2);

/// Whether a node says nothing at all: it is stopped, or cut off. One that refuses, or ends the connection, is not silent: it
/// has too many of them, or takes no new ones because it ends, and may still answer what it was asked.
pub(crate) fn is_silent(address: &Address) -> bool {
    let (_, probe) = find(address);
    let silent = *probe.get_or_init(|| is_silence(greet(address)));
    lock().retain(|(_, under_way)| !Arc::ptr_eq(under_way, &probe));
    silent
}

/// The outcome of a probe, which its first user finds out and the others wait for.
type Probe = (Address, Arc<OnceLock<bool>>);

/// Probes under way: at most one for each address.
static UNDER_WAY: Mutex<Vec<Probe>> = Mutex::new(Vec::new());

fn lock() -> std::sync::MutexGuard<'static, Vec<Probe>> {
    UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The probe of an address that is under way, or a new one.
fn find(address: &Address) -> Probe {
    let mut under_way = lock();
    if let Some(probe) = under_way.iter().find(|(of, _)| of == address) {
        return probe.clone();
    }
    let probe = (address.clone(), Arc::default());
    under_way.push(Probe::clone(&probe));
    probe
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
    fn requests_that_wait_at_the_same_time_share_one_greeting() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address: Address = listener.local_addr().unwrap().to_string().parse().unwrap();
        let silent = thread::scope(|scope| {
            let waiting: Vec<_> = (0..50).map(|_| scope.spawn(|| is_silent(&address))).collect();
            waiting.into_iter().map(|thread| thread.join().unwrap()).filter(|silent| *silent).count()
        });
        assert_eq!(silent, 50);
        listener.set_nonblocking(true).unwrap();
        let greetings = std::iter::from_fn(|| listener.accept().ok()).count();
        assert!(greetings < 50, "{greetings} greetings");
        assert!(lock().iter().all(|(of, _)| *of != address), "nothing is kept afterwards");
    }

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
