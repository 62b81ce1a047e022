//! Jobs over records inside shards, and over a dataset that changes under them.

use crate::{
    jobs::{self, introduction, run_epoch, take},
    world::{World, content},
};
use fodder_core::{
    job::{BatchRequest, Mode, Order, Resume, Scores, Start},
    layout::Layout,
};
use fodder_policy::Policy;
use std::{collections::BTreeSet, time::Duration};

const SHARDS: u32 = 6;
pub const RECORDS: u32 = 50;

/// A member of a tar archive.
fn member(name: &str, data: &[u8]) -> Vec<u8> {
    let mut block = vec![0; 512];
    block[..name.len()].copy_from_slice(name.as_bytes());
    block[124..135].copy_from_slice(format!("{:011o}", data.len()).as_bytes());
    block[156] = b'0';
    block[257..263].copy_from_slice(b"ustar\0");
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    block.extend_from_slice(data);
    block.resize(block.len().next_multiple_of(512), 0);
    block
}

fn tar_shard(shard: u32, record_bytes: usize) -> Vec<u8> {
    let member = |record: u32| {
        let name = format!("{shard:02}/{record:04}");
        let label = member(&format!("{name}.cls"), (record % 5).to_string().as_bytes());
        [member(&format!("{name}.jpg"), &content(&name, 0, record_bytes)), label].concat()
    };
    let mut bytes: Vec<u8> = (0..RECORDS).flat_map(member).collect();
    bytes.resize(bytes.len() + 1024, 0);
    bytes
}

fn tfrecord_shard(shard: u32, record_bytes: usize) -> Vec<u8> {
    let masked = |bytes: &[u8]| {
        let crc = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32;
        crc.rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
    };
    let record = |record: u32| {
        // Some are longer than others, and one has nothing in it.
        let length = record_bytes * (record % 4) as usize;
        let payload = content(&format!("{shard}-{record}"), 0, length);
        let head = (length as u64).to_le_bytes();
        [&head[..], &masked(&head), &payload, &masked(&payload)].concat()
    };
    (0..RECORDS).flat_map(record).collect()
}

