//! Flat sets of numbers below a fixed bound, in one bit each.
//!
//! [`Bits`] changes; [`Ranked`] does not, and in return knows how many members precede one and which is the n-th. They
//! know nothing of what the numbers mean.

mod ranked;

pub(crate) use ranked::Ranked;

const WORD: u32 = u64::BITS;

/// A set of numbers below a bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bits {
    words: Box<[u64]>,
    bound: u32,
    count: u32,
}

impl Bits {
    /// No number below `bound` is in it.
    pub(crate) fn new(bound: u32) -> Self {
        Self { words: vec![0; bound.div_ceil(WORD) as usize].into(), bound, count: 0 }
    }

    /// What may be in it is below this.
    pub(crate) fn bound(&self) -> u32 {
        self.bound
    }

    /// How many are in it.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Whether a number is in it.
    pub(crate) fn contains(&self, number: u32) -> bool {
        let (word, bit) = split(number);
        self.words.get(word).is_some_and(|bits| bits & bit != 0)
    }

    /// Adds a number; false if it was there, or is not below the bound.
    pub(crate) fn insert(&mut self, number: u32) -> bool {
        if number >= self.bound {
            return false;
        }
        let (word, bit) = split(number);
        let added = self.words[word] & bit == 0;
        self.words[word] |= bit;
        self.count += u32::from(added);
        added
    }

    /// Takes a number out; false if it was not there.
    pub(crate) fn remove(&mut self, number: u32) -> bool {
        let was = self.contains(number);
        if was {
            let (word, bit) = split(number);
            self.words[word] &= !bit;
            self.count -= 1;
        }
        was
    }

    /// Adds every number of a range, which lies below the bound.
    pub(crate) fn insert_range(&mut self, range: std::ops::Range<u32>) {
        let (mut at, end) = (range.start, range.end.min(self.bound));
        while at < end {
            let (word, first) = split(at);
            let next = (at / WORD + 1).saturating_mul(WORD).min(end);
            let upto = if next % WORD == 0 { 0 } else { 1u64 << (next % WORD) };
            let mask = upto.wrapping_sub(first);
            self.count += (mask & !self.words[word]).count_ones();
            self.words[word] |= mask;
            at = next;
        }
    }

    /// Adds 64 numbers at once: those whose bits are set in the word of this index. None if one is not below the bound.
    pub(crate) fn insert_word(&mut self, index: u32, word: u64) -> Option<()> {
        let room = self.bound.saturating_sub(index.checked_mul(WORD)?).min(WORD);
        if room < WORD && word >> room != 0 {
            return None;
        }
        let mine = self.words.get_mut(index as usize)?;
        self.count += (word & !*mine).count_ones();
        *mine |= word;
        Some(())
    }

    /// Adds every member of another set of the same bound; how many of them were in both.
    pub(crate) fn union(&mut self, other: &Self) -> u32 {
        debug_assert_eq!(self.bound, other.bound);
        let mut both = 0;
        for (mine, theirs) in self.words.iter_mut().zip(&other.words) {
            both += (*mine & theirs).count_ones();
            *mine |= theirs;
        }
        self.count += other.count - both;
        both
    }

    /// The members of another set of the same bound that are not in this one, least first.
    pub(crate) fn missing(&self, other: &Self) -> Vec<u32> {
        let words = self.words.iter().zip(&other.words).map(|(mine, theirs)| theirs & !mine);
        members(words).collect()
    }

    /// How many members are not below a number.
    pub(crate) fn count_from(&self, start: u32) -> u32 {
        if start >= self.bound {
            return 0;
        }
        let (first, bit) = split(start);
        let rest = self.words[first + 1..].iter().map(|word| word.count_ones()).sum::<u32>();
        (self.words[first] & bit.wrapping_neg()).count_ones() + rest
    }

    /// The members, least first.
    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        members(self.words.iter().copied())
    }

    /// The first number from `start` that is not in it, at most the bound.
    pub(crate) fn first_absent(&self, start: u32) -> u32 {
        self.seek(start, |bits| !bits)
    }

    /// The first number from `start` that is in it, or the bound.
    pub(crate) fn first_present(&self, start: u32) -> u32 {
        self.seek(start, |bits| bits)
    }

    /// The first number from `start` whose bit is set once words are looked at through `view`.
    fn seek(&self, start: u32, view: impl Fn(u64) -> u64) -> u32 {
        if start >= self.bound {
            return self.bound;
        }
        let (first, bit) = split(start);
        // Bits below `start` count as not set.
        let mut bits = view(self.words[first]) & bit.wrapping_neg();
        let mut word = first;
        while bits == 0 {
            word += 1;
            match self.words.get(word) {
                Some(&next) => bits = view(next),
                None => return self.bound,
            }
        }
        (word as u32 * WORD + bits.trailing_zeros()).min(self.bound)
    }

    /// The words, 64 numbers each, least first. Bits from the bound on are zero.
    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }

    /// Bytes it holds on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.words)
    }
}

/// The word a number lies in, and its bit there.
fn split(number: u32) -> (usize, u64) {
    ((number / WORD) as usize, 1 << (number % WORD))
}

/// The numbers whose bits are set, least first.
fn members(words: impl Iterator<Item = u64>) -> impl Iterator<Item = u32> {
    words.zip((0u32..).step_by(WORD as usize)).flat_map(|(word, base)| {
        let set = |bits: u64| (bits != 0).then_some(bits);
        std::iter::successors(set(word), move |bits| set(bits & (bits - 1)))
            .map(move |bits| base + bits.trailing_zeros())
    })
}

#[cfg(test)]
mod tests;
