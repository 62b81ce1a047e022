//! What a dataset remembers of its jobs, and the one lock around it.
//!
//! Locks are taken in this order, and none across an await: the turn of the outbox; the prefetcher, or embeddings; the
//! jobs; then one of the outbox, notices, a policy. A policy's lock is held while holds are asked, and the table of
//! flights while policies and the staging area are. Stocks and flights never ask for the jobs.

use super::{
    Gone,
    embedding::Collected,
    low::LowScores,
    notice::{Note, Notices},
    outbox::Outbox,
    span::Span,
};
use crate::{Error, Result, catalog::Snapshot, engine::Dataset};
use arc_swap::ArcSwapOption;
use fodder_policy::{
    job::{self, Introduction, JobId, Resumed},
    plan,
};
use parking_lot::{Mutex, MutexGuard};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use tokio::sync::Notify;

/// The jobs of a dataset and what the engine keeps beside them.
#[derive(Debug)]
pub(in crate::engine) struct State {
    inner: Mutex<Inner>,
    /// How many jobs there are, for those who need not lock if there is none.
    present: AtomicUsize,
    pub(in crate::engine) notices: Arc<Notices>,
    pub(super) outbox: Outbox,
    /// Something was taken or given up: whoever waits for a job in step looks again.
    pub(super) progress: Notify,
    /// There is something to do in the background.
    pub(super) work: Notify,
    /// What models make of the items.
    pub(super) embeddings: Mutex<Collected>,
    /// Whether neighbours are being looked for.
    pub(super) looking: AtomicBool,
    /// How often neighbours have taken effect.
    pub(super) likenesses_applied: AtomicU64,
    /// How often scores have taken effect.
    pub(super) scores_applied: AtomicU64,
    /// Which items the jobs can do without.
    pub(super) low_scores: ArcSwapOption<LowScores>,
    /// Jobs count time from here.
    born: Instant,
}

/// What the lock is around.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) machine: job::Jobs,
    /// The newest snapshot, on which epochs begin.
    pub(super) current: Arc<Snapshot>,
    /// The snapshots of epochs that are under way: at most two for a job.
    epochs: BTreeMap<(JobId, u64), Arc<Snapshot>>,
    newest: Option<(JobId, u64)>,
    members: BTreeSet<JobId>,
}

impl State {
    /// No jobs yet.
    pub(in crate::engine) fn new(snapshot: Arc<Snapshot>, notices: Arc<Notices>, settings: job::Settings) -> Self {
        let machine = job::Jobs::new(seen_by_plans(&snapshot), settings, rand::random());
        Self {
            inner: Mutex::new(Inner {
                machine,
                current: snapshot,
                epochs: BTreeMap::new(),
                newest: None,
                members: BTreeSet::new(),
            }),
            present: AtomicUsize::new(0),
            notices,
            outbox: Outbox::default(),
            progress: Notify::new(),
            work: Notify::new(),
            embeddings: Mutex::default(),
            looking: AtomicBool::new(false),
            likenesses_applied: AtomicU64::new(0),
            scores_applied: AtomicU64::new(0),
            low_scores: ArcSwapOption::empty(),
            born: Instant::now(),
        }
    }

    /// Whether there is no job.
    pub(in crate::engine) fn is_empty(&self) -> bool {
        self.present.load(Relaxed) == 0
    }

    /// The dataset has a new snapshot.
    pub(in crate::engine) fn refreshed(&self, snapshot: Arc<Snapshot>) {
        let mut inner = self.inner.lock();
        inner.machine.refreshed(seen_by_plans(&snapshot));
        inner.current = snapshot;
    }

    /// How many ranks the jobs have that were heard of lately.
    pub(in crate::engine) fn ranks_heard_of_within(&self, lately: Duration) -> u32 {
        let now = self.now();
        let jobs = self.inner.lock().machine.status(now);
        jobs.iter().filter(|job| job.silent <= lately).map(|job| job.introduction.world).fold(0, u32::saturating_add)
    }

    /// Bytes of memory that jobs and what they have reported hold.
    pub(in crate::engine) fn memory_bytes(&self) -> usize {
        let jobs = self.inner.lock().machine.memory_bytes();
        jobs + self.embeddings.lock().memory_bytes()
    }

