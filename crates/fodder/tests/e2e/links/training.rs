//! A job whose ranks are beside different nodes, and whose epochs last through whatever happens to these. Every item must come
//! to one rank, once, and every node must come to say so.

use super::fleet::Fleet;
use crate::program::wait_for;
use fodder_api::{Address, Client, Error, Job, Timeouts, v1};
use fodder_policy::plan::Order;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    thread::{self, JoinHandle},
    time::Duration,
};
use tokio::runtime::Runtime;

const ORDER: Order = Order::Seed(11);

/// What ranks and those who trouble them know of each other.
#[derive(Debug)]
struct Gate {
    /// How far ranks may go: up to the mischief, through it, or to the end.
    stage: AtomicU64,
    /// Batches that each rank has taken.
    taken: Vec<AtomicU64>,
    /// Whose node was killed in this epoch.
    killed: Vec<AtomicBool>,
    /// Whose node does not answer now.
    absent: Vec<AtomicBool>,
}

/// Batches that a rank takes before the mischief, and until its end.
const STAGES: [u64; 2] = [2, 5];

/// An epoch that goes on beside the test.
pub(crate) struct Epoch {
    number: u64,
    gate: Arc<Gate>,
    ranks: Vec<JoinHandle<Vec<u32>>>,
}

impl Epoch {
    /// Begins an epoch, one rank beside each node; ready when each rank has taken some of it, and every node has said that the
    /// one before was whole.
    pub(crate) fn begin(fleet: &Fleet, number: u64) -> Self {
        let count = fleet.nodes.len();
        let flags = || (0..count).map(|_| AtomicBool::new(false)).collect();
        let taken = (0..count).map(|_| AtomicU64::new(0)).collect();
        let gate = Arc::new(Gate { stage: AtomicU64::new(0), taken, killed: flags(), absent: flags() });
        let ranks = (0..count).map(|rank| {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
            let mut rank = Rank {
                rank: rank as u32,
                at: rank,
                sockets: (0..count).map(|n| fleet.socket(n)).collect(),
                contents: Arc::clone(&fleet.contents),
                gate: Arc::clone(&gate),
                runtime,
                job: None,
                epoch: number,
                batch: 0,
                receipt: Vec::new(),
                since: Vec::new(),
                consumed: Vec::new(),
            };
            thread::spawn(move || rank.run())
        });
        let mut epoch = Self { number, ranks: ranks.collect(), gate };
        epoch.wait_for_batches(&(0..count).collect::<Vec<_>>(), STAGES[0]);
        if number > 0 {
            (0..count).for_each(|n| was_whole(fleet, n));
        }
        epoch
    }

    /// From now on these nodes do not answer, and some of them because they were killed.
    pub(crate) fn trouble(&self, absent: &[usize], killed: &[usize]) {
        for (n, flag) in self.gate.absent.iter().enumerate() {
            flag.store(absent.contains(&n), SeqCst);
        }
        killed.iter().for_each(|n| self.gate.killed[*n].store(true, SeqCst));
    }

    /// Lets ranks go on through the mischief; ready when those whose nodes answer have.
    pub(crate) fn go_on(&mut self, present: &[usize]) {
        self.gate.stage.store(1, SeqCst);
        self.wait_for_batches(present, STAGES[1]);
    }

    /// Lets ranks go on to the end, and looks at what they got and at what the nodes say of it.
    pub(crate) fn end(mut self, fleet: &Fleet) {
        self.gate.stage.store(2, SeqCst);
        let ranks = std::mem::take(&mut self.ranks);
        let mut consumed: Vec<u32> = ranks.into_iter().flat_map(|rank| rank.join().expect("a rank failed")).collect();
        consumed.sort_unstable();
        let all: Vec<u32> = (0..fleet.contents.len() as u32).collect();
        assert_eq!(consumed, all, "every item comes to one rank, once");
        for n in 0..fleet.nodes.len() {
            wait_for("a node to know what all ranks consumed", || {
                let jobs = fleet.jobs(n);
                jobs.iter().any(|job| is_whole(job, self.number, all.len() as u64))
            });
        }
    }

    fn wait_for_batches(&mut self, who: &[usize], count: u64) {
        wait_for("ranks to go on", || {
            if let Some(ended) = self.ranks.iter().position(JoinHandle::is_finished) {
                self.ranks.swap_remove(ended).join().expect("a rank failed");
                panic!("a rank has ended too early");
            }
            who.iter().all(|n| self.gate.taken[*n].load(SeqCst) >= count)
        });
    }
}

