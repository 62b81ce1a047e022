//! Which items have a low score: those that matter least to the jobs, and may come in packs.

use crate::{catalog::Snapshot, id::SnapshotId};
use std::sync::Arc;

/// The share of the items that counts as low (iCache's: the 70 % of the highest loss matter).
const LOW_PERCENT: usize = 30;

/// The combined scores of a snapshot's items, and below which one is low.
#[derive(Debug)]
pub(in crate::engine) struct LowScores {
    snapshot: SnapshotId,
    by_item: Arc<[f32]>,
    threshold: f32,
}

impl LowScores {
    /// Finds the threshold. Linear in the items.
    pub(super) fn new(snapshot: &Snapshot, by_item: Arc<[f32]>) -> Self {
        let mut sorted = by_item.to_vec();
        let rank = sorted.len() * LOW_PERCENT / 100;
        let threshold = match rank < sorted.len() {
            true => *sorted.select_nth_unstable_by(rank, f32::total_cmp).1,
            false => f32::NEG_INFINITY,
        };
        Self { snapshot: snapshot.id(), by_item, threshold }
    }

    /// Whether an item of a snapshot has a low score.
    pub(super) fn has(&self, snapshot: &Snapshot, id: u32) -> bool {
        self.snapshot == snapshot.id() && self.by_item.get(id as usize).is_some_and(|score| *score < self.threshold)
    }
}