    /// The jobs, for a look or for what has no effects.
    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    /// The time of the jobs.
    pub(super) fn now(&self) -> Duration {
        self.born.elapsed()
    }
}

impl Dataset {
    /// Speaks with the jobs: first of what came and went, then `act`, whose effects are sent out.
    pub(super) fn with_jobs<T>(&self, act: impl FnOnce(&mut Inner, Duration) -> Result<T>) -> Result<T> {
        let mut lost = Vec::new();
        let outcome = {
            let mut inner = self.jobs.inner.lock();
            self.pass_on_notes(&mut inner, &mut lost);
            let outcome = act(&mut inner, self.jobs.now());
            let present = inner.members.len();
            self.jobs.present.store(present, Relaxed);
            self.jobs.notices.want(present > 0);
            outcome
        };
        if !lost.is_empty() {
            let objects = self.objects();
            lost.iter().for_each(|(snapshot, id)| self.lost(&Span { snapshot, objects: &objects }, *id));
        }
        self.send_short_effects();
        outcome
    }

    fn pass_on_notes(&self, inner: &mut Inner, lost: &mut Vec<(Arc<Snapshot>, u32)>) {
        let notes = self.jobs.notices.take();
        if notes.is_empty() {
            return;
        }
        let objects = self.objects();
        for snapshot in inner.snapshots() {
            let (span, name) = (Span { snapshot: &snapshot, objects: &objects }, fingerprint(&snapshot));
            for note in &notes {
                match *note {
                    Note::Evicted(piece) => {
                        for id in span.items(piece) {
                            inner.machine.evicted(name, id);
                            lost.push((Arc::clone(&snapshot), id));
                        }
                    }
                    Note::Inserted(piece) => {
                        for id in span.items(piece).filter(|id| self.has_at_hand(&span, *id)) {
                            let label = snapshot.item(u64::from(id)).ok().and_then(|item| item.label);
                            inner.machine.inserted(name, id, label);
                        }
                    }
                }
            }
        }
    }
}

impl Inner {
    /// The snapshot of an epoch that has begun.
    pub(super) fn snapshot_of(&self, job: JobId, epoch: u64) -> Result<Arc<Snapshot>> {
        self.epochs
            .get(&(job, epoch))
            .cloned()
            .ok_or_else(|| Error::NotFound(format!("job {job} is not in epoch {epoch}: begin the epoch first")))
    }

    /// The snapshot that a job is on: that of its newest epoch, or the newest if it has begun none.
    pub(super) fn snapshot_now(&self, job: JobId) -> Arc<Snapshot> {
        let newest = self.epochs.range((job, 0)..=(job, u64::MAX)).next_back();
        Arc::clone(newest.map_or(&self.current, |(_, snapshot)| snapshot))
    }

    /// The snapshot of that fingerprint, if any job speaks of it.
    pub(super) fn snapshot_named(&self, name: u64) -> Option<Arc<Snapshot>> {
        self.snapshots().into_iter().find(|snapshot| fingerprint(snapshot) == name)
    }

    /// How the jobs are called.
    pub(super) fn names(&self) -> Vec<String> {
        self.members.iter().filter_map(|job| self.machine.name_of(*job)).map(Into::into).collect()
    }

    /// Whether a job is here.
    pub(super) fn has(&self, job: JobId) -> bool {
        self.members.contains(&job)
    }

    /// See [`job::Jobs::introduce`].
    pub(super) fn introduce(&mut self, introduction: Introduction, now: Duration) -> Result<JobId> {
        let job = self.machine.introduce(introduction, now)?;
        self.members.insert(job);
        Ok(job)
    }

    /// An epoch has begun on a snapshot, unless another rank was first. Which.
    pub(super) fn began(&mut self, job: JobId, epoch: u64, on: &Arc<Snapshot>) -> Arc<Snapshot> {
        let older: Vec<_> = self.epochs.range((job, 0)..(job, epoch)).map(|(key, _)| *key).collect();
        for key in older.iter().rev().skip(1) {
            self.epochs.remove(key);
        }
        self.newest = Some((job, epoch));
        Arc::clone(self.epochs.entry((job, epoch)).or_insert_with(|| Arc::clone(on)))
    }

