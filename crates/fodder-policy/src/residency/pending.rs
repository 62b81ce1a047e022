//! `pending`: evict what the fewest jobs still need this epoch (Seneca's, FAST '26). Right for several jobs on one
//! dataset that take what is cached first; without plans it is minio.
//!
//! A count an id and a heap by it: 8 bytes an id and 8 a resident, O(log n). A job that plans everything adds
//! one to a count that all ids share.

use super::{
    Pressure, Residency,
    dense::Dense,
    heap::Heap,
    signal::{Ids, Signal},
};

/// The state of `pending`.
#[derive(Debug, Default)]
pub struct Pending {
    /// Jobs that ever planned all ids.
    plans: i32,
    /// By id, what it takes to make of `plans` the number of jobs that need it: seldom more than 0. Ids past the end
    /// are needed by nobody.
    balances: Dense<i32>,
    /// Residents by balance, which is by need.
    residents: Heap<i32>,
}

impl Pending {
    /// How many jobs need an id.
    fn need(&self, id: u32) -> i32 {
        self.balances.get(id).map_or(0, |balance| self.plans.wrapping_add(balance))
    }

    /// Changes the number of jobs that need an id.
    fn change(&mut self, id: u32, by: i32) {
        let balance = self.balances.entry(id, self.plans.wrapping_neg());
        *balance = balance.wrapping_add(by);
        if self.residents.contains(id) {
            self.residents.set(id, *balance);
        }
    }

    fn plan_below(&mut self, end: u32) {
        self.balances.cover(end as usize, self.plans.wrapping_neg());
        // Only a job that stayed on an older snapshot leaves any out: what was found since.
        (end..self.balances.len()).for_each(|id| self.change(id, -1));
        self.plans = self.plans.wrapping_add(1);
    }

    fn consumed(&mut self, id: u32) {
        if self.need(id) > 0 {
            self.change(id, -1);
        }
    }
}

impl Residency for Pending {
    fn hit(&mut self, _id: u32) {}

    fn heeds_hits(&self) -> bool {
        false
    }

    fn heeds_plans(&self) -> bool {
        true
    }

    /// A newcomer takes the place of one whom no more jobs need. One whom no job needs any more takes nobody's:
    /// that would cost a write and gain nothing.
    fn admit(&mut self, id: u32, _bytes: u32, room: bool) -> bool {
        let need = self.need(id);
        room || self.residents.first().is_none_or(|(_, fewest)| need > 0 && self.need(fewest) <= need)
    }

    fn victim(&mut self, _pressure: Pressure) -> Option<u32> {
        self.residents.first().map(|(_, id)| id)
    }

    fn inserted(&mut self, id: u32, _bytes: u32) {
        let balance = *self.balances.entry(id, self.plans.wrapping_neg());
        self.residents.set(id, balance);
    }

    fn removed(&mut self, id: u32) {
        self.residents.remove(id);
    }

    fn signal(&mut self, signal: Signal<'_>) {
        match signal {
            Signal::Planned(Ids::Below(end)) => self.plan_below(end),
            Signal::Planned(Ids::Listed(ids)) => ids.iter().for_each(|&id| self.change(id, 1)),
            Signal::Consumed(id) => self.consumed(id),
            Signal::Dropped(ids) => ids.iter().for_each(|&id| self.consumed(id)),
            _ => {}
        }
    }

    fn len(&self) -> usize {
        self.residents.len()
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.balances.heap_bytes() + self.residents.heap_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{conformance, heap::scattered};
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    /// How many jobs need each id, and who is resident.
    #[derive(Debug, Default)]
    struct Naive(BTreeMap<u32, u32>, BTreeSet<u32>);

    impl Naive {
        fn need(&self, id: u32) -> u32 {
            self.0.get(&id).copied().unwrap_or(0)
        }
    }

    impl Residency for Naive {
        fn hit(&mut self, _id: u32) {}
        fn admit(&mut self, id: u32, _bytes: u32, room: bool) -> bool {
            let need = self.need(id);
            let replaces = |other: &u32| need > 0 && self.need(*other) <= need;
            room || self.1.is_empty() || self.1.iter().any(replaces)
        }
        fn victim(&mut self, _pressure: Pressure) -> Option<u32> {
            self.1.iter().copied().min_by_key(|&id| (self.need(id), scattered(id)))
        }
        fn inserted(&mut self, id: u32, _bytes: u32) {
            self.1.insert(id);
        }
        fn removed(&mut self, id: u32) {
            self.1.remove(&id);
        }
        fn signal(&mut self, signal: Signal<'_>) {
            let mut add = |ids: &[u32]| ids.iter().for_each(|&id| *self.0.entry(id).or_default() += 1);
            match signal {
                Signal::Planned(Ids::Below(end)) => add(&(0..end).collect::<Vec<_>>()),
                Signal::Planned(Ids::Listed(ids)) => add(ids),
                Signal::Consumed(id) => self.signal(Signal::Dropped(&[id])),
                Signal::Dropped(ids) => {
                    for id in ids {
                        self.0.entry(*id).and_modify(|need| *need = need.saturating_sub(1));
                    }
                }
                _ => {}
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
        conformance::check(&|| Box::<Pending>::default());
    }

    #[test]
    fn a_million_requests_evict_what_the_fewest_jobs_need() {
        conformance::agrees(&|| Box::<Pending>::default(), &|| Box::<Naive>::default());
    }

    #[test]
    fn what_a_refresh_finds_is_needed_by_no_job_before_it_plans_it() {
        let mut pending = Pending::default();
        for _ in 0..10 {
            pending.signal(Signal::Planned(Ids::Below(2)));
            (0..2).for_each(|id| pending.signal(Signal::Consumed(id)));
            pending.inserted(5, 1);
            assert_eq!([0, 1, 5, 9].map(|id| pending.need(id)), [0; 4]);
        }
        pending.signal(Signal::Planned(Ids::Below(6)));
        assert_eq!([0, 1, 5, 9].map(|id| pending.need(id)), [1, 1, 1, 0]);
    }

    #[test]
    fn it_costs_eight_bytes_an_id_and_eight_a_resident() {
        let mut pending = Pending::default();
        pending.signal(Signal::Planned(Ids::Below(1_000_000)));
        (0..1_000_000).step_by(4).for_each(|id| pending.inserted(id, 1));
        assert!(pending.memory_bytes() <= 10_000_000 * 9 / 8 + 1_000, "{} bytes", pending.memory_bytes());
    }
}
