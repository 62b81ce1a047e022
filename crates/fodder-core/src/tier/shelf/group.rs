//! Small objects: finding, writing and dropping their cells in group files, and moving cells so that the files shrink again.
//!
//! The gate of an object guards its cell as it guards a file. A cell is given back only after the object's epoch has moved, so
//! that a reader who may have read what came into the cell afterwards notices.

use super::{ON_DISK, Object, Reservation, Shelf};
use crate::{
    Error, Result,
    id::{ObjectSlot, PieceId},
    tier::{
        files::Kept,
        group::{Cells, Claim, KEY_BYTES, Move, SizeClass, lengthened},
        log::Record,
        space::{self, Grant},
        state::Kind,
    },
};
use parking_lot::{RwLockReadGuard, RwLockWriteGuard};
use rustix::io::Errno;
use std::{
    ops::Range,
    os::unix::fs::{FileExt, MetadataExt},
    sync::{Arc, atomic::Ordering},
};

/// Cells are moved as soon as the free ones of a class would fill so many blocks.
const SLACK_BLOCKS: u64 = 4;
/// And this part of all its cells.
const SLACK_SHARE: u64 = 64;
/// Inodes that the first object of a class may take: a file and two directories.
const NEW_GROUP_INODES: u64 = 3;

/// A cell that is set aside for an object. Unless the object was written, it is free with the next commit after it was dropped.
#[derive(Debug)]
pub(in crate::tier) struct ReservedCell {
    shelf: Arc<Shelf>,
    class: SizeClass,
    /// None once it holds an object.
    cell: Option<u32>,
}

/// A cell that is free with the next commit: its object was moved to another one, which is not durable yet, or it was not used.
#[derive(Debug, Clone, Copy)]
pub(in crate::tier) struct LeftCell {
    class: SizeClass,
    cell: u32,
}

impl Drop for ReservedCell {
    fn drop(&mut self) {
        if let Some(cell) = self.cell.filter(|_| !self.shelf.closed()) {
            // Not at once: the file may have to be cut, and whoever drops it may be one who must not wait for the disk.
            self.shelf.free_later(self.class, cell);
        }
    }
}

impl Shelf {
    /// The size class of an object that is stored in a group file; None for one that has a file of its own.
    #[inline]
    pub(super) fn class_of(&self, object: Object) -> Option<SizeClass> {
        if object.count == 1 { self.groups.class_of(object.size) } else { None }
    }

    /// The cell of a small object that is here.
    #[inline]
    pub(super) fn cell(&self, object: Object) -> u32 {
        self.cells.get(object.first).map_or(0, |cell| cell.load(Ordering::Acquire))
    }

    /// The number under which the file of an object is kept open and synced.
    pub(in crate::tier) fn file_number(&self, slot: u32) -> u32 {
        let class = self.object(slot).and_then(|object| self.class_of(object));
        class.map_or(slot, |class| class.file_number())
    }

    /// A group file that exists, kept open.
    pub(super) fn group_file(&self, class: SizeClass, wait: bool) -> std::result::Result<Arc<Kept>, Errno> {
        let number = class.file_number();
        if let Some(kept) = self.core.files.kept(self.id, number) {
            return Ok(kept);
        }
        let kept = self.core.files.open_group(&self.name, class.cell_bytes(), wait)?;
        self.core.files.keep(self.id, number, &kept, || !self.closed());
        Ok(kept)
    }

    /// By how much the charge grows if one more object of a class is added; 0 if there is a free cell.
    pub(super) fn group_growth(&self, class: SizeClass) -> u64 {
        let cells = self.groups.of(class).cells.lock();
        if cells.free() > 0 { 0 } else { self.growth(class, &cells) }
    }

    fn growth(&self, class: SizeClass, cells: &Cells) -> u64 {
        let block = self.core.space.block;
        let now = group_charge(class, cells.charged(), block);
        group_charge(class, cells.len() + 1, block).saturating_sub(now)
    }

    /// Sets a cell aside: a free one, or a new one if quota and disk allow it. Touches no file.
    pub(super) fn reserve_cell(&self, class: SizeClass) -> Option<ReservedCell> {
        let shelf = self.me.upgrade().filter(|shelf| !shelf.closed())?;
        let mut cells = self.groups.of(class).cells.lock();
        let cell = match cells.reserve_free() {
            Some(cell) => cell,
            None => {
                let bytes = self.growth(class, &cells);
                let inodes = if cells.charged() == 0 { NEW_GROUP_INODES } else { 0 };
                let mut grant = self.grant(bytes, inodes)?;
                let cell = cells.append()?;
                grant.spend(bytes);
                self.used.fetch_add(bytes, Ordering::Relaxed);
                let charged = cells.charged().max(cells.len());
                cells.set_charged(charged);
                cell
            }
        };
        drop(cells);
        Some(ReservedCell { shelf, class, cell: Some(cell) })
    }

