//! Which pieces on a shelf are guests: copies of what other nodes own. They go before anything that this node owns does.
//!
//! One bit a piece. It knows neither who owns what nor where the bytes are.

use crate::id::PieceId;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The guests of one shelf.
#[derive(Debug, Default)]
pub(super) struct Guests {
    set: Mutex<Set>,
    /// How many there are, to be looked at without the lock.
    count: AtomicUsize,
}

#[derive(Debug, Default)]
struct Set {
    words: Vec<u64>,
    /// The word where the last one to go was.
    hand: usize,
}

impl Guests {
    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Relaxed) == 0
    }

    /// Says whether a piece that is on the shelf is a guest.
    pub(super) fn mark(&self, piece: PieceId, is_guest: bool) {
        if !is_guest && self.is_empty() {
            return;
        }
        let (word, bit) = ((piece.0 / 64) as usize, 1u64 << (piece.0 % 64));
        let mut set = self.set.lock();
        if word >= set.words.len() {
            if !is_guest {
                return;
            }
            set.words.resize(word + 1, 0);
        }
        let was_guest = set.words[word] & bit != 0;
        if is_guest && !was_guest {
            set.words[word] |= bit;
            self.count.fetch_add(1, Relaxed);
        } else if was_guest && !is_guest {
            set.words[word] &= !bit;
            self.count.fetch_sub(1, Relaxed);
        }
    }

    /// The guest that goes next, which from now on is none: round and round, so that each stays about as long.
    pub(super) fn next(&self) -> Option<PieceId> {
        if self.is_empty() {
            return None;
        }
        let mut set = self.set.lock();
        let words = set.words.len();
        let hand = set.hand;
        let found = (0..words).map(|step| (hand + step) % words).find(|word| set.words[*word] != 0)?;
        let bit = set.words[found].trailing_zeros();
        set.words[found] &= !(1 << bit);
        set.hand = found;
        self.count.fetch_sub(1, Relaxed);
        Some(PieceId(found as u32 * 64 + bit))
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.set.lock().words.capacity() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guests_leave_once_each_and_only_guests_do() {
        let guests = Guests::default();
        [3, 64, 700].into_iter().for_each(|piece| guests.mark(PieceId(piece), true));
        guests.mark(PieceId(64), false);
        guests.mark(PieceId(9_999), false);
        guests.mark(PieceId(3), true);
        let mut gone: Vec<_> = std::iter::from_fn(|| guests.next()).map(|piece| piece.0).collect();
        gone.sort_unstable();
        assert_eq!(gone, [3, 700]);
        assert!(guests.is_empty());
    }
}
