//! Embeddings that jobs reported before this node was there: whose are lacking, and what another node is told of them.

use super::{Embeddings, Jobs, PlanSnapshot, embedding::Points, state::seen_by_plans};
use crate::{Result, catalog::Snapshot, engine::stock::Stock};
use fodder_policy::job::JobId;
use std::sync::Arc;

/// All that a job has reported, for another node.
#[derive(Debug, Clone)]
pub struct Reported {
    /// The snapshot whose items they are.
    pub on: PlanSnapshot,
    points: Arc<Points>,
}

impl Reported {
    /// About so many bytes of it from a row on; and the row to go on at, if that was not all.
    pub fn page(&self, first: usize, most_bytes: usize) -> (Embeddings<'_>, Option<usize>) {
        let rows = (most_bytes / (self.points.dimension as usize * size_of::<f32>()).max(1)).max(1);
        let first = first.min(self.points.len());
        let end = first.saturating_add(rows).min(self.points.len());
        (self.points.rows(first..end), (end < self.points.len()).then_some(end))
    }
}

impl Jobs<'_> {
    /// The jobs whose embeddings others are to be asked for, where a policy heeds them.
    pub fn without_embeddings(&self) -> Vec<String> {
        if !self.heeds_embeddings() {
            return Vec::new();
        }
        let names = self.dataset.jobs.lock().names();
        let collected = self.dataset.jobs.embeddings.lock();
        names.into_iter().filter(|name| collected.is_to_be_asked(name)).collect()
    }

    /// What a job has reported, if this node heeds it.
    pub fn embeddings_of(&self, name: &str) -> Option<Reported> {
        let (job, snapshot) = self.job_and_snapshot(name)?;
        let points = self.dataset.jobs.embeddings.lock().points_of(job)?;
        (points.snapshot == Some(snapshot.id())).then(|| Reported { on: seen_by_plans(&snapshot), points })
    }

    /// Another node tells what a job has reported: what is lacking of it counts here too.
    pub fn fill_embeddings(&self, name: &str, on: PlanSnapshot, embeddings: Embeddings<'_>) -> Result<()> {
        let Some((job, snapshot)) = self.job_and_snapshot(name) else { return Ok(()) };
        if seen_by_plans(&snapshot) != on {
            return Ok(());
        }
        let here = |other| self.dataset.jobs.lock().has(other);
        let mut collected = self.dataset.jobs.embeddings.lock();
        collected.fill(job, (snapshot.id(), snapshot.len()), embeddings, here)
    }

    /// Others were asked for all that a job has reported: what came takes effect, as it does there.
    pub fn has_all_embeddings(&self, name: &str) {
        let names = self.dataset.jobs.lock().names();
        let mut collected = self.dataset.jobs.embeddings.lock();
        collected.was_asked(name, &names);
        collected.fall_due();
        drop(collected);
        self.dataset.jobs.work.notify_one();
    }

    /// Whether any policy heeds what is near to what.
    pub(super) fn heeds_embeddings(&self) -> bool {
        self.dataset.stocks.iter().map(|(_, stock)| stock).any(|stock| Stock::heeds_neighbours(stock))
    }

    /// A job that is here, and the snapshot that it is on.
    pub(super) fn job_and_snapshot(&self, name: &str) -> Option<(JobId, Arc<Snapshot>)> {
        let inner = self.dataset.jobs.lock();
        let job = inner.machine.find(name)?;
        Some((job, inner.snapshot_now(job)))
    }
}
