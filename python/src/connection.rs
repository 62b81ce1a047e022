//! This process's connections to a node, or to one of several: taken, used by one thread, given back; made again when the
//! node was away.

use crate::{buffer::Shelf, leases::Leases, process::runtime, signal};
use fodder_api::{
    Address, Client, Error, Result, Timeouts,
    frames::{FrameClient, Opened},
};
use std::{
    collections::HashMap,
    process::Command,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// Connections that are kept when nobody uses them.
const KEPT: usize = 16;

/// Datasets, at a snapshot each, that a connection has open. A node allows 256, and whoever refreshes a dataset often comes to
/// as many.
const MOST_OPEN: usize = 64;

/// How long to wait between two tries.
const PAUSE: Duration = Duration::from_millis(50);

/// How long to wait before a node is started again once more.
const BETWEEN_STARTS: Duration = Duration::from_secs(2);

/// Which node, or which nodes of one cluster, and how patient to be with them.
#[derive(Debug, Clone)]
pub(crate) struct Whom {
    /// At least one; the first that answers is asked as long as it does.
    pub(crate) addresses: Vec<Address>,
    pub(crate) timeouts: Timeouts,
    /// How long a node may be away before a call fails.
    pub(crate) patience: Duration,
    /// The command that has the node again, where it was started by a user.
    pub(crate) revive: Vec<String>,
}

impl Whom {
    /// Whether a node that says so is passed over: it answers no clients on this machine, and others were named.
    pub(crate) fn passes_over(&self, error: &Error) -> bool {
        error.is_for_nodes_only() && self.addresses.len() > 1
    }
}

/// What one process has open to its node. Its locks are taken only while attached to Python, and so never while another
/// thread forks.
#[derive(Debug)]
pub(crate) struct Pool {
    idle: Mutex<Vec<Connection>>,
    shelf: Mutex<Shelf>,
    leases: Leases,
    /// One for each address.
    grpc: Vec<Client>,
    /// Which of the addresses is asked.
    asked: AtomicUsize,
}

impl Pool {
    pub(crate) fn new(whom: &Whom) -> Self {
        let _inside = runtime().enter();
        let client =
            |address| Client::lazy(address, whom.timeouts).expect("an address that was checked makes a client");
        let grpc = whom.addresses.iter().map(client).collect();
        let leases = Leases::new(whom);
        Self { idle: Mutex::default(), shelf: Mutex::default(), leases, grpc, asked: AtomicUsize::new(0) }
    }

    /// The client of the node at an address.
    pub(crate) fn grpc(&self, at: usize) -> &Client {
        &self.grpc[at]
    }

    /// The address that is asked.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Relaxed)
    }

    /// The node at this address has answered.
    pub(crate) fn ask(&self, at: usize) {
        self.asked.store(at, Relaxed);
    }

    /// The files that this process keeps open.
    pub(crate) fn leases(&self) -> &Leases {
        &self.leases
    }

    pub(crate) fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection that nobody uses to the node that is asked, if there is one.
    pub(crate) fn take(&self) -> Option<Connection> {
        let mut idle = self.idle();
        idle.retain(|connection| connection.at == self.asked());
        idle.pop()
    }

    pub(crate) fn give_back(&self, connection: Connection) {
        let mut idle = self.idle();
        if !connection.client.is_broken() && idle.len() < KEPT {
            idle.push(connection);
        }
    }

    /// A connection was lost: so are the others.
    pub(crate) fn forget(&self) {
        self.idle().clear();
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One connection, and the datasets it has open.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) client: FrameClient,
    /// To which address.
    pub(crate) at: usize,
    handles: HashMap<(String, String), Opened>,
}

impl Connection {
    pub(crate) fn new(whom: &Whom, at: usize) -> Result<Self> {
        let client = FrameClient::connect_with(&whom.addresses[at], whom.timeouts)?;
        Ok(Self { client, at, handles: HashMap::new() })
    }

