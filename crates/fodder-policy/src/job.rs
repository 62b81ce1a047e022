//! The jobs of one dataset: who they are, what they plan, what they were given and what they have reported.
//!
//! A synchronous machine: time is passed in (`now`, since any fixed moment), and what should happen elsewhere is
//! returned as values. It knows item ids of snapshots; it knows no bytes, pieces, sockets or clocks.
//!
//! A job's life: [`introduce`](Jobs::introduce), then for each epoch [`begin`](Jobs::begin), batches and their
//! acknowledgements, and [`leave`](Jobs::leave). Ranks do not turn the epoch at the same moment, so two epochs of a job
//! may be open at a time; requests say which they mean, and the older one is audited when every rank has left it.

use crate::{
    Result,
    ledger::Audit,
    plan::{Needed, Order, Snapshot, Uneven},
    serving::{Look, Mode, Served},
};
use std::{fmt, sync::Arc, time::Duration};

/// The bounds of all jobs of a dataset together, and when their scores take effect.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// How many jobs there may be at once.
    pub max_jobs: usize,
    /// How many ranks one job may have.
    pub max_world: u32,
    /// How many items one job may have been given and not acknowledged: 12 bytes each.
    pub max_unacknowledged: u64,
    /// The most memory that listed plans, ledgers and reported scores of all jobs may hold.
    pub max_memory_bytes: usize,
    /// How long a job that is silent is remembered, if it does not say itself.
    pub lease: Duration,
    /// How often reported scores take effect. None: at the end of the epoch in which they were reported.
    pub update_interval: Option<Duration>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_jobs: 1_024,
            max_world: 65_536,
            max_unacknowledged: 1 << 20,
            max_memory_bytes: 4 << 30,
            lease: Duration::from_secs(600),
            update_interval: None,
        }
    }
}

/// What a job says of itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Introduction {
    /// How people call it; one name is one job.
    pub name: String,
    /// How it wants to be answered.
    pub mode: Mode,
    /// How many ranks it has.
    pub world: u32,
    /// What ranks do when the plan does not divide by their number.
    pub uneven: Uneven,
    /// How much its scores count beside those of other jobs.
    pub weight: f32,
    /// How long it may be silent before it is forgotten. None: [`Settings::lease`].
    pub lease: Option<Duration>,
    /// Jobs that name the same group run in step: an item is fetched once and kept until each of them has taken it.
    /// They must plan with the same seed and be strict.
    pub in_step: Option<String>,
}

/// A job as it names itself in requests. Resuming gives a new one, so that ranks of the run before are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobId(pub u64);

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A rank's request for a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchRequest {
    /// Who asks.
    pub job: JobId,
    /// In which epoch.
    pub epoch: u64,
    /// Which of its ranks.
    pub rank: u32,
    /// The number of the batch, counted from 0 for each rank and epoch (and anew after a resume). Asking again with a
    /// number gets the same answer; asking ahead (several workers of a rank) reserves the batches in between.
    pub number: u64,
    /// How many items.
    pub count: u32,
}

/// What is answered to a request for a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Items, fewer than asked for only at the end of the epoch, and none after it.
    Batch {
        /// What to send, in this order.
        items: Arc<[Served]>,
        /// What should happen elsewhere; nothing for an answer that is given again.
        effects: Vec<Effect>,
    },
    /// A job in step is further ahead than the staging area holds: ask again when the named job has taken more.
    Wait {
        /// The job that is furthest behind.
        behind: JobId,
    },
}

/// What should happen elsewhere, in item ids of the job's snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// One more job will need these (residency's `Planned`).
    Planned(Needed),
    /// One job fewer needs these, which it had planned and not been given (residency's `Dropped`).
    Dropped(Needed),
    /// One job needs this item no more in this epoch (residency's `Consumed`).
    Consumed(u32),
    /// Keep this item until it is released: other jobs in step are still to take it.
    Stage(u32),
    /// Every job in step has taken this item.
    Release(u32),
}

