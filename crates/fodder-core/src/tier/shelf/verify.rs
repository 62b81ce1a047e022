//! Reading again and comparing with checksums: everything, or a range that somebody doubts.

use super::{Object, Shelf, read::Check};
use crate::{config::Medium, id::ObjectSlot, tier::space::piece_len};
use rustix::fs::Advice;
use std::{num::NonZeroU64, ops::Range, sync::atomic::Ordering};

/// What re-reading a shelf found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Checked {
    /// Pieces whose checksum matched.
    pub good: u64,
    /// Pieces whose bytes were wrong or gone. Their objects were dropped.
    pub corrupt: u64,
    /// Bytes that were read.
    pub bytes: u64,
}

impl Shelf {
    /// Re-reads every piece that is here, from the disk and not from memory, and drops what differs. `progress` is called
    /// after each object and says whether to go on.
    pub fn verify(&self, mut progress: impl FnMut(&Checked) -> bool) -> Checked {
        let mut checked = Checked::default();
        let mut scratch = Vec::new();
        for slot in self.objects() {
            let _table = self.table.load();
            let Some(object) = self.object(slot.0) else { continue };
            if self.core.medium != Medium::Mem {
                let epoch = self.epoch(object.slot).load(Ordering::SeqCst);
                if let Ok(source) = self.source(object, epoch, true) {
                    // Only advice: what stays in memory is compared there.
                    let block = self.core.space.block;
                    let start = source.start / block * block;
                    let len = NonZeroU64::new((source.start + object.size - start).next_multiple_of(block));
                    let _ = rustix::fs::fadvise(&source.kept.file, start, len, Advice::DontNeed);
                }
            }
            for piece in object.pieces().filter(|&piece| self.state(piece).present()) {
                match self.compare_piece(object, piece, &mut scratch) {
                    Check::Good => checked.good += 1,
                    Check::Bad(_) => checked.corrupt += 1,
                    Check::Gone | Check::Unable => continue,
                }
                checked.bytes += scratch.len() as u64;
            }
            if !progress(&checked) {
                break;
            }
        }
        checked
    }

    /// Reads the pieces of a range again, as a reader would be given them, and drops the object if one of them differs. Whether
    /// what is here is right.
    pub fn compare(&self, object: ObjectSlot, range: &Range<u64>) -> bool {
        let _table = self.table.load();
        let Some(object) = self.object(object.0).filter(|object| range.end <= object.size && !range.is_empty()) else {
            return true;
        };
        let ((first, last), mut scratch) = (self.ends(object, range), Vec::new());
        (first..=last).all(|piece| !matches!(self.compare_piece(object, piece, &mut scratch), Check::Bad(_)))
    }

    /// Compares one piece with its checksum, and drops its object if it differs.
    fn compare_piece(&self, object: Object, piece: u32, scratch: &mut Vec<u8>) -> Check {
        scratch.resize(piece_len(object.size, piece - object.first, self.grid) as usize, 0);
        let check = self.check_into(object, piece, scratch);
        if let Check::Bad(state) = check {
            self.give_up(object, piece, state);
        }
        check
    }
}
