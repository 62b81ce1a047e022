//! Pieces that a job is about to read: they stay until it has.
//!
//! A policy decides with what it is told, and it is told of a delivery before the reader comes. A piece that it names in
//! between is *put off*: it goes once it was read. A hold that nobody redeems runs out. Nothing here decides what is held.

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::{
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::{Duration, Instant},
};

/// The most pieces that are held at once; more are not, and cost a miss if they go too early.
const MAX_HELD: usize = 1 << 20;

/// Why a piece is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// It was fetched before anybody asked for it.
    Prefetched,
    /// It was fetched on a guess: whoever reads it may do so in parts.
    Guessed,
    /// It was promised to a reader.
    Promised,
    /// It was promised to a reader who had asked for another.
    Substitute,
    /// Jobs in step are still to take it. Reading does not redeem it.
    Staged,
}

#[derive(Debug, Clone, Copy)]
struct Hold {
    /// None: not any more. It is still known because the policy has named it.
    reason: Option<Reason>,
    until: Instant,
    /// The policy has named it: it goes as soon as it may.
    put_off: bool,
}

/// The held pieces of a dataset in one tier.
#[derive(Debug, Default)]
pub(super) struct Holds {
    /// How many there are, so that those who hold nothing pay nothing.
    held: AtomicUsize,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    pieces: FxHashMap<u32, Hold>,
    /// Pieces that the policy gave up and nobody waits for any more: first to go. Some may have left or be held anew.
    overdue: Vec<u32>,
}

impl Holds {
    /// Whether nothing is held or overdue.
    pub(super) fn is_empty(&self) -> bool {
        self.held.load(Relaxed) == 0
    }

    /// Keeps a piece until it was read or released, at most for so long. A prefetched piece that is promised stays
    /// prefetched, and what is staged stays staged.
    pub(super) fn hold(&self, piece: u32, reason: Reason, patience: Duration) {
        self.change(|table| {
            let until = Instant::now() + patience;
            if let Some(hold) = table.pieces.get_mut(&piece) {
                hold.until = hold.until.max(until);
                if matches!(hold.reason, None | Some(Reason::Promised)) || reason == Reason::Staged {
                    hold.reason = Some(reason);
                }
            } else if table.pieces.len() < MAX_HELD {
                table.pieces.insert(piece, Hold { reason: Some(reason), until, put_off: false });
            }
        });
    }

    /// Why a piece is held, if it is.
    pub(super) fn reason(&self, piece: u32) -> Option<Reason> {
        self.table.lock().pieces.get(&piece)?.reason
    }

    /// A piece was read: why it had been held.
    pub(super) fn redeem(&self, piece: u32) -> Option<Reason> {
        if self.is_empty() {
            return None;
        }
        self.change(|table| {
            let reason = table.pieces.get(&piece)?.reason?;
            if reason != Reason::Staged {
                table.release(piece);
            }
            Some(reason)
        })
    }

    /// A piece need not be held any more.
    pub(super) fn release(&self, piece: u32) {
        if !self.is_empty() {
            self.change(|table| table.release(piece));
        }
    }

    /// Others need a piece no more, but the last who wants it is about to read it, and has so long to come.
    pub(super) fn promise(&self, piece: u32, patience: Duration) {
        if !self.is_empty() {
            self.change(|table| {
                if let Some(hold) = table.pieces.get_mut(&piece).filter(|hold| hold.reason.is_some()) {
                    *hold = Hold { reason: Some(Reason::Promised), until: Instant::now() + patience, ..*hold };
                }
            });
        }
    }

    /// A piece left.
    pub(super) fn forget(&self, piece: u32) {
        if !self.is_empty() {
            self.change(|table| table.pieces.remove(&piece));
        }
    }

