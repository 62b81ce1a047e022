//! What strategies bring in, and policies that live on what jobs say, through the real engine.

use crate::{
    jobs::{self, ITEM_BYTES, introduction, run_epoch, take, world},
    layouts::{RECORDS, shards},
};
use fodder_core::{
    Dataset,
    config::Quota,
    job::{BatchRequest, Mode, Order, Scores},
    layout::Layout,
};
use fodder_policy::{
    Policy,
    fetching::Strategy,
    permutation::Permutation,
    sim::{Sizes, Study, Trace, study::Contender},
};
use std::{sync::Arc, time::Duration};

/// Waits until it is so.
async fn until(what: &str, dataset: &Dataset, so: impl Fn() -> bool) {
    let wait = async {
        while !so() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let done = tokio::time::timeout(Duration::from_secs(60), wait).await;
    done.unwrap_or_else(|_| panic!("{what} never happens: {:?}", dataset.status()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chunks_are_there_before_a_job_that_reorders_asks_for_them() {
    let mut world = world(Policy::Quiver, 400, 400);
    world.quota = Some(Quota::Bytes(100 * ITEM_BYTES as u64));
    let (engine, dataset) = world.start().await.unwrap();
    let job = dataset.jobs().introduce(introduction("chunks", Mode::Reorder { window: 400 })).unwrap();
    dataset.jobs().begin(job, 0, 0, Order::Seed(3)).unwrap();
    // Two chunks of half the cache each come before anybody asks, and no more; some of it is staged in memory.
    until("chunks", &dataset, || dataset.status().cached_pieces >= 40).await;
    assert!(dataset.stats().fetched_ahead <= 100);
    let (got, number) = run_epoch(&dataset, &world, job, 0, 0, 5).await;
    let stats = dataset.stats();
    assert_eq!((got.len(), stats.prefetched + stats.joined, stats.origin + stats.bypass), (35, 35, 0), "{stats:?}");
    assert_eq!(run_epoch(&dataset, &world, job, 0, number, u64::MAX).await.0.len(), 365);
    assert!(dataset.jobs().audit(job, 0).unwrap().is_exact());
    // They are used up: the next ones come.
    dataset.jobs().begin(job, 0, 1, Order::Seed(3)).unwrap();
    until("the next chunk", &dataset, || dataset.stats().fetched_ahead > 100).await;
    assert_eq!(run_epoch(&dataset, &world, job, 1, 0, u64::MAX).await.0.len(), 400);
    assert!(dataset.jobs().leave(job).unwrap().audit.unwrap().is_exact());
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn free_space_is_filled_with_what_jobs_still_need() {
    let mut world = world(Policy::Pending, 300, 300);
    world.quota = Some(Quota::Bytes(100 * ITEM_BYTES as u64));
    world.tuning.fetching = Some(Strategy::Pending);
    let (engine, dataset) = world.start().await.unwrap();
    let jobs = dataset.jobs();
    let pair = ["one", "two"].map(|name| jobs.introduce(introduction(name, Mode::Reorder { window: 300 })).unwrap());
    for job in pair {
        jobs.begin(job, 0, 0, Order::Seed(8)).unwrap();
    }
    // Before anybody asks.
    until("a full cache", &dataset, || dataset.status().cached_pieces >= 95).await;
    let begun = dataset.stats();
    assert!(begun.fetched_ahead >= 95 && begun.origin == 0, "{begun:?}");
    let mut numbers = [0; 2];
    for turn in 0..200 {
        let which = turn % 2;
        let (_, number) = run_epoch(&dataset, &world, pair[which], 0, numbers[which], 3).await;
        numbers[which] = number;
    }
    for job in pair {
        assert!(jobs.audit(job, 0).unwrap().is_exact());
    }
    // Two jobs share what is fetched: less than twice is read, and never by far more than a fetch for each.
    let fetched = dataset.stats().bytes_from_origin / ITEM_BYTES as u64;
    assert!(fetched < 500, "{fetched} items were fetched for two epochs over 300");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn low_score_items_come_in_packs_by_few_long_reads() {
    for layout in [Layout::Tar, Layout::Tfrecord] {
        let mut world = shards(Policy::Importance, layout, 8_000, 16 << 20);
        world.tuning.fetching = Some(Strategy::Pack);
        let (engine, dataset) = world.start().await.unwrap();
        let jobs = dataset.jobs();
        let items = dataset.snapshot().len() as u32;
        let job = jobs.introduce(introduction("packer", Mode::Strict)).unwrap();
        jobs.begin(job, 0, 0, Order::Seed(1)).unwrap();
        assert_eq!(dataset.stats().fetched_ahead, 0, "nothing has a low score yet");
        // Three tenths count as low: here the first two shards, and not quite all of those.
        let scores: Vec<f32> = (0..items).map(|id| id as f32).collect();
        jobs.report_scores(job, Scores::Dense(&scores)).unwrap();
        jobs.apply_scores(job).unwrap();
        // An item without bytes need not be fetched.
        let has_bytes = |id: &u64| !dataset.snapshot().item(*id).unwrap().range.is_empty();
        let low = (0..u64::from(items) * 3 / 10).filter(has_bytes).count() as u64;
        assert!(low <= u64::from(2 * RECORDS));
        until("packs", &dataset, || dataset.stats().fetched_ahead >= low - 2).await;
        until("their bytes", &dataset, || engine.status().budget_used_bytes == 0).await;
        let stats = dataset.stats();
        assert!(stats.fetched_ahead <= low && stats.origin_requests <= 6, "{low} are low: {stats:?}");
        let (got, _) = run_epoch(&dataset, &world, job, 0, 0, u64::MAX).await;
        assert_eq!(got.len(), items as usize);
        engine.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_says_its_plan_hits_as_often_as_is_possible() {
    const ITEMS: u32 = 300;
    const EPOCHS: u64 = 5;
    let cached = ITEMS / 5;
    let mut world = world(Policy::Plan, ITEMS, ITEMS);
    world.quota = Some(Quota::Bytes(u64::from(cached) * ITEM_BYTES as u64));
    world.tuning.fetching = Some(Strategy::Demand);
    let (engine, dataset) = world.start().await.unwrap();
    let job = dataset.jobs().introduce(introduction("planner", Mode::Strict)).unwrap();
    let landed = |dataset: &Arc<Dataset>| {
        let stats = dataset.stats();
        dataset.status().cached_pieces + stats.evicted_pieces + stats.unkept_pieces
    };
    let (mut requests, mut hits) = (Vec::new(), 0);
    for epoch in 0..EPOCHS {
        dataset.jobs().begin(job, 0, epoch, Order::Seed(9)).unwrap();
        let order = Permutation::new(ITEMS, 9, epoch);
        for number in 0..u64::from(ITEMS) {
            let before = dataset.stats();
            let got = take(&dataset, &world, BatchRequest { job, epoch, rank: 0, number, count: 1 }).await;
            assert_eq!(got, [order.at(number as u32).unwrap()]);
            requests.extend(got);
            let stats = dataset.stats();
            hits += stats.hits_ssd - before.hits_ssd;
            // What was fetched is written before the next is asked for, as it is in a simulation.
            until("a write", &dataset, || stats.origin <= landed(&dataset)).await;
        }
    }
    let trace = Trace { requests, items: ITEMS, sizes: Sizes::One, skip: 0, scores: Vec::new(), epochs: Vec::new() };
    let possible = Study::of_trace(trace).run(Contender::Belady, 0.2).hit_ratio();
    let real = hits as f64 / (u64::from(ITEMS) * EPOCHS) as f64;
    assert!((real - possible).abs() <= 0.01, "{real} hit, and {possible} is possible");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scores_take_effect_at_the_end_of_the_epoch_or_at_the_interval() {
    for interval in [None, Some(Duration::from_millis(100))] {
        let mut world = jobs::world(Policy::Importance, 50, 20);
        world.tuning.update_interval = interval;
        let (engine, dataset) = world.start().await.unwrap();
        let jobs = dataset.jobs();
        let job = jobs.introduce(introduction("scorer", Mode::Strict)).unwrap();
        jobs.begin(job, 0, 0, Order::Seed(1)).unwrap();
        jobs.report_scores(job, Scores::Dense(&[0.5; 50])).unwrap();
        if interval.is_none() {
            // The background has looked at the jobs since, and left the scores alone.
            run_epoch(&dataset, &world, job, 0, 0, u64::MAX).await;
            tokio::time::sleep(Duration::from_millis(1_500)).await;
            assert_eq!(jobs.scores_applied(), 0);
            jobs.begin(job, 0, 1, Order::Seed(1)).unwrap();
        }
        until("new scores", &dataset, || dataset.jobs().scores_applied() == 1).await;
        engine.shutdown().await;
    }
}
