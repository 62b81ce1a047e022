//! Fetching ahead of readers: pieces that somebody will ask for are on a shelf, or staged in memory, before they do.
//!
//! It takes only memory that is free and at most half of it, and a reader who catches up joins the flight. What to
//! bring in is decided elsewhere.

use super::{
    Source,
    dataset::Dataset,
    fetch::{Keep, Keeps},
    flight::{Leg, Stretch, Waiter},
    hold::Reason,
    job::Note,
    read::pieces_in_one_request,
    segment::Receive,
};
use crate::{
    Error, Result,
    budget::Permit,
    id::{ObjectSlot, PieceId},
};
use std::{ops::Range, sync::Arc, time::Duration};

/// How long a piece waits for the reader it was fetched for. Jobs that are gone let go of theirs sooner.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);
/// The part of the memory budget that is in use at most when fetching ahead takes some.
const MEMORY_PART: u64 = 2;

/// How a step of bringing in ended.
enum Step {
    /// So many pieces are here or on their way; wait for these.
    Done(u32, Option<Waiter>),
    /// Nobody would keep the next piece now.
    NoRoom,
}

impl Dataset {
    /// Brings in pieces. Ends when they are on shelves or staged; early when `wanted` no longer says so, or
    /// the origin fails.
    pub(super) async fn bring_in(self: &Arc<Self>, pieces: Range<u32>, wanted: impl Fn() -> bool) -> Result<()> {
        let mut next = pieces.start;
        while next < pieces.end {
            let stretch = self.stretch_of(next..pieces.end)?;
            let bytes = u64::from(stretch.count) * stretch.piece_bytes;
            let mut permit = self.spare_memory(bytes.min(stretch.object_bytes), MEMORY_PART).await?;
            let mut room = std::pin::pin!(self.prefetcher.room());
            room.as_mut().enable();
            match self.step(&stretch, &mut permit) {
                Step::NoRoom if !wanted() => return Ok(()),
                Step::NoRoom => {
                    drop(permit);
                    room.await;
                }
                Step::Done(count, waiter) => {
                    if let Some(waiter) = waiter
                        && let Err(error) = waiter.wait(waiter.flight.range.clone()).await
                    {
                        self.did_not_come(next + waiter.flight.published() as u32..next + count);
                        return Err(error);
                    }
                    next += count;
                }
            }
        }
        self.flights.settled(pieces, |piece| self.staging.has(piece)).await;
        Ok(())
    }

    /// The first of consecutive pieces, as far as they are of one object and one request brings them. [`Error::Stale`] if their
    /// object has left.
    pub(super) fn stretch_of(&self, pieces: Range<u32>) -> Result<Stretch> {
        let pin = self.pin_piece(PieceId(pieces.start));
        let pin = pin.ok_or_else(|| Error::Stale("an object has left the dataset".into()))?;
        let (object, range): (ObjectSlot, _) = self.piece_range(PieceId(pieces.start));
        let pieces = pieces.start..pieces.end.min(self.pieces_of(object).end);
        let objects = self.objects.load();
        let piece_bytes = u64::from(objects.piece_bytes());
        Ok(Stretch {
            object: pin,
            object_bytes: objects.size(object),
            piece_bytes,
            first: PieceId(pieces.start),
            count: (pieces.len() as u64).min(pieces_in_one_request(range.start / piece_bytes, piece_bytes)) as u32,
            offset: range.start,
            asks_peers: self.asks_peers(object, range.start),
        })
    }

    fn step(self: &Arc<Self>, stretch: &Stretch, permit: &mut Permit) -> Step {
        match self.flights.next_leg(stretch, |piece| self.holds(piece), |run| self.admit_ahead(run)) {
            Leg::Kept(count) | Leg::Joined(_, count) => Step::Done(count, None),
            Leg::Unwanted(_) => Step::NoRoom,
            Leg::Claimed(waiter, keeps, count) => {
                let bytes = waiter.flight.range.end - waiter.flight.range.start;
                self.launch(Arc::clone(&waiter.flight), keeps, permit.split(bytes), Receive::Gathered);
                Step::Done(count, Some(waiter))
            }
        }
    }

    /// Where pieces go that nobody has asked for yet: where the policies want them, else to the staging area. None if there
    /// is no room for one of them.
    fn admit_ahead(&self, pieces: Range<u32>) -> Option<Keeps> {
        let mut keeps = Keeps::with_capacity(pieces.len());
        for piece in pieces.clone() {
            let keep = self.admit_one(PieceId(piece)).or_else(|| {
                let bytes = u64::from(self.piece_len(PieceId(piece)));
                self.staging.reserve(piece, bytes, Reason::Prefetched).then_some(Keep::Stage)
            });
            if keep.is_none() {
                for (piece, keep) in pieces.zip(keeps) {
                    self.give_up(piece, keep.as_ref());
                }
                return None;
            }
            if let Some(Keep::Shelf(level, _)) = &keep {
                self.stocks[*level].1.holds.hold(piece, Reason::Prefetched, PATIENCE);
            }
            keeps.push(keep);
        }
        Some(keeps)
    }

    fn give_up(&self, piece: u32, keep: Option<&Keep>) {
        match keep {
            Some(Keep::Shelf(level, _)) => self.stocks[*level].1.holds.forget(piece),
            Some(Keep::Stage) => self.staging.release(piece),
            None => {}
        }
    }

    /// Pieces that were to be here before anybody asks will not be: what was set aside for them is free again.
    fn did_not_come(&self, pieces: Range<u32>) {
        for piece in pieces {
            self.staging.did_not_come(piece);
            for (_, stock) in &self.stocks {
                if stock.holds.reason(piece) == Some(Reason::Prefetched) {
                    stock.holds.forget(piece);
                }
            }
        }
        self.prefetcher.wake();
    }

    /// A reader, who reads the object up to `end`, joins flights that bring these pieces, or finds them staged.
    pub(super) fn joined(&self, pieces: Range<u32>, end: u64) -> Source {
        if self.jobs.is_empty() && self.staging.is_empty() {
            return Source::Joined;
        }
        let mut source = Source::Joined;
        for piece in pieces {
            let to_its_end = self.piece_range(PieceId(piece)).1.end <= end;
            let redeemed = self.staging.redeem(piece, to_its_end);
            if redeemed.was_ready {
                source = Source::Prefetched;
            }
            if redeemed.is_gone {
                self.jobs.notices.leave([Note::Evicted(piece)]);
            }
            // Whoever catches up with a prefetch was there first: what comes after it is a plain hit.
            for (_, stock) in &self.stocks {
                stock.holds.redeem(piece);
            }
        }
        self.prefetcher.wake();
        source
    }

    /// Memory that no reader needs now: taken only while no more than one `part`th of the budget is in use.
    pub(super) async fn spare_memory(&self, bytes: u64, part: u64) -> Result<Permit> {
        self.shared.budget.acquire_spare(bytes, part).await
    }
}