    /// A job goes on with a snapshot, under another id unless a rank of it has said so before.
    pub(super) fn resumed(&mut self, resumed: &Resumed, snapshot: &Arc<Snapshot>) {
        if resumed.was != resumed.job {
            self.remove(resumed.was);
            self.members.insert(resumed.job);
            self.newest = Some((resumed.job, resumed.epoch));
        }
        if self.machine.begun_on(resumed.job, resumed.epoch).is_some() {
            self.epochs.entry((resumed.job, resumed.epoch)).or_insert_with(|| Arc::clone(snapshot));
        }
    }

    /// A job is as others say: under which id, and in which epochs, of the snapshots that are known.
    pub(super) fn follow(&mut self, was: Option<JobId>, job: JobId, known: &[Arc<Snapshot>]) {
        if let Some(was) = was.filter(|was| *was != job) {
            self.remove(was);
        }
        self.members.insert(job);
        let open = self.machine.open_epochs(job);
        let is_open = |epoch: u64| open.iter().any(|(number, _)| *number == epoch);
        self.epochs.retain(|(of, epoch), _| *of != job || is_open(*epoch));
        for (epoch, on) in open {
            let found = known.iter().find(|snapshot| fingerprint(snapshot) == on.fingerprint);
            if let (Some(found), false) = (found, self.epochs.contains_key(&(job, epoch))) {
                self.epochs.insert((job, epoch), Arc::clone(found));
                self.newest = Some((job, epoch));
            }
        }
    }

    /// A job is gone.
    pub(super) fn forget(&mut self, gone: job::Gone, outbox: &Outbox) -> Gone {
        let snapshot = self.snapshot_now(gone.job);
        outbox.push(self, &snapshot, gone.effects);
        self.remove(gone.job);
        Gone { job: gone.job, name: gone.name, audit: gone.audit }
    }

    fn remove(&mut self, job: JobId) {
        let theirs: Vec<_> = self.epochs.range((job, 0)..=(job, u64::MAX)).map(|(key, _)| *key).collect();
        theirs.iter().for_each(|key| drop(self.epochs.remove(key)));
        self.members.remove(&job);
    }

    /// The snapshot of the epoch that began last, or of any other if its job is gone.
    pub(super) fn newest_epochs_snapshot(&self) -> Option<Arc<Snapshot>> {
        let newest = self.newest.and_then(|newest| self.epochs.get(&newest));
        newest.or_else(|| self.epochs.values().next()).cloned()
    }

    /// The jobs whose newest epoch is on a snapshot.
    pub(super) fn jobs_on(&self, snapshot: &Snapshot) -> Vec<JobId> {
        let newest = |job: &&JobId| self.epochs.range((**job, 0)..=(**job, u64::MAX)).next_back();
        let here = |job: &&JobId| newest(job).is_some_and(|(_, on)| on.id() == snapshot.id());
        self.members.iter().filter(here).copied().collect()
    }

    /// Every snapshot that a job may speak of, each once.
    pub(super) fn snapshots(&self) -> Vec<Arc<Snapshot>> {
        let mut all = vec![Arc::clone(&self.current)];
        for snapshot in self.epochs.values() {
            if !all.iter().any(|other| other.id() == snapshot.id()) {
                all.push(Arc::clone(snapshot));
            }
        }
        all
    }
}

/// What a snapshot is called in plans and checkpoints.
pub(super) fn fingerprint(snapshot: &Snapshot) -> u64 {
    let mut name = [0; 8];
    name.copy_from_slice(&snapshot.id().0[..8]);
    u64::from_le_bytes(name)
}

/// A snapshot as plans see it. Of one with more items than that, jobs can plan the first four billion.
pub(super) fn seen_by_plans(snapshot: &Snapshot) -> plan::Snapshot {
    plan::Snapshot { fingerprint: fingerprint(snapshot), items: u32::try_from(snapshot.len()).unwrap_or(u32::MAX) }
}
