//! Moving cells to the front of a group file, so that the file can be cut.
//!
//! An object is copied before its cell number changes, and its old cell is released after the commit that records the new one:
//! neither a reader nor a crash finds it missing.

use super::{ReservedCell, group_charge, is_unchanged};
use crate::tier::{
    files::is_want_of_descriptors,
    group::{Cells, KEY_BYTES, Move, SizeClass},
    shelf::Shelf,
};
use rustix::io::Errno;
use std::{os::unix::fs::FileExt, sync::atomic::Ordering};

/// Cells are moved as soon as the free ones of a class would fill so many blocks.
const SLACK_BLOCKS: u64 = 4;
/// And this part of all its cells, if that is not too much.
const SLACK_SHARE: u64 = 64;
const MAX_SLACK: u64 = 1 << 20;
/// A file that is to be cut with the next commit.
#[derive(Debug, Clone, Copy)]
pub(in crate::tier) struct LeftCell {
    class: SizeClass,
    /// The cell whose object was moved to another one, which is free as soon as that is durable. None if the file has no objects.
    cell: Option<u32>,
}

impl Shelf {
    /// After an object of a class has left: moves cells, if that makes the file shorter by some blocks.
    pub(in crate::tier::shelf) fn compact(&self, class: SizeClass) {
        let group = self.groups.of(class);
        let worthwhile = |cells: &Cells| {
            let slack =
                (SLACK_BLOCKS * self.core.space.block).max((class.offset(cells.len()) / SLACK_SHARE).min(MAX_SLACK));
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

    /// Leaves it to the committer to cut a file in which nothing is left.
    pub(in crate::tier::shelf) fn shorten_later(&self, class: SizeClass) {
        if let Some(shelf) = self.me.upgrade() {
            self.core.queue.left(shelf, LeftCell { class, cell: None });
        }
    }

    /// A commit has ended: nothing refers to these cells any more.
    pub(in crate::tier) fn release_left(&self, left: &[LeftCell]) {
        let mut classes: Vec<SizeClass> = left.iter().map(|left| left.class).collect();
        for LeftCell { class, cell } in left {
            if let Some(cell) = cell {
                self.groups.of(*class).cells.lock().release(*cell);
                self.core.moving.fetch_sub(class.cell_bytes(), Ordering::Relaxed);
            }
        }
        classes.sort_unstable();
        classes.dedup();
        classes.into_iter().for_each(|class| self.shorten(class));
    }

    /// Moves an object to another cell. False if the disk does not take it.
    fn move_cell(&self, class: SizeClass, Move { slot, from, to }: Move) -> bool {
        let _table = self.table.load();
        let Some(shelf) = self.me.upgrade() else { return false };
        let target = ReservedCell { shelf: shelf.clone(), class, cell: Some(to) };
        let Some(object) = self.object(slot) else { return false };
        if self.closed() {
            return false;
        }
        let Ok(writing) = self.writable_group(class, to, None) else { return false };
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
        self.core.moving.fetch_add(class.cell_bytes(), Ordering::Relaxed);
        self.core.queue.left(shelf, LeftCell { class, cell: Some(from) });
        true
    }

    /// Gives back the blocks behind the last cell.
    pub(in crate::tier::shelf) fn shorten(&self, class: SizeClass) {
        let group = self.groups.of(class);
        let charge = |cells| group_charge(class, cells, self.core.space.block);
        let mut length = group.length.write();
        let is_worthwhile = {
            let mut cells = group.cells.lock();
            cells.trim();
            charge(cells.charged()) > charge(cells.len())
        };
        // A shelf that is closed may have a successor, whose file has the same name.
        if self.closed() || !is_worthwhile || !self.cut(class, &mut length) {
            return;
        }
        let mut cells = group.cells.lock();
        let (before, now) = (cells.charged(), cells.len());
        cells.set_charged(now);
        drop(cells);
        self.release(charge(before) - charge(now.min(before)));
    }

    /// Cuts the file behind the last cell; false if that is not possible now. Cells may be added meanwhile, but nobody writes one
    /// before the length is known again.
    pub(in crate::tier::shelf) fn cut(&self, class: SizeClass, length: &mut u64) -> bool {
        let cells = &self.groups.of(class).cells;
        let end = class.offset(cells.lock().len());
        if *length <= end {
            return true;
        }
        *length = match self.group_file(class, true) {
            // To set a length would hide what another program has cut off.
            Ok(kept) if is_unchanged(&kept, *length) => match kept.file.set_len(end) {
                Ok(()) => end,
                Err(_) => return false,
            },
            Ok(_) | Err(Errno::NOENT) => {
                self.drop_group(class);
                cells.lock().trim();
                0
            }
            Err(_) => return false,
        };
        true
    }

    /// Syncs the file of a class. If that fails, all of it is dropped: an error is reported once, and what else was written since the
    /// last time may be lost too.
    pub(in crate::tier::shelf) fn sync_group(&self, class: SizeClass) {
        let synced = match self.group_file(class, true) {
            Ok(kept) => kept.file.sync_data(),
            // To sync all of them none needs to be opened.
            Err(error) if is_want_of_descriptors(error) => rustix::fs::syncfs(&self.core.root).map_err(Into::into),
            Err(error) => Err(error.into()),
        };
        let Err(error) = synced else { return };
        let mut length = self.groups.of(class).length.write();
        if !self.closed() && *length > 0 {
            self.write_failed("sync a file", &error);
            self.drop_group(class);
            *length = 0;
        }
        drop(length);
        self.shorten(class);
    }
}
