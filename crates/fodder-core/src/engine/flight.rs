//! Single flight: any number of readers of missing bytes cause one fetch.
//!
//! A *flight* is one range request to the origin and the segments it brings, in order. Segments of a flight that
//! fills the cache are pieces, and each stays in the table until it is on a shelf, so that between the fetch and
//! the write nobody fetches it again. A flight that nobody waits for any more is abandoned.

use super::{
    pins::Pin,
    segment::{Segment, slices},
};
use crate::{
    Error, Result,
    id::{ObjectSlot, PieceId},
};
use bytes::Bytes;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::{
    ops::Range,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

/// One range request and what it brings.
#[derive(Debug)]
pub(super) struct Flight {
    /// The object it reads.
    pub(super) object: ObjectSlot,
    /// Keeps the object in the catalog, and with it the numbers of its pieces.
    _pin: Pin,
    /// The bytes of the object it reads.
    pub(super) range: Range<u64>,
    /// Its first piece, if its segments are pieces; None for a flight past the cache.
    pub(super) first_piece: Option<PieceId>,
    /// Bytes of a segment; segments lie on the grid of this size, the first and last may be shorter.
    grid_bytes: u64,
    segments: Vec<OnceLock<Segment>>,
    progress: watch::Sender<Progress>,
    waiters: AtomicUsize,
    /// The acceptances of change times before its bytes were requested (see [`super::stamps`]).
    generation: AtomicU64,
    /// A peer asks for it: it must not ask peers itself.
    for_peer: AtomicBool,
    /// It goes straight to the origin: whoever it is for has asked all others.
    straight: AtomicBool,
    /// It may be waiting for a peer now.
    asks_peers: AtomicBool,
    /// The origin was asked.
    at_origin: AtomicBool,
    /// Whether a peer, and whether the origin, has sent any of it.
    senders: [AtomicBool; 2],
    pub(super) abandoned: CancellationToken,
}

#[derive(Debug, Clone, Default)]
struct Progress {
    published: usize,
    error: Option<Error>,
}

impl Flight {
    fn new(pin: Pin, range: Range<u64>, first_piece: Option<PieceId>, grid_bytes: u64, asks_peers: bool) -> Self {
        let count = range.end.div_ceil(grid_bytes) - range.start / grid_bytes;
        Self {
            object: pin.object(),
            _pin: pin,
            range,
            first_piece,
            grid_bytes,
            segments: (0..count).map(|_| OnceLock::new()).collect(),
            progress: watch::Sender::new(Progress::default()),
            waiters: AtomicUsize::new(0),
            generation: AtomicU64::new(0),
            for_peer: AtomicBool::new(false),
            straight: AtomicBool::new(false),
            asks_peers: AtomicBool::new(asks_peers),
            at_origin: AtomicBool::new(false),
            senders: Default::default(),
            abandoned: CancellationToken::new(),
        }
    }

    /// How many segments it brings.
    pub(super) fn len(&self) -> usize {
        self.segments.len()
    }

    /// The bytes of the object that a segment holds.
    pub(super) fn segment_range(&self, index: usize) -> Range<u64> {
        let cell = (self.range.start / self.grid_bytes + index as u64) * self.grid_bytes;
        cell.max(self.range.start)..(cell + self.grid_bytes).min(self.range.end)
    }

    /// Where the segment ends that holds the byte at an offset.
    pub(super) fn segment_end(&self, offset: u64) -> u64 {
        ((offset / self.grid_bytes + 1) * self.grid_bytes).min(self.range.end)
    }

    /// A segment has arrived: everyone who waits for it may go on.
    pub(super) fn publish(&self, index: usize, segment: Segment) {
        let _ = self.segments[index].set(segment);
        self.progress.send_modify(|progress| progress.published = index + 1);
    }

    /// Its bytes are requested now, after so many acceptances of change times.
    pub(super) fn requested_at(&self, generation: u64) {
        self.generation.store(generation, Ordering::Relaxed);
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }

    /// It is flown for a peer. Said before it is launched.
    pub(super) fn fly_for_peer(&self) {
        self.for_peer.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_for_peer(&self) -> bool {
        self.for_peer.load(Ordering::Relaxed)
    }

    /// It asks nobody but the origin. Said before it is launched.
    pub(super) fn fly_straight(&self) {
        self.straight.store(true, Ordering::Relaxed);
    }

    pub(super) fn flies_straight(&self) -> bool {
        self.straight.load(Ordering::Relaxed)
    }

    /// Whether it may be waiting for a peer. Whoever comes for a peer does not wait with it: that peer may be the one.
    pub(super) fn asks_peers(&self) -> bool {
        self.asks_peers.load(Ordering::Relaxed)
    }

    /// From now on it waits for the origin.
    pub(super) fn asks_origin(&self) {
        self.asks_peers.store(false, Ordering::Relaxed);
        self.at_origin.store(true, Ordering::Relaxed);
    }

    fn is_at_origin(&self) -> bool {
        self.at_origin.load(Ordering::Relaxed)
    }

    /// Some of its bytes came, from a peer or from the origin.
    pub(super) fn came_from(&self, peer: bool) {
        self.senders[usize::from(!peer)].store(true, Ordering::Relaxed);
    }

    /// Whether peers have sent what it has brought so far, and nobody else.
    pub(super) fn came_from_peers(&self) -> bool {
        let [peer, origin] = &self.senders;
        peer.load(Ordering::Relaxed) && !origin.load(Ordering::Relaxed)
    }

    /// The flight ended early: everyone who still waits gets the error.
    pub(super) fn fail(&self, error: Error) {
        self.progress.send_modify(|progress| progress.error = Some(error));
    }

    /// How many segments have come.
    pub(super) fn published(&self) -> usize {
        self.progress.borrow().published
    }

    /// All its segments, with the bytes of the object that each holds; None if some have not come.
    pub(super) fn complete(&self) -> Option<Vec<(Range<u64>, Segment)>> {
        let segments = self.segments.iter().enumerate();
        segments.map(|(index, segment)| Some((self.segment_range(index), segment.get()?.clone()))).collect()
    }
}

/// Somebody who waits for a flight. Dropping the last one abandons it.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) flight: Arc<Flight>,
    table: Arc<Flights>,
}

impl Waiter {
    /// Waits for the segments that hold `range` and returns exactly those bytes.
    pub(super) async fn wait(&self, range: Range<u64>) -> Result<Vec<Bytes>> {
        let flight = &*self.flight;
        let first = (range.start / flight.grid_bytes - flight.range.start / flight.grid_bytes) as usize;
        let last = ((range.end - 1) / flight.grid_bytes - flight.range.start / flight.grid_bytes) as usize;
        let mut progress = flight.progress.subscribe();
        let mut parts = Vec::with_capacity(last - first + 1);
        for index in first..=last {
            let arrived = progress.wait_for(|progress| progress.published > index || progress.error.is_some()).await;
            let arrived = arrived.map_err(|_| Error::Internal("a fetch was lost".into()))?.published > index;
            let Some(segment) = flight.segments[index].get().filter(|_| arrived) else {
                return Err(progress.borrow().error.clone().unwrap_or(Error::Closed));
            };
            let held = flight.segment_range(index);
            let from = range.start.max(held.start) - held.start;
            let to = range.end.min(held.end) - held.start;
            parts.extend(slices(segment, from as usize..to as usize));
        }
        Ok(parts)
    }
}

impl Clone for Waiter {
    /// One more who waits for the same.
    fn clone(&self) -> Self {
        self.table.wait_for(&self.flight)
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.table.leave(&self.flight);
    }
}

/// Consecutive pieces of one object that a read wants.
pub(super) struct Stretch {
    /// The object, which stays in the catalog meanwhile.
    pub(super) object: Pin,
    pub(super) object_bytes: u64,
    pub(super) piece_bytes: u64,
    pub(super) first: PieceId,
    pub(super) count: u32,
    /// Where in the object the first piece begins.
    pub(super) offset: u64,
    /// Whether a flight for them will ask peers, who may ask peers in turn.
    pub(super) asks_peers: bool,
}

/// What is on its way for one dataset. Bounded by the memory budget: each entry has paid for its bytes.
#[derive(Debug, Default)]
pub(super) struct Flights {
    table: Mutex<Table>,
    landing: Notify,
}

#[derive(Debug, Default)]
struct Table {
    pieces: FxHashMap<PieceId, Arc<Flight>>,
    /// The last says whether it may ask peers.
    ranges: FxHashMap<(ObjectSlot, u64, u64, bool), Arc<Flight>>,
}

/// How a piece stands among flights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Course {
    /// Nobody brings it.
    Nowhere,
    /// It is looked for, among peers first.
    Sought,
    /// The origin was asked for it.
    FromOrigin,
}

