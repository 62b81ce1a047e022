//! Which files are kept open, and which leases to request next. No I/O.

use super::{Kept, descriptor};
use fodder_api::frames::{Leased, MAX_LEASES};
use std::{
    collections::{HashMap, HashSet, VecDeque},
    os::fd::RawFd,
    sync::{Arc, atomic::AtomicU64, atomic::Ordering::Relaxed},
    time::Instant,
};

/// Snapshots of datasets whose files are kept at once.
const MAX_SNAPSHOTS: usize = 8;
/// Items of a snapshot that are remembered as too small for a cache file of their own. Beyond that they are asked for again.
const MAX_SMALL: usize = 1 << 20;
/// Reads of kept files that are reported together.
const MAX_REPORTED: usize = 1024;
/// The most reads that pass after refusals before leases are requested again.
const MAX_BACKOFF: u32 = 1024;

/// The kept files.
#[derive(Debug)]
pub(super) struct Table {
    snapshots: Vec<Snapshot>,
    capacity: usize,
    held: usize,
    made: Instant,
}

#[derive(Debug)]
struct Snapshot {
    dataset: Arc<str>,
    snapshot: Arc<str>,
    /// 0 until the node has said it.
    items: u64,
    kept: HashMap<u64, Arc<Kept>>,
    /// Items that never have a cache file of their own.
    small: HashSet<u64>,
    /// Ids in the order in which their leases came.
    order: VecDeque<u64>,
    /// Reads that were not reported yet.
    reads: Vec<u64>,
    /// The item behind the last one that was read.
    next: u64,
    /// Reads that pass before leases are requested again.
    pass: u32,
    backoff: u32,
}

/// What to do for a read.
pub(super) enum Next {
    /// Read this file. The ids are reads that are due to be reported.
    Read(Arc<Kept>, Vec<u64>),
    /// Request these leases first.
    Request(Wanted),
    /// Read over the socket.
    Pass,
}

/// Leases to request.
pub(super) struct Wanted {
    /// At most as many as the table has room for, so that the files of a reply and those that they replace are at most twice
    /// the capacity.
    pub(super) ids: Vec<u64>,
    /// Whether what is granted replaces the oldest files of its snapshot where no place is free.
    pub(super) replaces_oldest: bool,
}

/// What the node answered to a request for leases.
#[derive(Default)]
pub(super) struct Answer {
    pub(super) granted: Vec<Leased>,
    /// Items that never have a cache file of their own.
    pub(super) small: Vec<u64>,
}

/// An item: dataset, snapshot and id.
pub(super) type Key = (Arc<str>, Arc<str>, u64);

/// Reads of a dataset at a snapshot.
pub(super) type Reads = (Arc<str>, Arc<str>, Vec<u64>);

impl Table {
    pub(super) fn new(capacity: usize) -> Self {
        Self { snapshots: Vec::new(), capacity, held: 0, made: Instant::now() }
    }

    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// What to do for a read of an item.
    pub(super) fn next(&mut self, dataset: &str, snapshot: &str, id: u64) -> Next {
        if self.capacity == 0 {
            return Next::Pass;
        }
        let now = self.made.elapsed().as_secs();
        let at = self.at(dataset, snapshot);
        let of = &mut self.snapshots[at];
        let in_sequence = id == std::mem::replace(&mut of.next, id + 1);
        if let Some(kept) = of.kept.get(&id) {
            kept.used.store(now, Relaxed);
            of.reads.push(id);
            let due = of.reads.len() >= MAX_REPORTED;
            return Next::Read(Arc::clone(kept), if due { std::mem::take(&mut of.reads) } else { Vec::new() });
        }
        if of.small.contains(&id) {
            return Next::Pass;
        }
        if of.pass > 0 {
            of.pass -= 1;
            return Next::Pass;
        }
        let wanted = self.wanted(at, id, in_sequence);
        if wanted.ids.is_empty() { Next::Pass } else { Next::Request(wanted) }
    }

    /// The leases to request for a read of `id`: with its neighbours if they will be read soon, or if there is room for the
    /// whole dataset. Reads in sequence replace the oldest files; other reads fill the table and then keep it, because an
    /// epoch reads everything once and the oldest file would be read next.
    fn wanted(&self, at: usize, id: u64, in_sequence: bool) -> Wanted {
        let of = &self.snapshots[at];
        let fits = of.items > 0 && of.items <= self.capacity as u64;
        let end = if in_sequence || fits { of.items.min(id + MAX_LEASES as u64) } else { 0 }.max(id + 1);
        let mut ids: Vec<u64> = (id..end).filter(|id| !of.kept.contains_key(id) && !of.small.contains(id)).collect();
        let replaceable = if in_sequence { of.kept.len() } else { 0 };
        ids.truncate(self.capacity - self.held + replaceable);
        Wanted { ids, replaces_oldest: in_sequence }
    }

