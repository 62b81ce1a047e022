//! What was brought in on a guess: how much of it lies unread, and how much of it was read in the end.

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// A guess that nobody has read for so long was wrong.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// The most pieces that lie unread at once.
const MAX_PIECES: usize = 1 << 16;

/// Pieces of one dataset that were brought in on a guess and not read yet.
#[derive(Debug)]
pub(super) struct Guesses {
    unread: Mutex<FxHashMap<u32, Guess>>,
    /// How many there are, so that reads pay nothing where nothing was guessed.
    count: AtomicUsize,
    /// The bytes that lie unread, of all datasets of the node, and the most that may.
    bound: Arc<Bound>,
    fetched: AtomicU64,
    used: AtomicU64,
    wasted: AtomicU64,
}

#[derive(Debug)]
struct Guess {
    bytes: u64,
    since: Instant,
}

/// How much may lie unread on a node.
#[derive(Debug)]
pub(super) struct Bound {
    most_bytes: u64,
    unread_bytes: AtomicU64,
}

impl Bound {
    pub(super) fn new(most_bytes: u64) -> Arc<Self> {
        Arc::new(Self { most_bytes, unread_bytes: AtomicU64::new(0) })
    }

    /// The most bytes that may lie unread; 0 means that nothing is guessed.
    pub(super) fn most_bytes(&self) -> u64 {
        self.most_bytes
    }

    /// Whether so many bytes more may be brought in.
    pub(super) fn has_room(&self, bytes: u64) -> bool {
        self.unread_bytes.load(Relaxed) + bytes <= self.most_bytes
    }
}

impl Guesses {
    pub(super) fn new(bound: Arc<Bound>) -> Self {
        let count = |_| AtomicU64::new(0);
        let [fetched, used, wasted] = [0; 3].map(count);
        Self { unread: Mutex::default(), count: AtomicUsize::new(0), bound, fetched, used, wasted }
    }

    /// Whether nothing lies unread.
    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Relaxed) == 0
    }

    /// Whether so many bytes more may be brought in.
    pub(super) fn has_room(&self, bytes: u64) -> bool {
        self.bound.has_room(bytes) && self.count.load(Relaxed) < MAX_PIECES
    }

    /// Pieces are on their way.
    pub(super) fn made(&self, pieces: impl Iterator<Item = (u32, u64)>) {
        let since = Instant::now();
        self.change(|unread| {
            for (piece, bytes) in pieces {
                self.fetched.fetch_add(bytes, Relaxed);
                self.bound.unread_bytes.fetch_add(bytes, Relaxed);
                if let Some(before) = unread.insert(piece, Guess { bytes, since }) {
                    self.settle(before.bytes, &self.wasted);
                }
            }
        });
    }

    /// Pieces were read: whether one of them had been guessed.
    pub(super) fn read(&self, pieces: Range<u32>) -> bool {
        !self.is_empty() && self.end(pieces, &self.used)
    }

    /// Pieces did not come.
    pub(super) fn failed(&self, pieces: Range<u32>) {
        self.end(pieces, &self.wasted);
    }

    /// Gives up what nobody has read in time.
    pub(super) fn expire(&self) {
        self.change(|unread| {
            unread.retain(|_, guess| {
                let stays = guess.since.elapsed() < PATIENCE;
                if !stays {
                    self.settle(guess.bytes, &self.wasted);
                }
                stays
            });
        });
    }

    /// Bytes that were fetched on a guess, read then, and given up unread.
    pub(super) fn totals(&self) -> [u64; 3] {
        [&self.fetched, &self.used, &self.wasted].map(|count| count.load(Relaxed))
    }

    fn end(&self, pieces: Range<u32>, count: &AtomicU64) -> bool {
        self.change(|unread| {
            let mut any = false;
            for guess in pieces.filter_map(|piece| unread.remove(&piece)) {
                self.settle(guess.bytes, count);
                any = true;
            }
            any
        })
    }

    fn settle(&self, bytes: u64, count: &AtomicU64) {
        count.fetch_add(bytes, Relaxed);
        self.bound.unread_bytes.fetch_sub(bytes, Relaxed);
    }

    fn change<T>(&self, change: impl FnOnce(&mut FxHashMap<u32, Guess>) -> T) -> T {
        let mut unread = self.unread.lock();
        let outcome = change(&mut unread);
        self.count.store(unread.len(), Relaxed);
        outcome
    }
}

impl Drop for Guesses {
    /// A dataset that is removed takes its guesses with it.
    fn drop(&mut self) {
        let bytes: u64 = self.unread.get_mut().values().map(|guess| guess.bytes).sum();
        self.bound.unread_bytes.fetch_sub(bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_that_was_fetched_is_used_or_wasted_or_lies_unread() {
        let bound = Bound::new(100);
        let guesses = Guesses::new(Arc::clone(&bound));
        guesses.made((0..5).map(|piece| (piece, 20)));
        assert!(!guesses.has_room(1));
        assert!(guesses.read(1..3));
        assert!(!guesses.read(1..3), "once");
        guesses.failed(3..4);
        assert_eq!(guesses.totals(), [100, 40, 20]);
        assert!(guesses.has_room(60) && !guesses.has_room(61));
        guesses.made([(0, 30)].into_iter());
        assert_eq!(guesses.totals(), [130, 40, 40], "what left unread and came again was wasted once");
        drop(guesses);
        assert!(bound.has_room(100));
    }
}