/// The next stretch of a read, as it stands now.
pub(super) enum Leg<K> {
    /// So many pieces are on shelves.
    Kept(u32),
    /// So many pieces are on their way.
    Joined(Waiter, u32),
    /// So many pieces are now claimed: the caller must start the flight, and keep what `K` says.
    Claimed(Waiter, K, u32),
    /// So many pieces are nowhere and nobody wants to keep them.
    Unwanted(u32),
}

impl Flights {
    /// Looks at the `count` pieces from `first` on and says how the first stretch of equals among them stands.
    ///
    /// All of it happens under the table's lock: a piece leaves the table only after it is on a shelf, so a piece
    /// that is in neither place is really missing, and is claimed before anybody else looks.
    pub(super) fn next_leg<K>(
        self: &Arc<Self>,
        stretch: &Stretch,
        kept: impl Fn(PieceId) -> bool,
        admit: impl FnOnce(Range<u32>) -> Option<K>,
    ) -> Leg<K> {
        let pieces = stretch.first.0..stretch.first.0 + stretch.count;
        let mut table = self.table.lock();
        if let Some(flight) = table.pieces.get(&stretch.first) {
            let same = |piece: &u32| table.pieces.get(&PieceId(*piece)).is_some_and(|other| Arc::ptr_eq(other, flight));
            let count = pieces.take_while(same).count() as u32;
            return Leg::Joined(self.wait_for(flight), count);
        }
        let is_kept = kept(stretch.first);
        let like_first = |piece: &u32| {
            let piece = PieceId(*piece);
            !table.pieces.contains_key(&piece) && kept(piece) == is_kept
        };
        // The first is looked at once: it may leave its shelf at any moment, and a stretch has at least one piece.
        let count = 1 + pieces.skip(1).take_while(like_first).count() as u32;
        if is_kept {
            return Leg::Kept(count);
        }
        let Some(keeps) = admit(stretch.first.0..stretch.first.0 + count) else { return Leg::Unwanted(count) };
        let end = (stretch.offset + u64::from(count) * stretch.piece_bytes).min(stretch.object_bytes);
        let (object, range, grid) = (stretch.object.clone(), stretch.offset..end, stretch.piece_bytes);
        let flight = Arc::new(Flight::new(object, range, Some(stretch.first), grid, stretch.asks_peers));
        for n in 0..count {
            table.pieces.insert(PieceId(stretch.first.0 + n), Arc::clone(&flight));
        }
        Leg::Claimed(self.wait_for(&flight), keeps, count)
    }

