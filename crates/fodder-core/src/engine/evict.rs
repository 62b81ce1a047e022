//! What an eviction by request leaves behind, and why. The eviction itself is the dataset's.

use super::{Dataset, EvictRemainder};
use std::sync::Arc;

impl Dataset {
    /// What still occupies space after an eviction, or will soon.
    pub(super) fn evict_remainder(self: &Arc<Self>) -> EvictRemainder {
        let jobs = self.jobs().status().into_iter().map(|job| job.introduction.name).collect();
        let mut left = EvictRemainder { jobs, ..EvictRemainder::default() };
        for (_, stock) in &self.stocks {
            let (files, bytes) = stock.shelf.leased_after_eviction();
            left.leased_files += files;
            left.leased_bytes += bytes;
        }
        (left.staged_pieces, left.staged_bytes) = self.staging.ready();
        for piece in self.flights.pieces().into_iter().filter(|piece| !self.staging.is_ready(piece.0)) {
            left.fetching_pieces += 1;
            left.fetching_bytes += u64::from(self.piece_len(piece));
        }
        left.jobs.sort_unstable();
        left
    }
}
