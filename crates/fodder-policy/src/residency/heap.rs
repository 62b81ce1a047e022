//! A heap of ids by key, which knows where each id is: the least key at once, any key changed in O(log n).
//!
//! 4 bytes an id, and for each member its key and 4 bytes. Equal keys are ordered by `scattered` ids, so that what a policy
//! does depends on nothing but what it was told. It knows nothing of policies.

use super::dense::{Dense, reserve};
use std::cmp::Ordering;

/// Children of one entry. Four touch as many cache lines as two, and make the heap half as deep.
const ARITY: usize = 4;

/// The order among ids of equal keys. Neighbours are far apart in it: ids are sorted by class, and a cache that favours low
/// ones would hold more of some classes than of others, which a job that takes cached items first would train on first.
pub(super) fn scattered(id: u32) -> u32 {
    // An odd factor, 2^32 over the golden ratio: no two products are equal, and any run of them is spread evenly.
    id.wrapping_mul(0x9e37_79b1)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry<K> {
    key: K,
    id: u32,
}

impl<K: Ord> Ord for Entry<K> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key).then_with(|| scattered(self.id).cmp(&scattered(other.id)))
    }
}

impl<K: Ord> PartialOrd for Entry<K> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A heap whose first member has the least key.
#[derive(Debug)]
pub(super) struct Heap<K> {
    entries: Vec<Entry<K>>,
    /// By id, one more than its place among the entries; 0 for those that are not in it.
    places: Dense<u32>,
}

impl<K> Default for Heap<K> {
    fn default() -> Self {
        Self { entries: Vec::new(), places: Dense::default() }
    }
}

impl<K: Copy + Ord> Heap<K> {
    /// How many ids are in it.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nobody is in it.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether an id is in it.
    pub(super) fn contains(&self, id: u32) -> bool {
        self.place(id).is_some()
    }

    /// Every id in it is below this.
    pub(super) fn end(&self) -> u32 {
        self.places.len()
    }

    /// The least key and whose it is.
    pub(super) fn first(&self) -> Option<(K, u32)> {
        self.entries.first().map(|entry| (entry.key, entry.id))
    }

    /// The key of an id.
    pub(super) fn key(&self, id: u32) -> Option<K> {
        self.place(id).map(|place| self.entries[place].key)
    }

    /// Puts an id in, or gives it another key.
    pub(super) fn set(&mut self, id: u32, key: K) {
        let place = self.place(id).unwrap_or_else(|| {
            let place = self.entries.len();
            reserve(&mut self.entries, place + 1);
            self.entries.push(Entry { key, id });
            *self.places.entry(id, 0) = place as u32 + 1;
            place
        });
        self.entries[place].key = key;
        self.restore(place);
    }

    /// Takes an id out, and gives its key.
    pub(super) fn remove(&mut self, id: u32) -> Option<K> {
        let place = self.place(id)?;
        let gone = self.entries.swap_remove(place);
        self.note_place(id, 0);
        if place < self.entries.len() {
            self.restore(place);
        }
        Some(gone.key)
    }

    /// Bytes it holds on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry<K>>() + self.places.heap_bytes()
    }

    fn place(&self, id: u32) -> Option<usize> {
        (self.places.get(id)? as usize).checked_sub(1)
    }

    fn note_place(&mut self, id: u32, place: u32) {
        *self.places.get_mut(id).expect("whoever was put in has a place") = place;
    }

    /// Writes an entry to its place.
    fn put(&mut self, place: usize, entry: Entry<K>) {
        self.entries[place] = entry;
        self.note_place(entry.id, place as u32 + 1);
    }

    /// Moves the entry at `place`, the only one that may be out of order, to where it belongs.
    fn restore(&mut self, place: usize) {
        let entry = self.entries[place];
        let mut place = place;
        while place > 0 && entry < self.entries[(place - 1) / ARITY] {
            self.put(place, self.entries[(place - 1) / ARITY]);
            place = (place - 1) / ARITY;
        }
        while let Some(child) = self.least_child(place).filter(|&child| self.entries[child] < entry) {
            self.put(place, self.entries[child]);
            place = child;
        }
        self.put(place, entry);
    }

    fn least_child(&self, place: usize) -> Option<usize> {
        let first = place * ARITY + 1;
        (first..(first + ARITY).min(self.entries.len())).min_by_key(|&child| self.entries[child])
    }
}

#[cfg(test)]
mod tests {
    use super::{Heap, scattered};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn first(model: &BTreeMap<u32, u8>) -> Option<(u8, u32)> {
        model.iter().map(|(&id, &key)| (key, id)).min_by_key(|&(key, id)| (key, scattered(id)))
    }

    #[test]
    fn equal_keys_leave_from_all_over_the_ids() {
        let mut heap = Heap::default();
        (0..1000).for_each(|id| heap.set(id, 0));
        let mut gone = [0; 10];
        for _ in 0..200 {
            let (_, id) = heap.first().unwrap();
            gone[id as usize / 100] += 1;
            heap.remove(id);
        }
        assert!(gone.iter().all(|tenth| (15..=25).contains(tenth)), "{gone:?}");
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_sorted_map(steps in prop::collection::vec((0u32..60, prop::option::of(0u8..9)), 1..400)) {
            let (mut heap, mut model) = (Heap::default(), BTreeMap::new());
            for (id, key) in steps {
                match key {
                    Some(key) => {
                        heap.set(id, key);
                        model.insert(id, key);
                    }
                    None => prop_assert_eq!(heap.remove(id), model.remove(&id)),
                }
                prop_assert_eq!(heap.first(), first(&model));
                prop_assert_eq!((heap.len(), heap.is_empty()), (model.len(), model.is_empty()));
                for id in 0..70 {
                    prop_assert_eq!(heap.key(id), model.get(&id).copied());
                    prop_assert!(id < heap.end() || !heap.contains(id));
                }
            }
            while let Some((key, id)) = heap.first() {
                prop_assert_eq!(first(&model), Some((key, id)));
                heap.remove(id);
                model.remove(&id);
            }
            prop_assert!(model.is_empty());
        }
    }
}