    /// Joins the flight past the cache that reads exactly `range`, or makes it: then true, and the caller starts it.
    pub(super) fn board(
        self: &Arc<Self>,
        object: &Pin,
        range: Range<u64>,
        grid_bytes: u64,
        asks_peers: bool,
    ) -> (Waiter, bool) {
        let mut table = self.table.lock();
        let mut new = false;
        let flight = table.ranges.entry((object.object(), range.start, range.end, asks_peers)).or_insert_with(|| {
            new = true;
            Arc::new(Flight::new(object.clone(), range, None, grid_bytes, asks_peers))
        });
        (self.wait_for(flight), new)
    }

    /// Whether bytes of an object were published that are not on a shelf yet, by other flights than these.
    pub(super) fn has_published(&self, object: ObjectSlot, except: &[Arc<Flight>]) -> bool {
        let table = self.table.lock();
        let mut flights = table.pieces.values().chain(table.ranges.values());
        let is_known = |flight: &Arc<Flight>| except.iter().any(|other| Arc::ptr_eq(flight, other));
        flights.any(|flight| flight.object == object && flight.published() > 0 && !is_known(flight))
    }

    /// The flights that brought the staged pieces of an object.
    pub(super) fn staged(&self, object: ObjectSlot, is_staged: impl Fn(u32) -> bool) -> Vec<Arc<Flight>> {
        let mut found: Vec<Arc<Flight>> = Vec::new();
        for (piece, flight) in &self.table.lock().pieces {
            let is_new = || !found.iter().any(|other| Arc::ptr_eq(flight, other));
            if flight.object == object && is_staged(piece.0) && is_new() {
                found.push(Arc::clone(flight));
            }
        }
        found
    }