    /// A dataset at a snapshot; an empty one means the newest.
    pub(crate) fn open(&mut self, dataset: &str, snapshot: &str) -> Result<Opened> {
        let key = |snapshot: &str| (dataset.to_owned(), snapshot.to_owned());
        if let Some(opened) = self.handles.get(&key(snapshot)) {
            return Ok(opened.clone());
        }
        while self.handles.len() >= MOST_OPEN {
            self.close_oldest()?;
        }
        let named = Some(snapshot).filter(|snapshot| !snapshot.is_empty());
        let opened = self.client.open(dataset, named)?;
        match self.handles.get(&key(&opened.snapshot)) {
            Some(before) => {
                let before = before.clone();
                self.client.close(opened.handle)?;
                Ok(before)
            }
            None => {
                self.handles.insert(key(&opened.snapshot), opened.clone());
                Ok(opened)
            }
        }
    }

    /// Whoever needs it once more opens it again.
    fn close_oldest(&mut self) -> Result<()> {
        let oldest = self.handles.iter().min_by_key(|(_, opened)| opened.handle).map(|(key, _)| key.clone());
        let closed = oldest.and_then(|key| self.handles.remove(&key));
        closed.map_or(Ok(()), |opened| self.client.close(opened.handle))
    }

    /// The handle of a dataset at a snapshot; an empty one means any.
    pub(crate) fn handle(&mut self, dataset: &str, snapshot: &str) -> Result<u32> {
        let any = self.handles.iter().find(|((of, _), _)| snapshot.is_empty() && of == dataset);
        match any {
            Some((_, opened)) => Ok(opened.handle),
            None => self.open(dataset, snapshot).map(|opened| opened.handle),
        }
    }
}

/// Waiting for a node that is away, or for another one.
#[derive(Debug)]
pub(crate) struct Wait {
    /// Which address to ask.
    pub(crate) at: usize,
    /// How many were asked since the last pause.
    asked: usize,
    deadline: Instant,
    next_start: Instant,
    /// The dataset was there before.
    known: bool,
}

impl Wait {
    pub(crate) fn new(whom: &Whom, at: usize, known: bool) -> Self {
        let now = Instant::now();
        Self { at, asked: 0, deadline: now + whom.patience, next_start: now, known }
    }

    /// After a failure: turns to the next node, waits a moment when none is left, or says that it is final.
    pub(crate) fn after(&mut self, error: Error, whom: &Whom) -> Result<()> {
        if signal::should_end() || !(self.is_passing(&error) || whom.passes_over(&error)) {
            return Err(error);
        }
        self.at = (self.at + 1) % whom.addresses.len();
        self.asked += 1;
        if self.asked < whom.addresses.len() {
            return Ok(());
        }
        self.asked = 0;
        if Instant::now() > self.deadline {
            return Err(error);
        }
        if !whom.revive.is_empty() && Instant::now() > self.next_start {
            revive(&whom.revive)?;
            self.next_start = Instant::now() + BETWEEN_STARTS;
        }
        std::thread::sleep(PAUSE);
        Ok(())
    }

    /// Whether a node that is away, or comes up, explains it.
    fn is_passing(&self, error: &Error) -> bool {
        matches!(error, Error::Unavailable(_) | Error::Closed(_)) || self.is_early(error)
    }

    /// Whether a node that comes up explains it: it answers before it has its datasets.
    pub(crate) fn is_early(&self, error: &Error) -> bool {
        match error {
            Error::NotFound(text) => self.known && text.starts_with("there is no dataset"),
            Error::Unavailable(text) => text.starts_with("the node is starting"),
            _ => false,
        }
    }
}

/// Has the node again.
fn revive(command: &[String]) -> Result<()> {
    let output = Command::new(&command[0])
        .args(&command[1..])
        .output()
        .map_err(|error| Error::Unavailable(format!("cannot run {}: {error}", command[0])))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().trim_start_matches("error: ").to_owned();
    Err(Error::Unavailable(format!("the node has ended and cannot be started again: {said}")))
}
