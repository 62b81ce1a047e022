//! Filling a shelf: one piece at a time, several of one object at once.

use super::{ON_DISK, Object, Reservation, SEALED, Shelf, crc32c, gate::Gate};
use crate::{
    Error, Result,
    config::Medium,
    id::PieceId,
    tier::{
        core::unknown_bytes,
        files::{Kept, SEALED_MODE, is_out_of_inodes, is_want_of_descriptors},
        group::SizeClass,
        log::Record,
        space::{self, Grant, piece_len},
        state::{Kind, State},
    },
};
use rustix::{fs::Mode, io::Errno};
use std::{
    os::unix::fs::MetadataExt,
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

/// A piece that was written and is not in the index yet.
#[derive(Debug, Clone, Copy)]
pub(in crate::tier) struct Written {
    pub(in crate::tier) slot: u32,
    pub(in crate::tier) piece: u32,
    state: State,
    /// Where a small object is.
    cell: u32,
}

impl Shelf {
    /// Writes a piece, which may come in parts. After Ok it is served; it is durable with the next commit. An error leaves it absent:
    /// [`Error::Conflict`] if it is being written by someone else or its name is taken, [`Error::Full`] and
    /// [`Error::Unavailable`] if the disk does not take it.
    pub fn write(&self, piece: PieceId, parts: &[&[u8]], mut reservation: Reservation) -> Result<()> {
        let _table = self.table.load();
        let Some(object) = self.object_of(piece.0) else {
            return Err(Error::Internal(format!("piece {} does not exist", piece.0)));
        };
        let index = piece.0 - object.first;
        let len = piece_len(object.size, index, self.grid);
        let given: u64 = parts.iter().map(|part| part.len() as u64).sum();
        if given != len || !reservation.of(&self.core.space) {
            return Err(Error::Internal(format!("piece {index} has {len} bytes, but {given} were written")));
        }
        self.core.queue.wait_for_room(unknown_bytes(self.core.space.quota) / 2);
        let _changing = self.changing.read();
        if self.closed() {
            return Err(Error::Closed);
        }
        if let Some(class) = self.class_of(object) {
            return self.write_small(object, class, parts, reservation);
        }
        let Some((kept, state)) = self.begin(object, piece.0, &mut reservation)? else { return Ok(()) };
        let offset = u64::from(index) * u64::from(self.grid);
        if self.core.medium == Medium::Ssd {
            // In memory it would be work twice, and on a disk that turns the files that are written together are better
            // laid out when all of a group is known.
            kept.set_aside(offset, len);
        }
        let mut crc = crc32c();
        let written = kept.write_at(parts, offset, |part| crc.update(part));
        let mut gate = self.gate(object.slot);
        if self.state(piece.0).kind() == Kind::Doomed {
            self.set_state(piece.0, state.with(Kind::Absent));
            return Err(Error::Unavailable("the cache file was removed while it was written".into()));
        }
        if let Some(counts) = gate.counts.get_mut(&object.slot) {
            counts.writing -= 1;
        }
        if let Err(error) = written {
            self.set_state(piece.0, state.with(Kind::Absent));
            self.undo(&mut gate, object, index, &kept);
            return Err(self.write_failed("write", &error));
        }
        if let Some(counts) = gate.counts.get_mut(&object.slot) {
            counts.present += 1;
        }
        let blocks = space::piece_bytes(object.size, index, self.grid, self.core.space.block);
        reservation.space.spend(blocks);
        self.used.fetch_add(blocks, Ordering::Relaxed);
        self.publish(object, piece.0, state, crc.finalize() as u32, len);
        Ok(())
    }

    /// A piece was written: from now on it is served, and the committer makes it durable. With the gate.
    pub(super) fn publish(&self, object: Object, piece: u32, state: State, crc: u32, len: u64) {
        self.present.fetch_add(1, Ordering::Relaxed);
        if let Some(cell) = self.crcs.get(piece) {
            cell.store(crc, Ordering::Relaxed);
        }
        let state = state.with(Kind::Verified);
        self.set_state(piece, state);
        self.commit_soon(object, piece, state, len);
        self.core.pulse.worked();
    }

    /// Leaves a piece to the committer.
    pub(super) fn commit_soon(&self, object: Object, piece: u32, state: State, len: u64) {
        let cell = self.cell(object);
        if let Some(me) = self.me.upgrade() {
            self.core.queue.written(me, Written { slot: object.slot, piece, state, cell }, len);
        }
    }

    /// Claims a piece that is to be written. None if it is here already. With the gate.
    pub(super) fn claim(&self, piece: u32) -> Result<Option<State>> {
        let state = self.state(piece);
        match state.kind() {
            Kind::Absent => Ok(Some(state.next_filling())),
            Kind::Unverified | Kind::Verified => Ok(None),
            _ => Err(Error::Conflict("the piece is being written or dropped by someone else".into())),
        }
    }

    /// Claims a piece and finds its file. None if it is here already.
    fn begin(&self, object: Object, piece: u32, reservation: &mut Reservation) -> Result<Option<(Arc<Kept>, State)>> {
        let mut gate = self.gate(object.slot);
        let Some(state) = self.claim(piece)? else { return Ok(None) };
        let kept = self.writable(&mut gate, object, reservation)?;
        self.set_state(piece, state);
        if object.count > 1 {
            gate.counts.entry(object.slot).or_default().writing += 1;
        }
        Ok(Some((kept, state)))
    }

    /// The object's file, open for writing: the one that is there, if it may still change, or a new one.
    fn writable(&self, gate: &mut Gate, object: Object, reservation: &mut Reservation) -> Result<Arc<Kept>> {
        if self.flags(object) & ON_DISK != 0 {
            let kept = self.changeable(object).map_err(|error| self.write_failed("open a file", &error.into()))?;
            if let Some(kept) = kept {
                return Ok(kept);
            }
            // Sealed though incomplete (a crash came between), of a wrong size, or gone: a new inode takes its place.
            let gone = self.drop_object(gate, object);
            self.lost.lock().extend(gone);
        }
        let key = self.key(object.slot);
        let create = || self.core.keeper.create(key, || self.core.files.create(&self.name, key, object.size));
        let mut created = create();
        for _ in 0..3 {
            // A sweep may remove an empty directory in between.
            if !matches!(created, Err(Errno::NOENT)) {
                break;
            }
            self.make_directories(key.0[0], reservation)
                .map_err(|error| self.create_failed("create a directory", error))?;
            created = create();
        }
        let kept = match created {
            Ok(kept) => kept,
            Err(Errno::EXIST) => {
                return Err(Error::Conflict(format!(
                    "the cache file {key} exists already: another object has the same key, or a crash left it to be swept"
                )));
            }
            Err(Errno::FBIG) => {
                let message = format!("an object of {} bytes is larger than a file in this tier can be", object.size);
                return Err(Error::Full(message));
            }
            Err(error) => return Err(self.create_failed("create a file", error)),
        };
        let bytes = space::file_bytes(object.size, self.core.space.block);
        reservation.space.spend(bytes);
        self.used.fetch_add(bytes, Ordering::Relaxed);
        reservation.space.spend_inode();
        self.set_flags(object, ON_DISK);
        let files = self.files.fetch_add(1, Ordering::Relaxed) + 1;
        if self.most_files.fetch_max(files, Ordering::Relaxed) < files {
            reservation.space.spend(space::NAME_BYTES);
            self.directory_bytes.fetch_add(space::NAME_BYTES, Ordering::Relaxed);
        }
        self.core.files.keep(self.id, object.slot, &kept, || true);
        Ok(kept)
    }

    /// The object's file for writing and punching; None if it must not or cannot be changed, an error if only for want of
    /// descriptors. With the gate.
    pub(super) fn changeable(&self, object: Object) -> std::result::Result<Option<Arc<Kept>>, Errno> {
        if self.flags(object) & SEALED != 0 {
            return Ok(None);
        }
        if let Some(kept) = self.core.files.kept(self.id, object.slot).filter(|kept| kept.writable) {
            // Somebody may have cut or removed it behind our back: writing on would leave holes that look like bytes.
            let whole = |found: std::fs::Metadata| found.size() == object.size && found.nlink() > 0;
            return Ok(kept.file.metadata().is_ok_and(whole).then_some(kept));
        }
        let kept = match self.core.files.open(&self.name, self.key(object.slot), true, true) {
            Ok(kept) => kept,
            Err(error) if is_want_of_descriptors(error) => return Err(error),
            Err(_) => return Ok(None),
        };
        let Ok(found) = kept.file.metadata() else { return Ok(None) };
        if Mode::from_raw_mode(found.mode()).contains(Mode::WUSR) && found.size() == object.size {
            self.core.files.keep(self.id, object.slot, &kept, || true);
            return Ok(Some(kept));
        }
        if Mode::from_raw_mode(found.mode() & 0o777) == SEALED_MODE {
            self.set_flags(object, ON_DISK | SEALED);
        }
        Ok(None)
    }

    fn make_directories(&self, shard: u8, reservation: &mut Reservation) -> std::result::Result<(), Errno> {
        self.make_directory(None, &mut reservation.space)?;
        self.make_directory(Some(shard), &mut reservation.space)
    }

    /// Makes the dataset's directory, or one of the 256 inside it, if it is not there.
    pub(super) fn make_directory(&self, shard: Option<u8>, grant: &mut Grant) -> std::result::Result<(), Errno> {
        if self.core.files.make_directory(&self.name, shard)? {
            // A disk that turns is better off with everything close together.
            if shard.is_none() && self.core.medium == Medium::Ssd {
                self.core.files.spread(&self.name);
            }
            self.directories.fetch_add(1, Ordering::Relaxed);
            grant.spend(space::DIRECTORY_BYTES);
            grant.spend_inode();
            self.directory_bytes.fetch_add(space::DIRECTORY_BYTES, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Gives back the blocks of a write that failed half-way.
    fn undo(&self, gate: &mut Gate, object: Object, index: u32, kept: &Kept) {
        let counts = gate.counts.get(&object.slot).copied().unwrap_or_default();
        let alone = counts.writing == 0;
        let punched = (counts.present > 0 || !alone) && self.punch(object, index..index + 1, kept).is_ok();
        if alone && !punched {
            let gone = self.drop_object(gate, object);
            self.lost.lock().extend(gone);
        }
    }

    /// A file or directory could not be created. Want of inodes or of directory entries is a full file system, not a failing one:
    /// nothing was written, and removing files makes room.
    pub(super) fn create_failed(&self, doing: &str, error: Errno) -> Error {
        if !is_out_of_inodes(error) {
            return self.write_failed(doing, &error.into());
        }
        self.core.space.inodes_ran_out();
        let path = self.core.path.display();
        Error::Full(format!(
            "cannot {doing} in {path}: the file system has no free inodes or directory entries: {error}"
        ))
    }

    pub(super) fn write_failed(&self, doing: &str, error: &std::io::Error) -> Error {
        if !Errno::from_io_error(error).is_some_and(is_want_of_descriptors) {
            tracing::warn!(path = %self.core.path.display(), %error, "the tier cannot {doing}");
            self.core.pulse.failed(Instant::now());
        }
        Error::io(&format!("{doing} in"), &self.core.path, error)
    }

    /// Whether what was written is still here, and is that filling.
    pub(in crate::tier) fn still_holds(&self, written: &Written) -> bool {
        self.state(written.piece).still(written.state)
    }

    /// The index record of a piece that was written, if it is still here.
    pub(in crate::tier) fn record_of(&self, written: &Written) -> Option<(Record, u32)> {
        let _table = self.table.load();
        let object = self.object(written.slot)?;
        let crc = self.crc(written.piece);
        let (dataset, key) = (self.id, self.key(written.slot));
        let record = match self.class_of(object) {
            // Once it was moved, another record says so as soon as the bytes there are synced.
            Some(_) if self.cell(object) != written.cell => return None,
            Some(_) => Record::Cell { dataset, key, size: object.size as u32, cell: written.cell, crc },
            None => {
                let first = written.piece - object.first;
                Record::Pieces { dataset, key, size: object.size, first, crcs: vec![crc] }
            }
        };
        self.still_holds(written).then_some((record, crc))
    }

    /// Syncs a file of which pieces were written. What cannot be synced is dropped: nobody knows what the disk holds of it.
    pub(in crate::tier) fn sync_file(&self, number: u32) {
        match SizeClass::of_file_number(number) {
            Some(class) => self.sync_group(class),
            None => self.sync_object(number),
        }
    }

    fn sync_object(&self, slot: u32) {
        let _table = self.table.load();
        let epoch = self.epoch(slot).load(Ordering::SeqCst);
        let synced = match self.file(slot, epoch, true) {
            Ok(kept) => kept.file.sync_data(),
            // To sync all of them none needs to be opened.
            Err(error) if is_want_of_descriptors(error) => rustix::fs::syncfs(&self.core.root).map_err(Into::into),
            Err(error) => Err(error.into()),
        };
        let (Err(error), Some(object)) = (synced, self.object(slot)) else { return };
        let mut gate = self.gate(slot);
        if error.kind() == std::io::ErrorKind::NotFound && !self.vanished(object) {
            // It left before it was asked for; if it came anew, a later group syncs what was written then.
            return;
        }
        self.write_failed("sync a file", &error);
        let gone = self.drop_object(&mut gate, object);
        self.lost.lock().extend(gone);
    }

    /// Whether a file that should be there has lost its name. With the gate.
    fn vanished(&self, object: Object) -> bool {
        let key = self.key(object.slot);
        let name_is_gone = || self.core.files.open(&self.name, key, false, true).err() == Some(Errno::NOENT);
        self.flags(object) & ON_DISK != 0 && name_is_gone()
    }
}
