//! What no policy can exceed, whatever it knows: by counting what a cache can hold from one use to the next.

use super::{Future, Trace};

/// One job that asks for each item at most once an epoch: what it finds must have been there when the epoch began, so
/// an epoch of `requests_an_epoch` requests hits at most as often as items fit. With the share s of N items selected
/// each epoch that is C/(sN).
pub fn one_job(capacity_items: f64, requests_an_epoch: f64) -> f64 {
    (capacity_items / requests_an_epoch).clamp(0.0, 1.0)
}

/// Jobs that share a cache of the share `cached` of all items, each asking for every item once an epoch: while the
/// fastest walks through an epoch, what was not there at its start must be fetched at least once, so at best everyone
/// else takes it then. With k jobs of one rate that is 1−(1−c)/k.
pub fn jobs(cached: f64, rates: &[u32]) -> f64 {
    let fastest = rates.iter().copied().max().unwrap_or(1);
    let all: f64 = rates.iter().map(|&rate| f64::from(rate)).sum();
    (1.0 - (1.0 - cached.min(1.0)) * f64::from(fastest) / all.max(1.0)).clamp(0.0, 1.0)
}

/// A bound for any trace with items of any sizes: a hit occupies its item's bytes from the use before it until then,
/// and a cache offers its bytes times the requests it lives through. The cheapest hits that fit into that product
/// are more than any policy can have.
#[derive(Debug)]
pub struct SpaceTime {
    /// What each possible hit costs, in bytes times requests, and all cheaper ones: ascending sums.
    costs: Vec<u128>,
    counted: usize,
}

impl SpaceTime {
    /// Prices every hit that a trace allows: O(n log n).
    pub fn of(trace: &Trace, future: &Future) -> Self {
        let hits = trace.requests.iter().enumerate().filter_map(|(at, &id)| {
            let next = future.next(at)? as usize;
            // What lies before the first counted request costs nothing: the cache was there then, too.
            let length = next.checked_sub(at.max(trace.skip))?;
            Some(length as u128 * u128::from(trace.sizes.of(id)))
        });
        let mut costs: Vec<u128> = hits.collect();
        costs.sort_unstable();
        let mut sum = 0;
        for cost in &mut costs {
            sum += *cost;
            *cost = sum;
        }
        Self { costs, counted: trace.requests.len() - trace.skip }
    }

    /// The greatest hit ratio of a cache of `capacity_bytes`.
    pub fn hit_ratio(&self, capacity_bytes: u64) -> f64 {
        let offered = u128::from(capacity_bytes) * self.counted as u128;
        let whole = self.costs.partition_point(|&cost| cost <= offered);
        let before = whole.checked_sub(1).map_or(0, |last| self.costs[last]);
        let part = self.costs.get(whole).map_or(0.0, |&cost| (offered - before) as f64 / (cost - before) as f64);
        (whole as f64 + part) / self.counted.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Sizes, belady::belady};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_bounds_are_those_of_the_published_figures() {
        assert!((one_job(4_000.0, 20_000.0) - 0.2).abs() < 1e-12);
        assert!((one_job(4_000.0, 20_000.0 / 1.33) - 0.266).abs() < 1e-12);
        assert!((jobs(0.2, &[1, 1, 1]) - 0.7333).abs() < 1e-4);
        assert!((jobs(0.2, &[1, 1, 2]) - 0.6).abs() < 1e-12);
        assert_eq!((one_job(30.0, 20.0), jobs(1.5, &[1]), jobs(0.0, &[1])), (1.0, 1.0, 0.0));
    }

    proptest! {
        #[test]
        fn belady_never_exceeds_the_space_and_time_there_is(
            requests in prop::collection::vec(0u32..8, 1..200),
            sizes: [u8; 8],
            capacity in 0u64..1000,
            skip in 0usize..100,
        ) {
            let sizes = Sizes::Each(sizes.map(|bytes| u32::from(bytes) + 1).into());
            let skip = skip.min(requests.len());
            let trace = Trace { requests, items: 8, sizes, skip, ..Trace::default() };
            let future = Future::of(&trace);
            let bound = SpaceTime::of(&trace, &future).hit_ratio(capacity);
            prop_assert!(belady(&trace, &future, capacity).hit_ratio() <= bound + 1e-9);
            prop_assert!(bound <= 1.0);
        }
    }
}
