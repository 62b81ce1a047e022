//! What is there before it is asked for: prefetch by plan, and jobs in step.

use crate::{
    jobs::{ITEM_BYTES, introduction, run_epoch, take, world},
    world::{World, content},
};
use fodder_core::{
    Dataset, Error,
    config::Quota,
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
        // A list, and no seed: nothing is known of a next epoch, of which some could come before the last of this one.
        dataset.jobs().begin(job, 0, 0, Order::Ids((0..300).map(|n| n * 7 % 300).collect())).unwrap();
        for number in 0..43 {
            // Those that are due, and as many more as may be under way at once and arrive before them.
            fetched(&dataset, (number * 7 + 7 + 40).min(300)).await;
            take(&dataset, &world, BatchRequest { job, epoch: 0, rank: 0, number, count: 7 }).await;
            dataset.jobs().acknowledge(job, 0, 0, number).unwrap();
        }
        let stats = dataset.stats();
        // However slow the machine is: what is due was proposed before, and is here or on its way.
        assert_eq!(stats.origin + stats.bypass, 0, "{policy}: {stats:?}");
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
        assert_eq!(dataset.stats().origin + dataset.stats().bypass, 0, "epoch {epoch}: {:?}", dataset.stats());
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
async fn a_lease_does_not_wait_for_what_is_staged_for_another_job() {
    let mut world = world(Policy::Minio, 20, 20);
    for path in world.origin.keys().cloned().collect::<Vec<_>>() {
        // Large enough for a cache file of its own.
        world.put(&path, content(&path, 0, 2 * ITEM_BYTES));
    }
    world.quota = Some(Quota::Bytes(1));
    world.tuning.fetching = Some(Strategy::Demand);
    let (engine, dataset) = world.start().await.unwrap();
    let in_step = |name: &str| Introduction { in_step: Some("pair".into()), ..introduction(name, Mode::Strict) };
    let jobs = ["one", "two"].map(|name| dataset.jobs().introduce(in_step(name)).unwrap());
    for job in jobs {
        dataset.jobs().begin(job, 0, 0, Order::Seed(5)).unwrap();
    }
    // One has read it, and it waits in memory until the other has too.
    let item = take(&dataset, &world, BatchRequest { job: jobs[0], epoch: 0, rank: 0, number: 0, count: 1 }).await[0];
    let object = dataset.snapshot().item(u64::from(item)).unwrap().object;
    let lease = tokio::time::timeout(Duration::from_secs(30), dataset.lease(object)).await.expect("it is answered");
    assert!(matches!(lease, Err(Error::Full(_))), "{lease:?}");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_fetched_ahead_takes_no_room_from_what_can() {
    const MIB: usize = 1 << 20;
    let mut world = World::new(Policy::Minio, 64 << 20);
    world.quota = Some(Quota::Bytes(1));
    for n in 0..40 {
        let path = format!("{n:02}");
        world.put(&path, content(&path, 0, MIB));
    }
    let (engine, dataset) = world.start().await.unwrap();
    // As many of them as there is room for in memory are gone from the origin.
    for n in 0..8 {
        world.remove(&format!("{n:02}"));
    }
    let job = dataset.jobs().introduce(introduction("reader", Mode::Strict)).unwrap();
    dataset.jobs().begin(job, 0, 0, Order::Ids((0..40).collect())).unwrap();
    let tried = async {
        while dataset.stats().origin_requests < 8 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), tried).await.expect("they are tried");
    // Whoever was given them cannot read them either, and goes on.
    dataset.jobs().next_batch(BatchRequest { job, epoch: 0, rank: 0, number: 0, count: 8 }).await.unwrap();
    dataset.jobs().acknowledge(job, 0, 0, 0).unwrap();
    fetched(&dataset, (8 * MIB / ITEM_BYTES) as u64).await;
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_fetched_ahead_and_finds_no_room_on_disk_waits_in_memory() {
    let mut world = world(Policy::Lru, 300, 300);
    world.quota = Some(Quota::Bytes(30 * ITEM_BYTES as u64));
    let (engine, dataset) = world.start().await.unwrap();
    let job = dataset.jobs().introduce(introduction("reader", Mode::Strict)).unwrap();
    dataset.jobs().begin(job, 0, 0, Order::Seed(11)).unwrap();
    // The policy would keep every piece, but a tenth of them fills its shelf, and all of these are still to be read.
    let here = || {
        let staged = engine.status().budget_used_bytes / ITEM_BYTES as u64;
        dataset.stats().bytes_from_origin >= 300 * ITEM_BYTES as u64 && dataset.status().cached_pieces + staged >= 300
    };
    let wait = async {
        while !here() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let done = tokio::time::timeout(Duration::from_secs(60), wait).await;
    done.unwrap_or_else(|_| panic!("not everything is here: {:?} {:?}", engine.status(), dataset.stats()));
    assert_eq!(run_epoch(&dataset, &world, job, 0, 0, u64::MAX).await.0.len(), 300);
    let stats = dataset.stats();
    // The last of them may still have been on their way to the disk.
    assert_eq!((stats.prefetched + stats.joined, stats.origin + stats.bypass), (300, 0), "{stats:?}");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_reorders_is_given_what_is_staged_before_it_waits_for_the_origin() {
    let mut world = world(Policy::Minio, 60, 60);
    world.quota = Some(Quota::Bytes(5 * ITEM_BYTES as u64));
    world.origin_prefix = "throttled:latency=2s:".into();
    let (engine, dataset) = world.start().await.unwrap();
    let jobs = dataset.jobs();
    // Twenty items are brought in for one job. Five of them are kept, the others are staged.
    let first = jobs.introduce(introduction("first", Mode::Strict)).unwrap();
    jobs.begin(first, 0, 0, Order::Ids((0..20).collect())).unwrap();
    fetched(&dataset, 20).await;
    // Another would take all items from behind, but these are at hand.
    let backwards: Arc<[u32]> = (0..60).rev().collect();
    let at_hand = async {
        for attempt in 0.. {
            let job = jobs.introduce(introduction(&format!("second-{attempt}"), Mode::Reorder { window: 60 })).unwrap();
            jobs.begin(job, 0, 0, Order::Ids(Arc::clone(&backwards))).unwrap();
            let request = BatchRequest { job, epoch: 0, rank: 0, number: 0, count: 15 };
            let batch = jobs.next_batch(request).await.unwrap();
            jobs.leave(job).unwrap();
            if batch.items.iter().all(|given| given.served < 20) {
                return;
            }
            // The last of them was still on its way.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), at_hand).await.expect("what is staged is given first");
    assert!(dataset.status().cached_pieces <= 5);
    engine.shutdown().await;
}

/// Waits until so many pieces are cached.
async fn cached(dataset: &Arc<Dataset>, pieces: u64) {
    let wait = async {
        while dataset.status().cached_pieces != pieces {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let done = tokio::time::timeout(Duration::from_secs(30), wait).await;
    done.unwrap_or_else(|_| panic!("{pieces} pieces are never cached: {:?}", dataset.status()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prefetching_does_not_undo_an_eviction_until_the_job_requests_its_next_batch() {
    for policy in [Policy::Minio, Policy::Lru, Policy::Plan] {
        let world = world(policy, 60, 400);
        let (engine, dataset) = world.start().await.unwrap();
        let job = dataset.jobs().introduce(introduction("reader", Mode::Strict)).unwrap();
        dataset.jobs().begin(job, 0, 0, Order::Seed(3)).unwrap();
        take(&dataset, &world, BatchRequest { job, epoch: 0, rank: 0, number: 0, count: 7 }).await;
        cached(&dataset, 60).await;
        let report = dataset.evict("").await.unwrap();
        assert_eq!(report.pieces, 60, "{policy}: {report:?}");
        assert!(report.bytes >= 60 * ITEM_BYTES as u64, "{policy}: {report:?}");
        assert_eq!(report.remainder.jobs, ["reader"], "{policy}: {report:?}");
        assert_eq!((report.remainder.leased_files, report.remainder.fetching_pieces), (0, 0), "{policy}: {report:?}");
        // Jobs are looked after once a second, which also wakes the prefetcher.
        let refilled = async {
            while dataset.status().cached_pieces == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let refilled = tokio::time::timeout(Duration::from_millis(2500), refilled).await;
        assert!(refilled.is_err(), "{policy}: an idle job fetched again: {:?}", dataset.status());
        take(&dataset, &world, BatchRequest { job, epoch: 0, rank: 0, number: 1, count: 7 }).await;
        // All but those of the first batch, which the next epoch may bring in as well.
        fetched(&dataset, 60 + 53).await;
        run_epoch(&dataset, &world, job, 0, 2, 43).await;
        assert!(dataset.jobs().leave(job).unwrap().audit.is_some_and(|audit| audit.duplicates == 0));
        engine.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_eviction_reports_what_is_staged_in_memory_for_jobs() {
    let mut world = world(Policy::Minio, 20, 20);
    world.quota = Some(Quota::Bytes(1));
    let (engine, dataset) = world.start().await.unwrap();
    let job = dataset.jobs().introduce(introduction("reader", Mode::Strict)).unwrap();
    dataset.jobs().begin(job, 0, 0, Order::Seed(3)).unwrap();
    fetched(&dataset, 20).await;
    let staged = async {
        while dataset.evict("").await.unwrap().remainder.staged_pieces < 20 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), staged).await.expect("all are staged");
    let report = dataset.evict("").await.unwrap();
    assert_eq!((report.pieces, report.bytes), (0, 0));
    assert_eq!(report.remainder.staged_bytes, 20 * ITEM_BYTES as u64);
    dataset.jobs().leave(job).unwrap();
    let released = async {
        while dataset.evict("").await.unwrap().remainder != Default::default() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), released).await.expect("nothing remains when the job is gone");
    engine.shutdown().await;
}
