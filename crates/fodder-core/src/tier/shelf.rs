//! One dataset's part of one tier: which pieces are here, and everything that may happen to their files.
//!
//! Readers take no lock: they read an epoch, the pieces' states, the bytes, and the epoch again. Everything that changes
//! a file (write, evict, seal, drop) goes through the gate of its object; whatever takes bytes away first marks the
//! pieces, then moves the epoch, then touches the blocks. docs/decisions/0002-tier-files.md has the argument.
//!
//! An operation that looks up the pieces of an object holds the table of objects until it ends: the number of a piece is not given
//! to another object before that (0029).

mod attach;
mod evict;
mod gate;
mod group;
mod hold;
mod lease;
mod read;
mod reserve;
mod verify;
mod view;
mod write;

pub(super) use group::LeftCell;
pub use hold::{HeldFile, LeaseCheck};
pub use lease::Lease;
pub use read::ShelfRead;
pub use reserve::Reservation;
pub use verify::Checked;
pub use view::{Shown, View};
pub(super) use write::Written;

use super::{
    ObjectTable,
    core::Core,
    files::Kept,
    group::Groups,
    log::Record,
    slab::Slab,
    state::{Kind, State},
};
use crate::id::{FileKey, ObjectSlot, PieceId};
use arc_swap::ArcSwap;
use gate::Gate;
use parking_lot::{Mutex, MutexGuard, RwLock};
use rustc_hash::FxHashMap;
use rustix::io::Errno;
use std::sync::{
    Arc, Weak,
    atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering},
};

const GATES: usize = 256;
const EPOCHS: usize = 1024;

/// Flags of an object: it has a file here.
const ON_DISK: u8 = 1;
/// Its file is sealed, as far as this node has seen.
const SEALED: u8 = 2;

/// One dataset's part of one tier.
#[derive(Debug)]
pub struct Shelf {
    me: Weak<Shelf>,
    core: Arc<Core>,
    id: u16,
    name: String,
    grid: u32,
    table: ArcSwap<Arc<dyn ObjectTable>>,
    /// The tables before it that somebody may still use.
    earlier: Mutex<Vec<Weak<Arc<dyn ObjectTable>>>>,
    /// A [`State`] for each piece.
    states: Slab<AtomicU8>,
    crcs: Slab<AtomicU32>,
    /// Flags for each object that has pieces, by its first.
    flags: Slab<AtomicU8>,
    /// For each small object that is here, by its piece: its cell.
    cells: Slab<AtomicU32>,
    groups: Groups,
    /// Moved before bytes are taken away. Objects share them; a foreign move costs a reader one more attempt.
    epochs: Box<[AtomicU64]>,
    gates: Box<[Mutex<Gate>]>,
    present: AtomicU64,
    used: AtomicU64,
    /// Files now, and the most there were: directories do not shrink.
    files: AtomicU64,
    most_files: AtomicU64,
    directories: AtomicU64,
    /// Charged for directories, beside `used`.
    directory_bytes: AtomicU64,
    lost: Mutex<Vec<PieceId>>,
    /// By slot: files that other processes are shown.
    shown: Mutex<FxHashMap<u32, Weak<Shown>>>,
    /// Unlinked files that are still leased, and their bytes, which are part of `used`.
    leased_files: AtomicU64,
    leased_bytes: AtomicU64,
    /// Held shared by whoever changes files, so that closing waits for them.
    changing: RwLock<()>,
    closed: AtomicBool,
}

/// Where an object's pieces are.
#[derive(Debug, Clone, Copy)]
struct Object {
    slot: u32,
    size: u64,
    first: u32,
    count: u32,
}

impl Object {
    fn pieces(self) -> std::ops::Range<u32> {
        self.first..self.first + self.count
    }
}

