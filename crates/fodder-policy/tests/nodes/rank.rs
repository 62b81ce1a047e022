//! One rank of the job, as a client is: what it has, what it remembers, and what it does when a node fails it.

use crate::world::{SNAPSHOT, World};
use fodder_policy::{
    Error, Result,
    job::{Answer, BatchRequest, Introduction, JobId, Resume, Start},
    plan::Order,
    serving::Kind,
};

/// Where a rank stands with its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stand {
    /// It has to introduce itself; and first to say from where it resumes, if it does.
    New,
    /// It is in its epoch, and was told so.
    Begun(JobId),
    /// It has had all of its epoch.
    Finished(JobId),
    /// It is done.
    Left,
}

/// A rank.
#[derive(Debug, Clone)]
pub(crate) struct Rank {
    pub(crate) rank: u32,
    pub(crate) node: usize,
    pub(crate) stand: Stand,
    pub(crate) epoch: u64,
    number: u64,
    /// What it can show to another node, and what it has consumed since.
    receipt: Option<Vec<u8>>,
    since: Vec<u32>,
    /// Batches that it has consumed and whose acknowledgement was not answered.
    unanswered: Vec<u64>,
    /// From where the job resumes, and which start of it that is, until the rank is at work.
    pub(crate) from: Option<(Vec<u8>, Start)>,
}

/// What a rank did.
#[derive(Debug, Default)]
pub(crate) struct Deed {
    /// The planned items that it consumed.
    pub(crate) consumed: Vec<u32>,
    /// It was told that it belongs to a run that is over.
    pub(crate) superseded: Option<String>,
}

impl Rank {
    pub(crate) fn new(rank: u32, node: usize, epoch: u64, from: Option<(Vec<u8>, Start)>) -> Self {
        let (receipt, since, unanswered) = (None, Vec::new(), Vec::new());
        Self { rank, node, stand: Stand::New, epoch, number: 0, receipt, since, unanswered, from }
    }

    /// Goes to a node, or comes to the same again after it failed.
    pub(crate) fn go_to(&mut self, node: usize, receipts: bool) {
        if self.stand == Stand::Left {
            return;
        }
        (self.node, self.stand, self.number) = (node, Stand::New, 0);
        self.unanswered.clear();
        if !receipts {
            (self.receipt, self.since) = (None, Vec::new());
        }
    }

    /// Does the next thing. Each request may be lost, or its answer.
    pub(crate) fn step(&mut self, world: &mut World, introduction: &Introduction, last: u64) -> Deed {
        let mut deed = Deed::default();
        let done = match self.stand {
            Stand::New => self.begin(world, introduction),
            Stand::Begun(job) => self.take(world, job, &mut deed),
            Stand::Finished(job) if self.epoch == last => self.leave(world, job),
            Stand::Finished(job) => self.turn(world, job),
            Stand::Left => Ok(()),
        };
        match done {
            Ok(()) => {}
            Err(Error::Conflict(why)) => deed.superseded = Some(why),
            // The node has forgotten the job.
            Err(Error::NotFound(_)) => {
                let node = self.node;
                self.go_to(node, true);
            }
            Err(other) => panic!("{other}"),
        }
        deed
    }

    fn begin(&mut self, world: &mut World, introduction: &Introduction) -> Result<()> {
        world.exchange(self.node);
        let now = world.now;
        let node = &mut world.nodes[self.node];
        let mut job = match node.find(&introduction.name) {
            Some(job) => job,
            None => node.introduce(introduction.clone(), now)?,
        };
        if let Some((checkpoint, start)) = &self.from {
            let start = *start;
            let (rank, world) = (Some(self.rank), introduction.world);
            job = node.resume(Resume { job, rank, world, start, checkpoint, ids: None }, now)?.job;
        }
        self.begin_as(world, job)
    }

    fn begin_as(&mut self, world: &mut World, job: JobId) -> Result<()> {
        let now = world.now;
        let node = &mut world.nodes[self.node];
        if let Some(receipt) = &self.receipt {
            if let Some(word) = node.unheard(job, receipt)? {
                node.heed(word, &[SNAPSHOT], now);
                self.stand = Stand::New;
                return Ok(());
            }
            node.check_receipt(job, receipt)?;
        }
        node.begin(job, self.rank, self.epoch, Order::Seed(5), now)?;
        if let Some(receipt) = &self.receipt {
            node.show(job, self.epoch, self.rank, receipt, &self.since)?;
        }
        if world.dice.percent(world.loss) {
            return Ok(());
        }
        self.receipt = Some(world.nodes[self.node].receipt(job, self.epoch, self.rank, now)?);
        self.since.clear();
        self.from = None;
        (self.number, self.stand) = (0, Stand::Begun(job));
        Ok(())
    }

    fn take(&mut self, world: &mut World, job: JobId, deed: &mut Deed) -> Result<()> {
        self.acknowledge(world, job)?;
        let count = 1 + world.dice.below(5) as u32;
        let modulus = 2 + world.dice.below(4) as u32;
        let request = BatchRequest { job, epoch: self.epoch, rank: self.rank, number: self.number, count };
        let answer = match world.nodes[self.node].next_batch(request, &|id: u32| id.is_multiple_of(modulus), world.now)
        {
            // It asked before with another count, and did not hear the answer: it begins anew.
            Err(Error::Conflict(text)) if text.contains("was requested with a count of") => {
                let node = self.node;
                self.go_to(node, true);
                return Ok(());
            }
            // Without a receipt it does not know how far it was here.
            Err(Error::Conflict(text)) if text.contains("is already acknowledged") => {
                self.number = text.rsplit(' ').next().and_then(|next| next.parse().ok()).expect("it says how far");
                return Ok(());
            }
            answer => answer?,
        };
        if world.dice.percent(world.loss) {
            return Ok(());
        }
        let Answer::Batch { items, .. } = answer else { panic!("it is not in step") };
        if items.is_empty() {
            if self.unanswered.is_empty() {
                self.stand = Stand::Finished(job);
            }
            return Ok(());
        }
        self.since.extend(items.iter().map(|item| item.asked));
        deed.consumed.extend(items.iter().filter(|item| item.kind != Kind::Pad).map(|item| item.asked));
        self.unanswered.push(self.number);
        self.number += 1;
        self.acknowledge(world, job)
    }

    fn acknowledge(&mut self, world: &mut World, job: JobId) -> Result<()> {
        while let Some(&number) = self.unanswered.last() {
            if world.dice.percent(world.loss) {
                return Ok(());
            }
            world.nodes[self.node].acknowledge(job, self.epoch, self.rank, number, world.now)?;
            if world.dice.percent(world.loss) {
                return Ok(());
            }
            self.unanswered.pop();
        }
        if world.dice.percent(50) {
            self.receipt = Some(world.nodes[self.node].receipt(job, self.epoch, self.rank, world.now)?);
            self.since.clear();
        }
        Ok(())
    }

    fn turn(&mut self, world: &mut World, job: JobId) -> Result<()> {
        world.exchange(self.node);
        self.epoch += 1;
        self.number = 0;
        self.since.clear();
        self.stand = Stand::New;
        self.begin_as(world, job)
    }

    fn leave(&mut self, world: &mut World, job: JobId) -> Result<()> {
        world.nodes[self.node].leave_rank(job, self.rank, world.now)?;
        self.stand = Stand::Left;
        Ok(())
    }
}
