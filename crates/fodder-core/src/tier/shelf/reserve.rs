//! Setting space aside for a piece before its bytes are there: bytes and inodes of the tier, or a cell of a group file.

use super::{ON_DISK, Object, Shelf, group::ReservedCell};
use crate::{
    id::{ObjectSlot, PieceId},
    tier::space::{self, Grant, Space},
};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

/// Space set aside in a tier for one piece, given back when dropped unused.
#[derive(Debug)]
pub struct Reservation {
    pub(super) space: Grant,
    /// For a small object. Its space is charged already.
    pub(super) cell: Option<ReservedCell>,
}

impl Reservation {
    /// How many bytes of it are left.
    pub fn bytes(&self) -> u64 {
        self.space.bytes()
    }

    /// Whether all of it is charged already.
    pub fn is_charged(&self) -> bool {
        self.cell.is_some()
    }

    pub(super) fn of(&self, space: &Arc<Space>) -> bool {
        self.space.of(space)
    }
}

impl Shelf {
    /// Blocks on disk that a piece may cost: its own, and its file's name and directories.
    pub fn cost(&self, piece: PieceId) -> u64 {
        let directories = if self.directories.load(Ordering::Relaxed) < 257 { 2 * space::DIRECTORY_BYTES } else { 0 };
        self.charge(piece) + space::NAME_BYTES + directories
    }

    /// Blocks on disk that a piece is charged to this dataset at most. For a small object, by how much its group file grows.
    pub fn charge(&self, piece: PieceId) -> u64 {
        let Some(object) = self.object_of(piece.0) else { return 0 };
        match self.class_of(object) {
            Some(class) => self.group_growth(class),
            None => self.file_charge(object, piece),
        }
    }

    /// What evicting a piece frees, now or as soon as others leave too.
    pub fn footprint(&self, piece: PieceId) -> u64 {
        let Some(object) = self.object_of(piece.0) else { return 0 };
        self.class_of(object).map_or_else(|| self.file_charge(object, piece), |class| class.cell_bytes())
    }

    /// Whether a piece is all of a small object.
    pub fn is_small(&self, piece: PieceId) -> bool {
        self.object_of(piece.0).is_some_and(|object| self.class_of(object).is_some())
    }

    /// Bytes of an object's cell, if it is stored in a group file: they are free at once for others of its size, and for all as
    /// soon as enough have left.
    pub fn cell_bytes(&self, object: ObjectSlot) -> Option<u64> {
        self.object(object.0).and_then(|object| self.class_of(object)).map(|class| class.cell_bytes())
    }

    fn file_charge(&self, object: Object, piece: PieceId) -> u64 {
        let block = self.core.space.block;
        space::piece_bytes(object.size, piece.0 - object.first, self.grid, block)
            + space::file_bytes(object.size, block)
    }

    /// Sets space aside; None if the quota, the disk's floor of free space or its health does not allow it now.
    pub fn reserve(&self, bytes: u64) -> Option<Reservation> {
        let space = self.grant(bytes, 0)?;
        Some(Reservation { space, cell: None })
    }

    /// Reserves what a piece may cost, with the inodes of its file and directories if they may have to be created.
    pub fn reserve_for(&self, piece: PieceId) -> Option<Reservation> {
        let object = self.object_of(piece.0)?;
        if let Some(class) = self.class_of(object) {
            return self.reserve_small(class);
        }
        let space = self.grant(self.cost(piece), self.inodes_for(object))?;
        Some(Reservation { space, cell: None })
    }

    pub(super) fn grant(&self, bytes: u64, inodes: u64) -> Option<Grant> {
        let open = !self.closed.load(Ordering::Relaxed);
        let grant = if open { self.core.space.reserve(bytes, inodes) } else { None };
        grant.filter(|_| self.core.pulse.may_write(Instant::now()))
    }

    /// Inodes that writing a piece of an object may take.
    fn inodes_for(&self, object: Object) -> u64 {
        let new_directories = self.directories.load(Ordering::Relaxed) < 257;
        match self.flags(object) & ON_DISK {
            0 if new_directories => space::FILE_INODES,
            0 => 1,
            _ => 0,
        }
    }
}