    /// Waits until the published pieces of an object are in a tier, or will never be. Staged pieces are not waited for: they
    /// stay in memory until a job reads them.
    pub(super) async fn published_landed(&self, object: ObjectSlot, is_staged: impl Fn(u32) -> bool) {
        loop {
            let landing = self.landing.notified();
            let is_landing = |(piece, flight): (&PieceId, &Arc<Flight>)| {
                flight.object == object && flight.published() > 0 && !is_staged(piece.0)
            };
            if !self.table.lock().pieces.iter().any(is_landing) {
                return;
            }
            landing.await;
        }
    }

    /// The pieces that are on their way, also those that have arrived and were not written yet.
    pub(super) fn pieces(&self) -> Vec<PieceId> {
        self.table.lock().pieces.keys().copied().collect()
    }

    /// How a piece stands that is not on a shelf.
    pub(super) fn course(&self, piece: PieceId) -> Course {
        match self.table.lock().pieces.get(&piece) {
            None => Course::Nowhere,
            Some(flight) if flight.is_at_origin() => Course::FromOrigin,
            Some(_) => Course::Sought,
        }
    }

    /// A piece is on its shelf, or will never be: from now on it is looked for there.
    pub(super) fn landed(&self, flight: &Flight, piece: PieceId) {
        self.table.lock().forget_piece(flight, piece);
        self.landing.notify_waiters();
    }

    /// Waits until none of these pieces is on its way any more, but for those that are staged: they do not land before they
    /// were read.
    pub(super) async fn settled(&self, pieces: Range<u32>, is_staged: impl Fn(u32) -> bool) {
        loop {
            let landing = self.landing.notified();
            let is_on_its_way = |piece: u32| self.table.lock().pieces.contains_key(&PieceId(piece));
            if !pieces.clone().any(|piece| is_on_its_way(piece) && !is_staged(piece)) {
                return;
            }
            landing.await;
        }
    }

    /// Waits until all of these pieces are on shelves.
    pub(super) async fn landed_all(&self, pieces: Range<u32>, is_kept: impl Fn(u32) -> bool) {
        loop {
            let landing = self.landing.notified();
            if pieces.clone().all(&is_kept) {
                return;
            }
            landing.await;
        }
    }

    /// Waits until those pieces that have come and were not yet written are, or are staged.
    pub(super) async fn arrived_settled(&self, is_staged: impl Fn(u32) -> bool) {
        let mut arrived = self.table.lock().arrived();
        loop {
            let landing = self.landing.notified();
            {
                let table = self.table.lock();
                arrived.retain(|(piece, flight)| {
                    let now = table.pieces.get(piece);
                    now.is_some_and(|now| Arc::ptr_eq(now, flight)) && !is_staged(piece.0)
                });
            }
            if arrived.is_empty() {
                return;
            }
            landing.await;
        }
    }

