//! Cache files that a client got from an earlier node, or on a connection that was lost, and still has open.
//!
//! Nothing that the client says is believed: the file it reports must be the one that this shelf has for the object, or look
//! like a sealed cache file of this tier.

use super::{Object, Shelf, lease::Pin};
use crate::{
    Result,
    id::ObjectSlot,
    tier::{
        files::SEALED_MODE,
        state::{Kind, State},
        unlinked::{LinkedFile, UnlinkedFile},
    },
};
use std::{
    fs::{File, Metadata},
    os::unix::fs::MetadataExt,
    path::Path,
    sync::{Arc, atomic::Ordering},
};

/// A cache file that a client reports as open: pinned or charged until dropped.
#[derive(Debug)]
pub struct HeldFile(Holding);

#[derive(Debug)]
enum Holding {
    /// The file that the shelf has for the object.
    Cached { pin: Arc<Pin>, shelf: Arc<Shelf>, object: ObjectSlot },
    /// A file that the shelf does not have, or no longer.
    Unlinked { _file: Arc<UnlinkedFile> },
    /// A file that is in the tier under another name than the client says, or that could not be pinned.
    Linked { _file: Arc<LinkedFile> },
}

/// What a check of a held file against the index found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseCheck {
    /// Every piece matches its checksum.
    Good,
    /// Some piece does not. The object was dropped, and the next lease is of another file.
    Corrupt,
    /// The shelf has no such file any more, so there is nothing to compare it with.
    Unlinked,
}

impl HeldFile {
    /// Whether the file is the one that new leases of its object are of.
    pub fn is_cached(&self) -> bool {
        matches!(&self.0, Holding::Cached { pin, shelf, object } if shelf.pins(*object, pin))
    }

    /// Compares the file with its checksums, as far as that was not done since the start. May wait for the disk.
    pub fn check(&self) -> LeaseCheck {
        match &self.0 {
            Holding::Cached { pin, shelf, object } => shelf.check_pinned(*object, pin),
            Holding::Unlinked { .. } | Holding::Linked { .. } => LeaseCheck::Unlinked,
        }
    }
}

impl Shelf {
    /// Pins the file that a client has open, if it is the one that is here for the object.
    pub fn hold(&self, object: ObjectSlot, found: &Metadata) -> Result<Option<HeldFile>> {
        let _table = self.table.load();
        let Some(known) = self.object(object.0).filter(|known| known.size > 0 && known.size == found.size()) else {
            return Ok(None);
        };
        let here = self.core.files.sealed(&self.name, self.key(known.slot));
        if here.is_none_or(|here| (here.st_dev, here.st_ino) != (found.dev(), found.ino())) {
            return Ok(None);
        }
        let Some((pin, _)) = self.seal(known)? else { return Ok(None) };
        let pinned = pin.file().metadata().is_ok_and(|at| (at.dev(), at.ino()) == (found.dev(), found.ino()));
        let shelf = self.me.upgrade().filter(|_| pinned);
        Ok(shelf.map(|shelf| HeldFile(Holding::Cached { pin, shelf, object })))
    }

    /// Whether a file may be one of this tier's: on its file system, and as this node's user leaves sealed files. `path` is the
    /// kernel's name for it, where several tiers share a file system.
    pub fn may_own(&self, found: &Metadata, path: Option<&Path>) -> bool {
        // A file and not the directory: on overlay file systems their device numbers differ.
        let Ok(own) = self.core.empty.metadata() else { return false };
        let owner = rustix::process::geteuid().as_raw();
        let sealed = found.mode() & 0o7777 == SEALED_MODE.as_raw_mode();
        let inside =
            path.is_none_or(|path| std::fs::canonicalize(&self.core.path).is_ok_and(|at| path.starts_with(at)));
        found.is_file() && sealed && inside && (found.dev(), found.uid()) == (own.dev(), owner) && found.nlink() <= 1
    }

    /// Charges the blocks of a file that a client has open, and that is not here.
    pub fn hold_unlinked(&self, found: &Metadata) -> Option<HeldFile> {
        let shelf = self.me.upgrade()?;
        let bytes = found.blocks().saturating_mul(512);
        let file = self.core.unlinked.report(&self.core, &shelf, found.ino(), bytes);
        Some(HeldFile(Holding::Unlinked { _file: file }))
    }

    /// Keeps a file charged that a client has open and that is linked: it is charged already, and stays charged when it is
    /// unlinked. None if it was unlinked just now, and is not charged for this client.
    pub fn hold_linked(&self, file: &File) -> Option<HeldFile> {
        let inode = file.metadata().ok()?.ino();
        let held = self.core.unlinked.report_linked(&self.core, inode);
        // Looked at behind the report: who unlinks it from now on finds that.
        let is_linked = file.metadata().is_ok_and(|found| found.nlink() > 0);
        (is_linked || held.is_charged()).then_some(HeldFile(Holding::Linked { _file: held }))
    }

    /// Whether a pin is of the file that is here now.
    fn pins(&self, object: ObjectSlot, pin: &Arc<Pin>) -> bool {
        self.gate(object.0).pin(object.0).is_some_and(|now| Arc::ptr_eq(&now, pin))
    }

    fn check_pinned(&self, object: ObjectSlot, pin: &Arc<Pin>) -> LeaseCheck {
        let _table = self.table.load();
        let Some(known) = self.object(object.0) else { return LeaseCheck::Unlinked };
        let Some(unchecked) = self.unchecked(known, pin) else { return LeaseCheck::Unlinked };
        if self.check_sealed(known, pin.file(), &unchecked) { LeaseCheck::Good } else { LeaseCheck::Corrupt }
    }

    /// The pieces that were not checked since the start; None if the pinned file is not here any more.
    fn unchecked(&self, object: Object, pin: &Arc<Pin>) -> Option<Vec<(u32, State, u32)>> {
        let gate = self.gate(object.slot);
        let here = gate.pin(object.slot).is_some_and(|now| Arc::ptr_eq(&now, pin));
        let pieces = object.pieces().map(|piece| (piece, self.state(piece), self.crc(piece)));
        let unchecked = pieces.filter(|(_, state, _)| state.kind() != Kind::Verified).collect();
        let closed = self.closed.load(Ordering::SeqCst);
        (here && !closed).then_some(unchecked)
    }
}
