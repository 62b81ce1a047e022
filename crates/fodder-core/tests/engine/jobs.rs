//! Jobs over real bytes: what each mode promises, through restarts of clients and bad input.

use crate::world::{World, content};
use fodder_core::{
    Dataset, Error,
    job::{Batch, BatchRequest, Introduction, JobId, Mode, Order, Resume, Scores, Start, Uneven},
};
use fodder_policy::Policy;
use std::{collections::BTreeMap, sync::Arc};

pub const ITEM_BYTES: usize = 4096;

/// A world of so many small files, item `n` being the `n`th.
pub fn world(policy: Policy, items: u32, cached: u32) -> World {
    // A file of one block costs a block; directories and the index have room of their own.
    let mut world = World::new(policy, u64::from(cached) * ITEM_BYTES as u64 + (1 << 20));
    for n in 0..items {
        let path = name(n);
        world.put(&path, content(&path, 0, ITEM_BYTES));
    }
    world
}

pub fn name(item: u32) -> String {
    format!("{item:06}.bin")
}

pub fn introduction(name: &str, mode: Mode) -> Introduction {
    Introduction { name: name.into(), mode, world: 1, uneven: Uneven::Pad, weight: 1.0, lease: None, in_step: None }
}

/// Asks for a batch and reads its bytes, which must be those of the items that were served.
pub async fn take(dataset: &Arc<Dataset>, world: &World, request: BatchRequest) -> Vec<u32> {
    let Batch { snapshot, items } = dataset.jobs().next_batch(request).await.unwrap();
    let snapshot = dataset.snapshot_by_id(snapshot).unwrap();
    for served in items.iter() {
        let item = snapshot.item(u64::from(served.served)).unwrap();
        let object = &world.origin[&dataset.objects().path(item.object)];
        let expected = &object[item.range.start as usize..item.range.end as usize];
        let reply = dataset.read(item.object, item.range).await.unwrap();
        assert!(reply.segments.concat() == expected, "the bytes of another item");
    }
    items.iter().map(|served| served.served).collect()
}

/// Takes and acknowledges batches until there is none, or `most` were taken.
pub async fn run_epoch(
    dataset: &Arc<Dataset>,
    world: &World,
    job: JobId,
    epoch: u64,
    from: u64,
    most: u64,
) -> (Vec<u32>, u64) {
    let mut got = Vec::new();
    let mut number = from;
    while number < from.saturating_add(most) {
        let items = take(dataset, world, BatchRequest { job, epoch, rank: 0, number, count: 7 }).await;
        if items.is_empty() {
            break;
        }
        dataset.jobs().acknowledge(job, epoch, 0, number).unwrap();
        number += 1;
        got.extend(items);
    }
    (got, number)
}