    /// A piece that should have landed is staged instead.
    pub(super) fn stays_up(&self) {
        self.landing.notify_waiters();
    }

    /// A flight is over: whatever of it did not arrive is free to be claimed again.
    pub(super) fn ended(&self, flight: &Flight) {
        self.table.lock().forget_unpublished(flight);
        self.landing.notify_waiters();
    }

    fn wait_for(self: &Arc<Self>, flight: &Arc<Flight>) -> Waiter {
        flight.waiters.fetch_add(1, Ordering::Relaxed);
        Waiter { flight: Arc::clone(flight), table: Arc::clone(self) }
    }

    /// Counts under the table's lock, so that nobody joins a flight that is being abandoned.
    fn leave(&self, flight: &Flight) {
        let mut table = self.table.lock();
        if flight.waiters.fetch_sub(1, Ordering::Relaxed) == 1 && flight.published() < flight.len() {
            flight.abandoned.cancel();
            table.forget_unpublished(flight);
        }
    }
}

impl Table {
    /// The pieces that have come.
    fn arrived(&self) -> Vec<(PieceId, Arc<Flight>)> {
        let has_come = |piece: PieceId, flight: &Flight| {
            flight.first_piece.is_some_and(|first| ((piece.0 - first.0) as usize) < flight.published())
        };
        let arrived = self.pieces.iter().filter(|(piece, flight)| has_come(**piece, flight));
        arrived.map(|(piece, flight)| (*piece, Arc::clone(flight))).collect()
    }

    fn forget_piece(&mut self, flight: &Flight, piece: PieceId) {
        if self.pieces.get(&piece).is_some_and(|other| std::ptr::eq(&**other, flight)) {
            self.pieces.remove(&piece);
        }
    }

    fn forget_unpublished(&mut self, flight: &Flight) {
        match flight.first_piece {
            Some(first) => {
                for n in flight.published() as u32..flight.len() as u32 {
                    self.forget_piece(flight, PieceId(first.0 + n));
                }
            }
            None => {
                for asks_peers in [false, true] {
                    let key = (flight.object, flight.range.start, flight.range.end, asks_peers);
                    if self.ranges.get(&key).is_some_and(|other| std::ptr::eq(&**other, flight)) {
                        self.ranges.remove(&key);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::cell::Cell;

    fn stretch(count: u32) -> Stretch {
        let object = Arc::<super::super::pins::Pins>::default().pin(|| Some(ObjectSlot(0))).unwrap();
        Stretch { object, object_bytes: 40, piece_bytes: 10, first: PieceId(7), count, offset: 0, asks_peers: false }
    }

    #[test]
    fn a_stretch_goes_as_far_as_its_pieces_are_alike() {
        let flights = Arc::new(Flights::default());
        let leg = flights.next_leg(&stretch(4), |piece| piece.0 < 9, |_| None::<()>);
        assert!(matches!(leg, Leg::Kept(2)));
        let leg = flights.next_leg(&stretch(4), |piece| piece.0 == 9, Some);
        let Leg::Claimed(_waiter, keeps, count) = leg else { panic!("nobody has them") };
        assert_eq!((keeps, count), (7..9, 2));
        assert!(matches!(flights.next_leg(&stretch(4), |_| false, |_| None::<()>), Leg::Joined(_, 2)));
    }

    #[test]
    fn a_piece_that_leaves_while_it_is_looked_at_is_still_a_stretch() {
        let looks = Cell::new(0);
        let there_at_first = |_| looks.replace(looks.get() + 1) == 0;
        let leg = Arc::new(Flights::default()).next_leg(&stretch(4), there_at_first, |_| None::<()>);
        assert!(matches!(leg, Leg::Kept(1)));
    }
}
