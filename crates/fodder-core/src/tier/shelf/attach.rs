//! Making a shelf: joining a dataset's objects with what the index remembers.

use super::{EPOCHS, GATES, ON_DISK, Object, Shelf};
use crate::{
    Error, Result,
    id::FileKey,
    tier::{
        ObjectTable,
        core::Core,
        group::Groups,
        log::{Found, FoundFiles, Record, number},
        slab::Slab,
        space,
        state::{Kind, State},
    },
};
use arc_swap::ArcSwap;
use parking_lot::{Mutex, RwLock};
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

/// Objects for which a second thread is worth starting.
const MANY: u32 = 20_000;
/// A free filling number, present and not checked.
const REMEMBERED: State = State(Kind::Unverified as u8);

impl Shelf {
    pub(in crate::tier) fn attach(core: &Arc<Core>, dataset: &str, table: Arc<dyn ObjectTable>) -> Result<Arc<Self>> {
        check_name(dataset)?;
        if core.closed() {
            return Err(Error::Closed);
        }
        let grid = table.piece_bytes();
        if grid == 0 {
            return Err(Error::Internal("a grid of pieces without bytes".into()));
        }
        // Also keeps the index from being rewritten while a dataset is neither remembered nor on a shelf.
        let mut registry = core.registry.lock();
        let known = registry.id_of(dataset);
        if known.is_some_and(|id| registry.shelf(id).is_some()) {
            return Err(Error::Conflict(format!("dataset {dataset:?} is already in the tier")));
        }
        let (id, found) = match known {
            Some(id) if registry.piece_bytes(id) == grid => (id, registry.take_found(id)),
            other => {
                // Pieces of another size: nothing of it can be used.
                if let Some(old) = other {
                    let (found, old_grid) = (registry.take_found(old), registry.piece_bytes(old));
                    if core.remove_groups(dataset) {
                        core.space.release(registry.take_group_bytes(old));
                    }
                    registry.forget(old);
                    core.queue.note(Record::Forget { dataset: old });
                    core.keeper.unclaimed(dataset.to_owned(), charges(core, &found, old_grid), None);
                }
                let (id, define) = registry.define(dataset, grid)?;
                core.queue.note(define);
                (id, FoundFiles::default())
            }
        };
        let shelf = Self::new(core, id, dataset, grid, table);
        if known.is_none() {
            core.remove_groups(dataset);
            // Directories may be left of a time that the index has forgotten.
            core.space.charge(shelf.directory_bytes.load(Ordering::Relaxed));
        }
        let unclaimed = shelf.join(&found);
        core.space.release(registry.take_group_bytes(id));
        for (key, _) in &unclaimed {
            core.queue.note(Record::DropFile { dataset: id, key: *key });
        }
        let files: Vec<_> = unclaimed.into_iter().filter(|(_, bytes)| *bytes > 0).collect();
        if !files.is_empty() {
            core.keeper.unclaimed(dataset.to_owned(), files, None);
        }
        registry.set_shelf(id, shelf.clone());
        drop(registry);
        if !core.clean && !shelf.is_empty() {
            core.keeper.trim(shelf.clone());
        }
        Ok(shelf)
    }

    fn new(core: &Arc<Core>, id: u16, name: &str, grid: u32, table: Arc<dyn ObjectTable>) -> Arc<Self> {
        let directory_bytes = core.directory_bytes(name);
        let shelf = Arc::new_cyclic(|me| Self {
            me: me.clone(),
            core: core.clone(),
            id,
            name: name.to_owned(),
            grid,
            table: ArcSwap::from_pointee(table.clone()),
            earlier: Mutex::default(),
            states: Slab::new(),
            crcs: Slab::new(),
            flags: Slab::new(),
            cells: Slab::new(),
            groups: Groups::new(core.options.max_grouped_bytes),
            epochs: std::iter::repeat_with(AtomicU64::default).take(EPOCHS).collect(),
            gates: std::iter::repeat_with(Mutex::default).take(GATES).collect(),
            present: AtomicU64::new(0),
            used: AtomicU64::new(0),
            files: AtomicU64::new(0),
            most_files: AtomicU64::new(0),
            directories: AtomicU64::new(directory_bytes / space::DIRECTORY_BYTES),
            directory_bytes: AtomicU64::new(directory_bytes),
            lost: Mutex::default(),
            shown: Mutex::default(),
            leased_files: AtomicU64::new(0),
            leased_bytes: AtomicU64::new(0),
            changing: RwLock::new(()),
            closed: AtomicBool::new(false),
        });
        shelf.follow(table);
        shelf
    }

