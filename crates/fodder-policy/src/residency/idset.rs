//! A set of dense ids in about one bit an id, which knows its least and its greatest member at once.
//!
//! Level 0 has one bit an id; a bit of a higher level says whether the word below it is not zero. Six levels of
//! 64 cover every `u32`, so each operation touches at most six words. It knows nothing of policies.

use super::dense::reserve;

const LEVELS: usize = 6;
const WORD_BITS: u32 = 6;

/// A set of ids.
#[derive(Debug, Default)]
pub(crate) struct IdSet {
    levels: [Vec<u64>; LEVELS],
    len: usize,
}

impl IdSet {
    /// Adds an id; false if it was there.
    pub(crate) fn insert(&mut self, id: u32) -> bool {
        if self.contains(id) {
            return false;
        }
        let mut index = id;
        for level in &mut self.levels {
            let (word, bit) = split(index);
            grow(level, word + 1);
            let was_empty = level[word] == 0;
            level[word] |= bit;
            if !was_empty {
                break;
            }
            index >>= WORD_BITS;
        }
        self.len += 1;
        true
    }

    /// Takes an id out; false if it was not there.
    pub(crate) fn remove(&mut self, id: u32) -> bool {
        if !self.contains(id) {
            return false;
        }
        let mut index = id;
        for level in &mut self.levels {
            let (word, bit) = split(index);
            level[word] &= !bit;
            if level[word] != 0 {
                break;
            }
            index >>= WORD_BITS;
        }
        self.len -= 1;
        true
    }

    /// Whether an id is in it.
    pub(crate) fn contains(&self, id: u32) -> bool {
        let (word, bit) = split(id);
        self.levels[0].get(word).is_some_and(|bits| bits & bit != 0)
    }

    /// The greatest id in it.
    pub(crate) fn last(&self) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        let last = self.levels.iter().rev().fold(0, |word, level| {
            let bits = level[word as usize];
            (word << WORD_BITS) | (u64::BITS - 1 - bits.leading_zeros())
        });
        Some(last)
    }

    /// The least id in it.
    pub(crate) fn first(&self) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        let first = self.levels.iter().rev().fold(0, |word, level| {
            let bits = level[word as usize];
            (word << WORD_BITS) | bits.trailing_zeros()
        });
        Some(first)
    }

    /// How many ids are in it.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes it holds on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.levels.iter().map(|level| level.capacity() * size_of::<u64>()).sum()
    }
}

/// The word an index lies in, and its bit there.
fn split(index: u32) -> (usize, u64) {
    ((index >> WORD_BITS) as usize, 1 << (index % u64::BITS))
}

/// Makes a level at least `len` words long.
fn grow(level: &mut Vec<u64>, len: usize) {
    if len > level.len() {
        reserve(level, len);
        level.resize(len, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::IdSet;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn it_agrees_with_an_ordered_set(steps in prop::collection::vec((any::<bool>(), 0u32..70_000), 1..300)) {
            let (mut set, mut model) = (IdSet::default(), BTreeSet::new());
            for (insert, id) in steps {
                if insert {
                    prop_assert_eq!(set.insert(id), model.insert(id));
                } else {
                    let id = if id % 2 == 0 { model.last().copied().unwrap_or(id) } else { id };
                    prop_assert_eq!(set.remove(id), model.remove(&id));
                }
                prop_assert_eq!(set.last(), model.last().copied());
                prop_assert_eq!(set.first(), model.first().copied());
                prop_assert_eq!(set.len(), model.len());
            }
        }
    }

    #[test]
    fn it_finds_the_last_id_over_every_level() {
        let mut set = IdSet::default();
        for id in [0, 63, 64, 4_096, 1 << 18, 1 << 24, 1 << 28] {
            assert!(set.insert(id));
            assert_eq!(set.last(), Some(id));
        }
        for id in [1 << 28, 1 << 24, 1 << 18, 4_096, 64, 63, 0] {
            assert_eq!(set.last(), Some(id));
            assert!(set.remove(id));
        }
        assert_eq!(set.last(), None);
    }
}
