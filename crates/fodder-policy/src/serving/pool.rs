//! The cached items that may stand in for others, by class, each found in O(1).
//!
//! Evictions are not told: whoever picks checks, and what is gone is dropped then. It knows nothing of plans or budgets.

use crate::residency::IdSet;
use rustc_hash::FxHashMap;

/// Items by class. An item is in it at most once.
#[derive(Debug, Default)]
pub(super) struct Pool {
    classes: FxHashMap<Option<u32>, Class>,
    members: IdSet,
}

/// The items of one class: those that may be picked, then those that stood in often enough in this epoch.
#[derive(Debug, Default)]
struct Class {
    ids: Vec<u32>,
    /// How many may be picked.
    fresh: usize,
    /// The next to be picked, so that all take turns.
    turn: usize,
}

/// What is to become of a picked item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It answers.
    Take,
    /// It has answered often enough in this epoch.
    Spent,
    /// It is not cached any more.
    Gone,
}

impl Pool {
    /// Adds an item that came into the cache.
    pub(super) fn add(&mut self, id: u32, class: Option<u32>) {
        if self.members.insert(id) {
            let class = self.classes.entry(class).or_default();
            class.ids.push(id);
            let last = class.ids.len() - 1;
            class.ids.swap(class.fresh, last);
            class.fresh += 1;
        }
    }

    /// The next item of a class on which the verdict is to take it. Each other verdict is asked for once: amortised O(1).
    pub(super) fn pick(&mut self, class: Option<u32>, mut judge: impl FnMut(u32) -> Verdict) -> Option<u32> {
        let class = self.classes.get_mut(&class)?;
        while class.fresh > 0 {
            let turn = class.turn % class.fresh;
            let id = class.ids[turn];
            match judge(id) {
                Verdict::Take => {
                    class.turn = turn + 1;
                    return Some(id);
                }
                Verdict::Spent => class.retire(turn),
                Verdict::Gone => {
                    class.retire(turn);
                    class.ids.swap_remove(class.fresh);
                    self.members.remove(id);
                }
            }
        }
        None
    }

    /// An epoch begins: whoever stood in often enough may do so again.
    pub(super) fn renew(&mut self) {
        self.classes.values_mut().for_each(|class| class.fresh = class.ids.len());
    }

    /// Bytes it holds on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        let lists = self.classes.values().map(|class| class.ids.capacity() * size_of::<u32>()).sum::<usize>();
        let table = self.classes.capacity() * (size_of::<Option<u32>>() + size_of::<Class>() + 1);
        lists + table + self.members.heap_bytes()
    }
}

impl Class {
    /// Moves an item from those that may be picked to the others, to the front of them.
    fn retire(&mut self, index: usize) {
        self.fresh -= 1;
        self.ids.swap(index, self.fresh);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    proptest! {
        #[test]
        fn it_picks_exactly_those_that_are_cached_and_not_spent(
            steps in prop::collection::vec((0u32..3, 0u32..40, any::<bool>(), 0u8..5), 1..200)
        ) {
            let (mut pool, mut cached, mut spent) = (Pool::default(), BTreeMap::new(), BTreeSet::new());
            for (class, id, spend, step) in steps {
                match step {
                    0 | 1 => {
                        // An item has one class for life.
                        let class = id % 3;
                        cached.insert(id, class);
                        pool.add(id, Some(class));
                    }
                    2 => drop(cached.remove(&id)),
                    3 => {
                        let picked = pool.pick(Some(class), |id| match (cached.contains_key(&id), spent.contains(&id)) {
                            (false, _) => Verdict::Gone,
                            (true, true) => Verdict::Spent,
                            (true, false) => Verdict::Take,
                        });
                        let could = cached.iter().any(|(id, of)| *of == class && !spent.contains(id));
                        prop_assert_eq!(picked.is_some(), could);
                        if let Some(id) = picked {
                            prop_assert!(cached.get(&id) == Some(&class) && !spent.contains(&id));
                            if spend {
                                spent.insert(id);
                            }
                        }
                    }
                    _ => {
                        spent.clear();
                        pool.renew();
                    }
                }
            }
        }
    }

    #[test]
    fn all_take_turns() {
        let mut pool = Pool::default();
        (0..5).for_each(|id| pool.add(id, None));
        let picked: BTreeSet<u32> = (0..5).filter_map(|_| pool.pick(None, |_| Verdict::Take)).collect();
        assert_eq!(picked.len(), 5);
        assert_eq!(pool.pick(Some(1), |_| Verdict::Take), None);
    }
}
