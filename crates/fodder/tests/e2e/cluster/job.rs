//! A job whose ranks talk to different processes, of which one is killed: every item once, and everybody says so.

use super::{Fleet, Shape};
use crate::program::wait_for;
use fodder_api::{
    Address,
    client::{Client, Job, Timeouts},
    v1,
};
use fodder_policy::plan::Order;
use rustix::process::Signal;
use std::{collections::BTreeMap, time::Duration};

const WORLD: u32 = 6;
const ORDER: Order = Order::Seed(3);

/// A rank, as a training process is one.
struct Rank {
    rank: u32,
    job: Job,
    epoch: u64,
    number: u64,
    receipt: Vec<u8>,
    /// What it has consumed since the receipt.
    since: Vec<u32>,
}

/// How often each item of each epoch was consumed.
type Times = BTreeMap<(u64, u32), u32>;

async fn introduced(address: &str) -> Job {
    let client = Client::connect(&address.parse::<Address>().unwrap()).await.unwrap();
    let request =
        v1::IntroduceRequest { dataset: "world".into(), name: "train".into(), world: WORLD, ..Default::default() };
    client.introduce(v1::IntroduceRequest { uneven: v1::Uneven::Exact.into(), ..request }).await.unwrap().job
}

impl Rank {
    async fn new(rank: u32, address: &str) -> Self {
        let (job, receipt) = (introduced(address).await, Vec::new());
        Self { rank, job, epoch: 0, number: 0, receipt, since: Vec::new() }
    }

    async fn begin(&mut self, epoch: u64) -> Option<v1::Audit> {
        let begun = self.job.begin_epoch(self.rank, epoch, &ORDER).await.unwrap();
        (self.receipt, self.epoch, self.number) = (begun.receipt.to_vec(), epoch, 0);
        self.since.clear();
        begun.audit
    }

    async fn go_to(&mut self, address: &str) {
        self.job = introduced(address).await;
        let (receipt, since) = (self.receipt.clone(), std::mem::take(&mut self.since));
        let begun = self.job.begin_epoch_behind(self.rank, self.epoch, &ORDER, receipt.into(), since).await.unwrap();
        (self.receipt, self.number) = (begun.receipt.to_vec(), 0);
    }

    /// Takes a batch, compares its bytes, and acknowledges it if that is to be said; false after the last.
    async fn take(&mut self, contents: &[Vec<u8>], times: &mut Times, say_so: bool) -> bool {
        let Self { rank, epoch, number, .. } = *self;
        let request = v1::NextBatchRequest { epoch, rank, number, count: 4, ..Default::default() };
        let mut stream = self.job.next_batch(request).await.unwrap();
        let mut is_empty = true;
        while let Some(item) = stream.next().await.unwrap() {
            assert!(*item.data.unwrap() == contents[item.served as usize], "item {} has wrong bytes", item.served);
            self.since.push(item.asked as u32);
            *times.entry((epoch, item.asked as u32)).or_default() += 1;
            is_empty = false;
        }
        self.number += u64::from(!is_empty);
        if say_so {
            let numbers = (0..self.number).collect();
            self.receipt = self.job.acknowledge_for_receipt(epoch, rank, numbers).await.unwrap().to_vec();
            self.since.clear();
        }
        !is_empty
    }
}

#[test]
fn a_rank_of_the_client_goes_on_at_another_node_when_its_own_is_killed() {
    // When some of what it has consumed is acknowledged and some is not; and when it is about to begin an epoch.
    let kill = |fleet: &mut Fleet, at| match at {
        (0, 20) => fleet.nodes[0] = None,
        (1, 38) => fleet.nodes[1] = None,
        _ => {}
    };
    consumes_every_item_once(Timeouts::default(), kill);
}

#[test]
fn a_rank_of_the_client_goes_on_at_another_node_when_its_own_hangs() {
    // Longer than this test may take: what ends the wait is that the node does not greet either.
    let timeouts = Timeouts { progress: Duration::from_secs(3600), ..Timeouts::default() };
    let stop = |fleet: &mut Fleet, at| match at {
        (0, 20) => fleet.nodes[0].as_ref().unwrap().signal(Signal::STOP),
        (1, 38) => fleet.nodes[1].as_ref().unwrap().signal(Signal::STOP),
        _ => {}
    };
    consumes_every_item_once(timeouts, stop);
}

