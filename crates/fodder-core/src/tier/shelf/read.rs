//! Reading from a shelf: the warm path without locks, and the first check of a piece after a start.

use super::{Object, Shelf, crc32c_of};
use crate::{
    id::ObjectSlot,
    tier::{
        files::Kept,
        group::KEY_BYTES,
        space::piece_len,
        state::{Kind, State},
    },
};
use rustix::io::{Errno, ReadWriteFlags};
use std::{
    fs::File,
    io::IoSliceMut,
    ops::Range,
    os::unix::fs::FileExt,
    sync::{
        Arc,
        atomic::{Ordering, fence},
    },
};

/// Evictions that hit the same reader so often in a row do not happen; a miss is right in any case.
const ATTEMPTS: usize = 64;

/// How a read of a shelf ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShelfRead {
    /// The buffer is filled with checked bytes.
    Done,
    /// The pages are not in memory (or must be checked first): ask again from a thread that may wait.
    WouldBlock,
    /// Something of the range is not here (any more).
    Missing,
    /// The bytes did not match, the file vanished or the disk failed: the whole object was dropped, and
    /// [`Shelf::drain_lost`] names its pieces.
    Corrupt,
}

/// The bytes of an object in a file: all of it, or a cell of a group file.
pub(super) struct FileRange {
    pub(super) kept: Arc<Kept>,
    pub(super) start: u64,
}

/// What the pieces of a range say.
pub(super) enum Ready {
    /// All here and checked; the state of the first.
    Yes(State),
    /// Here, but this one must be checked first.
    Unchecked(u32),
    No,
}

/// How the check of one piece ended.
pub(super) enum Check {
    Good,
    /// It left meanwhile.
    Gone,
    /// The bytes are wrong, or cannot be had.
    Bad(State),
    /// The disk was not asked: too many open files, or the like.
    Unable,
}

impl Shelf {
    /// Reads `buf.len()` bytes of an object from `offset`. With `wait` false it never blocks on a disk.
    pub fn read(&self, object: ObjectSlot, offset: u64, buf: &mut [u8], wait: bool) -> ShelfRead {
        let _table = self.table.load();
        let Some(object) = self.object(object.0) else { return ShelfRead::Missing };
        let Some(end) = offset.checked_add(buf.len() as u64).filter(|&end| end <= object.size) else {
            return ShelfRead::Missing;
        };
        if buf.is_empty() {
            return ShelfRead::Done;
        }
        let (first, last) = self.ends(object, &(offset..end));
        for _ in 0..ATTEMPTS {
            let epoch = self.epoch(object.slot).load(Ordering::SeqCst);
            let state = match self.ready(first, last) {
                Ready::Yes(state) => state,
                Ready::No => return ShelfRead::Missing,
                Ready::Unchecked(_) if !wait => return ShelfRead::WouldBlock,
                Ready::Unchecked(piece) => match self.check(object, piece, offset, buf) {
                    Check::Good | Check::Gone => continue,
                    Check::Bad(state) => return self.give_up(object, piece, state),
                    Check::Unable => return ShelfRead::Missing,
                },
            };
            let got = self
                .source(object, epoch, wait)
                .and_then(|source| self.pread(&source.kept.file, buf, source.start + offset, wait));
            // The bytes were taken before the epoch is looked at again.
            fence(Ordering::SeqCst);
            if self.epoch(object.slot).load(Ordering::SeqCst) != epoch {
                continue;
            }
            if self.closed() {
                return ShelfRead::Missing;
            }
            return match got {
                Ok(count) if count == buf.len() => ShelfRead::Done,
                _ if !wait => ShelfRead::WouldBlock,
                Err(error) if !damning(error) => ShelfRead::Missing,
                _ => self.give_up(object, first, state),
            };
        }
        ShelfRead::Missing
    }

    /// Where the bytes of an object that is here can be read.
    #[inline]
    pub(super) fn source(&self, object: Object, epoch: u64, wait: bool) -> Result<FileRange, Errno> {
        match self.class_of(object) {
            None => Ok(FileRange { kept: self.file(object.slot, epoch, wait)?, start: 0 }),
            Some(class) => {
                let start = class.offset(self.cell(object)) + KEY_BYTES;
                Ok(FileRange { kept: self.group_file(class, wait)?, start })
            }
        }
    }

    /// Whether a cell holds the object for which it is remembered, and not one that came later or was there before.
    fn is_in_cell(&self, object: Object, source: &FileRange) -> bool {
        let mut key = [0; KEY_BYTES as usize];
        self.class_of(object).is_none()
            || fill(&source.kept.file, &mut key, source.start - KEY_BYTES) == Ok(key.len())
                && key == self.key(object.slot).0
    }

    /// The first and the last piece that a range touches.
    #[inline]
    pub(super) fn ends(&self, object: Object, range: &Range<u64>) -> (u32, u32) {
        let grid = u64::from(self.grid);
        (object.first + (range.start / grid) as u32, object.first + ((range.end - 1) / grid) as u32)
    }

