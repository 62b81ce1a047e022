//! What jobs say and what they are answered: plain data.

use super::JobId;
use crate::{
    Error, Result,
    ledger::Audit,
    plan::{Needed, Snapshot, Uneven},
    serving::{Mode, Served},
};
use std::{sync::Arc, time::Duration};

/// The longest name of a job, in bytes.
const MAX_NAME: usize = 256;

/// The bounds of all jobs of a dataset, and when their scores take effect.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// How many jobs there may be at once.
    pub max_jobs: usize,
    /// How many ranks one job may have.
    pub max_world: u32,
    /// How many items one job may have been given and not acknowledged: 12 bytes each.
    pub max_unacknowledged: u64,
    /// The most memory that the plans, ledgers and scores of all jobs may hold.
    pub max_memory_bytes: usize,
    /// How many items jobs in step may have staged at once. The one furthest behind may exceed it by its own batches.
    pub max_staged: usize,
    /// How many bytes these may have. Whoever finds that many waits, so one batch may exceed it.
    pub max_staged_bytes: u64,
    /// How long a job that is silent is remembered, if it does not say itself.
    pub lease: Duration,
    /// How often reported scores take effect. None: at the end of the epoch in which they were reported.
    pub update_interval: Option<Duration>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_jobs: 1_024,
            max_world: 16_384,
            max_unacknowledged: 1 << 20,
            max_memory_bytes: 4 << 30,
            max_staged: 16_384,
            max_staged_bytes: 1 << 30,
            lease: Duration::from_secs(600),
            update_interval: None,
        }
    }
}

/// What became of a request to take one planned item out of turn.
#[derive(Debug, Clone, PartialEq)]
pub enum Take {
    /// The item was consumed by the job.
    Taken(Vec<Effect>),
    /// The item is not cached, not planned, or was given in this epoch before.
    Absent,
    /// Every item of the epoch was given.
    Exhausted,
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
    /// They are strict and plan alike.
    pub in_step: Option<String>,
}

impl Introduction {
    /// A job of one rank that is answered strictly.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            mode: Mode::Strict,
            world: 1,
            uneven: Uneven::default(),
            weight: 1.0,
            lease: None,
            in_step: None,
        }
    }

    /// Refuses what means nothing or exceeds a bound.
    pub(super) fn check(&self, settings: &Settings) -> Result<()> {
        let wrong = |text: String| Err(Error::Invalid(text));
        if self.name.is_empty() || self.name.len() > MAX_NAME {
            return wrong(format!("the name of a job has 1 to {MAX_NAME} bytes, not {}", self.name.len()));
        }
        if let Some(group) = self.in_step.as_ref().filter(|group| group.is_empty() || group.len() > MAX_NAME) {
            return wrong(format!("the name of a group has 1 to {MAX_NAME} bytes, not {}", group.len()));
        }
        if self.world == 0 || self.world > settings.max_world {
            return wrong(format!("a job has 1 to {} ranks, not {}", settings.max_world, self.world));
        }
        if !(self.weight.is_finite() && self.weight > 0.0) {
            return wrong(format!("the weight of the scores of a job must be above 0, not {}", self.weight));
        }
        if self.in_step.is_some() && self.mode != Mode::Strict {
            return wrong(format!(
                "jobs in step read the same items in the same order: use the mode strict, not {}",
                self.mode.name()
            ));
        }
        self.mode.check()
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
    /// How the epoch before it went, if this was the last rank to leave it.
    pub audit: Option<Audit>,
    /// What should happen elsewhere.
    pub effects: Vec<Effect>,
}

/// Tells the starts of a job apart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Start {
    /// A number that all ranks of one start share and those of no other have; 0: they know none.
    pub attempt: u64,
    /// A number that the rank draws when it starts. One that says the same again with the same number has not heard the
    /// answer, and joins; with another, it has started again. 0: each time is another start.
    pub nonce: u64,
}

/// A job that wants to go on from a checkpoint.
#[derive(Debug, Clone)]
pub struct Resume<'a> {
    /// Which job.
    pub job: JobId,
    /// The rank that says so: the first to do it moves the job, the others join it. None: one speaks for all.
    pub rank: Option<u32>,
    /// How many ranks it has now.
    pub world: u32,
    /// Which start of the job this is, among those that went on from the same checkpoint.
    pub start: Start,
    /// What [`checkpoint`](super::Jobs::checkpoint) gave.
    pub checkpoint: &'a [u8],
    /// The same list as before, where the plan was one.
    pub ids: Option<Arc<[u32]>>,
}

/// A job that goes on from a checkpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct Resumed {
    /// Its id in requests from now on.
    pub job: JobId,
    /// Its id until now: the same if another rank has moved it already.
    pub was: JobId,
    /// The snapshot that the epoch is of.
    pub snapshot: Snapshot,
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

/// An item that a job will ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Upcoming {
    /// How many items the job will have asked for before it, since it was introduced.
    pub progress: u64,
    /// The item.
    pub id: u32,
    /// When, as [`next_use`](super::Jobs::next_use) tells time.
    pub at: u64,
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
    /// How long ago it was last heard of.
    pub silent: Duration,
    /// How its last whole epoch went.
    pub last: Option<Audit>,
}
