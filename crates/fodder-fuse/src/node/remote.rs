//! A real node over frames: connections that are kept, made again when they are lost, and waited for when it is away.

use super::{
    Description, Entry, From, Identity, Link as SymbolicLink, Newest, Node, Page, Part, SMALL_BYTES, held::HeldLeases,
};
use crate::{backing::Content, worker};
use fodder_api::{
    Address, Error, Result, Timeouts,
    frames::{Arriving, Batch, Entries, FrameClient, Lease, Leased, LinkInfo, ObjectId},
};
use parking_lot::Mutex;
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

/// How long a node that is alive may take for an answer: longer than it tries before it says that its origin does not answer.
const ANSWER: Duration = Duration::from_secs(120);

/// An answer that is so late makes the mount ask whether the node is alive. A node that hangs is waited for no longer than
/// one that is away.
const DOUBT: Duration = Duration::from_secs(1);

/// How long a connection may take to be made; the node is on this host.
const CONNECT: Duration = Duration::from_secs(5);

/// The pause between two attempts to reach a node that is away.
const PAUSE: Duration = Duration::from_millis(100);

/// Connections that are kept while nobody uses them: as many as threads wait for the node, since the leases of a connection that
/// ends must be reported again.
const MAX_IDLE: usize = 128;

/// Connections that keep their memory: the last one back is the first one taken, so that those below are used only when
/// many ask at once.
const MAX_READY: usize = 8;

/// The memory of a read that a connection keeps for the next.
const MAX_KEPT_BYTES: usize = 2 << 20;

/// Makes sure that the node runs and has the dataset; called again and again while it does not answer.
pub type Revive = Box<dyn Fn() + Send + Sync>;

/// A dataset of a node that is reached by its Unix socket.
pub(crate) struct Remote {
    address: Address,
    dataset: String,
    /// How long a request waits for a node that is away or hangs.
    patience: Duration,
    reviver: Arc<Reviver>,
    pub(super) idle: Mutex<Vec<Link>>,
    /// Whether the last thing that was logged is that it is away.
    away: Mutex<bool>,
    pub(super) held: HeldLeases,
    /// A connection has ended since leases were last reported.
    pub(super) lost: Arc<AtomicBool>,
    /// Leases were reported, and not all of them are verified.
    pub(super) unverified: AtomicBool,
    /// Objects whose leased files must not be opened again, until that is asked for.
    pub(super) invalid: Mutex<Vec<ObjectId>>,
}

/// Starts the node again on a thread of its own, one attempt at a time: a request may have to give up before that has an
/// outcome.
struct Reviver {
    revive: Revive,
    is_running: AtomicBool,
    last: Mutex<Option<Instant>>,
}

impl Reviver {
    fn new(revive: Revive) -> Arc<Self> {
        Arc::new(Self { revive, is_running: AtomicBool::new(false), last: Mutex::default() })
    }

    /// Starts an attempt, unless one is running or was made within the last second.
    fn start(self: &Arc<Self>) {
        let mut last = self.last.lock();
        if last.is_some_and(|at| at.elapsed() <= Duration::from_secs(1)) || self.is_running.swap(true, Relaxed) {
            return;
        }
        *last = Some(Instant::now());
        drop(last);
        let attempt = Attempt(Arc::clone(self));
        let started = thread::Builder::new().name("fuse-revive".into()).spawn(move || (attempt.0.revive)());
        if let Err(error) = started {
            tracing::warn!(%error, "cannot start a thread to start the node again");
        }
    }
}

/// An attempt that is running, also if it panics.
struct Attempt(Arc<Reviver>);

impl Drop for Attempt {
    fn drop(&mut self) {
        self.0.is_running.store(false, Relaxed);
    }
}

/// A connection with the dataset open.
pub(super) struct Link {
    pub(super) client: FrameClient,
    pub(super) handle: u32,
    batch: Batch,
    /// What was read from a cache file, used again.
    shown: Vec<u8>,
    lost: Arc<AtomicBool>,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.lost.store(true, Relaxed);
    }
}

impl Link {
    /// Reads a part from the cache file itself, as far as it is there; whether it was.
    fn read_shown(&mut self, object: ObjectId, part: Part) -> Result<bool> {
        let Part { offset, length, reader } = part;
        if !(SMALL_BYTES..=MAX_KEPT_BYTES as u64).contains(&length) || !self.client.shows_files() {
            return Ok(false);
        }
        self.shown.resize(length as usize, 0);
        self.client.read_shown(self.handle, object, (offset, Arriving::Await), reader, &mut self.shown)
    }

