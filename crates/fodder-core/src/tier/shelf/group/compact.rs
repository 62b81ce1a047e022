//! Moving cells to the front of a group file, so that the file can be cut.
//!
//! An object is copied before its cell number changes, and its old cell is released after the commit that records the new one:
//! neither a reader nor a crash finds it missing.

use super::{ReservedCell, group_charge, is_unchanged};
use crate::tier::{
    group::{Cells, KEY_BYTES, Move, SizeClass},
    shelf::Shelf,
};
use rustix::io::Errno;
use std::{os::unix::fs::FileExt, sync::atomic::Ordering};

/// Cells are moved as soon as the free ones of a class would fill so many blocks.
const SLACK_BLOCKS: u64 = 4;
/// And this part of all its cells.
const SLACK_SHARE: u64 = 64;
/// A cell that is free with the next commit: its object was moved to another one, which is not durable yet, or it was not used.
#[derive(Debug, Clone, Copy)]
pub(in crate::tier) struct LeftCell {
    class: SizeClass,
    cell: u32,
}

impl Shelf {
    /// After an object of a class has left: moves cells, if that makes the file shorter by some blocks.
    pub(in crate::tier::shelf) fn compact(&self, class: SizeClass) {
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

    pub(super) fn free_later(&self, class: SizeClass, cell: u32) {
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
        let Some(shelf) = self.me.upgrade() else { return false };
        let target = ReservedCell { shelf, class, cell: Some(to) };
        let Some(object) = self.object(slot) else { return false };
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
    pub(super) fn shorten(&self, class: SizeClass) {
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
}