    /// How the pieces of a range stand.
    pub(super) fn ready_in(&self, object: Object, range: &Range<u64>) -> Ready {
        let (first, last) = self.ends(object, range);
        self.ready(first, last)
    }

    #[inline]
    fn ready(&self, first: u32, last: u32) -> Ready {
        let state = self.state(first);
        let (mut unchecked, mut at) = (None, state);
        for piece in first..=last {
            if piece != first {
                at = self.state(piece);
            }
            if !at.present() {
                return Ready::No;
            }
            if !at.verified() && unchecked.is_none() {
                unchecked = Some(piece);
            }
        }
        unchecked.map_or(Ready::Yes(state), Ready::Unchecked)
    }

    #[inline]
    fn pread(&self, file: &File, buf: &mut [u8], offset: u64, wait: bool) -> Result<usize, Errno> {
        if !wait && !self.core.no_nowait.load(Ordering::Relaxed) {
            match rustix::io::preadv2(file, &mut [IoSliceMut::new(buf)], offset, ReadWriteFlags::NOWAIT) {
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
                    self.core.no_nowait.store(true, Ordering::Relaxed)
                }
                other => return other,
            }
        }
        if !wait && !self.core.in_memory {
            return Err(Errno::AGAIN);
        }
        fill(file, buf, offset)
    }

    /// Drops an object whose bytes are lost, unless it left or came anew meanwhile.
    pub(super) fn give_up(&self, object: Object, piece: u32, state: State) -> ShelfRead {
        let _changing = self.changing.read();
        if self.closed() {
            return ShelfRead::Missing;
        }
        let mut gate = self.gate(object.slot);
        if self.state(piece).still(state) {
            let key = self.key(object.slot);
            if self.class_of(object).is_some() && state.kind() == Kind::Unverified {
                tracing::debug!(dataset = self.name, %key, "the cell of a small object was reused before a crash");
            } else {
                tracing::warn!(dataset = self.name, %key, "cached bytes are damaged or gone: dropping the object");
            }
            let gone = self.drop_object(&mut gate, object);
            self.lost.lock().extend(gone);
        }
        drop(gate);
        if let Some(class) = self.class_of(object) {
            self.compact(class);
        }
        ShelfRead::Corrupt
    }

    /// Compares a piece with its checksum, in the reader's own buffer where that covers it.
    fn check(&self, object: Object, piece: u32, offset: u64, buf: &mut [u8]) -> Check {
        let start = u64::from(piece - object.first) * u64::from(self.grid);
        let len = piece_len(object.size, piece - object.first, self.grid);
        if start >= offset && start + len <= offset + buf.len() as u64 {
            let at = (start - offset) as usize;
            return self.check_into(object, piece, &mut buf[at..at + len as usize]);
        }
        self.check_into(object, piece, &mut vec![0; len as usize])
    }

    /// Reads a whole piece and compares it with its checksum; `scratch` is as long as the piece.
    pub(super) fn check_into(&self, object: Object, piece: u32, scratch: &mut [u8]) -> Check {
        let epoch = self.epoch(object.slot).load(Ordering::SeqCst);
        let state = self.state(piece);
        if !state.present() {
            return Check::Gone;
        }
        let crc = self.crc(piece);
        let start = u64::from(piece - object.first) * u64::from(self.grid);
        let got = self.source(object, epoch, true).and_then(|source| match self.is_in_cell(object, &source) {
            true => fill(&source.kept.file, scratch, source.start + start),
            false => Ok(0),
        });
        fence(Ordering::SeqCst);
        if self.epoch(object.slot).load(Ordering::SeqCst) != epoch || !self.state(piece).still(state) {
            return Check::Gone;
        }
        match got {
            Ok(count) if count == scratch.len() && crc32c_of(scratch) == crc => {
                let verified = state.with(Kind::Verified).0;
                if let Some(cell) = self.states.get(piece) {
                    // Lost against an eviction is as good as won.
                    let _ = cell.compare_exchange(state.0, verified, Ordering::AcqRel, Ordering::Relaxed);
                }
                Check::Good
            }
            Err(error) if !damning(error) => Check::Unable,
            _ => Check::Bad(state),
        }
    }
}

/// Whether an error means that the bytes are lost, and not that this process cannot have them now.
fn damning(error: Errno) -> bool {
    matches!(
        error,
        Errno::NOENT | Errno::IO | Errno::NODATA | Errno::ILSEQ | Errno::UCLEAN | Errno::ISDIR | Errno::LOOP
    )
}

/// Reads until the buffer is full or the file ends.
pub(super) fn fill(file: &File, buf: &mut [u8], offset: u64) -> Result<usize, Errno> {
    let mut done = 0;
    while done < buf.len() {
        match file.read_at(&mut buf[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
        }
    }
    Ok(done)
}