/// Whether a node says of the last epoch that every item was consumed, once.
#[track_caller]
fn was_whole(fleet: &Fleet, n: usize) {
    let (jobs, items) = (fleet.jobs(n), fleet.contents.len() as u64);
    let [v1::JobStatus { last: Some(last), .. }] = &jobs[..] else {
        panic!("node {n} does not know how the last epoch of the job went: {jobs:?}")
    };
    let told = (last.planned, last.consumed, last.duplicates, last.omissions);
    assert_eq!(told, (items, items, 0, 0), "what node {n} says of the last epoch");
}

/// Whether a node knows that all ranks of the job together have consumed an epoch.
fn is_whole(job: &v1::JobStatus, epoch: u64, items: u64) -> bool {
    job.epoch == Some(epoch) && u64::from(job.consumed) == items
}

/// A rank, as a training process is one.
struct Rank {
    rank: u32,
    /// The node that it talks to.
    at: usize,
    sockets: Vec<Address>,
    contents: Arc<Vec<Vec<u8>>>,
    gate: Arc<Gate>,
    runtime: Runtime,
    job: Option<Job>,
    epoch: u64,
    batch: u64,
    receipt: Vec<u8>,
    /// What it has consumed since the receipt.
    since: Vec<u32>,
    consumed: Vec<u32>,
}

impl Rank {
    fn run(&mut self) -> Vec<u32> {
        self.begin().unwrap();
        let mut taken = 0;
        loop {
            let stage = STAGES.iter().filter(|until| taken >= **until).count() as u64;
            while self.gate.stage.load(SeqCst) < stage {
                thread::sleep(Duration::from_millis(5));
            }
            match self.take() {
                Ok(true) => {
                    taken += 1;
                    self.gate.taken[self.rank as usize].store(taken, SeqCst);
                }
                Ok(false) => return std::mem::take(&mut self.consumed),
                Err(error) => self.go_elsewhere(&error),
            }
        }
    }

    /// Goes to a node that answers, as often as the one it is at is killed.
    fn go_elsewhere(&mut self, error: &Error) {
        assert!(self.gate.killed[self.at].load(SeqCst), "rank {} at node {}: {error}", self.rank, self.at);
        let count = self.sockets.len();
        let others = (1..=count).map(|step| (self.at + step) % count);
        self.at = others.into_iter().find(|n| !self.gate.absent[*n].load(SeqCst)).expect("somebody is left");
        if let Err(error) = self.begin() {
            self.go_elsewhere(&error);
        }
    }

    /// Begins the epoch at a node, behind what it has consumed of it.
    fn begin(&mut self) -> Result<(), Error> {
        let timeouts = Timeouts { connect: Duration::from_secs(60), progress: Duration::from_secs(120), doubt: None };
        let client = self.runtime.block_on(async { Client::lazy(&self.sockets[self.at], timeouts) })?;
        let request = v1::IntroduceRequest {
            dataset: "world".into(),
            name: "train".into(),
            world: self.sockets.len() as u32,
            uneven: v1::Uneven::Exact.into(),
            ..Default::default()
        };
        let job = self.runtime.block_on(client.introduce(request))?.job;
        let (receipt, since) = (self.receipt.clone(), self.since.clone());
        let begun = match receipt.is_empty() {
            true => self.runtime.block_on(job.begin_epoch(self.rank, self.epoch, &ORDER))?,
            false => {
                let begin = job.begin_epoch_behind(self.rank, self.epoch, &ORDER, receipt.into(), since);
                self.runtime.block_on(begin)?
            }
        };
        (self.receipt, self.batch) = (begun.receipt.to_vec(), 0);
        self.since.clear();
        self.job = Some(job);
        Ok(())
    }

    /// Takes a batch and says every second time that it did; false after the last.
    fn take(&mut self) -> Result<bool, Error> {
        let Self { rank, epoch, batch: number, .. } = *self;
        let job = self.job.clone().expect("it has begun");
        let request = v1::NextBatchRequest { epoch, rank, number, count: 4, ..Default::default() };
        let given = self.runtime.block_on(async {
            let (mut stream, mut given) = (job.next_batch(request).await?, Vec::new());
            while let Some(item) = stream.next().await? {
                assert!(*item.data? == self.contents[item.served as usize], "item {} has wrong bytes", item.served);
                given.push(item.asked as u32);
            }
            Ok::<_, Error>(given)
        })?;
        self.batch += u64::from(!given.is_empty());
        self.since.extend(&given);
        self.consumed.extend(&given);
        if self.batch.is_multiple_of(2) || given.is_empty() {
            let numbers = (0..self.batch).collect();
            let receipt = self.runtime.block_on(job.acknowledge_for_receipt(epoch, rank, numbers))?;
            self.receipt = receipt.to_vec();
            self.since.clear();
        }
        Ok(!given.is_empty())
    }
}