/// One rank in three epochs, at nodes with which something happens before it asks for a batch; in the end it is at the last.
fn consumes_every_item_once(timeouts: Timeouts, mut happens: impl FnMut(&mut Fleet, (u64, u64))) {
    let mut fleet = Fleet::with(Shape { objects: 150, bytes: 16 << 10, ..Shape::default() });
    let contents = std::mem::take(&mut fleet.contents);
    let addresses: Vec<Address> = fleet.addresses.iter().map(|address| address.parse().unwrap()).collect();
    let introduction = v1::IntroduceRequest { dataset: "world".into(), name: "train".into(), ..Default::default() };
    let rank = fodder_api::Rank::new(addresses.clone(), introduction, 0).unwrap();
    let mut rank = rank.with_patience(timeouts, Duration::from_secs(30));
    let mut times = Times::new();
    let mut audits = Vec::new();
    for epoch in 0..3 {
        audits.push(fleet.runtime.block_on(rank.begin(epoch, ORDER)).unwrap());
        for number in 0.. {
            happens(&mut fleet, (epoch, number));
            let items = fleet.runtime.block_on(rank.next(4)).unwrap();
            for item in &items {
                assert!(**item.data.as_ref().unwrap() == contents[item.served as usize], "{} is wrong", item.served);
                *times.entry((epoch, item.asked as u32)).or_default() += 1;
            }
            if items.is_empty() {
                break;
            }
        }
    }
    assert_eq!(rank.address(), &addresses[2]);
    assert_eq!(times.len(), 450);
    assert!(times.values().all(|times| *times == 1), "an item came twice");
    audits.push(fleet.runtime.block_on(rank.leave()).unwrap());
    for audit in audits.into_iter().skip(1) {
        let audit = audit.expect("a rank that is alone ends an epoch");
        assert_eq!((audit.consumed, audit.duplicates, audit.omissions), (150, 0, 0));
    }
}

#[test]
fn ranks_at_three_processes_consume_every_item_once_though_one_is_killed() {
    let mut fleet = Fleet::with(Shape { objects: 150, bytes: 16 << 10, ..Shape::default() });
    let mut times = Times::new();
    let contents = std::mem::take(&mut fleet.contents);
    let mut ranks: Vec<Rank> =
        (0..WORLD).map(|rank| fleet.runtime.block_on(Rank::new(rank, &fleet.addresses[rank as usize % 3]))).collect();
    for epoch in 0..2 {
        let mut audits = Vec::new();
        for rank in &mut ranks {
            audits.push(fleet.runtime.block_on(rank.begin(epoch)));
            // What it has consumed last it did not say.
            fleet.runtime.block_on(rank.take(&contents, &mut times, true));
            fleet.runtime.block_on(rank.take(&contents, &mut times, false));
        }
        if epoch == 1 {
            let audit = audits.pop().flatten().expect("the last to leave an epoch is told how it went");
            assert_eq!((audit.consumed, audit.duplicates, audit.omissions), (150, 0, 0));
            // Killed when dropped.
            fleet.nodes[1] = None;
            for (rank, to) in [(1, 0), (4, 2)] {
                fleet.runtime.block_on(ranks[rank].go_to(&fleet.addresses[to]));
            }
        }
        for rank in &mut ranks {
            while fleet.runtime.block_on(rank.take(&contents, &mut times, true)) {}
        }
    }
    assert_eq!(times.len(), 300);
    assert!(times.values().all(|times| *times == 1), "an item came twice");
    // Any node shows the whole job.
    for n in [0, 2] {
        let node = fleet.nodes[n].as_ref().unwrap();
        wait_for("the node to know of all ranks", || {
            let shown = node.client(&["jobs", "--json"]).good();
            let jobs: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
            let text = jobs.to_string();
            text.contains("\"consumed\":150") && text.contains("\"epoch\":1")
        });
    }
    for rank in &mut ranks {
        fleet.runtime.block_on(rank.begin(2));
    }
    for n in [0, 2] {
        let address = fleet.addresses[n].parse::<Address>().unwrap();
        let jobs = fleet.runtime.block_on(async { Client::connect(&address).await?.list_jobs(None).await }).unwrap();
        let last = jobs[0].last.expect("an epoch was closed");
        assert_eq!((last.consumed, last.duplicates, last.omissions), (150, 0, 0), "at node {n}");
    }
}
