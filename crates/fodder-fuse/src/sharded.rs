//! Something in many parts, each behind a lock of its own, so that those who need different parts do not wait for each other.
//!
//! Knows nothing of what the parts hold.

use parking_lot::{Mutex, MutexGuard};

/// A power of two, and several times as many as processors that open files at the same moment.
const PARTS: usize = 64;

/// Parts of a whole, found by a number.
#[derive(Debug)]
pub(crate) struct Sharded<T>(Box<[Part<T>]>);

/// On lines of the processor's cache of its own: a lock that is taken should not slow down the one beside it.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Part<T>(Mutex<T>);

impl<T: Default> Default for Sharded<T> {
    fn default() -> Self {
        Self((0..PARTS).map(|_| Part::default()).collect())
    }
}

impl<T> Sharded<T> {
    /// How many parts there are.
    pub(crate) const fn parts() -> usize {
        PARTS
    }

    /// The part that a number belongs to, for as short as possible.
    pub(crate) fn lock(&self, number: u64) -> MutexGuard<'_, T> {
        // Numbers may follow each other, or be hashes: the product spreads both over its upper bits.
        let part = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - PARTS.ilog2());
        self.0[part as usize].0.lock()
    }

    /// A part by its place among all, counted on from the first behind the last.
    pub(crate) fn part(&self, place: usize) -> MutexGuard<'_, T> {
        self.0[place % PARTS].0.lock()
    }

    /// All parts, one after the other: what is in one may change while another is looked at.
    pub(crate) fn each(&self) -> impl Iterator<Item = MutexGuard<'_, T>> {
        self.0.iter().map(|part| part.0.lock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_follow_each_other_are_spread_over_all_parts() {
        let parts = Sharded::<usize>::default();
        (0..PARTS as u64 * 16).for_each(|number| *parts.lock(number) += 1);
        assert_eq!(parts.each().count(), PARTS);
        assert!(parts.each().all(|part| (8..=32).contains(&*part)), "none is empty, none has most of them");
    }

    #[test]
    fn who_holds_one_part_holds_up_nobody_in_another() {
        let parts = Sharded::<Vec<u64>>::default();
        let other = (1..).find(|number| part_of(&parts, *number) != part_of(&parts, 0)).unwrap_or_default();
        let held = parts.lock(0);
        parts.lock(other).push(other);
        drop(held);
        assert_eq!(parts.each().map(|part| part.len()).sum::<usize>(), 1);
    }

    fn part_of(parts: &Sharded<Vec<u64>>, number: u64) -> *const Vec<u64> {
        std::ptr::from_ref(&*parts.lock(number))
    }
}
