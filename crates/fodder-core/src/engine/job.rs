//! The jobs of one dataset, as doors see them: who they are, what they plan, what answers them.
//!
//! All decisions are those of [`fodder_policy::job`]; here they meet time, snapshots and the cache. Item ids are those of
//! the snapshot that each answer names. Nothing here knows a wire format.

pub use fodder_policy::{
    job::{BatchRequest, Introduction, JobId, Resume, Scores, Status},
    ledger::Audit,
    plan::{Order, Uneven},
    serving::{Approximation, Kind, Mode, Served},
};

use super::Dataset;
use crate::{Error, Result, id::SnapshotId};
use std::sync::Arc;

/// The jobs of a dataset.
#[derive(Debug, Clone, Copy)]
pub struct Jobs<'a> {
    dataset: &'a Arc<Dataset>,
}

/// An epoch that has begun for a rank.
#[derive(Debug, Clone, PartialEq)]
pub struct Begun {
    /// The snapshot whose ids the epoch is about.
    pub snapshot: SnapshotId,
    /// How many items the rank will be given.
    pub items: u32,
    /// The epoch before it, if this was the last rank to leave it.
    pub audit: Option<Audit>,
}

/// Items for a rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// The snapshot whose ids they are.
    pub snapshot: SnapshotId,
    /// What to send, in this order; fewer than asked for only at the end of the epoch, and none after it.
    pub items: Arc<[Served]>,
}

/// A job that goes on from a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resumed {
    /// Its name in requests from now on.
    pub job: JobId,
    /// The snapshot whose ids the epoch is about.
    pub snapshot: SnapshotId,
    /// The epoch it goes on in.
    pub epoch: u64,
    /// How many items are left for all ranks together.
    pub left: u32,
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
}

/// What a model makes of items: points, of which near ones are alike.
#[derive(Debug, Clone, Copy)]
pub struct Embeddings<'a> {
    /// Which items.
    pub ids: &'a [u32],
    /// Numbers an item.
    pub dimension: u32,
    /// `dimension` numbers for each item, in the same order.
    pub values: &'a [f32],
}

impl Dataset {
    /// The jobs that train on it.
    pub fn jobs(self: &Arc<Self>) -> Jobs<'_> {
        Jobs { dataset: self }
    }
}

impl Jobs<'_> {
    /// A job introduces itself. Every rank may: the same introduction again is the same job.
    pub fn introduce(&self, introduction: Introduction) -> Result<JobId> {
        let _ = introduction;
        Err(not_yet())
    }

    /// The job called so.
    pub fn find(&self, name: &str) -> Option<JobId> {
        let _ = name;
        None
    }

    /// The job is alive though it asks for nothing.
    pub fn renew(&self, job: JobId) -> Result<()> {
        let _ = job;
        Err(not_yet())
    }

    /// A rank begins an epoch, and thereby ends the one before. The first rank to do so plans it for all; the others
    /// say the same. Checking a listed order takes time in proportion to its length.
    pub fn begin(&self, job: JobId, rank: u32, epoch: u64, order: Order) -> Result<Begun> {
        let _ = (job, rank, epoch, order);
        Err(not_yet())
    }

    /// A rank asks for a batch. Waits while a job in step is too far behind; [`Error::Unavailable`] after a while, and
    /// asking again goes on waiting.
    pub async fn next_batch(&self, request: BatchRequest) -> Result<Batch> {
        let _ = request;
        Err(not_yet())
    }

    /// A rank has consumed a batch. Saying it again is no error.
    pub fn acknowledge(&self, job: JobId, epoch: u64, rank: u32, number: u64) -> Result<()> {
        let _ = (job, epoch, rank, number);
        Err(not_yet())
    }

    /// A rank has consumed items that it read by id and not in batches.
    pub fn consumed(&self, job: JobId, epoch: u64, ids: &[u32]) -> Result<()> {
        let _ = (job, epoch, ids);
        Err(not_yet())
    }

    /// A job asks for one item outside its plan (iCache's clients do): itself or, if it is `replaceable` and the job is
    /// `approx`, perhaps another. The ids are those of the returned snapshot.
    pub fn ask(&self, job: JobId, id: u32, replaceable: bool) -> Result<(SnapshotId, Served)> {
        let _ = (job, id, replaceable);
        Err(not_yet())
    }

    /// A job reports scores; they take effect at the end of its epoch, or at the configured interval. One that is not
    /// finite, or of an item that does not exist, refuses the whole report.
    pub fn report_scores(&self, job: JobId, scores: Scores<'_>) -> Result<()> {
        let _ = (job, scores);
        Err(not_yet())
    }

    /// The scores reported so far take effect now, or as soon as they are combined (iCache's clients say when).
    pub fn apply_scores(&self, job: JobId) -> Result<()> {
        let _ = job;
        Err(not_yet())
    }

    /// A job reports embeddings; neighbours are looked for in the background. All jobs of a dataset use one dimension.
    pub fn report_embeddings(&self, job: JobId, embeddings: Embeddings<'_>) -> Result<()> {
        let _ = (job, embeddings);
        Err(not_yet())
    }

    /// What a job needs to go on from here.
    pub fn checkpoint(&self, job: JobId) -> Result<Vec<u8>> {
        let _ = job;
        Err(not_yet())
    }

    /// A job goes on from a checkpoint, an older one too, on any number of ranks. Its ranks use the new id.
    pub fn resume(&self, request: Resume<'_>) -> Result<Resumed> {
        let _ = request;
        Err(not_yet())
    }

    /// A job is done.
    pub fn leave(&self, job: JobId) -> Result<Gone> {
        let _ = job;
        Err(not_yet())
    }

    /// Every job, for people. The audit of a job's last whole epoch is among it.
    pub fn status(&self) -> Vec<Status> {
        Vec::new()
    }

    /// One job, for people.
    pub fn status_of(&self, job: JobId) -> Result<Status> {
        let status = self.status().into_iter().find(|status| status.job == job);
        status.ok_or_else(|| Error::NotFound(format!("there is no job {job}; introduce it first")))
    }
}

fn not_yet() -> Error {
    Error::Unavailable("this node does not take jobs yet".into())
}
