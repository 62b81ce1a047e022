//! The caches add up: a dataset that fills nine tenths of all of them leaves the origin once.

use super::{Fleet, PATIENT, Shape};

/// All nodes read everything, three times; their caches together are a ninth larger than the dataset.
fn three_epochs(nodes: usize) {
    let (objects, bytes) = (2000, 128 << 10);
    // A node pays for its objects: some blocks a file, and 257 directories. That takes half of the ninth.
    let cache_bytes = objects * bytes * 10 / 9 / nodes;
    let fleet = Fleet::with(Shape { nodes, objects, bytes, cache_bytes, patience: PATIENT, ..Shape::default() });
    fleet.fetched();
    let before = fleet.server.bytes_sent();
    fleet.epoch(1);
    let first = fleet.server.bytes_sent() - before;
    let fetched = fleet.fetched();
    let again: Vec<_> = fetched.iter().enumerate().filter(|(_, count)| **count != 1).collect();
    assert!(again.is_empty(), "one read of each object at the origin in the first epoch: {again:?}");
    let before = fleet.server.bytes_sent();
    (2..4).for_each(|epoch| fleet.epoch(epoch));
    let again = fleet.server.bytes_sent() - before;
    println!(
        "{nodes} nodes: {first} bytes left the origin in the first epoch and {again} after it, of {}",
        fleet.bytes()
    );
    assert!(again * 100 <= fleet.bytes(), "{again} bytes left the origin after the first epoch, of {}", fleet.bytes());
    let taken = fleet.taken();
    assert!(taken.iter().all(|taken| *taken > fleet.bytes()), "{taken:?}");
}

#[test]
fn three_processes_are_one_cache() {
    three_epochs(3);
}

#[test]
fn five_processes_are_one_cache() {
    three_epochs(5);
}
