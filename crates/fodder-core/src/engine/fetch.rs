//! A flight on its way: from a peer or the origin to its waiting readers and, where it is wanted, to a tier.

use super::{
    dataset::Dataset,
    flight::{Flight, Flights},
    hold::Reason,
    job::Note,
    peer::Supply,
    segment::{Incoming, Receive, Segment},
    space::{Place, Room},
};
use crate::{
    Error, Result,
    budget::Permit,
    id::{ObjectSlot, PieceId},
    tier::ShelfRead,
};
use bytes::Bytes;
use std::{
    ops::Range,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

/// What becomes of each piece of a flight; None for one that is only passed on.
pub(super) type Keeps = Vec<Option<Keep>>;

/// Where a piece will be kept.
#[derive(Debug)]
pub(super) enum Keep {
    /// By the stock of that tier, and where.
    Shelf(usize, Place),
    /// In memory, until those have come whom it was fetched for.
    Stage,
}

impl Dataset {
    /// Asks the policies, the fastest tier's first, which pieces of a missed run to keep. None if none of them.
    pub(super) fn admit(&self, pieces: Range<u32>) -> Option<Keeps> {
        let keeps: Keeps = pieces.map(|piece| self.admit_one(PieceId(piece))).collect();
        keeps.iter().any(Option::is_some).then_some(keeps)
    }

    /// Asks the policies about one piece. What none of them wants is staged if room was set aside for it.
    pub(super) fn admit_one(&self, piece: PieceId) -> Option<Keep> {
        match self.admit_below(0, piece) {
            Some((level, place)) => {
                if !self.jobs.is_empty() {
                    self.staging.release(piece.0);
                }
                Some(Keep::Shelf(level, place))
            }
            None if !self.jobs.is_empty() && self.staging.awaits(piece.0) => Some(Keep::Stage),
            None => None,
        }
    }

    pub(super) fn admit_below(&self, highest: usize, piece: PieceId) -> Option<(usize, Place)> {
        let (bytes, is_guest) = (self.piece_len(piece), self.is_mere_guest(piece));
        self.stocks
            .iter()
            .enumerate()
            .skip(highest)
            .find_map(|(level, (space, stock))| space.admit(stock, piece, bytes, is_guest).map(|place| (level, place)))
    }

    /// Sends a flight on its way. It ends by itself, or when nobody waits for it any more.
    pub(super) fn launch(self: &Arc<Self>, flight: Arc<Flight>, keeps: Keeps, permit: Permit, receive: Receive) {
        self.fly(Trip::new(self, flight, keeps, permit), receive, Duration::ZERO);
    }

    /// The same for one that has waited so long for a peer already, in vain.
    pub(super) fn fly(self: &Arc<Self>, trip: Trip, receive: Receive, waited: Duration) {
        let dataset = Arc::clone(self);
        self.shared.tasks.spawn(async move {
            let Trip { flight, keeps, permit, mut ending } = trip;
            let outcome = tokio::select! {
                biased;
                () = flight.abandoned.cancelled() => Err(Error::Closed),
                () = dataset.closing.cancelled() => Err(Error::Closed),
                outcome = dataset.fetch(&flight, keeps, permit, receive, waited) => outcome,
            };
            if let Err(error) = outcome {
                if matches!(error, Error::Stale(_)) {
                    dataset.refresh_soon();
                }
                ending.error = error;
            }
        });
    }

    async fn fetch(
        self: &Arc<Self>,
        flight: &Arc<Flight>,
        mut keeps: Keeps,
        mut permit: Permit,
        receive: Receive,
        waited: Duration,
    ) -> Result<()> {
        let fetching = self.meter.fetch();
        let mut supply = Supply::open(self, flight, waited).await?;
        fetching.answered();
        for index in 0..flight.len() {
            let range = flight.segment_range(index);
            let len = (range.end - range.start) as usize;
            let mut incoming = Incoming::new(len, permit.split(len as u64), receive);
            while !incoming.is_complete() {
                supply.bring(&mut incoming).await?;
            }
            if !self.land(flight, index, incoming.finish(), keeps.get_mut(index).and_then(Option::take)).await {
                return Err(self.changed_during_read(flight.object));
            }
        }
        Ok(())
    }

    /// A segment of a flight is here: for all who wait for it, and to be kept if somebody wants it. False, and neither, if
    /// the file was compared anew since it was requested: its bytes may be of before.
    pub(super) async fn land(
        self: &Arc<Self>,
        flight: &Arc<Flight>,
        index: usize,
        segment: Segment,
        keep: Option<Keep>,
    ) -> bool {
        let key = || self.objects.load().key(flight.object);
        if !self.stamps.publish(flight.generation(), key, || flight.publish(index, segment.clone())) {
            return false;
        }
        let Some(first) = flight.first_piece else { return true };
        let piece = PieceId(first.0 + index as u32);
        let landing = Landing { flights: Arc::clone(&self.flights), flight: Arc::clone(flight), piece };
        match keep {
            None => {}
            Some(Keep::Stage) => self.staged(piece, landing),
            Some(Keep::Shelf(level, place)) => {
                let dataset = Arc::clone(self);
                let keep = move || {
                    // The flight pins the object, and the landing has the flight.
                    if !dataset.keep(level, piece, &segment, place) {
                        dataset.stage_instead(level, piece, landing);
                    }
                };
                if !self.shared.writes.offer(keep).await {
                    self.counters.unkept_pieces.fetch_add(1, Relaxed);
                }
            }
        }
        true
    }

    /// The error of a read that began before the contents of its file were compared anew.
    pub(super) fn changed_during_read(&self, object: ObjectSlot) -> Error {
        Error::Stale(format!(
            "{:?} changed at the origin while it was read: read it again",
            self.objects().path(object)
        ))
    }

    /// A piece has come to the staging area.
    fn staged(&self, piece: PieceId, landing: Landing) {
        self.staging.put(piece.0, landing);
        self.jobs.notices.leave([Note::Inserted(piece.0)]);
    }

    /// A piece found no room on its shelf, where everything may be held for jobs that are still to come. If it is for one of
    /// them it waits in memory.
    fn stage_instead(&self, level: usize, piece: PieceId, landing: Landing) {
        let holds = &self.stocks[level].1.holds;
        let reason = holds.reason(piece.0).filter(|why| matches!(why, Reason::Prefetched | Reason::Staged));
        if let Some(reason) = reason
            && self.staging.reserve(piece.0, u64::from(self.piece_len(piece)), reason)
        {
            if reason == Reason::Prefetched {
                holds.forget(piece.0);
            }
            self.staged(piece, landing);
            self.flights.stays_up();
        }
    }

    /// Writes a piece, whose object is pinned, to the stock that wants it, and says whether it is there. What cannot be kept will be
    /// a miss again.
    fn keep(&self, level: usize, piece: PieceId, segment: &[Bytes], place: Place) -> bool {
        let (space, stock) = &self.stocks[level];
        let room = match place {
            Place::Reserved(room) => Some(room),
            Place::ToMake => space.make_room(stock, piece, |victim| self.demote(level, victim)),
        };
        let Some(Room { reservation, claim }) = room else { return false };
        let parts: Vec<&[u8]> = segment.iter().map(|part| &part[..]).collect();
        let written = stock.shelf.write(piece, &parts, reservation);
        match &written {
            Ok(()) => stock.inserted(piece, self.piece_len(piece), self.is_guest(piece)),
            Err(error) => tracing::debug!(dataset = self.config().name, %error, "a piece could not be kept"),
        }
        drop(claim);
        written.is_ok()
    }

    /// Offers a victim of one tier to the next slower one.
    fn demote(&self, level: usize, piece: PieceId) {
        if let Some(_pin) = self.pin_piece(piece)
            && let Some((below, place)) = self.admit_below(level + 1, piece)
            && let Some(bytes) = self.copy_of(level, piece)
        {
            self.keep(below, piece, &[bytes], place);
        }
    }

    /// A piece was read from a slower tier: moves it up if the faster one wants it and there is time.
    pub(super) fn promote_soon(self: &Arc<Self>, level: usize, piece: PieceId) {
        let dataset = Arc::clone(self);
        self.shared.moves.try_submit(move || {
            let (above, stock) = &dataset.stocks[level - 1];
            if let Some(_pin) = dataset.pin_piece(piece)
                && !stock.shelf.has(piece)
                && let Some(place) = above.admit(stock, piece, dataset.piece_len(piece), dataset.is_mere_guest(piece))
                && let Some(bytes) = dataset.copy_of(level, piece)
            {
                dataset.keep(level - 1, piece, &[bytes], place);
                if stock.shelf.has(piece) {
                    dataset.stocks[level].1.evict(piece);
                }
            }
        });
    }

    pub(super) fn copy_of(&self, level: usize, piece: PieceId) -> Option<Bytes> {
        let objects = self.objects();
        let object: ObjectSlot = objects.object_of(piece)?;
        let offset = u64::from(piece.0 - objects.first_piece(object).0) * u64::from(objects.piece_bytes());
        let mut bytes = vec![0; self.piece_len(piece) as usize];
        let read = self.stocks[level].1.shelf.read(object, offset, &mut bytes, true);
        (read == ShelfRead::Done).then(|| bytes.into())
    }
}

/// A flight that is to be flown, and what it takes along.
#[derive(Debug)]
pub(super) struct Trip {
    pub(super) flight: Arc<Flight>,
    pub(super) keeps: Keeps,
    /// Pays for all that it brings.
    pub(super) permit: Permit,
    ending: Ending,
}

impl Trip {
    pub(super) fn new(dataset: &Dataset, flight: Arc<Flight>, keeps: Keeps, permit: Permit) -> Self {
        let (flights, error) = (Arc::clone(&dataset.flights), Error::Internal("a fetch failed".into()));
        flight.requested_at(dataset.stamps.generation());
        let ending = Ending { flights, flight: Arc::clone(&flight), error };
        Self { flight, keeps, permit, ending }
    }

    /// The error that its readers get when it ends.
    pub(super) fn fail_with(&mut self, error: Error) {
        self.ending.error = error;
    }
}

/// Whatever happens to a fetch, even a panic, its readers are told and the table is clean.
#[derive(Debug)]
struct Ending {
    flights: Arc<Flights>,
    flight: Arc<Flight>,
    error: Error,
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.flights.ended(&self.flight);
        self.flight.fail(std::mem::replace(&mut self.error, Error::Closed));
    }
}

/// However the writing of a piece ends, from then on it is looked for on the shelf.
#[derive(Debug)]
pub(super) struct Landing {
    flights: Arc<Flights>,
    flight: Arc<Flight>,
    piece: PieceId,
}

impl Drop for Landing {
    fn drop(&mut self) {
        self.flights.landed(&self.flight, self.piece);
    }
}
