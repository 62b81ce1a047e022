//! How often the origin is asked: single flight, merging, splitting, abandoning, passing by.

use crate::world::{World, content, read};
use fodder_core::{config::Quota, engine::Source};
use fodder_policy::Policy;
use std::{sync::Arc, time::Duration};

const MIB: usize = 1 << 20;

fn slow(policy: Policy, quota_bytes: u64) -> World {
    let mut world = World::new(policy, quota_bytes);
    world.origin_prefix = "throttled:latency=50ms:".into();
    world
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_readers_of_a_missing_item_cause_one_fetch() {
    let mut world = slow(Policy::Minio, 64 << 20);
    world.put("a", content("a", 0, 300_000));
    let (engine, dataset) = world.start().await.unwrap();
    let object = dataset.snapshot().lookup("a").unwrap();
    let readers: Vec<_> = (0..100)
        .map(|_| {
            let dataset = Arc::clone(&dataset);
            tokio::spawn(async move { dataset.read(object, 0..300_000).await.map(|reply| reply.source) })
        })
        .collect();
    let mut sources = Vec::new();
    for reader in readers {
        sources.push(reader.await.unwrap().unwrap());
    }
    assert_eq!(sources.iter().filter(|source| **source == Source::Origin).count(), 1);
    assert_eq!(dataset.stats().origin_requests, 1);
    assert_eq!(dataset.stats().bytes_from_origin, 300_000);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn neighbouring_missing_pieces_are_one_request_and_long_ranges_are_several() {
    let mut world = slow(Policy::Minio, 64 << 20);
    world.put("a", content("a", 0, 12 * MIB));
    let (engine, dataset) = world.start().await.unwrap();
    let object = dataset.snapshot().lookup("a").unwrap();
    dataset.read(object, MIB as u64 + 5..3 * MIB as u64).await.unwrap();
    assert_eq!(dataset.stats().origin_requests, 1);
    assert_eq!(dataset.stats().bytes_from_origin, 2 * MIB as u64);
    dataset.read(object, 4 * MIB as u64..12 * MIB as u64).await.unwrap();
    assert_eq!(dataset.stats().origin_requests, 3);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_that_the_policy_keeps_out_fetches_only_its_own_bytes() {
    let mut world = World::new(Policy::Minio, 64 << 20);
    world.put("a", content("a", 0, 10 * MIB));
    let engine = fodder_core::Engine::open(world.engine_config()).await.unwrap();
    let config = fodder_core::config::DatasetConfig { quota: Some(Quota::Bytes(4096)), ..world.dataset_config() };
    let dataset = engine.add_dataset(config).await.unwrap();
    let object = dataset.snapshot().lookup("a").unwrap();
    let reply = dataset.read(object, 5_000_000..5_008_192).await.unwrap();
    assert_eq!(reply.source, Source::Bypass);
    assert_eq!(dataset.stats().bytes_from_origin, 8192);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fetch_that_nobody_waits_for_is_abandoned_and_its_memory_given_back() {
    let mut world = World::new(Policy::Minio, 64 << 20);
    world.put("a", content("a", 0, MIB));
    world.start().await.unwrap().0.shutdown().await;
    world.origin_prefix = "throttled:latency=1h:".into();
    let (engine, dataset) = world.start().await.unwrap();
    let object = dataset.snapshot().lookup("a").unwrap();
    let reading = dataset.read(object, 0..MIB as u64);
    assert!(tokio::time::timeout(Duration::from_millis(20), reading).await.is_err());
    let given_back = async {
        while engine.status().budget_used_bytes > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), given_back).await.expect("the memory is given back");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_that_together_exceed_the_memory_budget_all_come_to_their_end() {
    let mut world = World::new(Policy::Lru, 24 << 20);
    for n in 0..16 {
        let path = format!("object-{n}");
        world.put(&path, content(&path, 0, 20 * MIB));
    }
    let (engine, dataset) = world.start().await.unwrap();
    let readers: Vec<_> = (0..16)
        .map(|n| {
            let dataset = Arc::clone(&dataset);
            tokio::spawn(async move {
                let path = format!("object-{n}");
                let object = dataset.snapshot().lookup(&path).unwrap();
                let bytes = read(&dataset, object, 0..20 * MIB as u64, true).await.unwrap();
                assert!(bytes == content(&path, 0, 20 * MIB));
            })
        })
        .collect();
    for reader in readers {
        tokio::time::timeout(Duration::from_secs(60), reader).await.expect("no reader waits for ever").unwrap();
    }
    engine.shutdown().await;
    assert_eq!(engine.status().budget_used_bytes, 0);
}
