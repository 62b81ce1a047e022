//! Taking pieces off a shelf: unlinking whole files, punching blocks out of unsealed ones.

use super::{ON_DISK, Object, Shelf, gate::Gate, lease::Pin};
use crate::{
    id::{FileKey, ObjectSlot, PieceId},
    tier::{files::Kept, log::Record, space, state::Kind, sweep},
};
use rustix::{fs::FallocateFlags, io::Errno};
use std::{
    ops::Range,
    os::unix::fs::MetadataExt,
    sync::atomic::{Ordering, fence},
};

impl Shelf {
    /// Drops a piece; a sealed object is dropped whole. Every piece that left.
    pub fn evict(&self, piece: PieceId) -> Vec<PieceId> {
        let _table = self.table.load();
        let Some(object) = self.object_of(piece.0) else { return Vec::new() };
        if self.class_of(object).is_some() {
            return self.evict_object(ObjectSlot(object.slot));
        }
        let _changing = self.changing.read();
        let mut gate = self.gate(object.slot);
        if self.closed() || !self.state(piece.0).present() {
            return Vec::new();
        }
        let counts = gate.counts.get(&object.slot).copied().unwrap_or_default();
        let others = counts.present > 1 || counts.writing > 0;
        // Punching frees whole blocks only: a grid that does not fall on blocks is dropped whole.
        let on_blocks = u64::from(self.grid).is_multiple_of(self.core.space.block);
        let kept = if others && on_blocks { self.changeable(object).ok().flatten() } else { None };
        let Some(kept) = kept else { return self.drop_object(&mut gate, object) };
        let state = self.state(piece.0);
        self.set_state(piece.0, state.with(Kind::Leaving));
        self.move_epoch(object.slot);
        let index = piece.0 - object.first;
        if self.punch(object, index..index + 1, &kept).is_err() {
            self.set_state(piece.0, state);
            return self.drop_object(&mut gate, object);
        }
        let key = self.key(object.slot);
        self.core.queue.note(Record::DropPiece { dataset: self.id, key, index });
        if let Some(counts) = gate.counts.get_mut(&object.slot) {
            counts.present -= 1;
        }
        self.present.fetch_sub(1, Ordering::Relaxed);
        self.release(space::piece_bytes(object.size, index, self.grid, self.core.space.block));
        self.set_state(piece.0, state.with(Kind::Absent));
        vec![piece]
    }

    /// Drops an object whole. Every piece that left.
    pub fn evict_object(&self, object: ObjectSlot) -> Vec<PieceId> {
        let _table = self.table.load();
        let Some(object) = self.object(object.0) else { return Vec::new() };
        let _changing = self.changing.read();
        let mut gate = self.gate(object.slot);
        let here = !self.closed() && self.flags(object) & ON_DISK != 0;
        let gone = if here { self.drop_object(&mut gate, object) } else { Vec::new() };
        drop(gate);
        if let Some(class) = self.class_of(object).filter(|_| !gone.is_empty()) {
            self.compact(class);
        }
        gone
    }

