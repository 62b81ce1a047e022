//! What fetching may see: the catalog, the cache, and what jobs will ask for.

use super::{
    span::Span,
    state::{Inner, fingerprint},
};
use crate::engine::Dataset;
use fodder_policy::{
    fetching::View,
    job::{JobId, Upcoming},
};
use rustc_hash::FxHashSet;

/// Bytes between two items that are still read in one go: the head of a record.
const GAP_BYTES: u64 = 4096;

/// A view of the items of one snapshot.
#[derive(Debug)]
pub(super) struct Outlook<'a> {
    pub(super) dataset: &'a Dataset,
    pub(super) inner: &'a Inner,
    pub(super) span: Span<'a>,
    /// What was proposed before.
    pub(super) away: &'a FxHashSet<u32>,
}

impl View for Outlook<'_> {
    fn items(&self) -> u32 {
        u32::try_from(self.span.snapshot.len()).unwrap_or(u32::MAX)
    }

    fn total_bytes(&self) -> u64 {
        self.span.snapshot.total_bytes()
    }

    fn bytes(&self, id: u32) -> u64 {
        self.span.snapshot.item(u64::from(id)).map_or(0, |item| item.range.end - item.range.start)
    }

    fn held(&self, id: u32) -> bool {
        self.away.contains(&id) || self.dataset.has_item(&self.span, id)
    }

    fn pending(&self, id: u32) -> u32 {
        self.inner.machine.pending(fingerprint(self.span.snapshot), id)
    }

    fn is_low(&self, id: u32) -> bool {
        self.dataset.jobs.low_scores.load().as_ref().is_some_and(|low| low.has(self.span.snapshot, id))
    }

    fn adjoins(&self, id: u32) -> bool {
        let item = |id: u32| self.span.snapshot.item(u64::from(id)).ok();
        let (Some(before), Some(this)) = (id.checked_sub(1).and_then(item), item(id)) else { return false };
        before.object == this.object && this.range.start.wrapping_sub(before.range.end) <= GAP_BYTES
    }

    fn planners(&self) -> Vec<JobId> {
        self.inner.jobs_on(self.span.snapshot)
    }

    fn upcoming(&self, job: JobId, from: u64) -> Option<fodder_policy::Result<Upcoming, u64>> {
        self.inner.machine.upcoming(job, from)
    }

    fn place_of(&self, job: JobId, id: u32) -> Option<u64> {
        self.inner.machine.place_of(job, id)
    }
}