/// Scores that a job reports.
#[derive(Debug, Clone, Copy)]
pub enum Scores<'a> {
    /// One for every item of the snapshot, by id.
    Dense(&'a [f32]),
    /// For some items.
    Sparse {
        /// Which.
        ids: &'a [u32],
        /// Their scores, in the same order.
        values: &'a [f32],
    },
}

/// An epoch that has begun for a rank.
#[derive(Debug, Clone, PartialEq)]
pub struct Begun {
    /// How many items the rank will be given.
    pub items: u32,
    /// The epoch before it, if this was the last rank to leave it.
    pub audit: Option<Audit>,
    /// What should happen elsewhere.
    pub effects: Vec<Effect>,
}

/// A job that goes on from a checkpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct Resumed {
    /// Its name in requests from now on.
    pub job: JobId,
    /// The epoch it goes on in.
    pub epoch: u64,
    /// How many items are left for all ranks together.
    pub left: u32,
    /// What should happen elsewhere.
    pub effects: Vec<Effect>,
}

/// A job that is gone.
#[derive(Debug, Clone, PartialEq)]
pub struct Gone {
    /// Which.
    pub job: JobId,
    /// Its name.
    pub name: String,
    /// What its last epoch had come to.
    pub audit: Option<Audit>,
    /// What should happen elsewhere.
    pub effects: Vec<Effect>,
}

/// All jobs of a dataset.
#[derive(Debug)]
pub struct Jobs {
    settings: Settings,
    snapshot: Snapshot,
}

impl Jobs {
    /// No jobs yet. `salt` makes the ids of jobs differ from those that a node gave before it restarted.
    pub fn new(snapshot: Snapshot, settings: Settings, salt: u64) -> Self {
        let _ = salt;
        Self { settings, snapshot }
    }

    /// The dataset has a new snapshot. A job stays on its own until its next epoch.
    pub fn refreshed(&mut self, snapshot: Snapshot) {
        self.snapshot = snapshot;
    }

    /// A job introduces itself. Every rank may: the same introduction again is the same job.
    pub fn introduce(&mut self, introduction: Introduction, now: Duration) -> Result<JobId> {
        let _ = (introduction, now);
        unimplemented!()
    }

    /// The job called so.
    pub fn find(&self, name: &str) -> Option<JobId> {
        let _ = name;
        unimplemented!()
    }

    /// The job is alive though it asks for nothing.
    pub fn renew(&mut self, job: JobId, now: Duration) -> Result<()> {
        let _ = (job, now);
        unimplemented!()
    }

    /// A rank begins an epoch, and thereby ends the one before. The first rank to do so plans it for all; the others
    /// say the same.
    pub fn begin(&mut self, job: JobId, rank: u32, epoch: u64, order: Order, now: Duration) -> Result<Begun> {
        let _ = (job, rank, epoch, order, now);
        unimplemented!()
    }

    /// A rank asks for a batch.
    pub fn next_batch(&mut self, request: BatchRequest, look: &dyn Look, now: Duration) -> Result<Answer> {
        let _ = (request, look, now);
        unimplemented!()
    }

    /// A rank has consumed a batch. Saying it again is no error.
    pub fn acknowledge(&mut self, job: JobId, epoch: u64, rank: u32, number: u64, now: Duration) -> Result<()> {
        let _ = (job, epoch, rank, number, now);
        unimplemented!()
    }

    /// A rank has consumed items that it read by id and not in batches. Returns what should happen elsewhere.
    pub fn consumed(&mut self, job: JobId, epoch: u64, ids: &[u32], now: Duration) -> Result<Vec<Effect>> {
        let _ = (job, epoch, ids, now);
        unimplemented!()
    }

    /// A job asks for one item outside its plan (iCache's clients do): itself, or in `approx` perhaps another.
    pub fn ask(&mut self, job: JobId, id: u32, look: &dyn Look, now: Duration) -> Result<Served> {
        let _ = (job, id, look, now);
        unimplemented!()
    }

