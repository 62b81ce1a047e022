//! Belady's optimum: keep what is needed soonest. It may decline to admit, which makes it the best that any cache
//! without prefetching can do where all items are of one size.
//!
//! A resident is named by the position of its next request, since no two requests have the same. So "is this
//! request a hit" asks whether its own position is in the set, and "who is needed last" asks for the greatest:
//! a handful of words either way, O(n) in all.

use super::{Future, Sizes, Tally, Trace};
use crate::residency::idset::IdSet;

/// Counts the hits of Belady's optimum in a cache of `capacity_bytes`.
///
/// Where sizes differ (the true optimum is NP-hard then), a newcomer takes the places of those that are needed later
/// than it, the latest first, if they together leave enough room. See [`bound`](super::bound) for a bound that
/// holds there.
pub fn belady(trace: &Trace, future: &Future, capacity_bytes: u64) -> Tally {
    match &trace.sizes {
        Sizes::One => run(trace, future, capacity_bytes, &mut OneSize),
        Sizes::Each(_) => run(trace, future, capacity_bytes, &mut ManySizes::new(trace.requests.len())),
    }
}

fn run(trace: &Trace, future: &Future, capacity_bytes: u64, later: &mut impl Later) -> Tally {
    let mut tally = Tally::default();
    // By the position of their next request.
    let mut residents = IdSet::default();
    let mut used_bytes = 0u64;
    for (at, &id) in trace.requests.iter().enumerate() {
        let bytes = trace.sizes.of(id);
        let hit = residents.remove(at as u32);
        if hit {
            later.left(at as u32, bytes);
            used_bytes -= u64::from(bytes);
        }
        if at >= trace.skip {
            tally.count(hit, bytes);
        }
        // Who is never needed again takes no place.
        let Some(next) = future.next(at) else { continue };
        let lacking = (used_bytes + u64::from(bytes)).saturating_sub(capacity_bytes);
        if lacking > later.bytes_after(next, &residents) {
            continue;
        }
        while used_bytes + u64::from(bytes) > capacity_bytes {
            let last = residents.last().expect("there are bytes enough of those needed later");
            let victim_bytes = trace.sizes.of(trace.requests[last as usize]);
            residents.remove(last);
            later.left(last, victim_bytes);
            used_bytes -= u64::from(victim_bytes);
        }
        residents.insert(next);
        later.came(next, bytes);
        used_bytes += u64::from(bytes);
    }
    tally
}

/// How many bytes are held by those that are needed after a given time.
trait Later {
    fn came(&mut self, at: u32, bytes: u32);
    fn left(&mut self, at: u32, bytes: u32);
    /// At least the bytes of the residents needed after `at`, if less than a newcomer may lack.
    fn bytes_after(&self, at: u32, residents: &IdSet) -> u64;
}

/// One place is all that a newcomer can lack.
#[derive(Debug)]
struct OneSize;

impl Later for OneSize {
    fn came(&mut self, _at: u32, _bytes: u32) {}
    fn left(&mut self, _at: u32, _bytes: u32) {}
    fn bytes_after(&self, at: u32, residents: &IdSet) -> u64 {
        u64::from(residents.last().is_some_and(|last| last > at))
    }
}

/// Sums over time (a Fenwick tree): O(log n) each.
#[derive(Debug)]
struct ManySizes {
    sums: Vec<u64>,
    total: u64,
}

impl ManySizes {
    fn new(times: usize) -> Self {
        Self { sums: vec![0; times + 1], total: 0 }
    }

    fn change(&mut self, at: u32, change: impl Fn(&mut u64)) {
        let mut place = at as usize + 1;
        while place < self.sums.len() {
            change(&mut self.sums[place]);
            place += place & place.wrapping_neg();
        }
        change(&mut self.total);
    }
}

impl Later for ManySizes {
    fn came(&mut self, at: u32, bytes: u32) {
        self.change(at, |sum| *sum += u64::from(bytes));
    }

    fn left(&mut self, at: u32, bytes: u32) {
        self.change(at, |sum| *sum -= u64::from(bytes));
    }

    fn bytes_after(&self, at: u32, _residents: &IdSet) -> u64 {
        let mut until = 0;
        let mut place = at as usize + 1;
        while place > 0 {
            until += self.sums[place];
            place &= place - 1;
        }
        self.total - until
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// The most hits that any choice of residents after each request can give, by trying all of them.
    fn most_hits(requests: &[u32], capacity: usize) -> u64 {
        let mut best = std::collections::BTreeMap::from([(BTreeSet::new(), 0u64)]);
        for &id in requests {
            let mut after = std::collections::BTreeMap::new();
            for (residents, hits) in best {
                let hits = hits + u64::from(residents.contains(&id));
                let mut all: BTreeSet<u32> = residents.clone();
                all.insert(id);
                let mut choices = vec![residents];
                if all.len() <= capacity {
                    choices.push(all.clone());
                }
                choices.extend(all.iter().map(|gone| all.iter().filter(|id| *id != gone).copied().collect()));
                for choice in choices.into_iter().filter(|choice: &BTreeSet<u32>| choice.len() <= capacity) {
                    let most = after.entry(choice).or_insert(0);
                    *most = hits.max(*most);
                }
            }
            best = after;
        }
        best.into_values().max().unwrap_or(0)
    }

    fn trace(requests: Vec<u32>, sizes: Sizes) -> Trace {
        Trace { requests, items: 8, sizes, ..Trace::default() }
    }

    proptest! {
        #[test]
        fn no_choice_of_residents_hits_more(requests in prop::collection::vec(0u32..6, 1..20), capacity in 0usize..4) {
            let trace = trace(requests, Sizes::One);
            let tally = belady(&trace, &Future::of(&trace), capacity as u64);
            prop_assert_eq!(tally.hits, most_hits(&trace.requests, capacity));
            prop_assert_eq!(tally.requests, trace.requests.len() as u64);
        }

        #[test]
        fn equal_sizes_are_as_no_sizes(requests in prop::collection::vec(0u32..8, 1..200), capacity in 0u64..8) {
            let one = trace(requests, Sizes::One);
            let future = Future::of(&one);
            let many = trace(one.requests.clone(), Sizes::Each([7u32; 8].into()));
            prop_assert_eq!(belady(&one, &future, capacity).hits, belady(&many, &future, capacity * 7 + 6).hits);
        }

        #[test]
        fn with_sizes_those_needed_later_make_room_together_or_stay(
            requests in prop::collection::vec(0u32..8, 1..200),
            sizes: [u8; 8],
            capacity in 0u64..800,
        ) {
            let sizes: [u32; 8] = sizes.map(|bytes| u32::from(bytes) + 1);
            let trace = trace(requests, Sizes::Each(sizes.into()));
            let future = Future::of(&trace);
            let mut residents: BTreeSet<u32> = BTreeSet::new();
            let bytes = |at: &u32| u64::from(sizes[trace.requests[*at as usize] as usize]);
            let mut hits = 0;
            for at in 0..trace.requests.len() as u32 {
                hits += u64::from(residents.remove(&at));
                let Some(next) = future.next(at as usize) else { continue };
                let sooner: u64 = residents.range(..next).map(bytes).sum();
                if sooner + bytes(&at) > capacity {
                    continue;
                }
                while residents.iter().map(bytes).sum::<u64>() + bytes(&at) > capacity {
                    residents.pop_last();
                }
                residents.insert(next);
            }
            prop_assert_eq!(belady(&trace, &future, capacity).hits, hits);
        }
    }
}