    /// From here on a reader who saw the pieces before notices.
    pub(super) fn move_epoch(&self, slot: u32) {
        self.epoch(slot).fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Gives the blocks of some pieces back. Only in an unsealed file, with the gate, after the epoch has moved.
    pub(super) fn punch(&self, object: Object, indexes: Range<u32>, kept: &Kept) -> Result<(), Errno> {
        let start = u64::from(indexes.start) * u64::from(self.grid);
        let end = (u64::from(indexes.end) * u64::from(self.grid)).min(object.size);
        let len = (end - start).next_multiple_of(self.core.space.block);
        rustix::fs::fallocate(&kept.file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, start, len)
    }

    /// Unlinks an object's file, or frees its cell. Readers who have it open keep their inode; writers find that they wrote for nothing.
    /// With the gate.
    pub(super) fn drop_object(&self, gate: &mut Gate, object: Object) -> Vec<PieceId> {
        let mut gone = Vec::new();
        if self.flags(object) & ON_DISK == 0 {
            return gone;
        }
        if let Some(class) = self.class_of(object) {
            return self.drop_small(object, class);
        }
        let block = self.core.space.block;
        let mut bytes = space::file_bytes(object.size, block);
        for piece in object.pieces() {
            let state = self.state(piece);
            if state.present() {
                self.set_state(piece, state.with(Kind::Leaving));
                bytes += space::piece_bytes(object.size, piece - object.first, self.grid, block);
                gone.push(PieceId(piece));
            } else if state.kind() == Kind::Writing {
                self.set_state(piece, state.with(Kind::Doomed));
            }
        }
        let key = self.key(object.slot);
        let pin = gate.take_pin(object.slot);
        let inode = self.leased_inode(pin.as_deref(), key);
        let unlinked = self.core.files.unlink(&self.name, key);
        self.core.files.forget(self.id, object.slot, || self.move_epoch(object.slot));
        self.core.queue.note(Record::DropFile { dataset: self.id, key });
        gate.counts.remove(&object.slot);
        self.set_flags(object, 0);
        self.files.fetch_sub(1, Ordering::Relaxed);
        self.present.fetch_sub(gone.len() as u64, Ordering::Relaxed);
        match unlinked {
            Err(error) => {
                // It stays charged: its blocks are still there, and the next start sweeps it.
                tracing::warn!(dataset = self.name, %key, %error, "cannot unlink a cache file");
                self.core.keeper.failed();
            }
            Ok(()) => self.release_unlinked(object, pin.as_deref(), inode, bytes),
        }
        for piece in &gone {
            self.set_state(piece.0, self.state(piece.0).with(Kind::Absent));
        }
        gone
    }

    /// The inode of a file that another process may have open: it is pinned, or a client may have it from before.
    fn leased_inode(&self, pin: Option<&Pin>, key: FileKey) -> Option<u64> {
        match pin {
            Some(pin) => pin.file().metadata().ok().map(|found| found.ino()),
            None if self.core.unlinked.may_be_reported() => {
                self.core.files.sealed(&self.name, key).map(|found| found.st_ino)
            }
            None => None,
        }
    }

    /// Gives the charge of an unlinked file back as soon as no other process has it open.
    fn release_unlinked(&self, object: Object, pin: Option<&Pin>, inode: Option<u64>, bytes: u64) {
        let shown = self.take_shown(object.slot);
        let reported = inode.and_then(|inode| self.core.unlinked.reported(inode));
        // Clients may have it open and not have said so yet.
        let doubtful = pin.is_none() && inode.is_some() && self.core.unlinked.is_recovering(&self.core);
        let held = pin.is_some() || doubtful || reported.is_some() || shown.is_some();
        let Some(shelf) = self.me.upgrade().filter(|_| held) else {
            self.core.space.inode_freed();
            return self.release(bytes);
        };
        let file = self.core.unlinked.add(&self.core, Some(shelf), inode, bytes);
        if let Some(pin) = pin {
            pin.carry(&file);
        }
        if let Some(shown) = shown {
            shown.carry(&file);
        }
        if let Some(reported) = reported {
            reported.carry(&file);
        }
        if doubtful {
            self.core.unlinked.doubt(file);
        }
    }

    /// Empties the shelf for good: its dataset was removed.
    pub(in crate::tier) fn remove(&self) {
        self.shut();
        let table = self.table.load();
        for object in self.on_disk() {
            self.drop_object(&mut self.gate(object.slot), object);
        }
        drop(table);
        self.remove_groups();
        self.core.registry.lock().forget(self.id);
        // Not before: an index that is written anew in between would know the dataset, and not that it is forgotten.
        self.core.queue.note(Record::Forget { dataset: self.id });
        sweep::remove_directories(&self.core, &self.name);
        self.core.space.release(self.directory_bytes.swap(0, Ordering::Relaxed));
    }

    /// Punches what is not present out of partial files, as a crash may have left it.
    pub(in crate::tier) fn trim(&self, stopping: &dyn Fn() -> bool) {
        for slot in self.objects() {
            let _table = self.table.load();
            let Some(object) = self.object(slot.0).filter(|object| object.count > 1) else { continue };
            let _changing = self.changing.read();
            if stopping() || self.closed() {
                return self.core.keeper.failed();
            }
            let mut gate = self.gate(object.slot);
            let counts = gate.counts.get(&object.slot).copied().unwrap_or_default();
            if counts.present < object.count && self.flags(object) & ON_DISK != 0 {
                self.trim_object(&mut gate, object);
            }
        }
    }

    fn trim_object(&self, gate: &mut Gate, object: Object) {
        // Counting blocks first would not do: a piece that is here by the index may be a hole, and hide one that is not.
        let trimmed = self.changeable(object).ok().flatten().is_some_and(|kept| {
            let absent = object.pieces().filter(|&piece| self.state(piece).kind() == Kind::Absent);
            let mut runs = runs(absent.map(|piece| piece - object.first));
            runs.all(|run| self.punch(object, run, &kept).is_ok())
        });
        if !trimmed {
            // Sealed or gone, and not complete: it can never be filled.
            let gone = self.drop_object(gate, object);
            self.lost.lock().extend(gone);
        }
    }
}

/// Neighbours together.
fn runs(indexes: impl Iterator<Item = u32>) -> impl Iterator<Item = Range<u32>> {
    let mut indexes = indexes.peekable();
    std::iter::from_fn(move || {
        let start = indexes.next()?;
        let mut end = start + 1;
        while indexes.next_if_eq(&end).is_some() {
            end += 1;
        }
        Some(start..end)
    })
}
