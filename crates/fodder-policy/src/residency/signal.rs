//! What a policy is told beyond hits and misses: scores, plans, chunks, likenesses.
//!
//! Signals are hints. Each policy heeds those it is built on and ignores the rest; none may rely on a signal ever
//! coming. They speak of piece ids: whoever sends them has turned items into pieces.

use std::sync::Arc;

/// A hint to a residency policy. Taking one is O(1), or linear in the ids it lists: a sender with a long list sends
/// it in parts and lets readers in between.
#[derive(Debug, Clone)]
pub enum Signal<'a> {
    /// How much each id is worth from now on, combined over all jobs. An id past the end is worth [`UNSCORED`].
    /// Whoever collects scores refuses those that are not finite; one that comes nevertheless counts as 0.
    /// Residents take their new places in [`settle`](super::Residency::settle).
    Scores(Arc<[f32]>),
    /// One more job will need these ids, each once, in the epoch it begins.
    Planned(Ids<'a>),
    /// One job needs the id no more in this epoch.
    Consumed(u32),
    /// A job left or began anew: one job fewer needs these ids, which it had planned and not consumed.
    Dropped(&'a [u32]),
    /// When an id is next needed by any job, in the caller's own count of requests; [`NEVER`] if no plan has it.
    /// Sent before the `hit` or `admit` of each request.
    NextUse {
        /// Who is needed.
        id: u32,
        /// When.
        at: u64,
    },
    /// The next chunk begins to load. The chunk loaded before it stays, since it is now being read; what is older
    /// has been read and goes.
    NextChunk,
    /// A pack of low-score ids is about to be inserted together, to answer for others of their kind.
    Packed(&'a [u32]),
    /// By id, the key that may answer for it: a neighbour of its class, itself if it is a key, [`NO_KEY`] for none.
    /// Residents take their new places in [`settle`](super::Residency::settle).
    Neighbours(Arc<[u32]>),
}

/// Which ids a job has planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ids<'a> {
    /// Every id below this one. Planning them is O(1) where they were all known before.
    Below(u32),
    /// These.
    Listed(&'a [u32]),
}

/// What an id without a score is worth: everyone's worth before the first report.
pub const UNSCORED: f32 = 1.0;

/// Makes some ids worth what an id without a score is worth.
pub(super) fn unscore(scores: &mut Arc<[f32]>, ids: &[u32]) {
    if ids.iter().any(|id| scores.get(*id as usize).is_some_and(|score| *score != UNSCORED)) {
        let mut changed = scores.to_vec();
        for id in ids {
            if let Some(score) = changed.get_mut(*id as usize) {
                *score = UNSCORED;
            }
        }
        *scores = changed.into();
    }
}

/// The next use of an id that no plan has.
pub const NEVER: u64 = u64::MAX;

/// The key of an id that no other stands for. Never an id: the greatest is one less.
pub const NO_KEY: u32 = u32::MAX;
