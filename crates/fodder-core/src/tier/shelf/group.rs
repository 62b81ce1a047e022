//! Small objects: finding, writing and dropping their cells in group files.
//!
//! The gate of an object guards its cell as it guards a file. A cell is given back only after the object's epoch has moved, so
//! that a reader who may have read what came into the cell afterwards notices.

mod compact;
mod open;

pub(in crate::tier) use compact::LeftCell;

use super::{ON_DISK, Object, Reservation, Shelf};
use crate::{
    Error, Result,
    id::{ObjectSlot, PieceId},
    tier::{
        files::Kept,
        group::{Cells, KEY_BYTES, SizeClass, lengthened},
        log::Record,
        space::{self, Grant},
        state::Kind,
    },
};
use parking_lot::{RwLockReadGuard, RwLockWriteGuard};
use rustix::io::Errno;
use std::{
    ops::Range,
    os::unix::fs::MetadataExt,
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

/// Inodes that the first object of a class may take: a file and two directories.
const NEW_GROUP_INODES: u64 = 3;

/// A cell that is set aside for an object. Free again when dropped, unless the object was written.
#[derive(Debug)]
pub(in crate::tier) struct ReservedCell {
    shelf: Arc<Shelf>,
    class: SizeClass,
    /// None once it holds an object.
    cell: Option<u32>,
}

impl Drop for ReservedCell {
    fn drop(&mut self) {
        let Some(cell) = self.cell else { return };
        let mut cells = self.shelf.groups.of(self.class).cells.lock();
        cells.release(cell);
        let is_unused = cells.free() == cells.len();
        drop(cells);
        if is_unused && !self.shelf.closed() {
            // Not here: a reservation may be dropped on a thread that must not wait for the disk.
            self.shelf.shorten_later(self.class);
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
        let _table = self.table.load();
        let class = self.object(slot).and_then(|object| self.class_of(object));
        class.map_or(slot, |class| class.file_number())
    }

    /// A group file that exists, kept open.
    pub(super) fn group_file(&self, class: SizeClass, wait: bool) -> std::result::Result<Arc<Kept>, Errno> {
        let (number, group) = (class.file_number(), self.groups.of(class));
        if let Some(kept) = self.core.files.kept(self.id, number) {
            return Ok(kept);
        }
        let generation = group.generation.load(Ordering::SeqCst);
        let kept = self.core.files.open_group(&self.name, class.cell_bytes(), wait)?;
        let is_current = || group.generation.load(Ordering::SeqCst) == generation && !self.closed();
        self.core.files.keep(self.id, number, &kept, is_current);
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
    pub(super) fn reserve_small(&self, class: SizeClass) -> Option<Reservation> {
        // Before the cell is taken: one that is given back at once would look as if room came of itself. A free cell takes no
        // space that is not charged, so neither quota nor floor is asked.
        let may_write = !self.closed() && self.core.pulse.may_write(Instant::now());
        let cell = if may_write { self.reserve_cell(class) } else { None };
        Some(Reservation { cell: Some(cell?), space: self.core.space.none() })
    }

    fn reserve_cell(&self, class: SizeClass) -> Option<ReservedCell> {
        let shelf = self.me.upgrade().filter(|shelf| !shelf.closed())?;
        let mut cells = self.groups.of(class).cells.lock();
        let cell = match cells.reserve_free() {
            Some(cell) => cell,
            None => {
                let bytes = self.growth(class, &cells);
                let inodes = if cells.charged() == 0 { NEW_GROUP_INODES } else { 0 };
                let mut grant = self.core.space.reserve(bytes, inodes)?;
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
        let writing = self.writable_group(class, cell, Some(&mut reservation.space));
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

    /// The group file, long enough for a cell. Made anew only with a grant for its directory. Without a gate.
    fn writable_group(&self, class: SizeClass, cell: u32, grant: Option<&mut Grant>) -> Result<WritableGroup<'_>> {
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
                let gone = || Error::Unavailable("a cache file was changed by another program".into());
                self.create_group(class, grant.ok_or_else(gone)?)?
            }
        };
        if *length < end {
            kept.file.set_len(lengthened(end)).map_err(|error| self.write_failed("lengthen a file", &error))?;
            *length = lengthened(end);
        }
        Ok(WritableGroup { kept, _length: RwLockWriteGuard::downgrade(length) })
    }

    /// Drops everything in a group file that cannot be trusted any more: another program has cut or removed it, so that writing on
    /// would leave holes that look like bytes, or it could not be synced. With the length held exclusively, and no gate.
    fn drop_group(&self, class: SizeClass) {
        let (_table, group) = (self.table.load(), self.groups.of(class));
        let slots = group.cells.lock().slots();
        if !slots.is_empty() {
            tracing::warn!(
                dataset = self.name,
                objects = slots.len(),
                "a file of small objects is damaged: dropping it"
            );
        }
        for object in slots.into_iter().filter_map(|slot| self.object(slot)) {
            let gone = self.drop_object(&mut self.gate(object.slot), object);
            self.lost.lock().extend(gone);
        }
        // A reader that opened the old file before this does not put it into the set of kept files.
        group.generation.fetch_add(1, Ordering::SeqCst);
        self.core.files.forget(self.id, class.file_number(), || {});
        if let Err(error) = self.core.files.unlink_group(&self.name, class.cell_bytes()) {
            tracing::warn!(dataset = self.name, %error, "cannot unlink a group file");
        }
    }

    /// Makes the group file of a class. With the length held exclusively.
    fn create_group(&self, class: SizeClass, grant: &mut Grant) -> Result<Arc<Kept>> {
        let create = || self.core.files.create_group(&self.name, class.cell_bytes());
        let mut created = create();
        for _ in 0..3 {
            match created {
                // A sweep may remove an empty directory in between.
                Err(Errno::NOENT) => self.make_group_directories(grant),
                // The index knows nothing of what is there.
                Err(Errno::EXIST) => self.core.files.unlink_group(&self.name, class.cell_bytes()),
                _ => break,
            }
            .map_err(|error| self.create_failed("make a directory", error))?;
            created = create();
        }
        let kept = created.map_err(|error| self.create_failed("make a file", error))?;
        self.core.files.keep(self.id, class.file_number(), &kept, || true);
        Ok(kept)
    }

    fn make_group_directories(&self, grant: &mut Grant) -> std::result::Result<(), Errno> {
        self.make_directory(None, grant)?;
        if self.core.files.make_group_directory(&self.name)? {
            grant.spend(space::DIRECTORY_BYTES);
            self.directory_bytes.fetch_add(space::DIRECTORY_BYTES, Ordering::Relaxed);
        }
        Ok(())
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
fn group_charge(class: SizeClass, cells: u32, block: u64) -> u64 {
    if cells == 0 { 0 } else { space::group_bytes(class.offset(cells), block) }
}
