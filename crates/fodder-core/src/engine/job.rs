//! The jobs of one dataset, as doors see them: who they are, what they plan, what answers them.
//!
//! All decisions are those of [`fodder_policy::job`]; here they meet time, snapshots and the cache. Item ids are those of
//! the snapshot that each answer names. Nothing here knows a wire format.

mod embedding;
mod given;
mod likeness;
mod look;
mod low;
mod notice;
mod outbox;
mod outlook;
mod prefetch;
mod resemble;
mod span;
mod state;
mod tend;
mod word;

pub use given::Reported;
pub(super) use notice::{Note, Notices};
pub(super) use prefetch::Prefetcher;
pub(super) use state::State;
pub use word::Heard;

pub use fodder_policy::{
    job::{
        BatchRequest, Introduction, JobId, Lack, Page, Pages, Place, Resume, Scores, Settings, Start, Status, Telling,
        Word,
    },
    ledger::Audit,
    plan::{Order, Snapshot as PlanSnapshot, Uneven},
    serving::{Approximation, Kind, Mode, Served},
};

use super::{Dataset, hold::Reason};
use crate::{Error, Result, catalog::Snapshot, id::SnapshotId};
use fodder_policy::{
    job::{Answer, Effect, Prepared, Report, Take},
    plan::Plan,
};
use look::CacheLook;
use span::Span;
use state::{Inner, fingerprint, seen_by_plans};
use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

/// How long a request for a batch waits for jobs in step before it is answered that they are behind.
const PATIENCE: Duration = Duration::from_secs(30);
/// Scores that a job reports before others get their turn.
const REPORT_PART: usize = 1 << 16;
/// How long what was promised to a reader stays for it.
const PROMISE: Duration = Duration::from_secs(60);

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
    /// What the rank can show to another node.
    pub receipt: Vec<u8>,
}

/// What a rank that comes from another node shows.
#[derive(Debug, Clone, Copy)]
pub struct Shown<'a> {
    /// What that node gave it last.
    pub receipt: &'a [u8],
    /// The items (those that were asked) that it has consumed since.
    pub consumed: &'a [u32],
}

/// Items for a rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// The snapshot whose ids they are.
    pub snapshot: SnapshotId,
    /// What to send, in this order; fewer than asked for only at the end of the epoch, and none after it.
    pub items: Arc<[Served]>,
}

