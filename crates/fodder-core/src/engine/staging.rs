//! Pieces in memory that no policy keeps and jobs are still to read.
//!
//! A staged piece is a flight that has not landed: readers find it in the table of flights and join it. It is paid for by
//! the memory budget, of which the staging area takes at most a part.

use super::{fetch::Landing, hold::Reason};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::time::{Duration, Instant};

/// The staging area of a dataset.
#[derive(Debug)]
pub(super) struct Staging {
    most_bytes: u64,
    area: Mutex<Area>,
}

#[derive(Debug, Default)]
struct Area {
    pieces: FxHashMap<u32, Staged>,
    /// Of the pieces that are here or on their way here.
    bytes: u64,
}

#[derive(Debug)]
struct Staged {
    bytes: u64,
    reason: Reason,
    /// None while it is on its way.
    landing: Option<Landing>,
    /// When it is given up though nobody came for it; None: only when somebody says so.
    until: Option<Instant>,
}

/// What became of a piece that is being read.
#[derive(Debug, Default)]
pub(super) struct Redeemed {
    /// It was prefetched and had come.
    pub(super) was_ready: bool,
    /// It was here, or on its way here, and is no more.
    pub(super) is_gone: bool,
}

impl Staging {
    /// An area for at most so many bytes.
    pub(super) fn new(most_bytes: u64) -> Self {
        Self { most_bytes, area: Mutex::default() }
    }

    /// The most it holds.
    pub(super) fn most_bytes(&self) -> u64 {
        self.most_bytes
    }

    /// Sets room aside for a piece that is to come. False if there is none; what is here already stays, and the stronger
    /// reason counts.
    pub(super) fn reserve(&self, piece: u32, bytes: u64, reason: Reason) -> bool {
        let mut area = self.area.lock();
        if let Some(staged) = area.pieces.get_mut(&piece) {
            if reason == Reason::Staged {
                staged.reason = reason;
            }
            return true;
        }
        if area.bytes + bytes > self.most_bytes {
            return false;
        }
        area.bytes += bytes;
        area.pieces.insert(piece, Staged { bytes, reason, landing: None, until: None });
        true
    }

    /// How many pieces are here, and their bytes.
    pub(super) fn ready(&self) -> (u64, u64) {
        let area = self.area.lock();
        let ready = area.pieces.values().filter(|staged| staged.landing.is_some());
        ready.fold((0, 0), |(pieces, bytes), staged| (pieces + 1, bytes + staged.bytes))
    }

    /// Whether a piece is here or on its way here.
    pub(super) fn has(&self, piece: u32) -> bool {
        self.area.lock().pieces.contains_key(&piece)
    }

    /// Whether a piece is here.
    pub(super) fn is_ready(&self, piece: u32) -> bool {
        self.area.lock().pieces.get(&piece).is_some_and(|staged| staged.landing.is_some())
    }

    /// Whether room was set aside for a piece that has not come yet.
    pub(super) fn awaits(&self, piece: u32) -> bool {
        self.area.lock().pieces.get(&piece).is_some_and(|staged| staged.landing.is_none())
    }

    /// A piece for which room was set aside has arrived. If it was given up meanwhile, it lands at once.
    pub(super) fn put(&self, piece: u32, landing: Landing) {
        let refused = {
            let mut area = self.area.lock();
            match area.pieces.get_mut(&piece) {
                Some(staged) => staged.landing.replace(landing),
                None => Some(landing),
            }
        };
        // Landing takes the lock of the flights, so not under ours.
        drop(refused);
    }

    /// A piece for which room was set aside is given up if nobody came for it for so long.
    pub(super) fn expect_by(&self, piece: u32, patience: Duration) {
        if let Some(staged) = self.area.lock().pieces.get_mut(&piece) {
            staged.until = Some(Instant::now() + patience);
        }
    }

    /// Whether nothing is here or on its way here.
    pub(super) fn is_empty(&self) -> bool {
        self.area.lock().pieces.is_empty()
    }

    /// A piece is being read, up to its end or not. Unless others are to come for it, its readers are the last who see it; a
    /// guessed one goes when its end was read.
    pub(super) fn redeem(&self, piece: u32, to_its_end: bool) -> Redeemed {
        let (redeemed, staged) = {
            let mut area = self.area.lock();
            let Some(staged) = area.pieces.get(&piece) else { return Redeemed::default() };
            let early = matches!(staged.reason, Reason::Prefetched | Reason::Guessed);
            let was_ready = staged.landing.is_some() && early;
            let is_gone = match staged.reason {
                Reason::Staged => false,
                Reason::Guessed => to_its_end,
                Reason::Prefetched | Reason::Promised | Reason::Substitute => true,
            };
            let staged = if is_gone { area.remove(piece) } else { None };
            (Redeemed { was_ready, is_gone }, staged)
        };
        // Landing takes the lock of the flights, so not under ours.
        drop(staged);
        redeemed
    }

    /// The last who wants a piece is about to read it, and has so long to come for it.
    pub(super) fn promise(&self, piece: u32, patience: Duration) {
        if let Some(staged) = self.area.lock().pieces.get_mut(&piece) {
            staged.reason = Reason::Promised;
            staged.until = Some(Instant::now() + patience);
        }
    }

    /// Gives up what nobody came for in time.
    pub(super) fn expire(&self) {
        let late: Vec<Staged> = {
            let mut area = self.area.lock();
            let now = Instant::now();
            let is_late = |staged: &Staged| staged.until.is_some_and(|until| until <= now);
            let late: Vec<u32> = area.pieces.iter().filter(|(_, staged)| is_late(staged)).map(|(id, _)| *id).collect();
            late.into_iter().filter_map(|piece| area.remove(piece)).collect()
        };
        drop(late);
    }

    /// A piece that was to be here before anybody asks will not come. What jobs in step have set aside stays: one of them asks.
    pub(super) fn did_not_come(&self, piece: u32) {
        let mut area = self.area.lock();
        let is_in_vain = |staged: &Staged| staged.landing.is_none() && staged.reason == Reason::Prefetched;
        if area.pieces.get(&piece).is_some_and(is_in_vain) {
            area.remove(piece);
        }
    }

    /// Nobody needs a piece any more, or it will not come.
    pub(super) fn release(&self, piece: u32) {
        let gone = self.area.lock().remove(piece);
        drop(gone);
    }
}

impl Area {
    fn remove(&mut self, piece: u32) -> Option<Staged> {
        let gone = self.pieces.remove(&piece)?;
        self.bytes -= gone.bytes;
        Some(gone)
    }
}