fn counted(got: &[u32]) -> BTreeMap<u32, u32> {
    got.iter().fold(BTreeMap::new(), |mut counts, id| {
        *counts.entry(*id).or_default() += 1;
        counts
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_mode_delivers_every_item_once_though_its_clients_restart() {
    let world = world(Policy::Lru, 200, 60);
    let (engine, dataset) = world.start().await.unwrap();
    for (n, mode) in [Mode::Strict, Mode::Reorder { window: 40 }].into_iter().enumerate() {
        let name = format!("job-{n}");
        let mut job = dataset.jobs().introduce(introduction(&name, mode)).unwrap();
        for epoch in 0..2 {
            let begun = dataset.jobs().begin(job, 0, epoch, Order::Seed(7)).unwrap();
            assert_eq!(begun.items, 200);
            let (mut got, _) = run_epoch(&dataset, &world, job, epoch, 0, 9).await;
            // A batch that nobody acknowledged is given out again after the restart.
            take(&dataset, &world, BatchRequest { job, epoch, rank: 0, number: 9, count: 7 }).await;
            let checkpoint = dataset.jobs().checkpoint(job).unwrap();
            let resume =
                Resume { start: Start::default(), job, rank: None, world: 1, checkpoint: &checkpoint, ids: None };
            let resumed = dataset.jobs().resume(resume).unwrap();
            assert_eq!((resumed.epoch, resumed.left), (epoch, 200 - 63));
            let gone = dataset.jobs().acknowledge(job, epoch, 0, 9).unwrap_err();
            assert!(matches!(gone, Error::Conflict(_)), "{gone}");
            job = resumed.job;
            got.extend(run_epoch(&dataset, &world, job, epoch, 0, u64::MAX).await.0);
            assert!(counted(&got).values().all(|count| *count == 1) && got.len() == 200, "{mode:?}");
            assert!(dataset.jobs().audit(job, epoch).unwrap().is_exact());
        }
        assert!(dataset.jobs().leave(job).unwrap().audit.is_some());
    }
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_that_is_asked_again_is_the_same_batch() {
    let world = world(Policy::Lru, 50, 20);
    let (engine, dataset) = world.start().await.unwrap();
    let job = dataset.jobs().introduce(introduction("again", Mode::Reorder { window: 20 })).unwrap();
    dataset.jobs().begin(job, 0, 0, Order::Seed(1)).unwrap();
    let request = BatchRequest { job, epoch: 0, rank: 0, number: 0, count: 10 };
    let first = take(&dataset, &world, request).await;
    assert_eq!(take(&dataset, &world, request).await, first);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scores_that_make_no_sense_have_no_effect() {
    let world = world(Policy::Importance, 20, 10);
    let (engine, dataset) = world.start().await.unwrap();
    let jobs = dataset.jobs();
    let job = jobs.introduce(introduction("scorer", Mode::Strict)).unwrap();
    let bad: [Scores<'_>; 5] = [
        Scores::Dense(&[1.0; 19]),
        Scores::Dense(&[f32::NAN; 20]),
        Scores::Sparse { ids: &[1, 2], values: &[0.5, f32::INFINITY] },
        Scores::Sparse { ids: &[20], values: &[0.5] },
        Scores::Sparse { ids: &[1, 2], values: &[0.5] },
    ];
    for scores in bad {
        let error = jobs.report_scores(job, scores).unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{error}");
    }
    let stranger = JobId(job.0 ^ (1 << 40));
    let error = jobs.report_scores(stranger, Scores::Dense(&[1.0; 20])).unwrap_err();
    assert!(matches!(error, Error::NotFound(_)), "{error}");
    jobs.report_scores(job, Scores::Dense(&[1.0; 20])).unwrap();
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plans_that_make_no_sense_are_refused_and_harm_nobody() {
    let world = world(Policy::Pending, 20, 10);
    let (engine, dataset) = world.start().await.unwrap();
    let jobs = dataset.jobs();
    let good = jobs.introduce(introduction("good", Mode::Strict)).unwrap();
    jobs.begin(good, 0, 0, Order::Seed(3)).unwrap();
    let bad = jobs.introduce(introduction("bad", Mode::Strict)).unwrap();
    for ids in [vec![1, 2, 1], vec![0, 20]] {
        let error = jobs.begin(bad, 0, 0, Order::Ids(ids.into())).unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{error}");
    }
    assert!(jobs.begin(bad, 1, 0, Order::Seed(3)).is_err(), "it has one rank");
    let nothing = BatchRequest { job: bad, epoch: 0, rank: 0, number: 0, count: 1 };
    assert!(matches!(jobs.next_batch(nothing).await.unwrap_err(), Error::NotFound(_)));
    assert_eq!(run_epoch(&dataset, &world, good, 0, 0, u64::MAX).await.0.len(), 20);
    assert!(jobs.audit(good, 0).unwrap().is_exact());
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_introductions_are_bounded_and_leave_no_trace() {
    let world = world(Policy::Minio, 10, 10);
    let (engine, dataset) = world.start().await.unwrap();
    let mut ids = Vec::new();
    for n in 0..10_000 {
        match dataset.jobs().introduce(introduction(&format!("job-{n}"), Mode::Strict)) {
            Ok(id) => ids.push(id),
            Err(error) => assert!(matches!(error, Error::Full(_)), "{error}"),
        }
    }
    assert_eq!(dataset.jobs().status().len(), ids.len());
    assert!((100..10_000).contains(&ids.len()), "{}", ids.len());
    for id in ids {
        dataset.jobs().leave(id).unwrap();
    }
    assert!(dataset.jobs().status().is_empty());
    engine.shutdown().await;
}
