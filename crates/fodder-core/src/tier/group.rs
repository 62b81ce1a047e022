//! Group files: objects of at most 4 KiB share a file with others of about their size, because a file of its own costs each of
//! them a block and an inode.
//!
//! A group file is an array of equal cells. A cell holds the key of an object and then its bytes, so that after a crash a cell
//! that was reused is not taken for the object that the index remembers there. Cells are reused, and therefore a group file
//! is never given to another process. What is here knows cells and lengths; the shelf knows what is in them.
//! docs/decisions/0031-group-files.md has the argument.

mod cells;
mod class;

pub(super) use cells::{Cells, Claim, Move};
pub(super) use class::{CLASSES, SizeClass};

use crate::id::FileKey;
use parking_lot::{Mutex, RwLock};
use std::sync::atomic::AtomicU64;

/// Bytes of the key at the beginning of each cell.
pub(super) const KEY_BYTES: u64 = size_of::<FileKey>() as u64;

/// A group file is lengthened by so much at a time, without taking space: file systems that allocate space ahead of an append
/// (XFS) do not do so inside a file.
const STEP_BYTES: u64 = 1 << 20;

/// The cells of one size class.
#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) cells: Mutex<Cells>,
    /// The length of the file. Shared by those who write cells; exclusive for changing it, so that no cell is cut off while it
    /// is written.
    pub(super) length: RwLock<u64>,
    /// Raised when the file is given up, so that nobody keeps the one before open.
    pub(super) generation: AtomicU64,
    /// Held by the one thread that moves cells.
    pub(super) compacting: Mutex<()>,
}

impl Group {
    /// Whether the file is long enough for a cell.
    pub(super) fn has_cell(&self, class: SizeClass, cell: u32) -> bool {
        class.offset(cell) + class.cell_bytes() <= *self.length.read()
    }
}

/// The group files of one dataset in one tier.
#[derive(Debug)]
pub(super) struct Groups {
    by_class: [Group; CLASSES],
    /// Larger objects have files of their own.
    max_bytes: u64,
}

impl Groups {
    pub(super) fn new(max_bytes: u64) -> Self {
        Self { by_class: std::array::from_fn(|_| Group::default()), max_bytes }
    }

    /// The class of an object that is stored in a group file; None for one that has a file of its own.
    #[inline]
    pub(super) fn class_of(&self, size: u64) -> Option<SizeClass> {
        if size > self.max_bytes { None } else { SizeClass::of(size) }
    }

    #[inline]
    pub(super) fn of(&self, class: SizeClass) -> &Group {
        &self.by_class[class.index()]
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.by_class.iter().map(|group| group.cells.lock().memory_bytes()).sum::<usize>() + size_of::<Self>()
    }
}

/// The length to which a file is brought so that it has room for so many bytes.
pub(super) fn lengthened(bytes: u64) -> u64 {
    bytes.next_multiple_of(STEP_BYTES)
}