    /// Keeps what the node granted. Nothing granted: leases are requested less often from now on.
    pub(super) fn insert(&mut self, dataset: &str, snapshot: &str, items: u64, answer: Answer, replaces_oldest: bool) {
        let Answer { granted, small } = answer;
        let used = self.made.elapsed().as_secs();
        let at = self.at(dataset, snapshot);
        self.snapshots[at].items = items;
        let has_learnt = self.snapshots[at].remember_small(small);
        if granted.is_empty() && has_learnt {
            return;
        }
        if granted.is_empty() {
            return self.snapshots[at].refused();
        }
        if replaces_oldest {
            // Only now: a node that grants nothing, because nothing of it is cached, costs no file that is kept.
            let free = self.capacity - self.held;
            self.held -= self.snapshots[at].remove_oldest(granted.len().saturating_sub(free));
        }
        let of = &mut self.snapshots[at];
        (of.backoff, of.pass) = (0, 0);
        for leased in granted.into_iter().take(self.capacity - self.held) {
            let id = leased.asked;
            if of.kept.insert(id, Arc::new(Kept { leased, used: AtomicU64::new(used) })).is_none() {
                of.order.push_back(id);
                self.held += 1;
            }
        }
    }

    /// A file that was just granted; counted as read.
    pub(super) fn get(&mut self, dataset: &str, snapshot: &str, id: u64) -> Option<Arc<Kept>> {
        let at = self.at(dataset, snapshot);
        let of = &mut self.snapshots[at];
        let kept = of.kept.get(&id).map(Arc::clone)?;
        of.reads.push(id);
        Some(kept)
    }

    /// The connection was lost, and with it all leases.
    pub(super) fn fail(&mut self, dataset: &str, snapshot: &str) {
        self.clear();
        let at = self.at(dataset, snapshot);
        self.snapshots[at].backoff = MAX_BACKOFF;
        self.snapshots[at].refused();
    }

    pub(super) fn clear(&mut self) {
        self.snapshots.clear();
        self.held = 0;
    }

    pub(super) fn remove(&mut self, dataset: &str, snapshot: &str, id: u64) {
        let at = self.at(dataset, snapshot);
        let of = &mut self.snapshots[at];
        if of.kept.remove(&id).is_some() {
            of.order.retain(|other| *other != id);
            self.held -= 1;
        }
    }

    /// Drops several files.
    pub(super) fn remove_all(&mut self, keys: &[Key]) {
        for of in &mut self.snapshots {
            let mine = |key: &&Key| key.0 == of.dataset && key.1 == of.snapshot;
            let removed = keys.iter().filter(mine).filter(|key| of.kept.remove(&key.2).is_some()).count();
            self.held -= removed;
            if removed > 0 {
                of.order.retain(|id| of.kept.contains_key(id));
            }
        }
    }

    /// All files, and the second before which one was last used that is unused for so many seconds.
    pub(super) fn all(&self, unused_seconds: u64) -> (Vec<(Key, Arc<Kept>)>, u64) {
        let key = |of: &Snapshot, id: u64| (of.dataset.clone(), of.snapshot.clone(), id);
        let all =
            self.snapshots.iter().flat_map(|of| of.kept.iter().map(move |(id, kept)| (key(of, *id), kept.clone())));
        (all.collect(), self.made.elapsed().as_secs().saturating_sub(unused_seconds))
    }

    /// The reads that were not reported yet.
    pub(super) fn take_reads(&mut self) -> Vec<Reads> {
        let unreported = self.snapshots.iter_mut().filter(|of| !of.reads.is_empty());
        unreported.map(|of| (of.dataset.clone(), of.snapshot.clone(), std::mem::take(&mut of.reads))).collect()
    }

    /// Forgets all files without closing them: their descriptors.
    pub(super) fn forget(&mut self) -> Vec<RawFd> {
        let snapshots = std::mem::take(&mut self.snapshots);
        self.held = 0;
        let files = snapshots.iter().flat_map(|of| of.kept.values()).map(|kept| descriptor(kept)).collect();
        std::mem::forget(snapshots);
        files
    }

    /// The index of a snapshot, which is added if it is new; the one that was added first makes room.
    fn at(&mut self, dataset: &str, snapshot: &str) -> usize {
        let is_it = |of: &Snapshot| *of.snapshot == *snapshot && *of.dataset == *dataset;
        if let Some(at) = self.snapshots.iter().position(is_it) {
            return at;
        }
        if self.snapshots.len() == MAX_SNAPSHOTS {
            self.held -= self.snapshots.remove(0).kept.len();
        }
        self.snapshots.push(Snapshot::new(dataset, snapshot));
        self.snapshots.len() - 1
    }
}

impl Snapshot {
    fn new(dataset: &str, snapshot: &str) -> Self {
        Self {
            dataset: dataset.into(),
            snapshot: snapshot.into(),
            items: 0,
            kept: HashMap::new(),
            small: HashSet::new(),
            order: VecDeque::new(),
            reads: Vec::new(),
            next: 0,
            pass: 0,
            backoff: 0,
        }
    }

    /// Drops up to so many of the files that were granted first; how many they were.
    fn remove_oldest(&mut self, count: usize) -> usize {
        let oldest = self.order.drain(..count.min(self.order.len()));
        oldest.filter(|id| self.kept.remove(id).is_some()).count()
    }

    /// Whether any of them was not known.
    fn remember_small(&mut self, small: Vec<u64>) -> bool {
        let before = self.small.len();
        if before + small.len() <= MAX_SMALL {
            self.small.extend(small);
        }
        self.small.len() > before
    }

    /// No lease was granted: the next request is twice as far away.
    fn refused(&mut self) {
        self.backoff = (self.backoff * 2).clamp(1, MAX_BACKOFF);
        self.pass = self.backoff;
    }
}
