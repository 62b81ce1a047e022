//! What a warming has done so far, counted by many and looked at by one.

use parking_lot::Mutex;
use serde::Serialize;
use std::{
    ops::Range,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

/// Problems that are told one by one; more are only counted.
const MAX_PROBLEMS: usize = 20;

/// Why one object is not there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Which.
    pub path: String,
    /// What happened.
    pub message: String,
}

/// How far a warming is. Every object of `files` ends up in exactly one of `files_there`, `files_too_large`,
/// `files_declined`, `files_failed` and `files_evicted`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Progress {
    /// Objects that were chosen.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Objects of which every piece is on a shelf.
    pub files_there: u64,
    /// Bytes that are on a shelf.
    pub bytes_there: u64,
    /// Objects that were there before: part of `files_there`.
    pub files_skipped: u64,
    /// Bytes that were there before: part of `bytes_there`.
    pub bytes_skipped: u64,
    /// Bytes that were fetched for it.
    pub bytes_fetched: u64,
    /// Objects left out because they exceed the most that may be there.
    pub files_too_large: u64,
    /// Objects that the cache does not keep whole: the policy declined, or the disk did.
    pub files_declined: u64,
    /// Objects the origin did not give.
    pub files_failed: u64,
    /// Objects that were deleted or changed at the origin since they were listed: part of `files_failed`.
    pub files_outdated: u64,
    /// Objects that were there, and that the policy gave up again before the end.
    pub files_evicted: u64,
    /// Bytes a second: lately, and once it is over those that were fetched over all the time it took.
    pub bytes_per_second: f64,
    /// How long it will still take, if that can be told.
    pub eta: Option<Duration>,
    /// Whether it is over. Only then are the counts final.
    pub finished: bool,
    /// Why objects were declined, if any were.
    pub declined_because: String,
    /// The first things that went wrong.
    pub problems: Vec<Problem>,
}

impl Progress {
    /// Bytes that have come since the beginning, whoever fetched them.
    pub(super) fn bytes_come(&self) -> u64 {
        self.bytes_there.saturating_sub(self.bytes_skipped)
    }

    /// Whether it is over and everything is on a shelf.
    pub fn is_complete(&self) -> bool {
        // Of a large object, a part may be this node's and the object another's.
        self.finished && self.files_there == self.files && self.bytes_there == self.bytes
    }
}

/// The counts behind [`Progress`].
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) files: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) files_there: AtomicU64,
    pub(super) bytes_there: AtomicU64,
    pub(super) files_skipped: AtomicU64,
    pub(super) bytes_skipped: AtomicU64,
    pub(super) bytes_fetched: AtomicU64,
    pub(super) files_too_large: AtomicU64,
    pub(super) files_declined: AtomicU64,
    pub(super) files_failed: AtomicU64,
    pub(super) files_outdated: AtomicU64,
    pub(super) files_evicted: AtomicU64,
    /// Bytes that will not come: of what was left out, declined or failed.
    pub(super) bytes_given_up: AtomicU64,
    pub(super) declined_because: Mutex<String>,
    problems: Mutex<Vec<Problem>>,
    /// Pieces that are being brought in, and how many bytes of them were missing when that began.
    under_way: Mutex<Vec<(Range<u32>, u64)>>,
}

impl Tally {
    /// Notes why an object is not there, if there is still room for it.
    pub(super) fn problem(&self, path: impl FnOnce() -> String, message: impl ToString) {
        let mut problems = self.problems.lock();
        if problems.len() < MAX_PROBLEMS {
            problems.push(Problem { path: path(), message: message.to_string() });
        }
    }

    /// Pieces are being brought in, of which so many bytes are missing.
    pub(super) fn begin(&self, pieces: Range<u32>, missing: u64) {
        self.under_way.lock().push((pieces, missing));
    }

    /// What was begun with these pieces is over: so many bytes have come, and so many will not.
    pub(super) fn end(&self, pieces: &Range<u32>, came: u64, given_up: u64) {
        let mut under_way = self.under_way.lock();
        under_way.retain(|(other, _)| other != pieces);
        self.bytes_there.fetch_add(came, Relaxed);
        self.bytes_given_up.fetch_add(given_up, Relaxed);
    }

    /// Bytes that are still to come, of a progress.
    pub(super) fn bytes_left(&self, progress: &Progress) -> u64 {
        progress.bytes.saturating_sub(progress.bytes_there + self.bytes_given_up.load(Relaxed))
    }

    /// How it stands, without what needs a clock. Of what is under way, what is not missing any more counts as there.
    pub(super) fn progress(&self, missing: impl Fn(Range<u32>) -> u64) -> Progress {
        let count = |counter: &AtomicU64| counter.load(Relaxed);
        let under_way = self.under_way.lock();
        let came = |(pieces, before): &(Range<u32>, u64)| before.saturating_sub(missing(pieces.clone()));
        let bytes_there = count(&self.bytes_there) + under_way.iter().map(came).sum::<u64>();
        drop(under_way);
        Progress {
            files: count(&self.files),
            bytes: count(&self.bytes),
            files_there: count(&self.files_there),
            bytes_there,
            files_skipped: count(&self.files_skipped),
            bytes_skipped: count(&self.bytes_skipped),
            bytes_fetched: count(&self.bytes_fetched),
            files_too_large: count(&self.files_too_large),
            files_declined: count(&self.files_declined),
            files_failed: count(&self.files_failed),
            files_outdated: count(&self.files_outdated),
            files_evicted: count(&self.files_evicted),
            declined_because: self.declined_because.lock().clone(),
            problems: self.problems.lock().clone(),
            ..Progress::default()
        }
    }
}
