//! A set that does not change, and therefore knows ranks: how many members precede one, and which is the n-th.
//!
//! One bit a number, and a count for every 512 of them.

use super::{Bits, WORD, members, split};

/// Words for which one count is kept.
const BLOCK: usize = 8;

/// A set of numbers that does not change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ranked {
    words: Box<[u64]>,
    /// How many members precede each block, and at the end how many there are.
    before: Box<[u32]>,
}

impl Ranked {
    /// What is in a set.
    pub(crate) fn of(bits: &Bits) -> Self {
        Self::new(bits.words.clone())
    }

    /// What is not in a set, below its bound.
    pub(crate) fn absent(bits: &Bits) -> Self {
        let mut words: Box<[u64]> = bits.words.iter().map(|word| !word).collect();
        if let (Some(last), excess @ 1..) = (words.last_mut(), bits.bound % WORD) {
            *last &= (1 << excess) - 1;
        }
        Self::new(words)
    }

    fn new(words: Box<[u64]>) -> Self {
        let mut count = 0;
        let mut before = vec![0];
        before.extend(words.chunks(BLOCK).map(|block| {
            count += block.iter().map(|word| word.count_ones()).sum::<u32>();
            count
        }));
        Self { words, before: before.into() }
    }

    /// How many are in it.
    pub(crate) fn count(&self) -> u32 {
        self.before.last().copied().unwrap_or_default()
    }

    /// Whether a number is in it.
    pub(crate) fn contains(&self, number: u32) -> bool {
        let (word, bit) = split(number);
        self.words.get(word).is_some_and(|bits| bits & bit != 0)
    }

    /// How many members are less than a member; None if the number is none.
    pub(crate) fn rank(&self, number: u32) -> Option<u32> {
        let (word, bit) = split(number);
        let bits = self.words.get(word).filter(|&bits| bits & bit != 0)?;
        let block = word / BLOCK;
        let words = self.words[block * BLOCK..word].iter().map(|word| word.count_ones()).sum::<u32>();
        Some(self.before[block] + words + (bits & (bit - 1)).count_ones())
    }

    /// The member with so many less than it; None if there are fewer.
    pub(crate) fn select(&self, rank: u32) -> Option<u32> {
        if rank >= self.count() {
            return None;
        }
        let block = self.before.partition_point(|&before| before <= rank) - 1;
        let mut left = rank - self.before[block];
        let mut word = block * BLOCK;
        while self.words[word].count_ones() <= left {
            left -= self.words[word].count_ones();
            word += 1;
        }
        let bits = (0..left).fold(self.words[word], |bits, _| bits & (bits - 1));
        Some(word as u32 * WORD + bits.trailing_zeros())
    }

    /// The members, least first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        members(self.words.iter().copied())
    }

    /// Bytes it holds on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.words) + size_of_val(&*self.before)
    }
}
