//! What was read, as checksums: taken while it is measured, so that these bytes and no others are compared afterwards.

use std::collections::{BTreeMap, btree_map::Entry};

/// Places that are kept, over all readers: of reads of 4 MiB, those of 4 TiB.
const MAX_PLACES: usize = 1 << 20;

/// What a read gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) bytes: u64,
    /// CRC-32C; 0 where nobody will ask for it.
    pub(super) crc: u32,
}

/// What reads gave, by file and offset.
#[derive(Debug)]
pub(super) struct Sums {
    pub(super) places: BTreeMap<(usize, u64), Sum>,
    max_places: usize,
    /// Reads of these places, each time that they were read.
    pub(super) reads: u64,
}

impl Sums {
    /// Those of one of so many readers.
    pub(super) fn new(readers: u32) -> Self {
        Self { places: BTreeMap::new(), max_places: MAX_PLACES / readers as usize, reads: 0 }
    }

    /// Keeps what a read gave, while there is room. False if the same place has given something else before.
    pub(super) fn keep(&mut self, file: usize, offset: u64, sum: Sum) -> bool {
        let full = self.places.len() >= self.max_places;
        match self.places.entry((file, offset)) {
            Entry::Occupied(before) if *before.get() != sum => return false,
            Entry::Vacant(_) if full => return true,
            Entry::Vacant(place) => drop(place.insert(sum)),
            Entry::Occupied(_) => {}
        }
        self.reads += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_gives_something_else_is_noticed_and_no_more_places_are_kept_than_fit() {
        let mut sums = Sums { max_places: 2, ..Sums::new(1) };
        let [one, two] = [1, 2].map(|crc| Sum { bytes: 10, crc });
        assert!(sums.keep(0, 0, one) && sums.keep(0, 0, one) && sums.keep(0, 10, two));
        assert!(!sums.keep(0, 0, two));
        assert!(sums.keep(7, 0, one));
        assert_eq!((sums.places.len(), sums.reads), (2, 3));
    }
}
