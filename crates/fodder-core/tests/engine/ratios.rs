//! Hit ratios over real bytes are those that the simulator gives for the same requests.

use crate::jobs::{ITEM_BYTES, introduction, world};
use fodder_core::{
    Dataset,
    config::Quota,
    engine::Source,
    job::{Mode, Scores},
};
use fodder_policy::{
    Policy,
    sim::{Cues, Trace, Workload, replay, workload::Kind},
};
use std::{sync::Arc, time::Duration};

const ITEMS: u32 = 600;
const CACHED: u32 = 120;

fn trace(kind: Kind) -> Trace {
    Workload { kind, items: ITEMS, epochs: 8, skip: 2, seed: 3 }.trace()
}

/// Reads what the trace asks for; the hits among the requests that count.
async fn read_through(dataset: &Arc<Dataset>, trace: &Trace) -> f64 {
    let snapshot = dataset.snapshot();
    let mut hits = 0;
    for (at, id) in trace.requests.iter().enumerate() {
        let item = snapshot.item(u64::from(*id)).unwrap();
        let source = dataset.read(item.object, item.range).await.unwrap().source;
        hits += u32::from(at >= trace.skip && matches!(source, Source::Tier(_)));
        // The next request finds what a simulated one would: this one written.
        while source == Source::Origin && dataset.stats().origin > landed(dataset) {
            tokio::task::yield_now().await;
        }
    }
    f64::from(hits) / (trace.requests.len() - trace.skip) as f64
}

/// Pieces that were written to the cache, or could not be.
fn landed(dataset: &Dataset) -> u64 {
    let stats = dataset.stats();
    dataset.status().cached_pieces + stats.evicted_pieces + stats.unkept_pieces
}

/// What so many items are charged: each has a cell with its key in a group file, and that has blocks, their extents and a name.
fn charged(items: u32) -> u64 {
    let cells = u64::from(items) * (ITEM_BYTES as u64 + 16);
    cells.div_ceil(4096) * (4096 + 64) + 4096 + 128
}

async fn compare(policy: Policy, kind: Kind) {
    let trace = trace(kind);
    let mut world = world(policy, ITEMS, ITEMS);
    world.quota = Some(Quota::Bytes(charged(CACHED)));
    let (engine, dataset) = world.start().await.unwrap();
    if let Some(scores) = trace.scores.first() {
        let job = dataset.jobs().introduce(introduction("scorer", Mode::Strict)).unwrap();
        dataset.jobs().report_scores(job, Scores::Dense(&scores.by_id)).unwrap();
        dataset.jobs().apply_scores(job).unwrap();
        let wait = async {
            while dataset.jobs().scores_applied() == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), wait).await.expect("scores take effect");
    }
    let real = read_through(&dataset, &trace).await;
    let cues = Cues { scores: true, ..Cues::default() };
    let simulated = replay(&mut *policy.build(), &trace, u64::from(CACHED), cues).hit_ratio();
    let cached = dataset.status().cached_pieces;
    assert!((real - simulated).abs() <= 0.01, "{policy}: {real} with bytes, {simulated} simulated, {cached} cached");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uniform_epochs_hit_as_often_as_simulated() {
    for policy in [Policy::Lru, Policy::Minio, Policy::Sieve, Policy::S3Fifo] {
        compare(policy, Kind::Uniform).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn importance_sampling_hits_as_often_as_simulated() {
    for policy in [Policy::Importance, Policy::Lru] {
        compare(policy, Kind::Sbp { beta: 1.0 }).await;
    }
}
