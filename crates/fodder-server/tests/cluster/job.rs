//! A job whose ranks talk to different nodes: one plan, one ledger, one audit, whoever is asked and whoever dies.

use crate::world::{NAME, One, World, introduce, until};
use bytes::Bytes;
use fodder_api::{
    Address,
    client::{Client, Job},
    v1,
};
use fodder_core::job::{Audit, BatchRequest, Introduction, JobId, Order, Start};
use futures::future::join_all;
use std::collections::BTreeMap;

pub(crate) const BYTES: usize = 4 << 10;
pub(crate) const ITEMS: usize = 97;
pub(crate) const ORDER: Order = Order::Seed(11);

/// A rank, as a training process is one.
pub(crate) struct Rank {
    pub(crate) rank: u32,
    world: u32,
    pub(crate) job: Job,
    number: u64,
    epoch: u64,
    receipt: Bytes,
    /// What it has consumed since the receipt.
    since: Vec<u32>,
    consumed: Vec<(u64, u32)>,
}

async fn introduced(one: &One, world: u32) -> Job {
    let client = Client::connect(&one.me.address.parse::<Address>().unwrap()).await.unwrap();
    let request = v1::IntroduceRequest { dataset: NAME.into(), name: "train".into(), world, ..Default::default() };
    client.introduce(v1::IntroduceRequest { uneven: v1::Uneven::Exact.into(), ..request }).await.unwrap().job
}

impl Rank {
    pub(crate) async fn new(one: &One, rank: u32, world: u32) -> Self {
        let job = introduced(one, world).await;
        let (receipt, since, consumed) = (Bytes::new(), Vec::new(), Vec::new());
        Self { rank, world, job, number: 0, epoch: 0, receipt, since, consumed }
    }

    pub(crate) async fn begin(&mut self, epoch: u64) -> Option<v1::Audit> {
        let begun = self.job.begin_epoch(self.rank, epoch, &ORDER).await.unwrap();
        (self.receipt, self.epoch, self.number) = (begun.receipt, epoch, 0);
        self.since.clear();
        begun.audit
    }

    /// Goes to another node with what it can show.
    async fn go_to(&mut self, one: &One) {
        self.job = introduced(one, self.world).await;
        let (receipt, since) = (self.receipt.clone(), std::mem::take(&mut self.since));
        let begun = self.job.begin_epoch_behind(self.rank, self.epoch, &ORDER, receipt, since).await.unwrap();
        (self.receipt, self.number) = (begun.receipt, 0);
    }

    /// Takes a batch, if there is one more. Says so to the node now and then.
    async fn take(&mut self, say_so: bool) -> bool {
        let request = v1::NextBatchRequest {
            epoch: self.epoch,
            rank: self.rank,
            number: self.number,
            count: 4,
            ..Default::default()
        };
        let mut stream = self.job.next_batch(request).await.unwrap();
        let before = self.consumed.len();
        while let Some(item) = stream.next().await.unwrap() {
            assert!(!item.data.unwrap().is_empty());
            self.since.push(item.asked as u32);
            self.consumed.push((self.epoch, item.asked as u32));
        }
        if self.consumed.len() == before {
            return false;
        }
        self.number += 1;
        if say_so {
            let numbers = (0..self.number).collect();
            self.receipt = self.job.acknowledge_for_receipt(self.epoch, self.rank, numbers).await.unwrap();
            self.since.clear();
        }
        true
    }

    pub(crate) async fn take_all(&mut self) {
        while self.take(true).await {}
    }
}

/// What a node says of an epoch.
fn audit(one: &One, epoch: u64) -> Option<Audit> {
    let job: JobId = one.dataset.jobs().find("train")?;
    one.dataset.jobs().audit(job, epoch).ok()
}

/// Every node says that each item was consumed once.
pub(crate) async fn exact_everywhere(nodes: &[&One], epoch: u64) {
    let whole = |audit: Audit| audit.is_exact() && audit.consumed == ITEMS as u64;
    let is_exact = || nodes.iter().all(|one| audit(one, epoch).is_some_and(whole));
    until("every node to know of all ranks", is_exact).await;
}

