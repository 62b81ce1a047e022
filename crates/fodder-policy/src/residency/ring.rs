//! A queue of ids in one ring of memory, each with a value: walking it touches memory in order, which a linked list
//! does not. 4 bytes and the value a member.
//!
//! An id that leaves from the middle leaves a gap. Gaps are closed when they are the greater part, so that every
//! operation is O(1) amortised. Where its members are, the owner keeps by id. It knows nothing of policies.

use std::collections::VecDeque;

/// A gap. Never an id: the greatest is one less.
const GAP: u32 = u32::MAX;

/// Gaps below this number are not worth closing.
const FEW: usize = 64;

/// A queue of ids. It begins and ends with a member, never with a gap.
#[derive(Debug)]
pub(super) struct Ring<T> {
    slots: VecDeque<(u32, T)>,
    /// The number of the first slot. Numbers go round at 2^32, and there are never that many slots.
    first: u32,
    gaps: usize,
}

impl<T> Default for Ring<T> {
    fn default() -> Self {
        Self { slots: VecDeque::new(), first: 0, gaps: 0 }
    }
}

impl<T: Copy> Ring<T> {
    /// Whether nobody is in it.
    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The id that was put in first.
    pub(super) fn first(&self) -> Option<u32> {
        self.slots.front().map(|&(id, _)| id)
    }

    /// Puts an id in. `moved` is told the number of its slot, and those of others if gaps are closed for it.
    pub(super) fn push(&mut self, id: u32, value: T, mut moved: impl FnMut(u32, u32)) {
        if self.gaps > FEW && self.gaps > self.slots.len() / 2 {
            self.slots.retain(|&(id, _)| id != GAP);
            self.gaps = 0;
            (0u32..).zip(&self.slots).for_each(|(place, &(id, _))| moved(id, self.first.wrapping_add(place)));
        }
        if self.slots.len() == self.slots.capacity() {
            self.slots.reserve_exact(1 + self.slots.len() / 8);
        }
        moved(id, self.first.wrapping_add(self.slots.len() as u32));
        self.slots.push_back((id, value));
    }

    /// Takes out an id, and gives its value. The first, which leaves most often, does so without a look at its slot.
    pub(super) fn remove(&mut self, id: u32, slot: impl FnOnce() -> u32) -> T {
        let place = if self.first() == Some(id) { 0 } else { slot().wrapping_sub(self.first) as usize };
        self.slots[place].0 = GAP;
        self.gaps += 1;
        let value = self.slots[place].1;
        while self.slots.front().is_some_and(|&(id, _)| id == GAP) {
            self.slots.pop_front();
            self.first = self.first.wrapping_add(1);
            self.gaps -= 1;
        }
        while self.slots.back().is_some_and(|&(id, _)| id == GAP) {
            self.slots.pop_back();
            self.gaps -= 1;
        }
        value
    }

    /// Bytes it holds on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<(u32, T)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn it_agrees_with_a_vector(first: u32, steps in prop::collection::vec((0u32..400, 0u8..4), 1..1500)) {
            let mut ring = Ring { first, ..Ring::default() };
            let (mut slots, mut model) = (HashMap::new(), Vec::new());
            for (id, kind) in steps {
                let id = if kind == 0 { model.first().copied().unwrap_or(id) } else { id };
                match model.iter().position(|&other| other == id) {
                    Some(place) => {
                        model.remove(place);
                        prop_assert_eq!(ring.remove(id, || slots[&id]), id * 3);
                    }
                    None => {
                        model.push(id);
                        ring.push(id, id * 3, |id, slot| _ = slots.insert(id, slot));
                    }
                }
                prop_assert_eq!(ring.first(), model.first().copied());
                prop_assert_eq!(ring.is_empty(), model.is_empty());
                prop_assert_eq!(ring.slots.len() - ring.gaps, model.len());
                prop_assert!(ring.slots.len() <= 2 * model.len() + 2 * FEW + 2);
            }
        }
    }
}
