//! iCache's doors: how the cache is counted; over a real engine in `doors`.

#![allow(clippy::unwrap_used, reason = "tests")]

mod doors;

use super::*;
use crate::metrics::tests::status;

fn capacity(quota: Option<Quota>, items: u64, total_bytes: u64) -> u64 {
    let mut engine = status();
    let dataset = &mut engine.datasets[0];
    (dataset.config.quota, dataset.items, dataset.total_bytes) = (quota, items, total_bytes);
    capacity_samples(dataset, &engine.tiers, 2)
}

#[test]
fn the_cache_is_counted_in_samples_of_mean_size() {
    assert_eq!(capacity(Some(Quota::Share(0.2)), 1000, 50_000), 200);
    assert_eq!(capacity(Some(Quota::Share(f64::NAN)), 1000, 50_000), 0);
    assert_eq!(capacity(Some(Quota::Bytes(5_000)), 1000, 50_000), 100);
    assert_eq!(capacity(Some(Quota::Bytes(u64::MAX)), u64::MAX, 1), u64::MAX);
    // The one tier of 1,000 bytes is shared by two datasets.
    assert_eq!(capacity(None, 1000, 50_000), 10);
    assert_eq!(capacity(None, 3, 30), 3);
    assert_eq!(capacity(None, 0, 0), 0);
}