/// What became of a request to take one planned item out of turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// The item, with the snapshot whose id it is.
    Item(SnapshotId, Served),
    /// The item is not cached here, or was given in this epoch before.
    Absent,
    /// Every item of the epoch was given.
    Exhausted,
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
        self.act(|inner, now| inner.introduce(introduction, now))
    }

    /// The job called so.
    pub fn find(&self, name: &str) -> Option<JobId> {
        self.dataset.jobs.lock().machine.find(name)
    }

    /// The job is alive though it asks for nothing.
    pub fn renew(&self, job: JobId) -> Result<()> {
        self.act(|inner, now| Ok(inner.machine.renew(job, now)?))
    }

    /// A rank begins an epoch, and thereby ends the one before. The first rank to do so plans it for all; the others
    /// say the same. Checking a listed order takes time in proportion to its length, and holds up nobody else.
    pub fn begin(&self, job: JobId, rank: u32, epoch: u64, order: Order) -> Result<Begun> {
        self.begin_showing(job, rank, epoch, order, None)
    }

    /// The same for a rank that comes from another node, and shows what it has consumed.
    pub fn begin_showing(
        &self,
        job: JobId,
        rank: u32,
        epoch: u64,
        order: Order,
        shown: Option<Shown<'_>>,
    ) -> Result<Begun> {
        if let Some(shown) = &shown
            && let Some(word) = self.dataset.jobs.lock().machine.unheard(job, shown.receipt)?
        {
            self.heed(word);
            return Err(Error::Unavailable(
                "this node did not know yet that the job resumed: introduce it again".into(),
            ));
        }
        let begun = loop {
            let (newest, on) = self.snapshot_to_begin_on(job, epoch);
            let plan = Arc::new(Plan::new(seen_by_plans(&on), epoch, order.clone())?);
            let begun = self.act(|inner, now| {
                // A refresh came in between: plan once more.
                if inner.current.id() != newest {
                    return Ok(None);
                }
                if let Some(shown) = &shown {
                    inner.machine.check_receipt(job, shown.receipt)?;
                }
                let begun = inner.machine.begin_with(job, rank, plan, now)?;
                let snapshot = inner.began(job, epoch, &on);
                self.send(inner, &snapshot, begun.effects);
                if let Some(shown) = &shown {
                    let effects = inner.machine.show(job, epoch, rank, shown.receipt, shown.consumed)?;
                    self.send(inner, &snapshot, effects);
                }
                let receipt = inner.machine.receipt(job, epoch, rank, now)?;
                Ok(Some(Begun { snapshot: snapshot.id(), items: begun.items, audit: begun.audit, receipt }))
            })?;
            if let Some(begun) = begun {
                break begun;
            }
        };
        self.dataset.prefetcher.resume();
        self.dataset.jobs.progress.notify_waiters();
        // Scores and embeddings take effect when an epoch ends.
        self.dataset.jobs.embeddings.lock().fall_due();
        self.dataset.jobs.work.notify_one();
        Ok(begun)
    }

    /// What a rank can show to another node when this one is gone, so that it goes on exactly behind what it has consumed.
    pub fn receipt(&self, job: JobId, epoch: u64, rank: u32) -> Result<Vec<u8>> {
        self.act(|inner, now| Ok(inner.machine.receipt(job, epoch, rank, now)?))
    }

    /// A rank asks for a batch. Waits while a job in step is too far behind; [`Error::Unavailable`] after a while, and
    /// asking again goes on waiting.
    pub async fn next_batch(&self, request: BatchRequest) -> Result<Batch> {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        if tokio::time::timeout_at(deadline, self.dataset.jobs.outbox.has_room()).await.is_err() {
            return Err(too_fast());
        }
        loop {
            let progress = self.dataset.jobs.progress.notified();
            tokio::pin!(progress);
            progress.as_mut().enable();
            match self.try_next_batch(request)? {
                Ok(batch) => return Ok(batch),
                Err(behind) if tokio::time::timeout_at(deadline, progress).await.is_err() => {
                    let name = self.status_of(behind).map_or_else(|_| behind.to_string(), |job| job.introduction.name);
                    return Err(Error::Unavailable(format!(
                        "job {name:?} of the same group is too far behind: try again, or end it with `fodder job leave`"
                    )));
                }
                Err(_) => {}
            }
        }
    }

    /// A batch, or the job in step that must take more first.
    fn try_next_batch(&self, request: BatchRequest) -> Result<Result<Batch, JobId>> {
        let answer = self.act(|inner, now| {
            let snapshot = inner.snapshot_of(request.job, request.epoch)?;
            let objects = self.dataset.objects();
            let span = Span { snapshot: &snapshot, objects: &objects };
            let look = CacheLook { dataset: self.dataset, span, replaceable: true };
            match inner.machine.next_batch(request, &look, now)? {
                Answer::Wait { behind } => Ok(Err(behind)),
                Answer::Batch { items, effects } => {
                    // An answer that is given again was promised before.
                    if !effects.is_empty() {
                        items.iter().for_each(|served| self.promise(&span, served));
                        self.dataset.counters.given(&items);
                    }
                    self.send(inner, &snapshot, effects);
                    Ok(Ok(Batch { snapshot: snapshot.id(), items }))
                }
            }
        })?;
        if answer.is_ok() {
            self.dataset.prefetcher.resume();
            self.dataset.jobs.progress.notify_waiters();
        }
        Ok(answer)
    }

    /// A rank has consumed a batch. Saying it again is no error.
    pub fn acknowledge(&self, job: JobId, epoch: u64, rank: u32, number: u64) -> Result<()> {
        self.act(|inner, now| Ok(inner.machine.acknowledge(job, epoch, rank, number, now)?))
    }

    /// A rank has consumed items that it read by id and not in batches.
    pub fn consumed(&self, job: JobId, epoch: u64, ids: &[u32]) -> Result<()> {
        if self.dataset.jobs.outbox.is_full() {
            return Err(too_fast());
        }
        self.act(|inner, now| {
            // Whether the job and its epoch are there, the machine says.
            let snapshot = inner.snapshot_of(job, epoch).unwrap_or_else(|_| inner.snapshot_now(job));
            let objects = self.dataset.objects();
            let span = Span { snapshot: &snapshot, objects: &objects };
            let look = CacheLook { dataset: self.dataset, span, replaceable: false };
            let effects = inner.machine.consumed(job, epoch, ids, &look, now)?;
            self.send(inner, &snapshot, effects);
            Ok(())
        })?;
        self.dataset.jobs.progress.notify_waiters();
        Ok(())
    }

    /// A job consumes one planned item out of turn, if it is cached here and the epoch has not given it yet.
    pub fn take(&self, job: JobId, epoch: u64, id: u32) -> Result<Taken> {
        if self.dataset.jobs.outbox.is_full() {
            return Err(too_fast());
        }
        let taken = self.act(|inner, now| {
            let snapshot = inner.snapshot_of(job, epoch)?;
            let objects = self.dataset.objects();
            let span = Span { snapshot: &snapshot, objects: &objects };
            let look = CacheLook { dataset: self.dataset, span, replaceable: false };
            let effects = match inner.machine.take(job, epoch, id, &look, now)? {
                Take::Taken(effects) => effects,
                Take::Absent => return Ok(Taken::Absent),
                Take::Exhausted => return Ok(Taken::Exhausted),
            };
            let served = Served { kind: Kind::Reordered, ..Served::planned(id) };
            self.promise(&span, &served);
            self.dataset.counters.given(&[served]);
            self.send(inner, &snapshot, effects);
            Ok(Taken::Item(snapshot.id(), served))
        })?;
        self.dataset.jobs.progress.notify_waiters();
        Ok(taken)
    }

    /// A job asks for one item outside its plan (iCache's clients do): itself or, if it is `replaceable` and the job is
    /// `approx`, perhaps another. The ids are those of the returned snapshot.
    pub fn ask(&self, job: JobId, id: u32, replaceable: bool) -> Result<(SnapshotId, Served)> {
        self.act(|inner, now| {
            let snapshot = inner.snapshot_now(job);
            let objects = self.dataset.objects();
            let span = Span { snapshot: &snapshot, objects: &objects };
            let look = CacheLook { dataset: self.dataset, span, replaceable };
            let served = inner.machine.ask(job, id, &look, now)?;
            self.promise(&span, &served);
            Ok((snapshot.id(), served))
        })
    }

    /// A job reports scores; they take effect at the end of its epoch, or at the configured interval. One that is not
    /// finite, or of an item that does not exist, refuses the whole report. They are checked while nobody else has to wait.
    pub fn report_scores(&self, job: JobId, scores: Scores<'_>) -> Result<()> {
        let items = seen_by_plans(&self.dataset.jobs.lock().snapshot_now(job)).items;
        let report = Report::new(items, scores)?;
        self.act(|inner, _| Ok(inner.machine.has_room_for(&report)?))?;
        for part in report.in_parts(REPORT_PART) {
            self.act(|inner, now| Ok(inner.machine.report(job, part, now)?))?;
        }
        self.tell_peers(job, |peers, dataset, name| peers.scored(dataset, name, items, scores));
        Ok(())
    }

    /// The scores reported so far take effect now, or as soon as they are combined (iCache's clients say when).
    pub fn apply_scores(&self, job: JobId) -> Result<()> {
        self.act(|inner, now| Ok(inner.machine.apply_scores(job, now)?))?;
        self.tell_peers(job, |peers, dataset, name| peers.scores_apply(dataset, name));
        self.dataset.jobs.embeddings.lock().fall_due();
        self.dataset.jobs.work.notify_one();
        Ok(())
    }

    /// How often scores have taken effect since the node started.
    pub fn scores_applied(&self) -> u64 {
        self.dataset.jobs.scores_applied.load(Relaxed)
    }

    /// How often neighbours among embeddings have taken effect since the node started.
    pub fn likenesses_applied(&self) -> u64 {
        self.dataset.jobs.likenesses_applied.load(Relaxed)
    }

    /// A job reports embeddings, those of one model; when its epoch ends, neighbours are looked for in the background. A
    /// dataset uses the embeddings of one job at a time.
    pub fn report_embeddings(&self, job: JobId, embeddings: Embeddings<'_>) -> Result<()> {
        let snapshot = self.act(|inner, now| {
            inner.machine.renew(job, now)?;
            Ok(inner.snapshot_now(job))
        })?;
        self.collect(job, &snapshot, embeddings)?;
        let on = seen_by_plans(&snapshot);
        self.tell_peers(job, |peers, dataset, name| peers.embedded(dataset, name, on, embeddings));
        Ok(())
    }

    fn collect(&self, job: JobId, on: &Snapshot, embeddings: Embeddings<'_>) -> Result<()> {
        let here = |other| self.dataset.jobs.lock().has(other);
        let mut collected = self.dataset.jobs.embeddings.lock();
        collected.report(job, (on.id(), on.len()), embeddings, here)
    }

    /// What an open epoch has come to so far, or how the last closed one went.
    pub fn audit(&self, job: JobId, epoch: u64) -> Result<Audit> {
        Ok(self.dataset.jobs.lock().machine.audit(job, epoch)?)
    }

    /// What a job needs to go on from here.
    pub fn checkpoint(&self, job: JobId) -> Result<Vec<u8>> {
        Ok(self.dataset.jobs.lock().machine.checkpoint(job)?)
    }

    /// A job goes on from a checkpoint, an older one too, on any number of ranks. Its ranks use the new id. The checkpoint,
    /// and the list that comes with it, are read and checked while nobody else has to wait.
    pub fn resume(&self, request: Resume<'_>) -> Result<Resumed> {
        // The job is on one of them, or on one that the catalog has.
        let known = self.known();
        let prepared = Prepared::new(&request, &known.iter().map(|on| seen_by_plans(on)).collect::<Vec<_>>())?;
        let resumed = self.act(|inner, now| {
            let mut resumed = inner.machine.resume_with(request, prepared, now)?;
            let named = known.iter().find(|on| fingerprint(on) == resumed.snapshot.fingerprint);
            let snapshot = Arc::clone(named.unwrap_or(&inner.current));
            self.send(inner, &snapshot, std::mem::take(&mut resumed.effects));
            inner.resumed(&resumed, &snapshot);
            Ok(Resumed { job: resumed.job, snapshot: snapshot.id(), epoch: resumed.epoch, left: resumed.left })
        })?;
        self.dataset.jobs.progress.notify_waiters();
        Ok(resumed)
    }

    /// A job is done.
    pub fn leave(&self, job: JobId) -> Result<Gone> {
        let gone = self.act(|inner, now| {
            let gone = inner.machine.leave(job, now)?;
            Ok(inner.forget(gone, &self.dataset.jobs.outbox))
        })?;
        self.dataset.jobs.progress.notify_waiters();
        Ok(gone)
    }

    /// One rank of a job is done; what the job leaves if it was the last.
    pub fn leave_rank(&self, job: JobId, rank: u32) -> Result<Option<Gone>> {
        let gone = self.act(|inner, now| {
            let gone = inner.machine.leave_rank(job, rank, now)?;
            Ok(gone.map(|gone| inner.forget(gone, &self.dataset.jobs.outbox)))
        })?;
        self.dataset.jobs.progress.notify_waiters();
        Ok(gone)
    }

    /// Every job, for people. The audit of a job's last whole epoch is among it.
    pub fn status(&self) -> Vec<Status> {
        self.dataset.jobs.lock().machine.status(self.dataset.jobs.now())
    }

    /// One job, for people.
    pub fn status_of(&self, job: JobId) -> Result<Status> {
        let status = self.status().into_iter().find(|status| status.job == job);
        status.ok_or_else(|| Error::NotFound(format!("there is no job {job}; introduce it first")))
    }

    fn act<T>(&self, act: impl FnOnce(&mut Inner, Duration) -> Result<T>) -> Result<T> {
        self.dataset.with_jobs(act)
    }

    fn send(&self, inner: &Inner, snapshot: &Arc<Snapshot>, effects: Vec<Effect>) {
        self.dataset.jobs.outbox.push(inner, snapshot, effects);
    }

    /// What was promised to a reader stays until it has come for it.
    fn promise(&self, span: &Span<'_>, served: &Served) {
        let reason = if served.kind == Kind::Substituted { Reason::Substitute } else { Reason::Promised };
        for piece in span.pieces(served.served) {
            self.dataset.hold(piece, reason, PROMISE);
        }
    }
}

fn too_fast() -> Error {
    Error::Unavailable("jobs take items faster than the policies of this dataset can follow: try again".into())
}