    /// A job reports scores. They are collected aside, see [`take_scores`](Self::take_scores).
    pub fn report_scores(&mut self, job: JobId, scores: Scores<'_>, now: Duration) -> Result<()> {
        let _ = (job, scores, now);
        unimplemented!()
    }

    /// The scores of all jobs, if some are due to take effect: to be [combined](Reported::combine) off the read path.
    pub fn take_scores(&mut self, now: Duration) -> Option<Reported> {
        let _ = now;
        unimplemented!()
    }

    /// What a job needs to go on from here: a hundred bytes, unless what was consumed is scattered.
    pub fn checkpoint(&self, job: JobId) -> Result<Vec<u8>> {
        let _ = job;
        unimplemented!()
    }

    /// A job goes on from a checkpoint, an older one too, on any number of ranks. `order` is needed where the plan was
    /// a list. Each rank may say it (`Some(rank)`, the others join the first), or one for all (`None`).
    pub fn resume(&mut self, request: Resume<'_>, now: Duration) -> Result<Resumed> {
        let _ = (request, now);
        unimplemented!()
    }

    /// A job is done.
    pub fn leave(&mut self, job: JobId) -> Result<Gone> {
        let _ = job;
        unimplemented!()
    }

    /// Forgets the jobs whose leases have run out.
    pub fn expire(&mut self, now: Duration) -> Vec<Gone> {
        let _ = now;
        unimplemented!()
    }

    /// An item of a snapshot became readable from the cache; its label, where the layout has one.
    pub fn inserted(&mut self, snapshot: u64, id: u32, label: Option<u32>) {
        let _ = (snapshot, id, label);
    }

    /// An item of a snapshot left the cache.
    pub fn evicted(&mut self, snapshot: u64, id: u32) {
        let _ = (snapshot, id);
    }

    /// When an item is next needed by any job; [`NEVER`](crate::residency::signal::NEVER) if no plan has it. Moments
    /// compare with each other and with nothing else.
    pub fn next_use(&self, snapshot: u64, id: u32) -> u64 {
        let _ = (snapshot, id);
        unimplemented!()
    }

    /// How many jobs still need an item in the epoch they are in.
    pub fn pending(&self, snapshot: u64, id: u32) -> u32 {
        let _ = (snapshot, id);
        unimplemented!()
    }

    /// Every job, for people.
    pub fn status(&self) -> Vec<Status> {
        unimplemented!()
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> usize {
        unimplemented!()
    }
}

/// A job that wants to go on.
#[derive(Debug, Clone)]
pub struct Resume<'a> {
    /// Which job.
    pub job: JobId,
    /// The rank that says so, or one for all.
    pub rank: Option<u32>,
    /// How many ranks it has now.
    pub world: u32,
    /// What [`Jobs::checkpoint`] gave.
    pub checkpoint: &'a [u8],
    /// The same list as before, where the plan was one.
    pub ids: Option<Arc<[u32]>>,
}

/// The reported scores of all jobs at one moment. Cheap to take, and independent of the jobs from then on.
#[derive(Debug, Clone)]
pub struct Reported {}

impl Reported {
    /// One score an item: the mean over jobs, by weight, of where the item ranks among those that the job scored
    /// (above 0, at most 1). Items that nobody scored are worth [`UNSCORED`](crate::residency::signal::UNSCORED).
    pub fn combine(&self) -> Arc<[f32]> {
        unimplemented!()
    }
}

/// A job, for people.
#[derive(Debug, Clone, PartialEq)]
pub struct Status {
    /// Its id in requests.
    pub job: JobId,
    /// What it said of itself.
    pub introduction: Introduction,
    /// The epoch it is in.
    pub epoch: Option<u64>,
    /// How many items that epoch has.
    pub planned: u32,
    /// How many of them were given out.
    pub delivered: u32,
    /// How many of them it has acknowledged.
    pub consumed: u32,
    /// Items a second, as measured.
    pub rate: f64,
    /// When it was last heard of.
    pub seen: Duration,
    /// How its last whole epoch went.
    pub last: Option<Audit>,
}
