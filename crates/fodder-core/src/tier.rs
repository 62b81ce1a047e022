//! Tiers: directories of ordinary files that hold what has arrived.
//!
//! A [`Tier`] is a directory with a quota; a [`Shelf`] is one dataset's part of it. Each object version is one raw file,
//! exactly its bytes, sparse while partial; an index log beside the files says which pieces are durable. Whatever goes
//! wrong here (a full disk, a torn write, a flipped bit, a file that vanished) is a miss, never a wrong byte.
//!
//! What must not be here: origins, policies, budgets. The tier keeps and forgets what it is told to.
//! docs/decisions/0002-tier-files.md says what may be relied on after a crash, and why.

mod commit;
mod core;
mod files;
mod group;
mod health;
mod log;
mod shelf;
mod slab;
mod space;
mod state;
mod sweep;
mod unlinked;

pub use health::Health;
pub use shelf::{Checked, HeldFile, Lease, LeaseCheck, Reservation, Shelf, ShelfRead, Shown, View};

use crate::{
    Error, Result,
    catalog::Objects,
    config::{Medium, TierConfig},
    id::{FileKey, ObjectSlot, PieceId},
};
use std::{
    fmt::Debug,
    ops::Range,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

/// The objects of a dataset as a shelf sees them: sizes and names of cache files, by slot.
///
/// A slot that has left is an object without bytes, and is never another object. The number of a piece may be given to another
/// object once [`Shelf::is_settled`].
pub trait ObjectTable: Send + Sync + Debug {
    /// How many slots there have been; slots are below this.
    fn len(&self) -> u32;
    /// Whether there is no object at all.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Whether an object is here, and has not left.
    fn contains(&self, slot: ObjectSlot) -> bool {
        slot.0 < self.len()
    }
    /// The numbers of pieces are below this.
    fn pieces(&self) -> u32;
    /// The grid: bytes of a piece (the last of an object may be shorter). Never changes.
    fn piece_bytes(&self) -> u32;
    /// The size of an object in bytes.
    fn size(&self, slot: ObjectSlot) -> u64;
    /// The first piece of an object; its pieces are consecutive.
    fn first_piece(&self, slot: ObjectSlot) -> PieceId;
    /// The size of an object and its first piece, if it is here.
    fn measure(&self, slot: ObjectSlot) -> Option<(u64, PieceId)> {
        self.contains(slot).then(|| (self.size(slot), self.first_piece(slot)))
    }
    /// The object a piece belongs to, if it is one's.
    fn object_of(&self, piece: PieceId) -> Option<ObjectSlot>;
    /// The name of an object's cache file.
    fn key(&self, slot: ObjectSlot) -> FileKey;
    /// The names of the cache files of the objects in a range of slots. All of them are asked for at a start.
    fn each_key(&self, slots: Range<u32>, take: &mut dyn FnMut(ObjectSlot, FileKey)) {
        slots.map(ObjectSlot).for_each(|slot| take(slot, self.key(slot)));
    }
}

impl ObjectTable for Objects {
    fn len(&self) -> u32 {
        self.len()
    }
    fn contains(&self, slot: ObjectSlot) -> bool {
        self.contains(slot)
    }
    fn pieces(&self) -> u32 {
        self.pieces()
    }
    fn piece_bytes(&self) -> u32 {
        self.piece_bytes()
    }
    fn size(&self, slot: ObjectSlot) -> u64 {
        self.size(slot)
    }
    fn first_piece(&self, slot: ObjectSlot) -> PieceId {
        self.first_piece(slot)
    }
    fn measure(&self, slot: ObjectSlot) -> Option<(u64, PieceId)> {
        self.measure(slot)
    }
    fn object_of(&self, piece: PieceId) -> Option<ObjectSlot> {
        self.object_of(piece)
    }
    fn key(&self, slot: ObjectSlot) -> FileKey {
        self.key(slot)
    }
    fn each_key(&self, slots: Range<u32>, take: &mut dyn FnMut(ObjectSlot, FileKey)) {
        self.each_key(slots, take);
    }
}

/// Objects of at most so many bytes share files with others of about their size, and cannot be leased.
pub const MAX_GROUPED_BYTES: u64 = 4096;

/// What tests turn, and users need not.
#[doc(hidden)]
#[derive(Debug, Clone)]
pub struct TierOptions {
    /// What the disk must keep free; None: 1 GiB or 5 % of it, whichever is smaller.
    pub floor_bytes: Option<u64>,
    /// The inodes the disk must keep free; None: 5 % of them, at most 10,000.
    pub floor_inodes: Option<u64>,
    /// How long a written piece waits at most for its commit to begin.
    pub commit_interval: Duration,
    /// Files kept open; None: half of what the system allows.
    pub kept_files: Option<usize>,
    /// The rest after a first failed write.
    pub first_rest: Duration,
    /// Objects of at most so many bytes are stored in group files.
    pub max_grouped_bytes: u64,
    /// How long clients may take to report the leases that an earlier node gave them.
    pub recovery: Duration,
}

impl Default for TierOptions {
    fn default() -> Self {
        Self {
            floor_bytes: None,
            floor_inodes: None,
            commit_interval: Duration::from_millis(200),
            kept_files: None,
            first_rest: Duration::from_secs(1),
            max_grouped_bytes: MAX_GROUPED_BYTES,
            recovery: Duration::from_secs(10),
        }
    }
}

/// One directory with a quota: its files, its index, its committer.
#[derive(Debug)]
pub struct Tier {
    core: Arc<core::Core>,
}

impl Tier {
    /// Opens (or makes) the tier and replays its index. [`Error::Conflict`] if another node has it open.
    pub fn open(config: &TierConfig) -> Result<Arc<Self>> {
        Self::open_with(config, TierOptions::default())
    }

    /// As [`Tier::open`], for tests.
    #[doc(hidden)]
    pub fn open_with(config: &TierConfig, options: TierOptions) -> Result<Arc<Self>> {
        Ok(Arc::new(Self { core: core::Core::open(config, options)? }))
    }

    /// What it is made of.
    pub fn medium(&self) -> Medium {
        self.core.medium
    }

    /// The most it may hold.
    pub fn quota_bytes(&self) -> u64 {
        self.core.space.quota
    }

    /// What it holds now or has reserved: blocks of all files, unlinked ones that are leased included, plus overhead.
    pub fn used_bytes(&self) -> u64 {
        // What the recovery reserves is not held any more once its time is over.
        let _ = self.is_recovering();
        self.core.space.used()
    }

    /// Free inodes of its file system; None where the file system sets no limit.
    pub fn free_inodes(&self) -> Option<u64> {
        self.core.space.free_inodes()
    }

    /// Whether the file system has no inode left for another file: only removing files makes room then.
    pub fn lacks_inodes(&self) -> bool {
        self.core.space.lacks_inodes()
    }

    /// Whether clients may hold leases of an earlier node that they have not reported yet: for a bounded time after a start.
    pub fn is_recovering(&self) -> bool {
        self.core.unlinked.is_recovering(&self.core)
    }

    /// Clients can connect from now on, and report the leases that an earlier node gave them.
    pub fn begin_recovery(&self) {
        self.core.unlinked.begin_recovery(self.core.options.recovery);
    }

    /// Datasets are still to be attached, or no longer: space stays reserved for what their clients hold.
    pub fn await_datasets(&self, awaits: bool) {
        self.core.unlinked.await_datasets(awaits, self.core.options.recovery);
    }

    /// The node is about to end its connections. The clients keep their files, and the next node must know of them.
    pub fn keep_lease_record(&self) {
        self.core.unlinked.freeze();
    }

    /// Whether cells of group files will be free with the next commit ([`Tier::flush`]).
    pub fn is_compacting(&self) -> bool {
        self.core.moving.load(Ordering::Relaxed) > 0
    }

    /// How many bytes it holds beyond its quota. None as long as space is reserved for files that are not known yet: they may
    /// be fewer, and nothing is added meanwhile.
    pub fn excess_bytes(&self) -> u64 {
        if self.core.unlinked.is_uncertain(&self.core) || !self.core.keeper.is_idle() {
            return 0;
        }
        self.core.space.used().saturating_sub(self.core.space.quota)
    }

    /// Whether its disk takes writes.
    pub fn health(&self) -> Health {
        self.core.pulse.health()
    }

    /// Whether its disk failed lately and is not tried again yet.
    pub fn rests(&self) -> bool {
        self.core.pulse.rests(Instant::now())
    }

    /// Bytes of memory it holds beside its shelves.
    pub fn memory_bytes(&self) -> usize {
        self.core.memory_bytes()
    }

    /// One dataset's part of the tier. What the index remembers of its objects is on the shelf at once, unverified.
    /// [`Error::Conflict`] if the dataset has its shelf already.
    pub fn attach(self: &Arc<Self>, dataset: &str, objects: Arc<dyn ObjectTable>) -> Result<Arc<Shelf>> {
        Shelf::attach(&self.core, dataset, objects)
    }

    /// Forgets a dataset and deletes its files. Its shelf, if somebody still has it, is empty from then on.
    /// A dataset that was never attached is deleted too.
    pub fn detach(&self, dataset: &str) -> Result<()> {
        let id = self.core.registry.lock().id_of(dataset);
        let Some(id) = id else {
            return Err(Error::NotFound(format!("the tier holds nothing of dataset {dataset:?}")));
        };
        let shelf = self.core.registry.lock().shelf(id);
        match shelf {
            Some(shelf) => shelf.remove(),
            None => sweep::forget_unattached(&self.core, id),
        }
        Ok(())
    }

    /// The datasets of which the tier remembers something, but which are not attached.
    pub fn unattached(&self) -> Vec<String> {
        self.core.registry.lock().unattached()
    }

    /// Whether it holds something of datasets that are not attached. Never waits: it may, while somebody changes that.
    pub fn has_unattached(&self) -> bool {
        self.core.registry.try_lock().is_none_or(|registry| registry.next_unattached().is_some())
    }

    /// Drops files of a dataset that is not attached, about so many bytes; false if there are none.
    pub fn evict_unattached(&self, bytes: u64) -> bool {
        sweep::evict_unattached(&self.core, bytes)
    }

    /// Waits until everything that was written or evicted so far is in the index.
    pub fn flush(&self) {
        self.core.queue.flush();
    }

    /// Waits until the files that a crash left behind have been swept away.
    pub fn wait_swept(&self) {
        self.core.keeper.wait_idle();
    }

    /// Makes everything that was written durable, and stops the committer. Shelves are empty from then on.
    pub fn close(&self) {
        self.core.close(commit::Stop::Clean);
    }

    /// Leaves the directory as a kill would leave it: nothing more is written. For tests.
    #[doc(hidden)]
    pub fn abandon(&self) {
        self.core.close(commit::Stop::Abandon);
    }
}

impl Drop for Tier {
    fn drop(&mut self) {
        self.close();
    }
}
