//! What of a plan is still to be given out: all of it at first, and after a resume what had not been consumed.

use crate::bits::{Bits, Ranked};
use std::sync::Arc;

/// Positions of a plan in ascending order. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rest(Left);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Left {
    /// Every position from one on.
    From { start: u32, end: u32 },
    /// These positions: a bit each.
    Scattered(Arc<Ranked>),
}

impl Rest {
    /// All positions of a plan of this length.
    pub fn whole(len: u32) -> Self {
        Self(Left::From { start: 0, end: len })
    }

    /// The positions that are not among these.
    pub(crate) fn without(taken: &Bits) -> Self {
        let start = taken.first_absent(0);
        if start == taken.count() {
            return Self(Left::From { start, end: taken.bound() });
        }
        Self(Left::Scattered(Arc::new(Ranked::absent(taken))))
    }

    /// How many are left.
    pub fn len(&self) -> u32 {
        match &self.0 {
            Left::From { start, end } => end - start,
            Left::Scattered(left) => left.count(),
        }
    }

    /// Whether none is left.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The position that is left with so many left before it.
    pub fn at(&self, index: u32) -> Option<u32> {
        match &self.0 {
            Left::From { start, end } => start.checked_add(index).filter(|position| position < end),
            Left::Scattered(left) => left.select(index),
        }
    }

    /// How many are left before a position; None if it is not left itself.
    pub fn index_of(&self, position: u32) -> Option<u32> {
        match &self.0 {
            Left::From { start, end } => position.checked_sub(*start).filter(|_| position < *end),
            Left::Scattered(left) => left.rank(position),
        }
    }

    /// The positions, in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let (range, scattered) = match &self.0 {
            Left::From { start, end } => (*start..*end, None),
            Left::Scattered(left) => (0..0, Some(left.iter())),
        };
        range.chain(scattered.into_iter().flatten())
    }

    /// Bytes it holds on the heap.
    pub fn heap_bytes(&self) -> usize {
        match &self.0 {
            Left::From { .. } => 0,
            Left::Scattered(left) => size_of::<Ranked>() + left.heap_bytes(),
        }
    }
}
