//! What is there before it is asked for: prefetch by plan, and jobs in step.

use crate::jobs::{ITEM_BYTES, introduction, run_epoch, take, world};
use fodder_core::{
    Dataset,
    job::{BatchRequest, Introduction, Mode, Order},
};
use fodder_policy::{Policy, fetching::Strategy};
use std::{sync::Arc, time::Duration};

/// Waits until so many items were fetched.
async fn fetched(dataset: &Arc<Dataset>, items: u64) {
    let wait = async {
        while dataset.stats().bytes_from_origin < items * ITEM_BYTES as u64 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let done = tokio::time::timeout(Duration::from_secs(30), wait).await;
    done.unwrap_or_else(|_| panic!("{items} items are never fetched: {:?}", dataset.stats()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_plan_and_a_fast_origin_nobody_waits_for_the_origin() {
    for policy in [Policy::Minio, Policy::Lru, Policy::Plan, Policy::S3Fifo] {
        let world = world(policy, 300, 100);
        let (engine, dataset) = world.start().await.unwrap();
        let job = dataset.jobs().introduce(introduction("reader", Mode::Strict)).unwrap();
        dataset.jobs().begin(job, 0, 0, Order::Seed(11)).unwrap();
        for number in 0..43 {
            // Those that are due, and as many more as may be under way at once and arrive before them;
            // of the next epoch it may bring in some as well, but need not.
            fetched(&dataset, (number * 7 + 7 + 40).min(300)).await;
            take(&dataset, &world, BatchRequest { job, epoch: 0, rank: 0, number, count: 7 }).await;
            dataset.jobs().acknowledge(job, 0, 0, number).unwrap();
        }
        let stats = dataset.stats();
        // On a busy machine a reader may be a moment faster than what was fetched for him.
        assert!(stats.origin + stats.bypass <= 15, "{policy}: {stats:?}");
        let fetched = stats.prefetched + stats.joined + stats.origin + stats.bypass;
        assert_eq!(fetched, 300, "{policy}: none is a plain hit: {stats:?}");
        assert!(stats.prefetched > 0, "{policy}: some were there before they were asked for: {stats:?}");
        assert!(dataset.jobs().leave(job).unwrap().audit.unwrap().is_exact());
        engine.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_staged_for_one_epoch_is_brought_in_again_for_the_next() {
    let world = world(Policy::Minio, 300, 100);
    let (engine, dataset) = world.start().await.unwrap();
    let job = dataset.jobs().introduce(introduction("reader", Mode::Strict)).unwrap();
    for epoch in 0..2 {
        // Everything fits into memory, so the plan is walked to its end, and the next one too, before any item is taken.
        dataset.jobs().begin(job, 0, epoch, Order::Seed(11)).unwrap();
        let is_all_here = || {
            let status = dataset.status();
            status.stats.bytes_from_origin / ITEM_BYTES as u64 + epoch * status.cached_pieces >= 300 * (epoch + 1)
        };
        let wait = async {
            while !is_all_here() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let done = tokio::time::timeout(Duration::from_secs(60), wait).await;
        done.unwrap_or_else(|_| panic!("epoch {epoch} is never all here: {:?}", dataset.status()));
        run_epoch(&dataset, &world, job, epoch, 0, 43).await;
        assert!(dataset.stats().origin <= 15, "epoch {epoch}: {:?}", dataset.stats());
        assert!(dataset.jobs().audit(job, epoch).unwrap().is_exact());
    }
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_in_step_have_each_item_fetched_once() {
    // Hardly any of it is kept by the policy: what one job has read, the other finds staged.
    let mut world = world(Policy::Minio, 200, 10);
    world.tuning.fetching = Some(Strategy::Demand);
    let (engine, dataset) = world.start().await.unwrap();
    let in_step = |name: &str| Introduction { in_step: Some("pair".into()), ..introduction(name, Mode::Strict) };
    let jobs = ["one", "two"].map(|name| dataset.jobs().introduce(in_step(name)).unwrap());
    for epoch in 0..2 {
        let before = dataset.stats().bytes_from_origin;
        for job in jobs {
            dataset.jobs().begin(job, 0, epoch, Order::Seed(5)).unwrap();
        }
        // One runs ahead of the other, and then the other way round.
        for step in 0..5 {
            let (first, second) = if step % 2 == 0 { (jobs[0], jobs[1]) } else { (jobs[1], jobs[0]) };
            for job in [first, second] {
                let (got, _) = run_epoch(&dataset, &world, job, epoch, step * 6, 6).await;
                assert!(!got.is_empty() || step == 4);
            }
        }
        let fetched = (dataset.stats().bytes_from_origin - before) / ITEM_BYTES as u64;
        assert!(fetched <= 200, "epoch {epoch} fetched {fetched} items for two jobs");
        for job in jobs {
            assert!(dataset.jobs().audit(job, epoch).unwrap().is_exact());
        }
    }
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_prefetched_for_a_job_that_left_is_given_up() {
    let world = world(Policy::Minio, 100, 10);
    let (engine, dataset) = world.start().await.unwrap();
    let job = dataset.jobs().introduce(introduction("short", Mode::Strict)).unwrap();
    dataset.jobs().begin(job, 0, 0, Order::Seed(1)).unwrap();
    fetched(&dataset, 100).await;
    dataset.jobs().leave(job).unwrap();
    let staged = || engine.status().budget_used_bytes;
    let wait = async {
        while staged() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), wait).await.unwrap_or_else(|_| panic!("{} bytes stay", staged()));
    engine.shutdown().await;
}