    /// Puts what the index remembers on the shelf, unverified. Answers with the files and cells that no object claims, and what
    /// each is charged.
    fn join(&self, found: &FoundFiles) -> Vec<(FileKey, u64)> {
        self.open_groups();
        let slots = self.table.load().len();
        if found.is_empty() {
            self.close_groups();
            return Vec::new();
        }
        let threads = if slots < MANY { 1 } else { std::thread::available_parallelism().map_or(1, |n| n.get().min(4)) };
        let share = slots.div_ceil(threads as u32).max(1);
        let disputed = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for start in (0..slots).step_by(share as usize) {
                let disputed = &disputed;
                scope.spawn(move || self.join_slots(start..(start + share).min(slots), found, disputed));
            }
        });
        self.forget_disputed(&disputed.into_inner());
        self.most_files.store(self.files.load(Ordering::Relaxed), Ordering::Relaxed);
        self.close_groups();
        let unclaimed = found.iter().filter(|(_, found)| !found.claimed.load(Ordering::Relaxed));
        unclaimed.map(|(&key, file)| (FileKey(key.to_be_bytes()), self.core.found_bytes(file, self.grid))).collect()
    }

    fn join_slots(&self, slots: std::ops::Range<u32>, found: &FoundFiles, disputed: &Mutex<Vec<u32>>) {
        let table = self.table.load_full();
        let (mut files, mut pieces, mut bytes) = (0, 0, 0);
        table.each_key(slots, &mut |slot, key| {
            let Some(file) = found.get(&number(key)) else { return };
            let Some(object) = self.object(slot.0).filter(|object| object.size == file.size) else { return };
            // Two objects of one key would share a file: the first has it.
            if self.fits(object, file) && !file.claimed.swap(true, Ordering::Relaxed) {
                if let Some(cell) = file.pieces.cell()
                    && let Err(owner) = self.claim_cell(object, cell)
                {
                    return disputed.lock().extend([owner, slot.0]);
                }
                files += u64::from(file.pieces.cell().is_none());
                pieces += file.pieces.len() as u64;
                bytes += self.core.found_bytes(file, self.grid);
                self.put(object, file);
            }
        });
        self.files.fetch_add(files, Ordering::Relaxed);
        self.present.fetch_add(pieces, Ordering::Relaxed);
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    fn fits(&self, object: Object, file: &Found) -> bool {
        match (self.class_of(object), file.pieces.cell()) {
            // Whatever the index says, no more memory is taken for cells than for a full tier.
            (Some(class), Some(cell)) => {
                return class.offset(cell) <= self.core.space.quota && self.groups.of(class).has_cell(class, cell);
            }
            (None, None) => {}
            // It is stored otherwise now.
            _ => return false,
        }
        let mut fits = true;
        file.pieces.for_each(|index, _| fits &= index < object.count);
        fits
    }

    fn put(&self, object: Object, file: &Found) {
        file.pieces.for_each(|index, crc| {
            if let Some(cell) = self.crcs.get(object.first + index) {
                cell.store(crc, Ordering::Relaxed);
            }
            self.set_state(object.first + index, REMEMBERED);
        });
        self.set_flags(object, ON_DISK);
        if object.count > 1 {
            self.gate(object.slot).counts.entry(object.slot).or_default().present = file.pieces.len() as u32;
        }
    }
}

fn charges(core: &Core, found: &FoundFiles, grid: u32) -> Vec<(FileKey, u64)> {
    let charged = found.iter().map(|(&key, file)| (FileKey(key.to_be_bytes()), core.found_bytes(file, grid)));
    charged.filter(|(_, bytes)| *bytes > 0).collect()
}

/// A dataset's name is the name of a directory.
fn check_name(name: &str) -> Result<()> {
    let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    if name.is_empty() || name.len() > 64 || name.starts_with('.') || !plain {
        return Err(Error::Invalid(format!(
            "{name:?} cannot be a dataset's name: use letters, digits, `-`, `_` and `.`, at most 64, not beginning with `.`"
        )));
    }
    Ok(())
}
