//! Whether a reader waits for an origin now. Who fetches what nobody asked for looks here, and steps back.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// How many readers wait.
#[derive(Debug, Default)]
pub(super) struct Demand(AtomicUsize);

impl Demand {
    /// A reader waits until what is returned is dropped.
    pub(super) fn wait(&self) -> Waiting<'_> {
        self.0.fetch_add(1, Relaxed);
        Waiting(self)
    }

    /// Whether anybody waits.
    pub(super) fn is_some(&self) -> bool {
        self.0.load(Relaxed) > 0
    }
}

/// A reader who waits.
#[derive(Debug)]
pub(super) struct Waiting<'a>(&'a Demand);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Relaxed);
    }
}
