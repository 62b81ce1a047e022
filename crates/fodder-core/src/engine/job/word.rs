//! Jobs whose ranks talk to other nodes too: what this node has to say of them, and what it makes of what others say.
//!
//! All of it is decided by [`fodder_policy::job`]; here it meets snapshots and the cache. Who the others are is not known.

use super::{
    Embeddings, Jobs, PlanSnapshot,
    state::{fingerprint, seen_by_plans},
};
use crate::{Result, catalog::Snapshot, engine::peer::Peers, id::SnapshotId};
use fodder_policy::{
    job::{JobId, Lack, Page, Report, Scores, Telling, Word},
    ledger::Checkpoint,
};
use std::sync::Arc;

/// What came of a word.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Heard {
    /// What could not be taken: it cannot be read, or would hold more than is allowed.
    pub refused: u64,
}

impl Jobs<'_> {
    /// What this node has to say of the jobs.
    pub fn words(&self, telling: Telling) -> Vec<Word> {
        let now = self.dataset.jobs.now();
        self.dataset.jobs.lock().machine.words(telling, now)
    }

    /// What it has to say of one of them.
    pub fn word_of(&self, name: &str) -> Option<Word> {
        let now = self.dataset.jobs.now();
        self.dataset.jobs.lock().machine.word_of(name, now)
    }

    /// Whether anything has changed here that was not said yet.
    pub fn has_news(&self) -> bool {
        self.dataset.jobs.lock().machine.has_news()
    }

    /// How a job is called.
    pub fn name_of(&self, job: JobId) -> Option<String> {
        self.dataset.jobs.lock().machine.name_of(job).map(Into::into)
    }

    /// Another node has spoken.
    pub fn heed(&self, word: Word) -> Heard {
        let known = self.known();
        let seen: Vec<_> = known.iter().map(|snapshot| seen_by_plans(snapshot)).collect();
        let mut began = false;
        let heard = self.act(|inner, now| {
            let heeded = inner.machine.heed(word, &seen, now);
            if let Some(job) = heeded.job.filter(|_| heeded.gone.is_none()) {
                inner.follow(heeded.was, job, &known);
            }
            for (on, effects) in heeded.effects {
                if let Some(snapshot) = known.iter().find(|snapshot| fingerprint(snapshot) == on.fingerprint) {
                    self.send(inner, snapshot, effects);
                }
            }
            if let Some(gone) = heeded.gone {
                let gone = inner.forget(gone, &self.dataset.jobs.outbox);
                tracing::info!(
                    dataset = self.dataset.config().name,
                    job = gone.name,
                    "a job was ended on another node"
                );
            }
            began = !heeded.opened.is_empty();
            Ok(Heard { refused: heeded.refused })
        });
        if began {
            // Those of the epoch before take effect.
            self.dataset.jobs.embeddings.lock().fall_due();
        }
        self.dataset.jobs.progress.notify_waiters();
        self.dataset.jobs.work.notify_one();
        heard.unwrap_or_default()
    }

    /// Another node passes on scores that were reported to it; those of a job or a snapshot that is not here are not taken.
    pub fn heed_scores(&self, name: &str, items: u32, scores: Scores<'_>) -> Result<()> {
        let report = Report::new(items, scores)?;
        self.act(|inner, now| {
            let Some(job) = inner.machine.find(name) else { return Ok(()) };
            Ok(inner.machine.report(job, report, now)?)
        })
    }

    /// Another node passes on embeddings that were reported to it; those of a job or a snapshot that is not here are not taken,
    /// nor any where no policy heeds them.
    pub fn heed_embeddings(&self, name: &str, on: PlanSnapshot, embeddings: Embeddings<'_>) -> Result<()> {
        let Some((job, snapshot)) = self.job_and_snapshot(name) else { return Ok(()) };
        if !self.heeds_embeddings() || seen_by_plans(&snapshot) != on {
            return Ok(());
        }
        self.collect(job, &snapshot, embeddings)
    }

    /// The jobs whose scores this node has not, since they were reported before it heard of them.
    pub fn without_scores(&self) -> Vec<String> {
        self.dataset.jobs.lock().machine.without_scores()
    }

    /// The scores of a job from an item on, for another node. None: this one has not got them itself.
    pub fn scores_from(&self, name: &str, from: u32) -> Option<Page> {
        self.dataset.jobs.lock().machine.scores_from(name, from)
    }

    /// Another node tells the scores of a job: those that were not heard here count from now on.
    pub fn fill_scores(&self, name: &str, page: &Page) -> Result<()> {
        self.act(|inner, _| Ok(inner.machine.fill_scores(name, page)?))?;
        self.dataset.jobs.work.notify_one();
        Ok(())
    }

    /// Nobody has scores of a job that this node has not.
    pub fn has_all_scores(&self, name: &str) {
        self.dataset.jobs.lock().machine.has_all_scores(name);
    }

    /// The lists of epochs that jobs have begun at other nodes, on snapshots that are here.
    pub fn without_lists(&self) -> Vec<Lack> {
        let lacks = self.dataset.jobs.lock().machine.without_lists();
        if lacks.is_empty() {
            return lacks;
        }
        let known = self.known_to_plans();
        lacks.into_iter().filter(|lack| known.contains(&lack.snapshot)).collect()
    }

    /// The snapshots that jobs are on at other nodes, and that are not here, with the jobs' names.
    pub fn without_snapshots(&self) -> Vec<(String, PlanSnapshot)> {
        let lacks = self.dataset.jobs.lock().machine.without_snapshots(&[]);
        if lacks.is_empty() {
            return lacks;
        }
        let known = self.known_to_plans();
        lacks.into_iter().filter(|(_, on)| !known.contains(on)).collect()
    }

    /// The snapshot that a checkpoint is of, if it is not here: other nodes may have it.
    pub fn lacks_for(&self, checkpoint: &[u8]) -> Option<PlanSnapshot> {
        Checkpoint::snapshot_of(checkpoint).filter(|on| !self.known_to_plans().contains(on))
    }

    fn known_to_plans(&self) -> Vec<PlanSnapshot> {
        self.known().iter().map(|snapshot| seen_by_plans(snapshot)).collect()
    }

    /// The list that an epoch of a job is planned by, for another node.
    pub fn list_of(&self, name: &str, epoch: u64, fingerprint: u64) -> Option<Arc<[u32]>> {
        self.dataset.jobs.lock().machine.list_of(name, epoch, fingerprint)
    }

    /// Another node has told a list that was lacking. It is compared with its fingerprint, while nobody else has to wait.
    pub fn take_list(&self, lack: &Lack, ids: Vec<u32>) -> Result<()> {
        let plan = lack.plan(ids)?;
        self.dataset.jobs.lock().machine.take_list(lack, plan);
        Ok(())
    }

    /// Another node was told that the scores of a job take effect.
    pub fn heed_apply(&self, name: &str) -> Result<()> {
        self.act(|inner, now| {
            let Some(job) = inner.machine.find(name) else { return Ok(()) };
            Ok(inner.machine.apply_scores(job, now)?)
        })?;
        self.dataset.jobs.embeddings.lock().fall_due();
        self.dataset.jobs.work.notify_one();
        Ok(())
    }

    /// Tells the other nodes of a job that is here.
    pub(super) fn tell_peers(&self, job: JobId, tell: impl FnOnce(&dyn Peers, &str, &str)) {
        if let (Some(peers), Some(name)) = (self.dataset.shared.peers.get(), self.name_of(job)) {
            tell(&**peers, &self.dataset.config().name, &name);
        }
    }

    /// The snapshot that an epoch is to begin on: the newest, unless it was begun on another that is here. Also which is
    /// the newest.
    pub(super) fn snapshot_to_begin_on(&self, job: JobId, epoch: u64) -> (SnapshotId, Arc<Snapshot>) {
        let known = self.known();
        let inner = self.dataset.jobs.lock();
        let on = inner.machine.begun_on(job, epoch);
        let on = on.and_then(|on| known.iter().find(|snapshot| fingerprint(snapshot) == on.fingerprint));
        (inner.current.id(), Arc::clone(on.unwrap_or(&inner.current)))
    }

    /// Every snapshot that is here, the newest first.
    pub(in crate::engine) fn known(&self) -> Vec<Arc<Snapshot>> {
        let mut known = self.dataset.jobs.lock().snapshots();
        for snapshot in self.dataset.snapshots() {
            if !known.iter().any(|other| other.id() == snapshot.id()) {
                known.push(snapshot);
            }
        }
        known
    }
}
