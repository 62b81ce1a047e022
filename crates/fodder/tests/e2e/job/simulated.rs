//! A node with real bytes hits as often as the simulator says it does.

use super::world::{Door, Given, ITEM_BYTES, NAME, Rank, World, client, introduction};
use crate::program::{Node, fodder, run};
use fodder_api::{
    Address, Client, Scores, Source,
    frames::{Batch, FrameClient},
};
use fodder_policy::{
    Policy,
    plan::Order,
    serving::Mode,
    sim::{Study, Trace, Workload, study::Contender, workload::Kind},
};
use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};
use tokio::runtime::Runtime;

const ITEMS: u32 = 400;
const CACHED: f64 = 0.2;

/// How long a disk may take to let go of a file. Others may keep it busy.
const PATIENCE: Duration = Duration::from_secs(180);

/// A node whose caller waits for it to write down what it fetched: the simulator's does so at once.
struct Quiet {
    runtime: Runtime,
    client: Client,
}

impl Quiet {
    fn new(node: &Node) -> Self {
        let (runtime, client) = client(node.line("socket"));
        Self { runtime, client }
    }

    /// Waits until nothing is on its way.
    fn wait(&self) {
        let started = Instant::now();
        loop {
            let status = self.runtime.block_on(self.client.status()).unwrap();
            if status.budget_used_bytes == 0 {
                return;
            }
            if started.elapsed() > PATIENCE {
                panic!("bytes are on their way for ever: {status:?}\nand the node waits for {}", waits(status.pid));
            }
        }
    }
}

/// What the threads of a node that write wait for in the kernel.
fn waits(pid: u32) -> String {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let word = |task: &fs::DirEntry, name: &str| fs::read_to_string(task.path().join(name)).unwrap_or_default();
    let waits =
        tasks.map(|task| format!("{}: {} {}", word(&task, "comm").trim(), word(&task, "wchan"), word(&task, "stack")));
    waits.filter(|wait| wait.starts_with("write-") || wait.starts_with("tier-")).collect()
}

/// The share of the counted requests of a trace that a node answers from its cache.
fn hit_ratio(node: &Node, trace: &Trace) -> f64 {
    let mut client = FrameClient::connect(&Address::Unix(Path::new(node.line("socket")).into())).unwrap();
    let handle = client.open(NAME, None).unwrap().handle;
    let (quiet, mut batch) = (Quiet::new(node), Batch::new());
    let (mut hits, mut counted) = (0, 0);
    for (at, &id) in trace.requests.iter().enumerate() {
        client.get_items(handle, &[id.into()], &mut batch).unwrap();
        let item = batch.get(0).unwrap();
        item.data.unwrap();
        let is_hit = matches!(item.source, Source::TierMem | Source::TierSsd | Source::TierHdd);
        if !is_hit {
            quiet.wait();
        }
        if at >= trace.skip {
            counted += 1;
            hits += u32::from(is_hit);
        }
    }
    f64::from(hits) / f64::from(counted)
}

#[track_caller]
fn assert_as_simulated(world: &World, kind: Kind, policy: Policy) {
    let study = Study::of_workload(Workload { kind, items: ITEMS, epochs: 6, skip: 2, seed: 7 }).unwrap();
    let node = world.start(policy.name(), CACHED);
    if let Some(scores) = study.trace().scores.first() {
        let rank = Rank::introduce(&node, Door::Grpc, introduction("scorer", Mode::Strict, 1), 0).unwrap();
        rank.begin(0, &Order::Ids([].into())).unwrap();
        let scores = Scores::Dense(scores.by_id.clone());
        rank.call(async |job| job.report_scores(scores).await).unwrap();
        // They take effect at the end of the epoch, while the trace's first epochs warm the cache.
        rank.begin(1, &Order::Ids([].into())).unwrap();
    }
    let (real, simulated) = (hit_ratio(&node, study.trace()), study.run(Contender::Policy(policy), CACHED).hit_ratio());
    assert!((real - simulated).abs() <= 0.01, "{policy}: {real:.4} through a node, {simulated:.4} simulated");
}

#[test]
fn a_node_hits_as_often_as_the_simulator_says() {
    let world = World::new(ITEMS);
    for policy in [Policy::Lru, Policy::Minio, Policy::Sieve, Policy::S3Fifo] {
        assert_as_simulated(&world, Kind::Uniform, policy);
    }
    assert_as_simulated(&world, Kind::Sbp { beta: 1.0 }, Policy::Importance);
}

