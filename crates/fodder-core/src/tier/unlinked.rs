//! Cache files that were unlinked while another process still has them open: their blocks stay allocated, and stay charged.
//!
//! Clients outlive a node. Therefore a small file beside the index records how many bytes the unlinked files occupy and whether
//! any lease was handed out. It is written without a sync: a client survives the death of the node, but not that of the
//! kernel. The next node reserves the recorded bytes, and everything sealed that it unlinks, for a bounded recovery period, in
//! which clients report what they hold. docs/decisions/0028-lease-recovery.md has the argument.

use super::{core::Core, shelf::Shelf};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::{
    fs::{File, OpenOptions},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::Path,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

/// The longest that space stays reserved for the clients of datasets that are still to be opened: an origin may never be listed.
const LONGEST_RECOVERY: Duration = Duration::from_secs(3600);

/// The name of the record in the tier's directory.
pub(super) const RECORD: &str = "leased";

/// An unlinked file that another process has open. The last holder's drop gives its blocks back to the quota.
#[derive(Debug)]
pub(super) struct UnlinkedFile {
    core: Arc<Core>,
    /// The dataset that is charged, beside the tier.
    shelf: Option<Arc<Shelf>>,
    inode: Option<u64>,
    bytes: u64,
}

impl UnlinkedFile {
    fn new(core: &Arc<Core>, shelf: Option<Arc<Shelf>>, inode: Option<u64>, bytes: u64) -> Arc<Self> {
        if let Some(shelf) = &shelf {
            shelf.unlinked_added(bytes);
        }
        Arc::new(Self { core: core.clone(), shelf, inode, bytes })
    }
}

impl Drop for UnlinkedFile {
    fn drop(&mut self) {
        self.core.unlinked.remove(self.inode, self.bytes);
        self.core.space.inode_freed();
        match &self.shelf {
            Some(shelf) => {
                shelf.unlinked_removed(self.bytes);
                shelf.release(self.bytes);
            }
            None => self.core.space.release(self.bytes),
        }
    }
}

/// A cache file that a client reported and that is still linked: it is charged as a cache file. Once it is unlinked, this carries
/// the charge, until the client returns it.
#[derive(Debug)]
pub(super) struct LinkedFile {
    core: Arc<Core>,
    inode: u64,
    carried: OnceLock<Arc<UnlinkedFile>>,
}

impl LinkedFile {
    pub(super) fn carry(&self, unlinked: &Arc<UnlinkedFile>) {
        let _ = self.carried.set(unlinked.clone());
    }

    /// Whether the file was unlinked since it was reported, and is charged here.
    pub(super) fn is_charged(&self) -> bool {
        self.carried.get().is_some()
    }
}

impl Drop for LinkedFile {
    fn drop(&mut self) {
        let mut state = self.core.unlinked.state.lock();
        if state.linked.get(&self.inode).is_some_and(|file| file.strong_count() == 0) {
            state.linked.remove(&self.inode);
        }
    }
}

/// The unlinked files of a tier, and what is known of those of the node before.
#[derive(Debug)]
pub(super) struct Unlinked {
    state: Mutex<State>,
    record: Option<File>,
    /// Pinned files, linked or not.
    pins: AtomicUsize,
    recovering: AtomicBool,
    /// Some sealed file was handed out, by this node or the one before, or was reported.
    ever_leased: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    by_inode: FxHashMap<u64, Weak<UnlinkedFile>>,
    /// Files that clients reported and that are linked.
    linked: FxHashMap<u64, Weak<LinkedFile>>,
    /// Bytes of all files that are unlinked and open.
    bytes: u64,
    /// Bytes that the node before recorded and that no client has reported yet; charged.
    expected: u64,
    /// Leases were handed out, and may be held by clients.
    leased: bool,
    /// The node stops, and its clients do not: the record stays.
    frozen: bool,
    /// When the recovery ends, unless datasets are still to be opened.
    deadline: Option<Instant>,
    /// Datasets are still to be opened, and their clients cannot report before.
    awaits_datasets: bool,
    /// When the recovery ends in any case.
    latest: Option<Instant>,
    /// Files that were unlinked during the recovery, and that a client may have open.
    doubtful: Vec<Arc<UnlinkedFile>>,
}

impl Unlinked {
    /// Reads the record of the node before. If it handed out leases, a recovery begins.
    pub(super) fn open(tier: &Path, recovery: Duration) -> Self {
        let path = tier.join(RECORD);
        let record =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path).ok();
        let mut found = [0; 16];
        let read = record.as_ref().is_some_and(|record| record.read_exact_at(&mut found, 0).is_ok());
        let [bytes, leased] = [0, 8].map(|at| u64::from_le_bytes(found[at..at + 8].try_into().expect("eight bytes")));
        let leased = read && leased != 0;
        let expected = if leased { bytes } else { 0 };
        let deadline = leased.then(|| Instant::now() + recovery);
        let latest = leased.then(|| Instant::now() + LONGEST_RECOVERY);
        let state = State { expected, leased, deadline, latest, ..State::default() };
        let (recovering, ever_leased) = (AtomicBool::new(leased), AtomicBool::new(leased));
        let this = Self { state: Mutex::new(state), record, pins: AtomicUsize::new(0), recovering, ever_leased };
        this.write(&this.state.lock());
        this
    }

    /// Bytes that the node before has left, to be charged at the start.
    pub(super) fn expected(&self) -> u64 {
        self.state.lock().expected
    }

    /// Restarts the clock of the recovery: clients can connect from now on, or one more dataset is there for them.
    pub(super) fn begin_recovery(&self, recovery: Duration) {
        if let Some(deadline) = &mut self.state.lock().deadline {
            *deadline = Instant::now() + recovery;
        }
    }

    /// Says whether datasets are still to be opened. The clock of the recovery restarts.
    pub(super) fn await_datasets(&self, awaits: bool, recovery: Duration) {
        let mut state = self.state.lock();
        state.awaits_datasets = awaits;
        if let Some(deadline) = &mut state.deadline {
            *deadline = Instant::now() + recovery;
        }
    }

    /// Whether clients of datasets that are there may hold leases that they have not reported yet. Ends the recovery when its
    /// time is over.
    pub(super) fn is_recovering(&self, core: &Core) -> bool {
        if !self.recovering.load(Ordering::Relaxed) {
            return false;
        }
        let state = self.state.lock();
        let now = Instant::now();
        if state.deadline.is_some_and(|deadline| now < deadline) {
            return true;
        }
        let is_suspended = state.awaits_datasets && state.latest.is_some_and(|latest| now < latest);
        drop(state);
        if !is_suspended {
            self.end_recovery(core);
        }
        false
    }

    /// Whether clients of any dataset may hold leases that they have not reported yet: also of one that is not there.
    pub(super) fn is_uncertain(&self, core: &Core) -> bool {
        self.is_recovering(core) || self.recovering.load(Ordering::Relaxed)
    }

    pub(super) fn end_recovery(&self, core: &Core) {
        let mut state = self.state.lock();
        if !self.recovering.swap(false, Ordering::Relaxed) {
            return;
        }
        let (expected, doubtful) = (std::mem::take(&mut state.expected), std::mem::take(&mut state.doubtful));
        state.deadline = None;
        drop(state);
        core.space.release(expected);
        // Each takes the lock. Files that no client has reported are not held.
        drop(doubtful);
        let mut state = self.state.lock();
        state.leased = self.pins.load(Ordering::Relaxed) > 0 || state.bytes > 0 || !state.linked.is_empty();
        self.write(&state);
    }

    /// A lease is handed out.
    pub(super) fn pinned(&self) {
        self.ever_leased.store(true, Ordering::Relaxed);
        self.pins.fetch_add(1, Ordering::Relaxed);
        let mut state = self.state.lock();
        if !state.leased {
            state.leased = true;
            self.write(&state);
        }
    }

    pub(super) fn unpinned(&self) {
        self.pins.fetch_sub(1, Ordering::Relaxed);
    }

    /// From now on the record stays as it is: the node ends its connections, and clients keep their files.
    pub(super) fn freeze(&self) {
        self.state.lock().frozen = true;
    }

    /// An unlinked file whose `bytes` are charged already.
    pub(super) fn add(
        &self,
        core: &Arc<Core>,
        shelf: Option<Arc<Shelf>>,
        inode: Option<u64>,
        bytes: u64,
    ) -> Arc<UnlinkedFile> {
        let file = UnlinkedFile::new(core, shelf, inode, bytes);
        let mut state = self.state.lock();
        state.bytes += bytes;
        if let Some(inode) = inode {
            state.by_inode.insert(inode, Arc::downgrade(&file));
        }
        self.write(&state);
        file
    }

    /// Whether a client may have a sealed file open that is not pinned: what is unlinked must be looked for with
    /// [`Self::reported`], by its inode.
    pub(super) fn may_be_reported(&self) -> bool {
        self.ever_leased.load(Ordering::Relaxed)
    }

    /// Registers a linked file that one or more clients report. An eviction that unlinks it later finds it here, and
    /// charges it until the clients return it.
    pub(super) fn report_linked(&self, core: &Arc<Core>, inode: u64) -> Arc<LinkedFile> {
        self.ever_leased.store(true, Ordering::Relaxed);
        let mut state = self.state.lock();
        if let Some(known) = state.linked.get(&inode).and_then(Weak::upgrade) {
            return known;
        }
        let file = Arc::new(LinkedFile { core: core.clone(), inode, carried: OnceLock::new() });
        state.linked.insert(inode, Arc::downgrade(&file));
        file
    }

    /// The file that was just unlinked, if a client reported it while it was linked.
    pub(super) fn reported(&self, inode: u64) -> Option<Arc<LinkedFile>> {
        // An inode number may be used again, for a file that is not unlinked yet.
        self.state.lock().linked.remove(&inode)?.upgrade()
    }

    /// Keeps a file charged until the recovery ends, or longer if a client reports it.
    pub(super) fn doubt(&self, file: Arc<UnlinkedFile>) {
        let mut state = self.state.lock();
        if state.deadline.is_some() {
            state.doubtful.push(file);
        }
    }

    /// The file that a client reports, charged once however many clients report it. What is not known here is charged, and
    /// is no longer expected.
    pub(super) fn report(&self, core: &Arc<Core>, shelf: &Arc<Shelf>, inode: u64, bytes: u64) -> Arc<UnlinkedFile> {
        let mut state = self.state.lock();
        if let Some(known) = state.by_inode.get(&inode).and_then(Weak::upgrade) {
            return known;
        }
        let was_expected = state.expected.min(bytes);
        state.expected -= was_expected;
        state.bytes += bytes;
        let file = UnlinkedFile::new(core, Some(shelf.clone()), Some(inode), bytes);
        state.by_inode.insert(inode, Arc::downgrade(&file));
        shelf.charge_used(bytes);
        core.space.release(was_expected);
        self.write(&state);
        file
    }

    fn remove(&self, inode: Option<u64>, bytes: u64) {
        let mut state = self.state.lock();
        state.bytes -= bytes;
        if let Some(inode) = inode
            && state.by_inode.get(&inode).is_some_and(|file| file.strong_count() == 0)
        {
            state.by_inode.remove(&inode);
        }
        self.write(&state);
    }

    fn write(&self, state: &State) {
        if state.frozen {
            return;
        }
        let Some(record) = &self.record else { return };
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&(state.bytes + state.expected).to_le_bytes());
        bytes[8..].copy_from_slice(&u64::from(state.leased).to_le_bytes());
        if let Err(error) = record.write_all_at(&bytes, 0) {
            tracing::debug!(%error, "cannot record which files are leased");
        }
    }
}
