//! Arrays that grow without moving: what is kept for each piece and each object of a shelf.
//!
//! Readers index them without a lock while a refresh appends. It knows nothing of what the numbers mean.

use std::sync::OnceLock;

const CHUNK: usize = 1 << 14;
const MIDDLE: usize = 1 << 9;
const TOP: usize = 1 << 9;

type Chunk<T> = OnceLock<Box<[T]>>;
type Middle<T> = OnceLock<Box<[Chunk<T>]>>;

/// Up to 2³² values in chunks that are made when first needed.
#[derive(Debug)]
pub(super) struct Slab<T> {
    top: Box<[Middle<T>]>,
}

impl<T: Default> Slab<T> {
    pub(super) fn new() -> Self {
        Self { top: empty(TOP) }
    }

    /// Makes room for the values 0..len. Those that were there keep their place.
    pub(super) fn grow(&self, len: u32) {
        (0..len).step_by(CHUNK).for_each(|first| _ = self.reach(first));
    }

    /// The value at an index, if [`Slab::grow`] reached it.
    #[inline]
    pub(super) fn get(&self, index: u32) -> Option<&T> {
        let chunk = index as usize / CHUNK;
        let middle = self.top[chunk / MIDDLE].get()?;
        middle[chunk % MIDDLE].get()?.get(index as usize % CHUNK)
    }

    /// The value at an index, for which room is made.
    pub(super) fn reach(&self, index: u32) -> &T {
        let chunk = index as usize / CHUNK;
        let middle = self.top[chunk / MIDDLE].get_or_init(|| empty(MIDDLE));
        let values = middle[chunk % MIDDLE].get_or_init(|| std::iter::repeat_with(T::default).take(CHUNK).collect());
        &values[index as usize % CHUNK]
    }

    /// Bytes it holds in memory.
    pub(super) fn memory_bytes(&self) -> usize {
        let middles = self.top.iter().filter_map(OnceLock::get);
        let chunks = middles.clone().flat_map(|middle| middle.iter()).filter(|chunk| chunk.get().is_some()).count();
        (TOP + middles.count() * MIDDLE) * size_of::<Chunk<T>>() + chunks * CHUNK * size_of::<T>()
    }
}

fn empty<T>(len: usize) -> Box<[OnceLock<T>]> {
    std::iter::repeat_with(OnceLock::new).take(len).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn values_keep_their_place_when_it_grows() {
        let slab: Slab<AtomicU32> = Slab::new();
        slab.grow(10);
        let early = slab.get(9).unwrap();
        early.store(7, Ordering::Relaxed);
        slab.grow(9_000_000);
        assert!(std::ptr::eq(early, slab.get(9).unwrap()));
        slab.get(8_999_999).unwrap().store(8, Ordering::Relaxed);
        assert_eq!(slab.get(9).unwrap().load(Ordering::Relaxed), 7);
        assert!(slab.get(u32::MAX).is_none());
        assert!(slab.memory_bytes() >= 36_000_000);
    }
}