impl Shelf {
    /// Learns of the objects that a refresh added, or that some have left. Those must not be [in use](Self::uses).
    pub fn follow(&self, objects: Arc<dyn ObjectTable>) {
        debug_assert_eq!(objects.piece_bytes(), self.grid, "the grid of a dataset never changes");
        self.states.grow(objects.pieces());
        self.crcs.grow(objects.pieces());
        self.flags.grow(objects.pieces());
        let before = self.table.swap(Arc::new(objects));
        self.earlier.lock().push(Arc::downgrade(&before));
    }

    /// Whether nobody works with an earlier table any more, and so with pieces of objects that have left.
    pub fn is_settled(&self) -> bool {
        let mut earlier = self.earlier.lock();
        earlier.retain(|table| table.strong_count() > 0);
        earlier.is_empty()
    }

    /// Whether an object has a file here, or one that is being written, or one that is handed out.
    pub fn uses(&self, object: ObjectSlot) -> bool {
        let _table = self.table.load();
        let Some(object) = self.object(object.0) else { return false };
        let gate = self.gate(object.slot);
        let absent = |piece: u32| self.state(piece).kind() == Kind::Absent;
        self.flags(object) & ON_DISK != 0 || !object.pieces().all(absent) || gate.pin(object.slot).is_some()
    }

    /// Whether a file of an object is handed out.
    pub fn is_leased(&self, object: ObjectSlot) -> bool {
        self.gate(object.0).pin(object.0).is_some()
    }

    /// The objects that have a cache file here, whole or in part.
    pub fn objects(&self) -> Vec<ObjectSlot> {
        let _table = self.table.load();
        self.on_disk().map(|object| ObjectSlot(object.slot)).collect()
    }

