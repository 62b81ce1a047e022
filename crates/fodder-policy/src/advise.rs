//! What a job waits for, and what more cache, more bandwidth or another policy would do about it.
//!
//! From what a node has counted and a sample of its accesses to a verdict in two sentences and a small table. Pure: it
//! is told every number, and knows nothing of where they come from.

mod curve;
mod meter;
mod sample;
mod speed;
mod verdict;

pub use curve::Curves;
pub use meter::{Counted, Facts, Meter, TooLittle};
pub use sample::AccessSample;
pub use verdict::{Advice, Limit, Row};

use crate::Policy;
use speed::Speed;
use verdict::Case;

/// What a node has measured of a job and its dataset. Numbers that are not finite or below zero count as zero.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// Items a second that the job takes now.
    pub items_per_second: f64,
    /// Items a second that it takes when everything it asks for is cached. None where that was not seen.
    pub cached_items_per_second: Option<f64>,
    /// The mean size of an item.
    pub item_bytes: f64,
    /// How long a missed item takes to come from the origin; 0 where none was missed.
    pub miss_seconds: f64,
    /// How many missed items are under way at a time.
    pub misses_at_once: f64,
    /// Bytes a second that the origin gives at most.
    pub origin_bytes_per_second: f64,
    /// The size of the dataset.
    pub dataset_bytes: u64,
    /// How much of it may be cached.
    pub cache_bytes: u64,
    /// The share of bytes that need not come from the origin now.
    pub hit_ratio: f64,
    /// The policy in use.
    pub policy: Policy,
    /// What the job spends its time on.
    pub waits: Waits,
}

/// What the time of a job's readers goes to, in seconds of any stretch of it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Waits {
    /// Waiting for items to come.
    pub storage: f64,
    /// Not waiting for items: preprocessing, or the GPU, where the two cannot be told apart.
    pub own: f64,
    /// Waiting for items that have come to be made into batches.
    pub preprocessing: f64,
    /// Computing, with the next batch ready.
    pub gpu: f64,
}

const HALF_THE_CACHE: &str = "half the cache";
const ALL_CACHED: &str = "everything cached";

/// Gives advice. `curves` is what the access sample tells of other cache sizes and policies.
pub fn advise(measured: &Measured, curves: &Curves) -> Advice {
    let speed = Speed::new(measured);
    let case = |what: &str, cache: f64, bandwidth: f64, policy: Policy| {
        let hit_ratio = curves.hit_ratio(measured, cache, policy);
        Case { what: what.into(), hit_ratio, items_per_second: speed.at(hit_ratio, bandwidth) }
    };
    let policy = measured.policy;
    let best = curves.best_policy(measured);
    let fits = measured.cache_bytes >= measured.dataset_bytes;
    let changes = [
        case(HALF_THE_CACHE, 0.5, 1.0, policy),
        case(if fits { ALL_CACHED } else { "twice the cache" }, 2.0, 1.0, policy),
        case("half the bandwidth", 1.0, 0.5, policy),
        case("twice the bandwidth", 1.0, 2.0, policy),
    ];
    let better = best.filter(|&best| best != policy && !fits);
    let better = better.map(|best| case(&format!("policy {best}"), 1.0, 1.0, best));
    let changes = changes.into_iter().chain(better).collect();
    Advice::new(measured, case("now", 1.0, 1.0, policy), changes, best)
}

#[cfg(test)]
mod tests;
