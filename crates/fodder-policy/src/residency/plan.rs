//! `plan`: evict what is needed furthest in the future (Belady's rule, MIN), known from the plans of all jobs.
//! Nothing does better on the same requests, but it is only as good as the plans; without any it is minio.
//!
//! Told when each id is next needed, it keeps a heap with the furthest first: 12 bytes an id and 16 a resident, O(log
//! n).

use super::{
    Pressure, Residency,
    dense::Dense,
    heap::Heap,
    signal::{NEVER, Signal},
};

/// How near the next use is: the greater, the sooner.
type Nearness = u64;

/// The nearness of what no plan has.
const FURTHEST: Nearness = 0;

/// The state of `plan`.
#[derive(Debug, Default)]
pub struct Plan {
    /// Of every id: it is told before the id is admitted, and wanted when it has landed.
    nearness: Dense<Nearness>,
    residents: Heap<Nearness>,
}

impl Plan {
    fn nearness(&self, id: u32) -> Nearness {
        self.nearness.get(id).unwrap_or(FURTHEST)
    }
}

impl Residency for Plan {
    fn hit(&mut self, _id: u32) {}

    fn heeds_hits(&self) -> bool {
        false
    }

    fn heeds_next_use(&self) -> bool {
        true
    }

    /// A newcomer takes the place of nobody who is needed sooner, or at the same time.
    fn admit(&mut self, id: u32, _bytes: u32, room: bool) -> bool {
        room || self.residents.first().is_none_or(|(furthest, _)| self.nearness(id) > furthest)
    }

    fn victim(&mut self, _pressure: Pressure) -> Option<u32> {
        self.residents.first().map(|(_, id)| id)
    }

    fn inserted(&mut self, id: u32, _bytes: u32) {
        self.residents.set(id, self.nearness(id));
    }

    fn removed(&mut self, id: u32) {
        self.residents.remove(id);
    }

    fn signal(&mut self, signal: Signal<'_>) {
        if let Signal::NextUse { id, at } = signal {
            let nearness = NEVER - at;
            *self.nearness.entry(id, FURTHEST) = nearness;
            if self.residents.contains(id) {
                self.residents.set(id, nearness);
            }
        }
    }

    fn len(&self) -> usize {
        self.residents.len()
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.nearness.heap_bytes() + self.residents.heap_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{conformance, heap::scattered};
    use super::*;
    use std::{
        cmp::Reverse,
        collections::{BTreeSet, HashMap},
    };

    /// When each id is next needed, and who is resident.
    #[derive(Debug, Default)]
    struct Naive(HashMap<u32, u64>, BTreeSet<u32>);

    impl Naive {
        fn next_use(&self, id: u32) -> u64 {
            self.0.get(&id).copied().unwrap_or(NEVER)
        }
    }

    impl Residency for Naive {
        fn hit(&mut self, _id: u32) {}
        fn admit(&mut self, id: u32, _bytes: u32, room: bool) -> bool {
            room || self.1.is_empty() || self.1.iter().any(|&other| self.next_use(id) < self.next_use(other))
        }
        fn victim(&mut self, _pressure: Pressure) -> Option<u32> {
            self.1.iter().copied().min_by_key(|&id| (Reverse(self.next_use(id)), scattered(id)))
        }
        fn inserted(&mut self, id: u32, _bytes: u32) {
            self.1.insert(id);
        }
        fn removed(&mut self, id: u32) {
            self.1.remove(&id);
        }
        fn signal(&mut self, signal: Signal<'_>) {
            if let Signal::NextUse { id, at } = signal {
                self.0.insert(id, at);
            }
        }
        fn len(&self) -> usize {
            self.1.len()
        }
        fn memory_bytes(&self) -> usize {
            self.1.len()
        }
    }

    #[test]
    fn it_keeps_what_every_policy_promises() {
        conformance::check(&|| Box::<Plan>::default());
    }

    #[test]
    fn a_million_requests_evict_what_is_needed_furthest_in_the_future() {
        conformance::agrees(&|| Box::<Plan>::default(), &|| Box::<Naive>::default());
    }

    #[test]
    fn it_costs_twelve_bytes_an_id_and_sixteen_a_resident() {
        let mut plan = Plan::default();
        (0..1_000_000).for_each(|id| plan.signal(Signal::NextUse { id, at: id.into() }));
        (0..1_000_000).step_by(4).for_each(|id| plan.inserted(id, 1));
        assert!(plan.memory_bytes() <= 16_000_000 * 9 / 8 + 1_000, "{} bytes", plan.memory_bytes());
    }
}