    /// The same, for those who hold the table.
    fn on_disk(&self) -> impl Iterator<Item = Object> + '_ {
        let has_file =
            |first: u32| self.flags.get(first).is_some_and(|cell| cell.load(Ordering::Acquire) & ON_DISK != 0);
        let firsts = (0..self.table.load().pieces()).filter(move |first| has_file(*first));
        firsts.filter_map(|first| self.object_of(first).filter(|object| object.first == first))
    }

    /// The dataset's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether a piece is here.
    pub fn has(&self, piece: PieceId) -> bool {
        self.state(piece.0).present()
    }

    /// Whether an object has a cache file here, whole or in part.
    pub fn has_file(&self, object: ObjectSlot) -> bool {
        let _table = self.table.load();
        self.object(object.0).is_some_and(|object| self.flags(object) & ON_DISK != 0)
    }

    /// How many pieces are here.
    pub fn len(&self) -> usize {
        self.present.load(Ordering::Relaxed) as usize
    }

    /// Whether nothing is here.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Every piece that is here, for filling a policy after a start.
    pub fn pieces(&self) -> Vec<PieceId> {
        let all = 0..self.table.load().pieces();
        all.filter(|&piece| self.state(piece).present()).map(PieceId).collect()
    }

    /// Pieces that were dropped because their bytes were lost, since this was last asked.
    pub fn drain_lost(&self) -> Vec<PieceId> {
        std::mem::take(&mut *self.lost.lock())
    }

    /// Bytes of disk charged to this dataset here.
    pub fn used_bytes(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Bytes of memory it holds.
    pub fn memory_bytes(&self) -> usize {
        let gates: usize = self.gates.iter().map(|gate| gate.lock().memory_bytes()).sum();
        self.states.memory_bytes()
            + self.crcs.memory_bytes()
            + self.flags.memory_bytes()
            + self.cells.memory_bytes()
            + self.groups.memory_bytes()
            + gates
            + 8 * EPOCHS
    }

    pub(super) fn id(&self) -> u16 {
        self.id
    }

    /// Waits for those who change files, and lets nobody begin. From then on nothing is here.
    pub(super) fn shut(&self) {
        self.closed.store(true, Ordering::SeqCst);
        drop(self.changing.write());
    }

    fn closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    fn object(&self, slot: u32) -> Option<Object> {
        let (size, first) = self.table.load().measure(ObjectSlot(slot))?;
        let count = size.div_ceil(u64::from(self.grid)) as u32;
        Some(Object { slot, size, first: first.0, count })
    }

    fn object_of(&self, piece: u32) -> Option<Object> {
        let table = self.table.load();
        let slot = (piece < table.pieces()).then(|| table.object_of(PieceId(piece)))??;
        drop(table);
        self.object(slot.0)
    }

    /// The object that a piece belongs to.
    pub fn object_containing(&self, piece: PieceId) -> Option<ObjectSlot> {
        self.object_of(piece.0).map(|object| ObjectSlot(object.slot))
    }

    fn key(&self, slot: u32) -> FileKey {
        self.table.load().key(ObjectSlot(slot))
    }

    #[inline]
    fn state(&self, piece: u32) -> State {
        State(self.states.get(piece).map_or(0, |state| state.load(Ordering::Acquire)))
    }

    /// Only with the object's gate.
    fn set_state(&self, piece: u32, state: State) {
        if let Some(cell) = self.states.get(piece) {
            cell.store(state.0, Ordering::Release);
        }
    }

    /// The CRC-32C of a piece, as it was when it was written.
    pub fn crc_of(&self, piece: PieceId) -> u32 {
        self.crc(piece.0)
    }

    fn crc(&self, piece: u32) -> u32 {
        self.crcs.get(piece).map_or(0, |crc| crc.load(Ordering::Relaxed))
    }

    fn flags(&self, object: Object) -> u8 {
        let flags = if object.count == 0 { None } else { self.flags.get(object.first) };
        flags.map_or(0, |flags| flags.load(Ordering::Acquire))
    }

    fn set_flags(&self, object: Object, flags: u8) {
        if let Some(cell) = self.flags.get(object.first).filter(|_| object.count > 0) {
            cell.store(flags, Ordering::Release);
        }
    }

    #[inline]
    fn epoch(&self, slot: u32) -> &AtomicU64 {
        &self.epochs[slot as usize % EPOCHS]
    }

    fn gate(&self, slot: u32) -> MutexGuard<'_, Gate> {
        self.gates[slot as usize % GATES].lock()
    }

    /// The object's file: a kept one, or opened and kept unless the object left meanwhile.
    #[inline]
    fn file(&self, slot: u32, epoch: u64, wait: bool) -> Result<Arc<Kept>, Errno> {
        if let Some(kept) = self.core.files.kept(self.id, slot) {
            return Ok(kept);
        }
        let kept = self.core.files.open(&self.name, self.key(slot), false, wait)?;
        self.core.files.keep(self.id, slot, &kept, || self.epoch(slot).load(Ordering::SeqCst) == epoch);
        Ok(kept)
    }

    /// Charges what is there whether or not it fits.
    pub(super) fn charge_used(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
        self.core.space.charge(bytes);
    }

    pub(super) fn release(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
        self.core.space.release(bytes);
    }

    /// Records of everything that is here, for rewriting the index.
    pub(super) fn for_each_run(&self, mut f: impl FnMut(Record)) {
        let _table = self.table.load();
        for object in self.on_disk() {
            let key = self.key(object.slot);
            if self.class_of(object).is_some() {
                if self.state(object.first).present() {
                    let (cell, crc) = (self.cell(object), self.crc(object.first));
                    f(Record::Cell { dataset: self.id, key, size: object.size as u32, cell, crc });
                }
                continue;
            }
            let mut run: Vec<u32> = Vec::new();
            for piece in object.first..=object.first + object.count {
                if piece < object.first + object.count && self.state(piece).present() {
                    run.push(self.crc(piece));
                } else if !run.is_empty() {
                    let first = piece - object.first - run.len() as u32;
                    let crcs = std::mem::take(&mut run);
                    f(Record::Pieces { dataset: self.id, key, size: object.size, first, crcs });
                }
            }
        }
    }
}

/// The checksum of a piece, for its bytes as they come.
fn crc32c() -> crc_fast::Digest {
    crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi)
}

/// The checksum of a whole piece.
fn crc32c_of(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}
