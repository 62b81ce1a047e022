//! The caches add up: a dataset that fills nine tenths of all of them leaves the origin once.

use super::{Client, Fleet, PATIENT, Shape};
use fodder_api::frames::{Batch, FrameClient};
use rand::{SeedableRng, rngs::SmallRng, seq::SliceRandom};
use std::thread;

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

#[test]
fn nodes_that_start_one_after_the_other_while_others_read_fetch_hardly_anything_twice() {
    let (objects, bytes) = (1500, 64 << 10);
    let shape = Shape { nodes: 1, objects, bytes, cache_bytes: 40 << 20, patience: PATIENT, ..Shape::default() };
    let mut fleet = Fleet::with(shape);
    fleet.fetched();
    let contents = fleet.contents.clone();
    thread::scope(|scope| {
        for n in 0..3 {
            if n > 0 {
                fleet.add();
            }
            let (address, contents) = (fleet.addresses[n].clone(), &contents);
            // Nobody waits until the members have agreed.
            scope.spawn(move || {
                let mut client = FrameClient::connect(&address.parse().unwrap()).unwrap();
                let handle = client.open("world", None).unwrap().handle;
                let mut client = Client { client, handle, batch: Batch::new(), contents };
                let mut order: Vec<u64> = (0..contents.len() as u64).collect();
                order.shuffle(&mut SmallRng::seed_from_u64(n as u64));
                order.into_iter().for_each(|id| client.read(id));
            });
        }
    });
    let again: usize = fleet.fetched().into_iter().map(|count| count - 1).sum();
    println!("{again} of {objects} objects left the origin twice");
    assert!(again * 20 <= objects, "{again} of {objects} objects left the origin twice");
}