pub(crate) fn each_once(ranks: &[Rank], epochs: u64) {
    let mut times = BTreeMap::<(u64, u32), u32>::new();
    ranks.iter().flat_map(|rank| &rank.consumed).for_each(|key| *times.entry(*key).or_default() += 1);
    assert!(times.values().all(|times| *times == 1), "an item came twice: {times:?}");
    assert_eq!(times.len() as u64, epochs * ITEMS as u64);
}

#[tokio::test(flavor = "multi_thread")]
async fn ranks_at_three_nodes_share_an_epoch_though_one_of_the_nodes_dies() {
    let world = World::new(ITEMS, BYTES).await;
    let mut nodes = world.nodes(3, 1 << 30).await;
    let mut ranks = join_all((0..6).map(|rank| Rank::new(&nodes[rank as usize % 3], rank, 6))).await;
    for rank in &mut ranks {
        rank.begin(0).await;
        rank.take(true).await;
    }
    // A checkpoint of the job has what all of its ranks have consumed, at any node.
    let checkpoints = join_all(ranks.iter().take(3).map(|rank| rank.job.checkpoint())).await;
    assert!(checkpoints.iter().all(|bytes| bytes.as_ref().unwrap() == checkpoints[0].as_ref().unwrap()));
    for rank in &mut ranks {
        rank.take_all().await;
    }
    exact_everywhere(&nodes.iter().collect::<Vec<_>>(), 0).await;

    let mut audits = Vec::new();
    for rank in &mut ranks {
        audits.push(rank.begin(1).await);
        // What it has consumed last it did not say.
        rank.take(true).await;
        rank.take(false).await;
    }
    assert!(audits[..5].iter().all(Option::is_none), "{audits:?}");
    let last = audits.pop().flatten().unwrap();
    assert_eq!((last.consumed, last.duplicates, last.omissions), (ITEMS as u64, 0, 0));

    nodes[1].die();
    introduce(&[&nodes[0], &nodes[2]]).await;
    for rank in [1, 4] {
        let to = &nodes[if rank == 1 { 0 } else { 2 }];
        ranks[rank].go_to(to).await;
    }
    for rank in &mut ranks {
        rank.take_all().await;
    }
    each_once(&ranks, 2);
    exact_everywhere(&[&nodes[0], &nodes[2]], 1).await;
    for rank in &ranks {
        rank.job.clone().leave_rank(rank.rank).await.unwrap();
    }
    until("the job to be gone", || [0, 2].iter().all(|one| nodes[*one].dataset.jobs().status().is_empty())).await;
    join_all(nodes.into_iter().map(One::end)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_halves_go_on_alone_and_agree_when_they_meet_again() {
    let world = World::new(ITEMS, BYTES).await;
    let nodes = world.nodes(2, 1 << 30).await;
    let mut ranks = join_all((0..4).map(|rank| Rank::new(&nodes[rank as usize % 2], rank, 4))).await;
    for rank in &mut ranks {
        rank.begin(0).await;
    }
    for one in &nodes {
        introduce(&[one]).await;
    }
    for rank in &mut ranks {
        rank.take_all().await;
    }
    // Each half knows of its own ranks alone.
    let known: Vec<u64> = nodes.iter().map(|one| audit(one, 0).unwrap().consumed).collect();
    assert_eq!(known.iter().sum::<u64>(), ITEMS as u64);
    introduce(&nodes.iter().collect::<Vec<_>>()).await;
    exact_everywhere(&nodes.iter().collect::<Vec<_>>(), 0).await;
    each_once(&ranks, 1);
    join_all(nodes.into_iter().map(One::end)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_resumes_at_one_node_resumes_at_all() {
    let world = World::new(ITEMS, BYTES).await;
    let nodes = world.nodes(2, 1 << 30).await;
    let mut ranks = join_all((0..2).map(|rank| Rank::new(&nodes[rank as usize], rank, 2))).await;
    for rank in &mut ranks {
        rank.begin(0).await;
        rank.take(true).await;
        rank.take(true).await;
    }
    let checkpoint = ranks[1].job.checkpoint().await.unwrap();
    ranks[0].take(true).await;
    // On three ranks now, of which two are at the second node.
    let mut after = Vec::new();
    for rank in 0..3u32 {
        let job = &ranks[usize::from(rank > 0)].job;
        let (job, resumed) = job.resume(checkpoint.clone(), 3, Some(rank), None, Start::default()).await.unwrap();
        assert_eq!(resumed.left as usize, ITEMS - 16);
        let mut rank = Rank { job, ..Rank::new_like(&ranks[0], rank) };
        rank.begin(0).await;
        after.push(rank);
    }
    let error = ranks[1].job.checkpoint().await.unwrap_err();
    assert!(error.to_string().contains("belongs to the earlier run"), "{error}");
    for rank in &mut after {
        rank.take_all().await;
    }
    exact_everywhere(&nodes.iter().collect::<Vec<_>>(), 0).await;
    join_all(nodes.into_iter().map(One::end)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_asks_a_node_for_jobs_hears_of_those_at_other_nodes() {
    let world = World::new(ITEMS, BYTES).await;
    let nodes = world.nodes(2, 1 << 30).await;
    let mut rank = Rank::new(&nodes[0], 0, 1).await;
    rank.begin(0).await;
    rank.take_all().await;
    // The others have not heard of this one, and so tell it nothing by themselves.
    let late = world.node(77, 1 << 30).await;
    late.meet(&[nodes[0].me.clone(), nodes[1].me.clone(), late.me.clone()]).await;
    let client = Client::connect(&late.me.address.parse::<Address>().unwrap()).await.unwrap();
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(60);
    let jobs = loop {
        let jobs = client.list_jobs(Some(NAME)).await.unwrap();
        if !jobs.is_empty() {
            break jobs;
        }
        assert!(tokio::time::Instant::now() < deadline, "nobody was asked");
    };
    assert_eq!((jobs.len(), jobs[0].name.as_str(), jobs[0].consumed), (1, "train", ITEMS as u32));
    join_all(nodes.into_iter().map(One::end)).await;
    late.end().await;
}

/// More ranks than one message between nodes has room for.
const MANY: u32 = 8_000;

#[tokio::test(flavor = "multi_thread")]
async fn what_others_know_of_a_job_is_heard_whole_though_it_is_longer_than_a_message() {
    let world = World::new(ITEMS, BYTES).await;
    let nodes = world.nodes(1, 1 << 30).await;
    let jobs = nodes[0].dataset.jobs();
    let introduction = Introduction { world: MANY, ..Introduction::new("train") };
    let job = jobs.introduce(introduction.clone()).unwrap();
    for rank in 0..MANY {
        jobs.begin(job, rank, 0, ORDER).unwrap();
    }
    // What is told last.
    jobs.begin(job, 0, 1, ORDER).unwrap();
    jobs.next_batch(BatchRequest { job, epoch: 1, rank: 0, number: 0, count: 1 }).await.unwrap();
    jobs.acknowledge(job, 1, 0, 0).unwrap();
    jobs.introduce(Introduction::new("z, which comes behind it")).unwrap();
    let known = jobs.audit(job, 1).unwrap();
    assert_eq!(known.consumed, 1);

    // The other has not heard of this one, and so tells it nothing by itself.
    let late = world.node(77, 1 << 30).await;
    late.meet(&[nodes[0].me.clone(), late.me.clone()]).await;
    let client = Client::connect(&late.me.address.parse::<Address>().unwrap()).await.unwrap();
    let named = v1::IntroduceRequest { dataset: NAME.into(), name: "train".into(), world: MANY, ..Default::default() };
    client.introduce(named).await.unwrap();
    let there = late.dataset.jobs();
    assert_eq!(there.audit(there.find("train").unwrap(), 1).unwrap(), known);
    assert_eq!(client.list_jobs(Some(NAME)).await.unwrap().len(), 2);
    join_all(nodes.into_iter().map(One::end)).await;
    late.end().await;
}

impl Rank {
    fn new_like(other: &Self, rank: u32) -> Self {
        let (receipt, since, consumed) = (Bytes::new(), Vec::new(), Vec::new());
        Self { rank, world: 3, job: other.job.clone(), number: 0, epoch: 0, receipt, since, consumed }
    }
}
