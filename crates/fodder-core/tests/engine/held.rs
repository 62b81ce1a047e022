//! Cache files that clients report as open to a node that does not know of them.

use crate::world::{World, content};
use fodder_policy::Policy;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cached_file_that_is_reported_under_another_name_is_charged_once() {
    const BYTES: usize = 1 << 20;
    let mut world = World::new(Policy::Lru, 64 << 20);
    ["a", "b"].into_iter().for_each(|path| world.put(path, content(path, 1, BYTES)));
    let (engine, dataset) = world.start().await.unwrap();
    let snapshot = dataset.snapshot();
    let [a, b] = ["a", "b"].map(|path| snapshot.lookup(path).unwrap());
    let file = dataset.lease(a).await.unwrap().file.try_clone().unwrap();
    let used = || engine.status().tiers[0].used_bytes;
    let before = used();
    let reports = [Some(b), None, Some(a)].map(|object| dataset.renew_lease(object, &file).unwrap());
    assert_eq!(used(), before, "its blocks are charged to the cache");
    assert!(!reports[0].is_cached() && !reports[1].is_cached() && reports[2].is_cached());
    let [first, second, pinned] = reports;
    drop(pinned);
    dataset.evict("").await.unwrap();
    assert_eq!(used(), before, "a client has it open");
    drop(first);
    assert_eq!(used(), before, "and has reported it twice");
    drop(second);
    assert!(used() <= before - BYTES as u64, "it was returned: {} of {before}", used());
    engine.shutdown().await;
}