    /// Writes a small object into its cell. As [`Shelf::write`].
    pub(super) fn write_small(
        &self,
        object: Object,
        class: SizeClass,
        parts: &[&[u8]],
        mut reservation: Reservation,
    ) -> Result<()> {
        let given = reservation.cell.take().filter(|cell| std::ptr::eq(&*cell.shelf, self) && cell.class == class);
        let full = || Error::Full(format!("{} has no room for another small object", self.core.path.display()));
        let reserved = given.or_else(|| self.reserve_cell(class)).ok_or_else(full)?;
        let Some(cell) = reserved.cell else { return Err(full()) };
        let state = {
            let _gate = self.gate(object.slot);
            let Some(state) = self.claim(object.first)? else { return Ok(()) };
            self.set_state(object.first, state);
            state
        };
        let mut crc = super::crc32c();
        parts.iter().for_each(|part| crc.update(part));
        let key = self.key(object.slot);
        let mut all = vec![&key.0[..]];
        all.extend(parts);
        let writing = self.writable_group(class, cell, &mut reservation.space);
        let written = writing.and_then(|writing| {
            let written = writing.kept.write_at(&all, class.offset(cell), |_| {});
            written.map_err(|error| self.write_failed("write", &error)).map(|()| writing)
        });
        let _gate = self.gate(object.slot);
        // The file stays the one that was written until the object is known to be in it.
        let _writing = written.inspect_err(|_| self.set_state(object.first, state.with(Kind::Absent)))?;
        self.assign(reserved, object);
        self.set_flags(object, ON_DISK);
        self.publish(object, object.first, state, crc.finalize() as u32, KEY_BYTES + object.size);
        Ok(())
    }

    fn assign(&self, mut reserved: ReservedCell, object: Object) {
        if let Some(cell) = reserved.cell.take() {
            self.groups.of(reserved.class).cells.lock().assign(cell, object.slot);
            self.cells.reach(object.first).store(cell, Ordering::Release);
        }
    }

