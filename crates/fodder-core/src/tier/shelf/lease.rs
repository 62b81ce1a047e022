//! Handing a cache file to another process: complete, checked, sealed, pinned.

use super::{ON_DISK, Object, SEALED, Shelf, crc32c_of, gate::Gate, read::fill};
use crate::{
    Error, Result,
    config::Medium,
    id::ObjectSlot,
    tier::{
        files::{Given, SEALED_MODE},
        space::piece_len,
        state::{Kind, State},
        unlinked::UnlinkedFile,
    },
};
use std::{
    fs::File,
    os::unix::fs::MetadataExt,
    sync::{Arc, OnceLock, atomic::Ordering},
};

/// A sealed cache file handed out: pinned until dropped.
#[derive(Debug)]
pub struct Lease {
    /// The whole object's bytes, exactly; open for reading.
    pub file: Arc<File>,
    /// The object's size.
    pub size: u64,
    /// What the tier is made of.
    pub medium: Medium,
    _pin: Option<Arc<Pin>>,
}

/// What all leases of one file share. Once the file is unlinked it carries the charge, until the last lease is dropped.
#[derive(Debug)]
pub(super) struct Pin {
    shelf: Arc<Shelf>,
    file: Arc<File>,
    /// Set when the file is unlinked.
    carried: OnceLock<Arc<UnlinkedFile>>,
    _given: Given,
}

impl Pin {
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    pub(super) fn carry(&self, unlinked: &Arc<UnlinkedFile>) {
        let _ = self.carried.set(unlinked.clone());
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.shelf.core.unlinked.unpinned();
    }
}

impl Shelf {
    /// Bytes of an evicted file stay allocated until its leases are returned.
    pub(in crate::tier) fn unlinked_added(&self, bytes: u64) {
        self.leased_files.fetch_add(1, Ordering::Relaxed);
        self.leased_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(in crate::tier) fn unlinked_removed(&self, bytes: u64) {
        self.leased_files.fetch_sub(1, Ordering::Relaxed);
        self.leased_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Files that were evicted while they are leased, and their bytes: freed when the leases are returned.
    pub fn leased_after_eviction(&self) -> (u64, u64) {
        (self.leased_files.load(Ordering::Relaxed), self.leased_bytes.load(Ordering::Relaxed))
    }

    /// Hands out a complete object's file, sealed and checked; None if it is not complete here.
    pub fn lease(&self, object: ObjectSlot) -> Result<Option<Lease>> {
        let _table = self.table.load();
        let Some(object) = self.object(object.0) else { return Ok(None) };
        if object.size == 0 {
            return Ok(Some(Lease { file: self.core.empty.clone(), size: 0, medium: self.core.medium, _pin: None }));
        }
        let Some((pin, unchecked)) = self.seal(object)? else { return Ok(None) };
        if !self.check_sealed(object, &pin.file, &unchecked) {
            return Ok(None);
        }
        let (file, medium) = (pin.file.clone(), self.core.medium);
        Ok(Some(Lease { file, size: object.size, medium, _pin: Some(pin) }))
    }

    /// Seals the file of a complete object and pins it. From then on nothing changes in it, whatever happens to its name.
    /// Also answers which pieces have not been checked since the start.
    #[allow(clippy::type_complexity, reason = "a pair that lives for three lines")]
    pub(super) fn seal(&self, object: Object) -> Result<Option<(Arc<Pin>, Vec<(u32, State, u32)>)>> {
        let _changing = self.changing.read();
        let mut gate = self.gate(object.slot);
        if self.closed() || self.flags(object) & ON_DISK == 0 {
            return Ok(None);
        }
        if self.class_of(object).is_some() {
            // Its file is that of other objects too.
            return Ok(None);
        }
        let mut unchecked = Vec::new();
        for piece in object.pieces() {
            let state = self.state(piece);
            match state.kind() {
                Kind::Verified => {}
                Kind::Unverified => unchecked.push((piece, state, self.crc(piece))),
                _ => return Ok(None),
            }
        }
        let pin = match gate.pin(object.slot) {
            Some(pin) => pin,
            None => match self.seal_file(&mut gate, object)? {
                Some(pin) => pin,
                None => return Ok(None),
            },
        };
        Ok(Some((pin, unchecked)))
    }

    fn seal_file(&self, gate: &mut Gate, object: Object) -> Result<Option<Arc<Pin>>> {
        let Some(shelf) = self.me.upgrade() else { return Ok(None) };
        // Whoever reads a given file does so by itself, so it is not kept open a second time for those who ask here.
        self.core.files.forget(self.id, object.slot, || {});
        let Some(given) = Given::new() else { return Ok(None) };
        let unable = |error: &std::io::Error| Error::io("lease a file of", &self.core.path, error);
        let opened = self.core.files.open(&self.name, self.key(object.slot), false, true);
        let found = opened.as_ref().ok().and_then(|kept| kept.file.metadata().ok());
        let kept = match (opened, found) {
            (Ok(kept), Some(found)) if found.size() == object.size => kept,
            (Err(error), _) if error != rustix::io::Errno::NOENT => return Err(unable(&error.into())),
            _ => {
                let gone = self.drop_object(gate, object);
                self.lost.lock().extend(gone);
                return Ok(None);
            }
        };
        // The mark is on the inode itself and not in the index: it is there before the first reader is, survives with
        // the file whatever becomes of the index, and a reader can outlive this process but not the kernel that knows it.
        if self.flags(object) & SEALED == 0 {
            rustix::fs::fchmod(&kept.file, SEALED_MODE).map_err(|error| unable(&error.into()))?;
            self.set_flags(object, ON_DISK | SEALED);
        }
        let Some(kept) = Arc::into_inner(kept) else { return Ok(None) };
        let pin = Arc::new(Pin { shelf, file: Arc::new(kept.file), carried: OnceLock::new(), _given: given });
        self.core.unlinked.pinned();
        gate.set_pin(object.slot, &pin);
        Ok(Some(pin))
    }

    /// Checks what was not checked since the start, in the pinned file itself.
    pub(super) fn check_sealed(&self, object: Object, file: &File, unchecked: &[(u32, State, u32)]) -> bool {
        let mut scratch = Vec::new();
        for &(piece, state, crc) in unchecked {
            let index = piece - object.first;
            scratch.resize(piece_len(object.size, index, self.grid) as usize, 0);
            let got = fill(file, &mut scratch, u64::from(index) * u64::from(self.grid));
            if got != Ok(scratch.len()) || crc32c_of(&scratch) != crc {
                self.give_up(object, piece, state);
                return false;
            }
            if let Some(cell) = self.states.get(piece) {
                // Lost against an eviction is as good as won.
                let verified = state.with(Kind::Verified).0;
                let _ = cell.compare_exchange(state.0, verified, Ordering::AcqRel, Ordering::Relaxed);
            }
        }
        true
    }
}
