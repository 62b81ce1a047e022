//! Advice from what a node has measured: of a slow origin, of a full cache, of the wrong policy.

use crate::{
    jobs::{self, ITEM_BYTES},
    world::World,
};
use fodder_core::{
    Dataset,
    engine::{Advice, Limit},
    job::{BatchRequest, Mode, Order},
};
use fodder_policy::{Policy, permutation::Permutation};
use std::sync::Arc;

const ITEMS: u32 = 300;
const READERS: u32 = 8;

/// Epochs that several readers share, each with a read at a time.
async fn read_epochs(dataset: &Arc<Dataset>, epochs: u64) {
    for epoch in 0..epochs {
        let readers = (0..READERS).map(|reader| {
            let dataset = Arc::clone(dataset);
            tokio::spawn(async move {
                let order = Permutation::new(ITEMS, 7, epoch);
                for id in (reader..ITEMS).step_by(READERS as usize).filter_map(|place| order.at(place)) {
                    let item = dataset.snapshot().item(u64::from(id)).unwrap();
                    let bytes = dataset.read(item.object, item.range).await.unwrap().segments.concat();
                    assert_eq!(bytes.len(), ITEM_BYTES);
                }
            })
        });
        for reader in readers.collect::<Vec<_>>() {
            reader.await.unwrap();
        }
    }
}

fn world(policy: Policy, cached: u32) -> World {
    let mut world = jobs::world(policy, ITEMS, cached);
    world.origin_prefix = "throttled:latency=20ms:".into();
    world
}

/// Of the table's row that is called so: hits, and the speed if it can be told.
fn row(advice: &Advice, what: &str) -> (f64, Option<f64>) {
    let row = advice.rows.iter().find(|row| row.what == what).unwrap_or_else(|| panic!("no row {what:?} in {advice}"));
    (row.hit_ratio, row.speed)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_of_a_slow_origin_are_told_that_they_wait_for_storage() {
    let mut world = world(Policy::Lru, 0);
    world.quota_bytes = u64::from(ITEMS) * ITEM_BYTES as u64 / 5;
    let (engine, dataset) = world.start().await.unwrap();
    let advice = dataset.advise().await.unwrap();
    assert_eq!((advice.limit, advice.rows.len()), (None, 0));
    assert!(advice.sentences[0].contains("has been read since"), "{advice}");

    read_epochs(&dataset, 5).await;
    let advice = dataset.advise().await.unwrap();
    assert_eq!(advice.limit, Some(Limit::Storage), "{advice}");
    assert!(advice.storage_share > 0.5, "{advice}");
    // A fifth of it cached: LRU hits next to nothing of epochs, and MinIO would hit a fifth.
    assert_eq!(advice.policy, Some(Policy::Minio), "{advice}");
    let (now, minio) = (row(&advice, "now"), row(&advice, "policy minio"));
    assert!(now.0 < 0.12 && minio.0 > now.0 + 0.05 && minio.1 > now.1, "{advice}");
    assert!(row(&advice, "twice the cache").0 > now.0, "{advice}");
    assert!(row(&advice, "twice the bandwidth").1 >= now.1, "{advice}");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_of_a_full_cache_are_told_that_storage_is_not_it() {
    let world = world(Policy::Minio, ITEMS * 2);
    let (engine, dataset) = world.start().await.unwrap();
    read_epochs(&dataset, 1).await;
    let advice = dataset.advise().await.unwrap();
    assert_eq!(advice.limit, Some(Limit::Storage), "{advice}");
    assert!(row(&advice, "everything cached").1 > Some(1.5), "{advice}");
    assert!(advice.sentences[1].contains("there is room"), "{advice}");
    // What a busy disk did not take at once is offered to it again.
    for _ in 0..50 {
        if dataset.status().cached_pieces == dataset.status().pieces {
            break;
        }
        read_epochs(&dataset, 1).await;
    }
    engine.shutdown().await;
    drop((engine, dataset));

    let (engine, dataset) = world.start().await.unwrap();
    read_epochs(&dataset, 3).await;
    let advice = dataset.advise().await.unwrap();
    assert_eq!((advice.limit, advice.storage_share), (Some(Limit::Own), 0.0), "{advice}");
    assert_eq!(row(&advice, "now"), (1.0, Some(1.0)), "{advice}");
    assert_eq!(row(&advice, "half the cache").1.is_none(), row(&advice, "half the cache").0 < 1.0, "{advice}");
    assert!(advice.sentences[1].starts_with("Neither more cache nor more bandwidth"), "{advice}");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ranks_that_read_from_the_cache_share_the_waiting_of_those_who_do_not() {
    let world = world(Policy::Minio, ITEMS * 2);
    let (engine, dataset) = world.start().await.unwrap();
    let introduction = fodder_core::job::Introduction { world: 4, ..jobs::introduction("wide", Mode::Strict) };
    let job = dataset.jobs().introduce(introduction).unwrap();
    for rank in 0..4 {
        dataset.jobs().begin(job, rank, 0, Order::Seed(1)).unwrap();
    }
    // One rank of four reads, and waits for all it reads.
    for number in 0..8 {
        jobs::take(&dataset, &world, BatchRequest { job, epoch: 0, rank: 0, number, count: 7 }).await;
    }
    let advice = dataset.advise().await.unwrap();
    assert!(advice.storage_share > 0.05 && advice.storage_share <= 0.25, "{advice}");
    engine.shutdown().await;
}
