//! `pending`: whatever most jobs still need (Seneca's refill).
//!
//! Goes through all items in a random order, again and again, and of some that it passes proposes the one that most jobs
//! still need. So what the residency `pending` evicts because nobody needs it is replaced by what everybody does.

use super::{Fetching, Next, View};
use crate::permutation::Permutation;

/// How many items one call looks at.
const LOOKS: u32 = 256;

/// Among how many that could be brought in one call chooses.
const CHOICES: u32 = 16;

/// The state of `pending`: where it is in which round.
#[derive(Debug)]
pub struct Refill {
    seed: u64,
    round: u64,
    order: Permutation,
    position: u32,
    /// How many items were looked at since one could be brought in.
    barren: u32,
}

impl Refill {
    /// At the beginning of the first round of an order that `seed` gives.
    pub fn new(seed: u64) -> Self {
        Self { seed, round: 0, order: Permutation::new(0, seed, 0), position: 0, barren: 0 }
    }

    /// All was looked at in vain.
    fn rest(&mut self) -> Next {
        self.barren = 0;
        Next::Nothing
    }

    /// The next item in the order, of which there is at least one.
    fn step(&mut self, items: u32) -> u32 {
        if self.position >= self.order.len() || self.order.len() != items {
            self.round += 1;
            self.order = Permutation::new(items, self.seed, self.round);
            self.position = 0;
        }
        self.position += 1;
        self.order.at(self.position - 1).unwrap_or_default()
    }
}

impl Fetching for Refill {
    fn next(&mut self, view: &dyn View, room_bytes: u64) -> Next {
        let items = view.items();
        let everyone = view.planners().len() as u32;
        let (mut best, mut choices) = (None, 0);
        for _ in 0..LOOKS.min(items) {
            let id = self.step(items);
            let needed = view.pending(id);
            if needed == 0 || view.held(id) || view.bytes(id) > room_bytes {
                continue;
            }
            choices += 1;
            if best.is_none_or(|(most, _)| needed > most) {
                best = Some((needed, id));
            }
            if needed >= everyone || choices == CHOICES {
                break;
            }
        }
        if let Some((_, id)) = best {
            self.barren = 0;
            return Next::one(id, view.bytes(id));
        }
        self.barren = self.barren.saturating_add(LOOKS);
        if self.barren < items.saturating_mul(2) { Next::Searching } else { self.rest() }
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>()
    }
}

#[cfg(test)]
mod tests {
    use super::{super::conformance::World, *};

    #[test]
    fn what_most_jobs_need_comes_first_and_what_none_needs_never() {
        let mut world = World::new(1_000, 1);
        (0..3).for_each(|_| world.plan(Vec::new(), 1));
        (0..1_000).for_each(|id| world.pending[id as usize] = id % 4);
        world.held = (0..1_000).step_by(3).collect();
        let fetches = world.drain(&mut Refill::new(1), 1);
        let proposed: Vec<u32> = fetches.into_iter().flat_map(|fetch| fetch.ids).collect();
        assert!(proposed.iter().all(|id| id % 4 > 0 && id % 3 > 0));
        assert_eq!(proposed.len(), 500, "all that somebody needs and was not held");
        let early = proposed[..100].iter().filter(|id| *id % 4 == 3).count();
        assert!(early > 95, "{early} of the first 100 are needed by most");
    }
}