    /// The policy names a piece: true if it must wait, and is not the policy's any more.
    pub(super) fn put_off(&self, piece: u32) -> bool {
        if self.is_empty() {
            return false;
        }
        self.change(|table| {
            let Some(hold) = table.pieces.get_mut(&piece) else { return false };
            if hold.reason.is_none() || hold.until <= Instant::now() {
                table.pieces.remove(&piece);
                return false;
            }
            hold.put_off = true;
            true
        })
    }

    /// A piece that the policy has named before and that may go now.
    pub(super) fn overdue(&self) -> Option<u32> {
        if self.is_empty() {
            return None;
        }
        self.change(|table| {
            while let Some(piece) = table.overdue.pop() {
                if table.pieces.get(&piece).is_some_and(|hold| hold.reason.is_none()) {
                    table.pieces.remove(&piece);
                    return Some(piece);
                }
            }
            None
        })
    }

    /// Lets go of what nobody has redeemed in time.
    pub(super) fn expire(&self) {
        if self.is_empty() {
            return;
        }
        self.change(|table| {
            let now = Instant::now();
            let late = table.pieces.iter().filter(|(_, hold)| hold.reason.is_some() && hold.until <= now);
            let late: Vec<u32> = late.map(|(piece, _)| *piece).collect();
            late.into_iter().for_each(|piece| table.release(piece));
        });
    }

    fn change<T>(&self, change: impl FnOnce(&mut Table) -> T) -> T {
        let mut table = self.table.lock();
        let outcome = change(&mut table);
        self.held.store(table.pieces.len(), Relaxed);
        outcome
    }
}

impl Table {
    fn release(&mut self, piece: u32) {
        let Some(hold) = self.pieces.get_mut(&piece) else { return };
        if hold.put_off {
            hold.reason = None;
            self.overdue.push(piece);
        } else {
            self.pieces.remove(&piece);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    #[test]
    fn a_piece_that_was_named_while_it_was_held_goes_once_it_was_read() {
        let holds = Holds::default();
        assert!(!holds.put_off(7), "nobody holds it");
        holds.hold(7, Reason::Promised, LONG);
        assert!(holds.put_off(7));
        assert_eq!(holds.overdue(), None);
        assert_eq!(holds.redeem(7), Some(Reason::Promised));
        assert_eq!(holds.overdue(), Some(7));
        assert!(holds.is_empty());
    }

    #[test]
    fn reading_does_not_redeem_what_jobs_in_step_are_still_to_take() {
        let holds = Holds::default();
        holds.hold(7, Reason::Promised, LONG);
        holds.hold(7, Reason::Staged, LONG);
        assert_eq!(holds.redeem(7), Some(Reason::Staged));
        assert!(holds.put_off(7));
        holds.release(7);
        assert_eq!(holds.overdue(), Some(7));
    }

    #[test]
    fn what_was_prefetched_is_still_so_when_it_is_promised() {
        let holds = Holds::default();
        holds.hold(7, Reason::Prefetched, LONG);
        holds.hold(7, Reason::Promised, LONG);
        assert_eq!(holds.redeem(7), Some(Reason::Prefetched));
        assert_eq!(holds.redeem(7), None, "the next read is a plain hit");
    }

    #[test]
    fn what_was_let_go_and_is_held_again_does_not_go_yet() {
        let holds = Holds::default();
        holds.hold(7, Reason::Promised, LONG);
        assert!(holds.put_off(7));
        holds.release(7);
        holds.hold(7, Reason::Promised, LONG);
        assert_eq!(holds.overdue(), None);
        holds.release(7);
        assert_eq!(holds.overdue(), Some(7));
        assert_eq!(holds.overdue(), None);
    }

    #[test]
    fn a_hold_runs_out() {
        let holds = Holds::default();
        holds.hold(7, Reason::Prefetched, Duration::ZERO);
        assert!(!holds.put_off(7));
        holds.hold(8, Reason::Prefetched, Duration::ZERO);
        holds.expire();
        assert!(holds.is_empty());
    }
}