#[test]
fn what_a_node_records_is_simulated_to_the_hits_it_had() {
    let world = World::new(ITEMS);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("reads.trace");
    let workload = Workload { kind: Kind::Uniform, items: ITEMS, epochs: 3, skip: 0, seed: 5 };
    let node = world.start_with("lfu", CACHED, &["--record", file.to_str().unwrap()]);
    let real = hit_ratio(&node, &workload.trace());
    assert_eq!(node.stop(), 0);
    let mut sim = fodder();
    sim.args(["sim", "--trace"]).arg(&file).args(["--cache", "0.2", "--policies", "lfu", "--json"]);
    let runs: serde_json::Value = serde_json::from_slice(&run(&mut sim).good().stdout).unwrap();
    let run = runs.as_array().unwrap().iter().find(|run| run["policy"] == "lfu").unwrap();
    assert_eq!(run["requests"], 3 * ITEMS);
    let simulated = run["hit_ratio"].as_f64().unwrap();
    assert!((real - simulated).abs() <= 0.01, "{real:.4} through a node, {simulated:.4} simulated");
}

/// One of several jobs that take turns, and what it was given in each epoch.
struct Taker {
    rank: Rank,
    seed: u64,
    /// What it had behind it of its first epoch when it began.
    head_start: u32,
    epochs: Vec<Vec<u32>>,
    planned: u32,
}

impl Taker {
    /// Takes the next item of its plan, and begins an epoch where one is due.
    fn take(&mut self, workload: &Workload, job: u32) -> Given {
        if self.epochs.last().is_none_or(|given| given.len() as u32 == self.planned) {
            let epoch = self.epochs.len() as u64;
            let order = match epoch {
                0 => Order::Ids(workload.order(job, 0).skip(self.head_start as usize).collect()),
                _ => Order::Seed(self.seed),
            };
            let begun = self.rank.begin(epoch, &order).unwrap();
            assert_eq!(begun.audit.map(|audit| audit.is_exact()), (epoch > 0).then_some(true));
            (self.planned, self.epochs) = (begun.items, [std::mem::take(&mut self.epochs), vec![Vec::new()]].concat());
        }
        let epoch = self.epochs.len() as u64 - 1;
        let given = self.epochs.last_mut().expect("an epoch has begun");
        let number = given.len() as u64;
        let before: Vec<_> = number.checked_sub(1).into_iter().collect();
        let item = self.rank.next(epoch, number, 1, &before).unwrap()[0];
        given.push(item.served);
        if given.len() as u32 == self.planned {
            self.rank.call(async |job| job.acknowledge(epoch, 0, vec![number]).await).unwrap();
        }
        item
    }
}

#[test]
fn three_jobs_that_reorder_are_given_everything_once_and_read_from_storage_as_often_as_simulated() {
    let window = ITEMS;
    let workload =
        Workload { kind: Kind::Jobs { rates: vec![1; 3], window }, items: ITEMS, epochs: 4, skip: 2, seed: 3 };
    let world = World::new(ITEMS);
    let node = world.start("pending", CACHED);
    let mut takers: Vec<_> = [Door::Frames, Door::Grpc, Door::Frames]
        .into_iter()
        .zip(0..)
        .map(|(door, job)| {
            let request = introduction(&format!("job-{job}"), Mode::Reorder { window }, 1);
            let rank = Rank::introduce(&node, door, request, 0).unwrap();
            let (seed, head_start) = (workload.seed + u64::from(job), job * ITEMS / 3);
            Taker { rank, seed, head_start, epochs: Vec::new(), planned: 0 }
        })
        .collect();
    let quiet = Quiet::new(&node);
    let from_storage = || node.status()["datasets"][0]["stats"]["bytes_from_origin"].as_u64().unwrap();
    let mut before = 0;
    for round in 0..workload.epochs * ITEMS {
        if round == workload.skip * ITEMS {
            before = from_storage();
        }
        for (job, taker) in takers.iter_mut().enumerate() {
            if !taker.take(&workload, job as u32).is_hit() {
                quiet.wait();
            }
        }
    }
    let real = (from_storage() - before) as f64 / ITEM_BYTES as f64;
    let tally = Study::of_workload(workload.clone()).unwrap().run(Contender::Policy(Policy::Pending), CACHED);
    let simulated = (tally.requests - tally.hits) as f64;
    assert!((real / simulated - 1.0).abs() <= 0.05, "{real} reads from storage, {simulated} simulated");

    for (job, taker) in takers.iter().enumerate() {
        let (last, whole) = taker.epochs.split_last().expect("epochs were run");
        assert!(whole.len() >= 3);
        for (epoch, given) in whole.iter().enumerate() {
            let mut ids = given.clone();
            ids.sort_unstable();
            let mut planned: Vec<_> = workload.order(job as u32, epoch as u32).collect();
            planned.drain(..if epoch == 0 { taker.head_start as usize } else { 0 });
            planned.sort_unstable();
            assert_eq!(ids, planned, "job {job}, epoch {epoch}");
        }
        assert!(last.len() <= ITEMS as usize);
    }
}
