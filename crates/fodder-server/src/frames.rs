//! The framed door: a thread for each connection with blocking I/O, so that a warm item never changes thread.
//!
//! `connection` speaks the protocol over a `line` and has an `inbox`, `job` gives jobs their batches, `give` other nodes their bytes, `tell`
//! answers them in words, `output` is what is about to be sent, `lease` the cache files a client holds, `renew` those it reports, `view` those it is shown.

mod connection;
mod give;
mod inbox;
mod job;
mod lease;
mod line;
mod object;
mod output;
mod renew;
mod tell;
mod view;

pub(crate) use line::Line;

use crate::{NodeInfo, listener::Caller};
use fodder_api::frames::Socket;
use fodder_core::Engine;
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    io,
    net::Shutdown,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};
use tokio::{runtime::Handle, sync::OwnedSemaphorePermit};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Enough for a blocking wait for the engine, with room.
const STACK_BYTES: usize = 1 << 20;

/// All framed connections of a node.
#[derive(Debug)]
pub(crate) struct Door {
    engine: Arc<Engine>,
    info: Arc<NodeInfo>,
    runtime: Handle,
    /// How long a client may take to send a request or to take a part of an answer.
    stall: Duration,
    /// No new requests.
    draining: AtomicBool,
    /// Nothing at all any more.
    closed: CancellationToken,
    /// Sockets of the threads, to wake them.
    sockets: Mutex<HashMap<u64, Socket>>,
    next: AtomicU64,
    threads: TaskTracker,
}

impl Door {
    /// A door without connections. Needs a tokio runtime around it.
    pub(crate) fn new(engine: Arc<Engine>, info: Arc<NodeInfo>, stall: Duration) -> Arc<Self> {
        engine.begin_lease_recovery();
        Arc::new(Self {
            engine,
            info,
            runtime: Handle::current(),
            stall,
            draining: AtomicBool::new(false),
            closed: CancellationToken::new(),
            sockets: Mutex::default(),
            next: AtomicU64::new(0),
            threads: TaskTracker::new(),
        })
    }

    /// Serves a connection whose magic was read, on a thread of its own. The permit is held until it ends.
    pub(crate) fn serve(self: &Arc<Self>, line: Line, caller: Caller, permit: OwnedSemaphorePermit) -> io::Result<()> {
        let socket = line.socket();
        socket.tune()?;
        socket.set_timeouts(Some(self.stall), Some(self.stall))?;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.sockets.lock().insert(number, socket.try_clone()?);
        let guard = Registered { door: Arc::clone(self), number, _permit: permit };
        self.info.state.connections.frames.fetch_add(1, Ordering::Relaxed);
        let token = self.threads.token();
        // A connection taken while the door closed must not be missed.
        if self.draining.load(Ordering::SeqCst) {
            socket.shutdown(Shutdown::Both);
        }
        let run = move || {
            let _token = token;
            let _inside = guard.door.runtime.enter();
            connection::Connection::new(Arc::clone(&guard.door), line, caller).run();
        };
        thread::Builder::new().name(format!("frames-{number}")).stack_size(STACK_BYTES).spawn(run).map(drop)
    }

    /// Lets each connection finish its request and take no other.
    pub(crate) fn drain(&self) {
        self.engine.keep_lease_record();
        self.draining.store(true, Ordering::SeqCst);
        self.threads.close();
        for socket in self.sockets.lock().values() {
            socket.shutdown(Shutdown::Read);
        }
    }

    /// Ends what is left.
    pub(crate) fn close(&self) {
        self.engine.keep_lease_record();
        self.draining.store(true, Ordering::SeqCst);
        self.closed.cancel();
        self.threads.close();
        for socket in self.sockets.lock().values() {
            socket.shutdown(Shutdown::Both);
        }
    }

    /// Waits until no connection is left, after [`Door::drain`] or [`Door::close`].
    pub(crate) async fn ended(&self) {
        self.threads.wait().await;
    }
}

/// A connection in the door's books, until it is dropped.
struct Registered {
    door: Arc<Door>,
    number: u64,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.door.sockets.lock().remove(&self.number);
        self.door.info.state.connections.frames.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
