//! `s3fifo`: newcomers wait in a small queue and pass into the main one if they are hit more than once; those who
//! leave the small queue are remembered for a while, and go to the main one if they come back (Yang et al., SOSP '23). Keeps what is used
//! once away from what is used often; an epoch uses everything once.
//!
//! Two linked lists and a word: 12 bytes an id. The memory of those who left costs nothing: their links are free
//! for the number of their leaving. A victim is found in O(1) amortised, since each step takes back one hit.

use super::{
    Pressure, Residency,
    dense::Dense,
    list::{Links, List},
};

/// The small queue gives way while it holds more than one part in this many of the resident bytes.
const SMALL_PART: u64 = 10;

/// Hits it takes to pass from the small queue into the main one.
const PROMOTED_AT: u32 = 2;

/// Where an id is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Out,
    Small,
    Main,
    /// Left the small queue; its note says when.
    Ghost,
    /// Asked for while it was remembered.
    Recalled,
}

/// What is known of an id, in a word: its place (3 bits), its hits (2 bits) and its bytes (27 bits, a bound that no piece reaches).
#[derive(Debug, Clone, Copy)]
struct Word(u32);

impl Word {
    const OUT: Self = Self::new(Place::Out, 0);
    const MOST_HITS: u32 = 3;

    const fn new(place: Place, bytes: u32) -> Self {
        let most = u32::MAX >> 5;
        Self(place as u32 | if bytes < most { bytes } else { most } << 5)
    }

    fn place(self) -> Place {
        match self.0 & 7 {
            1 => Place::Small,
            2 => Place::Main,
            3 => Place::Ghost,
            4 => Place::Recalled,
            _ => Place::Out,
        }
    }

    fn hits(self) -> u32 {
        self.0 >> 3 & 3
    }

    fn bytes(self) -> u32 {
        self.0 >> 5
    }

    fn with_hits(self, hits: u32) -> Self {
        Self(self.0 & !(3 << 3) | hits.min(Self::MOST_HITS) << 3)
    }
}

/// One of the queues.
#[derive(Debug, Default)]
struct Queue {
    /// By arrival.
    members: List,
    bytes: u64,
}

/// The state of `s3fifo`.
#[derive(Debug, Default)]
pub struct S3Fifo {
    links: Links,
    words: Dense<Word>,
    small: Queue,
    main: Queue,
    /// How many have left the small queue, modulo 2^32.
    left: u32,
    len: usize,
}

impl S3Fifo {
    fn word(&self, id: u32) -> Word {
        self.words.get(id).unwrap_or(Word::OUT)
    }

    fn set_word(&mut self, id: u32, word: Word) {
        *self.words.entry(id, Word::OUT) = word;
    }

    fn enter(&mut self, place: Place, id: u32, bytes: u32) {
        let word = Word::new(place, bytes);
        let queue = if place == Place::Main { &mut self.main } else { &mut self.small };
        queue.bytes += u64::from(word.bytes());
        self.links.push_newest(&mut queue.members, id);
        self.set_word(id, word);
    }

    fn leave(&mut self, id: u32) {
        let word = self.word(id);
        let queue = if word.place() == Place::Main { &mut self.main } else { &mut self.small };
        queue.bytes -= u64::from(word.bytes());
        self.links.unlink(&mut queue.members, id);
        self.set_word(id, Word::OUT);
    }

    /// Whether an id left the small queue so short a time ago that it is remembered: as many are as the main queue
    /// would hold.
    fn is_remembered(&self, id: u32) -> bool {
        let since = || self.left.wrapping_sub(self.links.note(id)) as usize;
        self.word(id).place() == Place::Ghost && since() < self.len - self.len.div_ceil(SMALL_PART as usize)
    }
}

impl Residency for S3Fifo {
    fn hit(&mut self, id: u32) {
        let word = self.word(id);
        if matches!(word.place(), Place::Small | Place::Main) {
            self.set_word(id, word.with_hits(word.hits() + 1));
        }
    }

    fn admit(&mut self, id: u32, _bytes: u32, _room: bool) -> bool {
        // What makes room for it would push it out of memory before it is here.
        if self.is_remembered(id) {
            self.set_word(id, Word::new(Place::Recalled, 0));
        }
        true
    }

    /// Moves on those who earned it until the one who is next did not.
    fn victim(&mut self, _pressure: Pressure) -> Option<u32> {
        loop {
            let small_first = self.small.bytes * SMALL_PART > self.small.bytes + self.main.bytes;
            let next_small = self.small.members.first().filter(|_| small_first || self.main.members.is_empty());
            let id = next_small.or_else(|| self.main.members.first())?;
            let word = self.word(id);
            match word.place() {
                Place::Small if word.hits() >= PROMOTED_AT => {
                    self.leave(id);
                    self.enter(Place::Main, id, word.bytes());
                }
                Place::Main if word.hits() > 0 => {
                    self.set_word(id, word.with_hits(word.hits() - 1));
                    self.links.renew(&mut self.main.members, id);
                }
                _ => return Some(id),
            }
        }
    }

    fn inserted(&mut self, id: u32, bytes: u32) {
        if !self.links.contains(id) {
            let recalled = self.word(id).place() == Place::Recalled || self.is_remembered(id);
            self.enter(if recalled { Place::Main } else { Place::Small }, id, bytes);
            self.len += 1;
        }
    }

    fn removed(&mut self, id: u32) {
        if self.links.contains(id) {
            let from = self.word(id).place();
            self.leave(id);
            self.len -= 1;
            if from == Place::Small {
                self.left = self.left.wrapping_add(1);
                self.links.set_note(id, self.left);
                self.set_word(id, Word::new(Place::Ghost, 0));
            }
        }
    }

    fn len(&self) -> usize {
        self.len
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.links.heap_bytes() + self.words.heap_bytes()
    }
}

#[cfg(test)]
mod tests;
