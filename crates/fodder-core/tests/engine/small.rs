//! Caches that are full of small objects, which share files.

use crate::world::{World, content, read};
use fodder_core::config::Quota;
use fodder_policy::Policy;

const FILES: usize = 8000;

/// Files of 1 byte to 4 KiB.
fn world(quota_bytes: u64) -> World {
    let mut world = World::new(Policy::Lru, quota_bytes);
    (0..FILES).for_each(|file| world.put(&format!("{file:04}"), content(&file.to_string(), 1, 1 + file * 7919 % 4096)));
    world
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_cache_of_small_files_of_all_sizes_stays_full_and_within_its_quota() {
    const QUOTA: u64 = 8 << 20;
    let mut world = world(64 << 20);
    world.quota = Some(Quota::Bytes(QUOTA));
    let (engine, dataset) = world.start().await.unwrap();
    let snapshot = dataset.snapshot();
    for _epoch in 0..2 {
        for (at, (path, want)) in world.origin.iter().enumerate() {
            let object = snapshot.lookup(path).unwrap();
            assert!(read(&dataset, object, 0..want.len() as u64, false).await.unwrap() == *want, "{path}");
            let used = dataset.status().cached_bytes;
            assert!(used <= QUOTA + (64 << 10), "{used} bytes are used after {at} reads");
        }
    }
    let cached = snapshot_bytes(&dataset, &world);
    let used = dataset.status().cached_bytes;
    assert!(cached > QUOTA * 7 / 10, "{cached} bytes are cached in {used} with a quota of {QUOTA}");
    // The files that were read last are those that are here.
    let before = dataset.stats().bytes_from_origin;
    for (path, want) in world.origin.iter().skip(FILES - 200) {
        let object = snapshot.lookup(path).unwrap();
        assert!(read(&dataset, object, 0..want.len() as u64, false).await.unwrap() == *want, "{path}");
    }
    assert_eq!(dataset.stats().bytes_from_origin, before);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tier_that_small_files_fill_goes_on_evicting_admitting_and_hitting() {
    const QUOTA: u64 = 8 << 20;
    let mut world = World::new(Policy::Lru, QUOTA);
    (0..6000).for_each(|file| world.put(&format!("{file:04}"), content(&file.to_string(), 1, 3000)));
    let (engine, dataset) = world.start().await.unwrap();
    let snapshot = dataset.snapshot();
    let objects: Vec<_> = world.origin.iter().map(|(path, want)| (snapshot.lookup(path).unwrap(), want)).collect();
    let mut least = u64::MAX;
    for (at, (object, want)) in objects.iter().cycle().take(4 * objects.len()).enumerate() {
        assert!(read(&dataset, *object, 0..want.len() as u64, false).await.unwrap() == **want);
        if at > objects.len() {
            least = least.min(dataset.status().cached_pieces * 3000);
        }
    }
    assert!(least > QUOTA * 3 / 4, "only {least} bytes were cached at some time with a quota of {QUOTA}");
    assert!(engine.status().tiers[0].used_bytes <= QUOTA);
    let before = dataset.stats().bytes_from_origin;
    for (object, want) in objects.iter().skip(objects.len() - 200) {
        assert!(read(&dataset, *object, 0..want.len() as u64, false).await.unwrap() == **want);
    }
    assert!(dataset.stats().bytes_from_origin - before < 20 * 3000, "the files that were read last are cached");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_file_takes_the_space_of_many_small_ones() {
    let mut world = World::new(Policy::Lru, 8 << 20);
    (0..20_000).for_each(|file| world.put(&format!("{file:05}"), content(&file.to_string(), 1, 500)));
    world.put("large", content("large", 1, 1 << 20));
    let (engine, dataset) = world.start().await.unwrap();
    let snapshot = dataset.snapshot();
    for (path, want) in world.origin.iter().filter(|(path, _)| *path != "large") {
        read(&dataset, snapshot.lookup(path).unwrap(), 0..want.len() as u64, false).await.unwrap();
    }
    let large = snapshot.lookup("large").unwrap();
    // Not at once: its bytes are written behind the answer.
    let mut reads = 0;
    while !dataset.is_whole(large) {
        reads += 1;
        assert!(reads <= 3, "no room is made for it");
        assert!(read(&dataset, large, 0..1 << 20, false).await.unwrap() == world.origin["large"]);
        let kept = async {
            let unkept = dataset.stats().unkept_pieces;
            while !dataset.is_whole(large) && dataset.stats().unkept_pieces == unkept {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        };
        let _ = tokio::time::timeout(std::time::Duration::from_secs(3), kept).await;
    }
    assert!(dataset.status().cached_pieces > 5000, "{} are left", dataset.status().cached_pieces);
    engine.shutdown().await;
}

/// Bytes of the files that are cached.
fn snapshot_bytes(dataset: &fodder_core::Dataset, world: &World) -> u64 {
    let snapshot = dataset.snapshot();
    let objects = world.origin.keys().map(|path| snapshot.lookup(path).unwrap());
    objects.map(|object| dataset.residence(object).cached_bytes).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_eviction_of_small_files_frees_their_space_and_says_how_much() {
    let world = world(64 << 20);
    let (engine, dataset) = world.start().await.unwrap();
    let snapshot = dataset.snapshot();
    for (path, want) in &world.origin {
        let object = snapshot.lookup(path).unwrap();
        read(&dataset, object, 0..want.len() as u64, false).await.unwrap();
    }
    let total: u64 = world.origin.values().map(|bytes| bytes.len() as u64).sum();
    let report = dataset.evict("").await.unwrap();
    assert_eq!(report.pieces, FILES as u64);
    assert!((total..total * 13 / 10 + (1 << 20)).contains(&report.bytes), "{} of {total}", report.bytes);
    let freed = async {
        while dataset.status().cached_bytes > 0 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), freed).await.expect("the next commit frees the space");
    engine.shutdown().await;
}