/// A world of shards, of which a part is cached.
pub fn shards(policy: Policy, layout: Layout, record_bytes: usize, quota_bytes: u64) -> World {
    let mut world = World::new(policy, quota_bytes);
    for shard in 0..SHARDS {
        let (name, bytes) = match layout {
            Layout::Tar => (format!("{shard:02}.tar"), tar_shard(shard, record_bytes)),
            _ => (format!("{shard:02}.tfrecord"), tfrecord_shard(shard, record_bytes)),
        };
        world.put(&name, bytes);
    }
    world.layout = layout;
    world
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_record_of_a_shard_is_given_once_by_each_policy_and_mode() {
    for layout in [Layout::Tar, Layout::Tfrecord] {
        for policy in [Policy::Minio, Policy::Lru, Policy::Plan, Policy::Pending, Policy::Quiver, Policy::Importance] {
            // About a third of it is cached.
            let world = shards(policy, layout.clone(), 6_000, 1 << 20);
            let (engine, dataset) = world.start().await.unwrap();
            let items = SHARDS * RECORDS;
            assert_eq!(dataset.snapshot().len(), u64::from(items));
            for (n, mode) in [Mode::Strict, Mode::Reorder { window: 100 }].into_iter().enumerate() {
                let job = dataset.jobs().introduce(introduction(&format!("job-{n}"), mode)).unwrap();
                for epoch in 0..2 {
                    dataset.jobs().begin(job, 0, epoch, Order::Seed(4)).unwrap();
                    let (got, _) = run_epoch(&dataset, &world, job, epoch, 0, u64::MAX).await;
                    let different: BTreeSet<u32> = got.iter().copied().collect();
                    assert_eq!((got.len(), different.len()), (items as usize, items as usize), "{policy} {mode:?}");
                    assert!(dataset.jobs().audit(job, epoch).unwrap().is_exact(), "{policy} {mode:?}");
                }
                dataset.jobs().leave(job).unwrap();
            }
            assert_eq!(dataset.stats().failed, 0);
            engine.shutdown().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_stays_on_its_snapshot_until_its_epoch_ends() {
    for policy in [Policy::Minio, Policy::Plan, Policy::Pending] {
        let mut world = jobs::world(policy, 100, 40);
        let (engine, dataset) = world.start().await.unwrap();
        let jobs = dataset.jobs();
        let job = jobs.introduce(introduction("stayer", Mode::Reorder { window: 30 })).unwrap();
        let begun = jobs.begin(job, 0, 0, Order::Seed(2)).unwrap();
        let (mut got, number) = run_epoch(&dataset, &world, job, 0, 0, 5).await;

        // New objects that come first in the order of names: every id is another item's from now on.
        for n in 0..20 {
            let path = format!("!{n:03}.bin");
            world.put(&path, content(&path, 0, jobs::ITEM_BYTES));
        }
        dataset.refresh().await.unwrap();
        assert_ne!(dataset.snapshot().id(), begun.snapshot);
        assert_eq!(dataset.snapshot().len(), 120);

        // What it reports is of the items it knows.
        jobs.report_scores(job, Scores::Dense(&[0.5; 100])).unwrap();
        jobs.report_scores(job, Scores::Dense(&[0.5; 120])).unwrap_err();
        let next = BatchRequest { job, epoch: 0, rank: 0, number, count: 7 };
        assert_eq!(jobs.next_batch(next).await.unwrap().snapshot, begun.snapshot);
        // A job that comes now is on the new one, and neither disturbs the other.
        let late = jobs.introduce(introduction("late", Mode::Strict)).unwrap();
        assert_eq!(jobs.begin(late, 0, 0, Order::Seed(2)).unwrap().items, 120);
        got.extend(run_epoch(&dataset, &world, job, 0, number, u64::MAX).await.0);
        got.sort_unstable();
        assert!(got.into_iter().eq(0..100), "{policy}");
        assert_eq!(run_epoch(&dataset, &world, late, 0, 0, u64::MAX).await.0.len(), 120);

        let begun = jobs.begin(job, 0, 1, Order::Seed(2)).unwrap();
        assert_eq!((begun.snapshot, begun.items), (dataset.snapshot().id(), 120));
        assert!(begun.audit.unwrap().is_exact(), "{policy}");
        let first = BatchRequest { job, epoch: 1, rank: 0, number: 0, count: 7 };
        assert_eq!(take(&dataset, &world, first).await.len(), 7);
        engine.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_resumes_is_on_the_snapshot_of_its_checkpoint() {
    let mut world = jobs::world(Policy::Pending, 60, 20);
    let (engine, dataset) = world.start().await.unwrap();
    let jobs = dataset.jobs();
    let first = jobs.introduce(introduction("again", Mode::Strict)).unwrap();
    let begun = jobs.begin(first, 0, 0, Order::Seed(2)).unwrap();
    run_epoch(&dataset, &world, first, 0, 0, 2).await;
    let checkpoint = jobs.checkpoint(first).unwrap();
    for n in 0..10 {
        let path = format!("!{n:03}.bin");
        world.put(&path, content(&path, 0, jobs::ITEM_BYTES));
    }
    dataset.refresh().await.unwrap();
    // Each time by the id it had at first, as a client does that knows no other.
    for _ in 0..3 {
        let resume =
            Resume { start: Start::default(), job: first, rank: None, world: 1, checkpoint: &checkpoint, ids: None };
        let resumed = jobs.resume(resume).unwrap();
        assert_eq!((resumed.snapshot, resumed.left), (begun.snapshot, 60 - 14));
        assert_eq!(jobs.status().len(), 1);
        let (got, _) = run_epoch(&dataset, &world, resumed.job, 0, 0, u64::MAX).await;
        assert_eq!(got.len(), 60 - 14);
        assert!(jobs.audit(resumed.job, 0).unwrap().is_exact());
    }
    let job = jobs.find("again").unwrap();
    jobs.begin(job, 0, 1, Order::Seed(2)).unwrap();
    jobs.leave(job).unwrap();
    // Nothing is left of any of its runs: what was held for it is let go of.
    let wait = async {
        while engine.status().budget_used_bytes > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), wait).await.expect("everything is let go of");
    engine.shutdown().await;
}