    /// The group file, long enough for a cell. Without a gate.
    fn writable_group(&self, class: SizeClass, cell: u32, grant: &mut Grant) -> Result<WritableGroup<'_>> {
        let (group, end) = (self.groups.of(class), class.offset(cell) + class.cell_bytes());
        let length = group.length.read();
        if *length >= end
            && let Ok(kept) = self.group_file(class, true)
            && is_unchanged(&kept, *length)
        {
            return Ok(WritableGroup { kept, _length: length });
        }
        drop(length);
        let mut length = group.length.write();
        let kept = match self.group_file(class, true) {
            Ok(kept) if is_unchanged(&kept, *length) => kept,
            Err(error) if error != Errno::NOENT => return Err(self.write_failed("open a file", &error.into())),
            _ => {
                if *length > 0 {
                    self.drop_group(class);
                    *length = 0;
                }
                self.create_group(class, grant)?
            }
        };
        if *length < end {
            kept.file.set_len(lengthened(end)).map_err(|error| self.write_failed("lengthen a file", &error))?;
            *length = lengthened(end);
        }
        Ok(WritableGroup { kept, _length: RwLockWriteGuard::downgrade(length) })
    }

    /// Drops everything in a group file that somebody else has cut or removed: what is written behind the place where it was cut
    /// would leave holes that look like bytes. With the length held exclusively, and no gate.
    fn drop_group(&self, class: SizeClass) {
        let slots = self.groups.of(class).cells.lock().slots();
        tracing::warn!(
            dataset = self.name,
            objects = slots.len(),
            "a group file was changed by another program: dropping it"
        );
        for object in slots.into_iter().filter_map(|slot| self.object(slot)) {
            let gone = self.drop_object(&mut self.gate(object.slot), object);
            self.lost.lock().extend(gone);
        }
        self.core.files.forget(self.id, class.file_number(), || {});
        if let Err(error) = self.core.files.unlink_group(&self.name, class.cell_bytes()) {
            tracing::warn!(dataset = self.name, %error, "cannot unlink a group file");
        }
    }

    /// Makes the group file of a class, which does not exist. With the length held exclusively.
    fn create_group(&self, class: SizeClass, grant: &mut Grant) -> Result<Arc<Kept>> {
        let made = self.core.files.make_directory(&self.name, None).and_then(|made| {
            let groups = self.core.files.make_group_directory(&self.name)?;
            Ok(u64::from(made) + u64::from(groups))
        });
        let made = made.map_err(|error| self.create_failed("make a directory", error))?;
        grant.spend(made * space::DIRECTORY_BYTES);
        self.directory_bytes.fetch_add(made * space::DIRECTORY_BYTES, Ordering::Relaxed);
        let kept = self.core.files.create_group(&self.name, class.cell_bytes());
        let kept = kept.map_err(|error| self.create_failed("make a file", error))?;
        self.core.files.keep(self.id, class.file_number(), &kept, || true);
        Ok(kept)
    }

    /// Drops a small object. With its gate. The pieces that left: its only one.
    pub(super) fn drop_small(&self, object: Object, class: SizeClass) -> Vec<PieceId> {
        let (piece, state) = (object.first, self.state(object.first));
        self.set_state(piece, state.with(Kind::Leaving));
        self.move_epoch(object.slot);
        self.core.queue.note(Record::DropFile { dataset: self.id, key: self.key(object.slot) });
        self.set_flags(object, 0);
        self.present.fetch_sub(1, Ordering::Relaxed);
        self.groups.of(class).cells.lock().release(self.cell(object));
        self.set_state(piece, state.with(Kind::Absent));
        vec![PieceId(piece)]
    }

    /// After an object of a class has left: moves cells, if that makes the file shorter by some blocks.
    pub(super) fn compact(&self, class: SizeClass) {
        let group = self.groups.of(class);
        let worthwhile = |cells: &Cells| {
            let slack = (SLACK_BLOCKS * self.core.space.block).max(class.offset(cells.len()) / SLACK_SHARE);
            class.offset(cells.free()) >= slack || cells.free() == cells.len()
        };
        if !worthwhile(&group.cells.lock()) {
            return;
        }
        let Some(_compacting) = group.compacting.try_lock() else { return };
        let mut end = u32::MAX;
        loop {
            let Some(next) = group.cells.lock().next_move(end) else { break };
            end = next.from;
            if !self.move_cell(class, next) {
                break;
            }
        }
        self.shorten(class);
    }

    fn free_later(&self, class: SizeClass, cell: u32) {
        if let Some(shelf) = self.me.upgrade() {
            self.core.moving.fetch_add(class.cell_bytes(), Ordering::Relaxed);
            self.core.queue.left(shelf, LeftCell { class, cell });
        }
    }

    /// A commit has ended: nothing refers to these cells any more.
    pub(in crate::tier) fn release_left(&self, left: &[LeftCell]) {
        let mut classes: Vec<SizeClass> = left.iter().map(|left| left.class).collect();
        for LeftCell { class, cell } in left {
            self.groups.of(*class).cells.lock().release(*cell);
            self.core.moving.fetch_sub(class.cell_bytes(), Ordering::Relaxed);
        }
        classes.sort_unstable();
        classes.dedup();
        classes.into_iter().for_each(|class| self.shorten(class));
    }

    /// Moves an object to another cell. False if the disk does not take it.
    fn move_cell(&self, class: SizeClass, Move { slot, from, to }: Move) -> bool {
        let _table = self.table.load();
        let (Some(shelf), Some(object)) = (self.me.upgrade(), self.object(slot)) else { return false };
        let target = ReservedCell { shelf, class, cell: Some(to) };
        let Some(mut grant) = self.grant(0, 0) else { return false };
        let Ok(writing) = self.writable_group(class, to, &mut grant) else { return false };
        let mut gate = self.gate(slot);
        let state = self.state(object.first);
        if !state.present() || self.cell(object) != from {
            // It left meanwhile, and its cell is free.
            return true;
        }
        let mut bytes = vec![0; (KEY_BYTES + object.size) as usize];
        let read = writing.kept.file.read_exact_at(&mut bytes, class.offset(from));
        if read.is_err() || bytes[..KEY_BYTES as usize] != self.key(slot).0 {
            let gone = self.drop_object(&mut gate, object);
            self.lost.lock().extend(gone);
            return true;
        }
        if let Err(error) = writing.kept.write_at(&[&bytes], class.offset(to), |_| {}) {
            self.write_failed("write", &error);
            return false;
        }
        self.assign(target, object);
        self.move_epoch(slot);
        self.groups.of(class).cells.lock().leave(from);
        self.commit_soon(object, object.first, state, bytes.len() as u64);
        // A crash before the commit must not cost what is cached.
        self.free_later(class, from);
        true
    }

    /// Gives back the blocks behind the last cell.
    fn shorten(&self, class: SizeClass) {
        let group = self.groups.of(class);
        let mut length = group.length.write();
        // From here on cells may be added, but nobody writes one before the length is known again.
        let trimmed = || {
            let mut cells = group.cells.lock();
            cells.trim();
            class.offset(cells.len())
        };
        let end = trimmed();
        if *length > end {
            *length = match self.group_file(class, true) {
                // To set a length would hide what another program has cut off.
                Ok(kept) if is_unchanged(&kept, *length) => match kept.file.set_len(end) {
                    Ok(()) => end,
                    Err(_) => return,
                },
                Ok(_) | Err(Errno::NOENT) => {
                    self.drop_group(class);
                    trimmed();
                    0
                }
                Err(_) => return,
            };
        }
        let mut cells = group.cells.lock();
        let (before, now) = (cells.charged(), cells.len());
        cells.set_charged(now);
        drop(cells);
        let charge = |cells| group_charge(class, cells, self.core.space.block);
        self.release(charge(before) - charge(now.min(before)));
    }

    /// Looks which group files there are, before their cells are claimed.
    pub(super) fn open_groups(&self) {
        for class in SizeClass::all() {
            let length = self.core.files.group_length(&self.name, class.cell_bytes());
            *self.groups.of(class).length.write() = length.unwrap_or(0);
        }
    }

    /// Gives a cell to the object for which the index remembers it. An error names the object that has it already.
    pub(super) fn claim_cell(&self, object: Object, cell: u32) -> std::result::Result<(), u32> {
        let Some(class) = self.class_of(object) else { return Ok(()) };
        if let Claim::TakenBy(owner) = self.groups.of(class).cells.lock().claim(cell, object.slot) {
            return Err(owner);
        }
        self.cells.reach(object.first).store(cell, Ordering::Release);
        Ok(())
    }

    /// Forgets objects of which the index says that they are in one cell: a crash came between two of its records, and which of
    /// them is out of date is not known.
    pub(super) fn forget_disputed(&self, slots: &[u32]) {
        for object in slots.iter().filter_map(|&slot| self.object(slot)) {
            if self.flags(object) & ON_DISK != 0 {
                self.drop_object(&mut self.gate(object.slot), object);
            }
            self.core.queue.note(Record::DropFile { dataset: self.id, key: self.key(object.slot) });
        }
    }

    /// All cells that the index remembers are claimed: charges them, and cuts off or removes the rest.
    pub(super) fn close_groups(&self) {
        for class in SizeClass::all() {
            let group = self.groups.of(class);
            let cells = {
                let mut cells = group.cells.lock();
                cells.claimed();
                cells.len()
            };
            self.charge_used(group_charge(class, cells, self.core.space.block));
            if *group.length.read() == 0 {
                continue;
            }
            if cells > 0 {
                self.shorten(class);
            } else if self.core.files.unlink_group(&self.name, class.cell_bytes()).is_ok() {
                *group.length.write() = 0;
            }
        }
    }

    /// Removes all group files: the dataset was removed, and its objects dropped.
    pub(super) fn remove_groups(&self) {
        for class in SizeClass::all() {
            self.core.files.forget(self.id, class.file_number(), || {});
            let mut cells = self.groups.of(class).cells.lock();
            self.release(group_charge(class, cells.charged(), self.core.space.block));
            *cells = Cells::default();
        }
        self.core.remove_groups(&self.name);
    }

    /// The object of a cell, for tests that damage it.
    #[doc(hidden)]
    pub fn cell_range(&self, object: ObjectSlot) -> Option<(u64, Range<u64>)> {
        let _table = self.table.load();
        let object = self.object(object.0)?;
        let class = self.class_of(object).filter(|_| self.flags(object) & ON_DISK != 0)?;
        let start = class.offset(self.cell(object)) + KEY_BYTES;
        Some((class.cell_bytes(), start..start + object.size))
    }
}

/// A group file that may be written, and is neither cut nor replaced meanwhile.
struct WritableGroup<'a> {
    kept: Arc<Kept>,
    _length: RwLockReadGuard<'a, u64>,
}

/// Whether a file still has its name and the length that it was given.
fn is_unchanged(kept: &Kept, length: u64) -> bool {
    kept.file.metadata().is_ok_and(|found| found.len() == length && found.nlink() > 0)
}

/// What a group file with so many cells is charged: its blocks, their extents, its name and the first block of its extent tree.
pub(super) fn group_charge(class: SizeClass, cells: u32, block: u64) -> u64 {
    if cells == 0 { 0 } else { space::group_bytes(class.offset(cells), block) }
}