    /// Reads a part, from the cache file or as the node gives it.
    fn read(&mut self, object: ObjectId, part: Part, take: &mut dyn FnMut(&[u8])) -> Result<()> {
        let Part { offset, length, reader } = part;
        if length == 0 {
            take(&[]);
            return Ok(());
        }
        if self.read_shown(object, part)? {
            take(&self.shown);
            return Ok(());
        }
        self.client.read_object(self.handle, object, (offset, length), reader, &mut self.batch)?;
        self.take_read(take)
    }

    /// Keeps nothing for the next read.
    fn give_memory_back(&mut self) {
        self.batch = Batch::new();
        self.shown = Vec::new();
    }

    /// Passes on what was received.
    fn take_read(&self, take: &mut dyn FnMut(&[u8])) -> Result<()> {
        let nothing = || Error::Internal("the node sent no data for a read".into());
        take(self.batch.get(0).ok_or_else(nothing)?.data?);
        Ok(())
    }
}

impl Remote {
    /// The dataset of a node; nothing is asked yet.
    pub(crate) fn new(address: Address, dataset: String, patience: Duration, revive: Revive) -> Self {
        Self {
            address,
            dataset,
            patience,
            reviver: Reviver::new(revive),
            idle: Mutex::default(),
            away: Mutex::default(),
            held: HeldLeases::default(),
            lost: Arc::default(),
            unverified: AtomicBool::new(false),
            invalid: Mutex::default(),
        }
    }

    /// Asks on a connection; if it is lost on the way, again on another, until the node is back or `patience` is over since
    /// the request arrived. Connecting and a node that hangs are bounded by the same deadline; a node that is alive has
    /// [`ANSWER`] for its answer.
    pub(super) fn ask<T>(&self, patience: Duration, mut question: impl FnMut(&mut Link) -> Result<T>) -> Result<T> {
        let deadline = worker::arrived() + patience;
        loop {
            let (mut link, kept) = match self.link(deadline) {
                Ok(link) => link,
                Err(error) => {
                    self.wait_until(deadline, error)?;
                    continue;
                }
            };
            link.client.set_hang_deadline(Some(deadline));
            let answer = question(&mut link);
            match &answer {
                Err(error) if link.client.is_broken() || matches!(error, Error::Closed(_)) => {
                    // Those that were kept were lost with it, and say nothing of the node that may be there now. A fresh one
                    // that is lost is a node that is going.
                    self.idle.lock().clear();
                    if !kept || link.client.has_timed_out() {
                        self.wait_until(deadline, error.clone())?;
                    }
                }
                _ => {
                    self.keep(link);
                    return answer;
                }
            }
        }
    }

    /// A connection, and whether it was kept from before.
    fn link(&self, deadline: Instant) -> Result<(Link, bool)> {
        if let Some(link) = self.idle.lock().pop() {
            return Ok((link, true));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let timeouts = Timeouts { connect: left.clamp(DOUBT, CONNECT), progress: ANSWER, doubt: Some(DOUBT) };
        let mut client = FrameClient::connect_until(&self.address, timeouts, deadline)?;
        let handle = client.open(&self.dataset, None).map_err(missing)?.handle;
        self.answers_again();
        let lost = Arc::clone(&self.lost);
        Ok((Link { client, handle, batch: Batch::new(), shown: Vec::new(), lost }, false))
    }

    /// Keeps a connection that the node has just answered on.
    fn keep(&self, mut link: Link) {
        self.answers_again();
        if link.batch.capacity_bytes() > MAX_KEPT_BYTES {
            link.batch = Batch::new();
        }
        let mut idle = self.idle.lock();
        if idle.len() < MAX_IDLE {
            idle.push(link);
        }
        if let Some(below) = idle.len().checked_sub(MAX_READY + 1) {
            idle[below].give_memory_back();
        }
    }

    fn leased(&self, object: ObjectId, leased: Leased) -> Content {
        self.held.add(object, &leased.lease);
        Content::Leased(leased.lease)
    }

    fn answers_again(&self) {
        if std::mem::take(&mut *self.away.lock()) {
            tracing::info!(address = %self.address, dataset = self.dataset, "the node answers again");
        }
    }

    /// A pause, and an attempt to have the node again; the error, when it is too late.
    fn wait_until(&self, deadline: Instant, error: Error) -> Result<()> {
        if !std::mem::replace(&mut *self.away.lock(), true) {
            tracing::warn!(address = %self.address, dataset = self.dataset, "the node does not answer: {error}");
        }
        if Instant::now() >= deadline {
            return Err(error);
        }
        self.reviver.start();
        thread::sleep(PAUSE);
        Ok(())
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("address", &self.address).field("dataset", &self.dataset).finish_non_exhaustive()
    }
}

/// A dataset that the node does not have is waited for like a node: that there is no such name is said of files only.
fn missing(error: Error) -> Error {
    match error {
        Error::NotFound(why) => Error::Unavailable(why),
        error => error,
    }
}

fn page(entries: &Entries) -> Page {
    let link = |link: LinkInfo<'_>| SymbolicLink { target: link.target.into(), modified_ns: link.modified_ns };
    let owned = entries.iter().map(|entry| Entry {
        name: entry.name.into(),
        object: entry.object,
        link: entry.link.map(link),
        next: entry.next,
    });
    Page { snapshot: entries.snapshot, end: entries.end, entries: owned.collect() }
}

impl Node for Remote {
    fn lookup(&self, path: &str) -> Result<Entry> {
        let found = self.ask(self.patience, |link| link.client.lookup(link.handle, path))?;
        let entry = page(&found).entries.pop();
        entry.ok_or_else(|| Error::Internal("the node sent an incomplete reply to a lookup".into()))
    }

