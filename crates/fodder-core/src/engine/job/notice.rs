//! What came into the cache and what left it, on its way to the jobs.
//!
//! Stocks leave a note and go on; whoever next speaks with the jobs passes the notes on. So nothing that reads or writes the
//! cache ever waits for a job, and where there is no job a note costs one look at a flag.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Notes that wait at most. They are hints: a lost one costs a chance, never a wrong answer.
const MAX_NOTES: usize = 1 << 16;

/// A piece came or went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine) enum Note {
    /// It can be read from the cache.
    Inserted(u32),
    /// It cannot any more.
    Evicted(u32),
}

/// Notes from the stocks of a dataset.
#[derive(Debug, Default)]
pub(in crate::engine) struct Notices {
    wanted: AtomicBool,
    notes: Mutex<Vec<Note>>,
}

impl Notices {
    /// Whether anybody reads them.
    pub(super) fn want(&self, wanted: bool) {
        if self.wanted.swap(wanted, Relaxed) && !wanted {
            self.notes.lock().clear();
        }
    }

    /// Leaves notes, if anybody reads them.
    pub(in crate::engine) fn leave(&self, notes: impl IntoIterator<Item = Note>) {
        if self.wanted.load(Relaxed) {
            let mut kept = self.notes.lock();
            let room = MAX_NOTES - kept.len();
            kept.extend(notes.into_iter().take(room));
        }
    }

    /// Takes all notes, the oldest first.
    pub(super) fn take(&self) -> Vec<Note> {
        match self.wanted.load(Relaxed) {
            true => std::mem::take(&mut *self.notes.lock()),
            false => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_that_nobody_wants_are_not_kept() {
        let notices = Notices::default();
        notices.leave([Note::Inserted(1)]);
        notices.want(true);
        notices.leave([Note::Inserted(2), Note::Evicted(2)]);
        assert_eq!(notices.take(), [Note::Inserted(2), Note::Evicted(2)]);
        notices.leave([Note::Inserted(3)]);
        notices.want(false);
        assert_eq!(notices.take(), []);
    }

    #[test]
    fn notes_that_nobody_takes_are_bounded() {
        let notices = Notices::default();
        notices.want(true);
        (0..2 * MAX_NOTES as u32).for_each(|piece| notices.leave([Note::Inserted(piece)]));
        assert_eq!(notices.take().len(), MAX_NOTES);
    }
}