    fn list(&self, path: &str, from: From<'_>, count: u32) -> Result<Page> {
        let From { snapshot, rank, behind } = from;
        let list = |link: &mut Link| link.client.list(link.handle, path, snapshot, (rank, behind), count);
        self.ask(self.patience, list).map(|entries| page(&entries))
    }

    fn lease(&self, object: ObjectId, arriving: Arriving) -> Result<Option<Content>> {
        match self.ask(self.patience, |link| link.client.lease_object_as(link.handle, object, arriving)) {
            Ok(leased) => Ok(Some(self.leased(object, leased))),
            Err(Error::Full(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn open(
        &self,
        object: ObjectId,
        part: Part,
        arriving: Arriving,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<Content>> {
        let leased = self.ask(self.patience, |link| {
            if !link.client.opens_objects() {
                // A node of the version before.
                return match link.client.lease_object(link.handle, object) {
                    Err(Error::Full(_)) => link.read(object, part, take).map(|()| None),
                    leased => leased.map(Some),
                };
            }
            let leased = link.client.open_object(link.handle, object, (part.reader, arriving), &mut link.batch)?;
            if leased.is_none() {
                link.take_read(take)?;
            }
            Ok(leased)
        })?;
        Ok(leased.map(|leased| self.leased(object, leased)))
    }

    fn read(&self, object: ObjectId, part: Part, take: &mut dyn FnMut(&[u8])) -> Result<()> {
        self.ask(self.patience, |link| link.read(object, part, take))
    }

    fn read_shown(&self, object: ObjectId, part: Part, arriving: Arriving, buffer: &mut [u8]) -> Result<bool> {
        let Part { offset, reader, .. } = part;
        self.ask(Duration::ZERO, |link| {
            let can = link.client.shows_files();
            Ok(can && link.client.read_shown(link.handle, object, (offset, arriving), reader, buffer)?)
        })
    }

    fn describe(&self, object: ObjectId) -> Result<Description> {
        let (cached_bytes, tier, version) =
            self.ask(self.patience, |link| link.client.describe(link.handle, object))?;
        Ok(Description { cached_bytes, tier, version })
    }

    fn newest(&self) -> Result<Newest> {
        let opened = self.ask(Duration::ZERO, |link| {
            let opened = link.client.open(&self.dataset, None).map_err(missing)?;
            link.client.close(opened.handle)?;
            Ok(opened)
        })?;
        let id = u128::from_str_radix(&opened.snapshot, 16);
        let id = id.map_err(|_| Error::Internal("the node has a snapshot without a name".into()))?;
        Ok(Newest { snapshot: id.to_be_bytes(), objects: u64::from(opened.objects), bytes: opened.bytes })
    }

    fn give_back(&self) {
        // A connection tells of its own leases only, and those that are idle may not be used again for long.
        let owing: Vec<Link> = self.idle.lock().extract_if(.., |link| link.client.owes()).collect();
        for mut link in owing {
            // What is lost with a connection was given back.
            if link.client.give_back().is_ok() {
                self.keep(link);
            }
        }
    }

    fn identity(&self) -> Option<Identity> {
        Some(Identity { address: self.address.to_string(), dataset: self.dataset.clone() })
    }

    fn renew_leases(&self) -> Vec<ObjectId> {
        self.renew()
    }

    fn verify_lease(&self, object: ObjectId, lease: &Arc<Lease>) -> Result<()> {
        self.verify_one(object, lease)
    }

    fn is_away(&self) -> bool {
        *self.away.lock()
    }

    fn touch(&self, objects: &[ObjectId]) {
        // What is lost is a little knowledge of what is used.
        let _ = self.ask(Duration::ZERO, |link| link.client.touch(link.handle, objects));
    }
}

#[cfg(test)]
mod tests;
