//! How a read is answered: from shelves, from flights, from new flights, in the order of its bytes.

mod stream;

use super::{
    Reply, Source,
    convoy::Convoy,
    dataset::Dataset,
    flight::{Flight, Leg, Stretch, Waiter},
    hold::Reason,
    meter::Reader,
    peer::PARCEL_BYTES,
    pins::Pin,
};
use crate::{
    Error, Result,
    budget::{Buffer, Permit},
    id::{ObjectSlot, PieceId},
    tier::MAX_GROUPED_BYTES,
    tier::ShelfRead,
};
use bytes::Bytes;
use std::{
    collections::VecDeque,
    ops::Range,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

/// The longest range asked of the origin in one request; longer reads become several, in parallel.
pub(super) const REQUEST_BYTES: u64 = 4 << 20;
/// Shelves may lose what they just had (evicted, damaged). After so many losses a read goes past the cache.
const MAX_LOSSES: u32 = 4;

/// A stretch of a read that has been begun.
#[derive(Debug)]
pub(super) enum Part {
    /// It was on shelves when last looked at.
    Kept { range: Range<u64>, permit: Permit },
    /// It is on its way.
    Flying { range: Range<u64>, waiter: Waiter, source: Source },
}

impl Part {
    /// Its first segment, if it comes in several, and what is behind that.
    pub(super) fn split_first(self) -> (Self, Option<Self>) {
        let Self::Flying { range, waiter, source } = self else { return (self, None) };
        let end = waiter.flight.segment_end(range.start).min(range.end);
        let behind = end..range.end;
        let behind = (!behind.is_empty()).then(|| Self::Flying { range: behind, waiter: waiter.clone(), source });
        (Self::Flying { range: range.start..end, waiter, source }, behind)
    }
}

/// How somebody reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Manner {
    /// As most do.
    #[default]
    Plain,
    /// Jumping about in an object: what is small does not bring in whole pieces before it pays.
    Jump,
    /// The same, with pages around those that are used.
    Glance,
    /// For another node, which has asked all the peers that there are to ask.
    Peer,
    /// For another node, which has asked also those that may hold it: only the origin is left.
    Straight,
    /// For the cache alone: what it does not keep is not fetched.
    Keep,
}

impl Manner {
    pub(super) fn is_for_peer(self) -> bool {
        matches!(self, Self::Peer | Self::Straight)
    }

    fn may_rent(self) -> bool {
        matches!(self, Self::Jump | Self::Glance)
    }

    /// Tells a new flight for whom it flies.
    fn tell(self, flight: &Flight) {
        if self.is_for_peer() {
            flight.fly_for_peer();
        }
        if self == Self::Straight {
            flight.fly_straight();
        }
    }
}

/// What a read waited for, to be told when it was slow; and for whom.
#[derive(Debug, Default)]
pub(super) struct Waits {
    pub(super) manner: Manner,
    reader: Arc<Reader>,
    /// The generation of the oldest bytes that were gathered (see [`super::stamps`]).
    pub(super) oldest: Option<u64>,
    budget: Duration,
    disk: Duration,
    origin: Duration,
}

impl Waits {
    pub(super) fn of(manner: Manner) -> Self {
        Self { manner, ..Self::default() }
    }
}

/// The generation of the oldest bytes, with one more part gathered.
fn oldest_of(oldest: Option<u64>, generation: u64) -> Option<u64> {
    Some(oldest.map_or(generation, |oldest| oldest.min(generation)))
}

/// How many pieces from this one on are asked for together: as many as fit, of one parcel.
pub(super) fn pieces_in_one_request(index: u64, piece_bytes: u64) -> u64 {
    let parcel = PARCEL_BYTES / piece_bytes;
    (REQUEST_BYTES / piece_bytes).min(parcel - index % parcel)
}

/// How a try to fill a buffer from the shelves ended.
pub(super) enum Fill {
    Done(Source),
    WouldBlock,
    Lost,
}

impl Dataset {
    /// The longest range one [`Dataset::read`] takes; longer ones are streamed.
    pub const MAX_READ_BYTES: u64 = 8 << 20;

    /// Fills `buf` from the cache on this thread, if that is possible without waiting: the warm path.
    /// None means ask [`Dataset::read`]. The caller has checked the range against the object's size.
    pub fn try_read(self: &Arc<Self>, object: ObjectSlot, offset: u64, buf: &mut [u8]) -> Option<Source> {
        match self.fill(object, offset, buf, false) {
            Fill::Done(source) => {
                let range = offset..offset + buf.len() as u64;
                let source = self.source_of(object, &range, source);
                self.answered(object, range, source);
                Some(source)
            }
            Fill::WouldBlock | Fill::Lost => None,
        }
    }

    /// Reads a small object if it is cached. Waits for the disk, but not for the origin, nor for memory that readers of the origin
    /// hold. None for larger objects too: a [lease](Dataset::try_open) gives those.
    pub async fn read_cached(self: &Arc<Self>, object: ObjectSlot) -> Result<Option<(Bytes, Source)>> {
        let size = self.objects().size(object);
        if size > MAX_GROUPED_BYTES {
            return Ok(None);
        }
        let mut buffer = vec![0; size as usize];
        if let Some(source) = self.try_read(object, 0, &mut buffer) {
            return Ok(Some((buffer.into(), source)));
        }
        let dataset = Arc::clone(self);
        let read = move || match dataset.fill(object, 0, &mut buffer, true) {
            Fill::Done(source) => {
                let source = dataset.source_of(object, &(0..size), source);
                dataset.answered(object, 0..size, source);
                Some((buffer.into(), source))
            }
            Fill::WouldBlock | Fill::Lost => None,
        };
        self.shared.reads.run(read).await
    }

    /// Reads a range of an object of at most [`Dataset::MAX_READ_BYTES`], from the cache or the origin.
    pub async fn read(self: &Arc<Self>, object: ObjectSlot, range: Range<u64>) -> Result<Reply> {
        self.read_for(Arc::default(), object, range).await
    }

    /// The same for a reader who has other reads under way.
    pub async fn read_for(
        self: &Arc<Self>,
        reader: Arc<Reader>,
        object: ObjectSlot,
        range: Range<u64>,
    ) -> Result<Reply> {
        self.read_as(reader, None, object, range).await
    }

    /// The same for one whose missing items are asked for together: nothing comes before the convoy has
    /// [departed](Dataset::depart).
    pub async fn read_along(
        self: &Arc<Self>,
        reader: Arc<Reader>,
        convoy: Arc<Convoy>,
        object: ObjectSlot,
        range: Range<u64>,
    ) -> Result<Reply> {
        self.read_as(reader, Some(&convoy), object, range).await
    }

    async fn read_as(
        self: &Arc<Self>,
        reader: Arc<Reader>,
        convoy: Option<&Convoy>,
        object: ObjectSlot,
        range: Range<u64>,
    ) -> Result<Reply> {
        let pin = self.pin(object)?;
        self.check(object, &range)?;
        if range.end - range.start > Self::MAX_READ_BYTES {
            return Err(Error::Invalid(format!(
                "one read takes at most {} bytes; read longer ranges as a stream",
                Self::MAX_READ_BYTES
            )));
        }
        let began = Instant::now();
        let mut waits = Waits { reader, ..Waits::default() };
        let permit = self.shared.budget.acquire(self.cover_bytes(object, &range)).await?;
        waits.budget = began.elapsed();
        let parts = self.begin(&pin, range.clone(), permit, Manner::Plain, convoy);
        let mut reply = self.finish(&pin, range.clone(), parts, &mut waits).await;
        if matches!(reply, Err(Error::Stale(_))) && self.origin.is_local() {
            // The file was touched during the read. If its contents are as they were, the next attempt succeeds.
            waits.oldest = None;
            let permit = self.shared.budget.acquire(self.cover_bytes(object, &range)).await?;
            let parts = self.begin(&pin, range.clone(), permit, Manner::Plain, None);
            reply = self.finish(&pin, range, parts, &mut waits).await;
        }
        self.log_if_slow(object, began.elapsed(), &waits);
        reply
    }

    pub(super) fn check(&self, object: ObjectSlot, range: &Range<u64>) -> Result<()> {
        if self.is_closed() {
            return Err(Error::Closed);
        }
        let objects = self.objects();
        if !objects.contains(object) {
            return Err(Error::NotFound(format!("no object {} in dataset {:?}", object.0, self.config().name)));
        }
        let size = objects.size(object);
        if range.start > range.end || range.end > size {
            return Err(Error::Invalid(format!(
                "bytes {}..{} are beyond the end of {:?}, which has {size} bytes",
                range.start,
                range.end,
                objects.path(object)
            )));
        }
        Ok(())
    }

    /// The memory a read of `range` may need: all the pieces it touches.
    pub(super) fn cover_bytes(&self, object: ObjectSlot, range: &Range<u64>) -> u64 {
        let objects = self.objects.load();
        let piece_bytes = u64::from(objects.piece_bytes());
        range.end.next_multiple_of(piece_bytes).min(objects.size(object)) - range.start / piece_bytes * piece_bytes
    }

    /// Looks where each stretch of `range` is, and sends flights for what is nowhere. Never waits.
    pub(super) fn begin(
        self: &Arc<Self>,
        pin: &Pin,
        range: Range<u64>,
        mut permit: Permit,
        manner: Manner,
        convoy: Option<&Convoy>,
    ) -> VecDeque<Part> {
        let (objects, object) = (self.objects(), pin.object());
        let piece_bytes = u64::from(objects.piece_bytes());
        let first = objects.first_piece(object);
        let mut parts = VecDeque::new();
        let mut at = range.start;
        while at < range.end {
            let index = at / piece_bytes;
            let stretch = Stretch {
                object: pin.clone(),
                object_bytes: objects.size(object),
                piece_bytes,
                first: PieceId(first.0 + index as u32),
                count: (range.end.div_ceil(piece_bytes) - index).min(pieces_in_one_request(index, piece_bytes)) as u32,
                offset: index * piece_bytes,
                asks_peers: !manner.is_for_peer() && self.asks_peers(object, index * piece_bytes),
            };
            let until = |count: u32| at..((index + u64::from(count)) * piece_bytes).min(range.end);
            let admit = |run: Range<u32>| {
                let rents = manner.may_rent() && self.rents(run.clone(), &range, manner);
                if rents { None } else { self.admit(run) }
            };
            let part = match self.flights.next_leg(&stretch, |piece| self.holds(piece), admit) {
                Leg::Kept(count) => {
                    let range = until(count);
                    Part::Kept { permit: permit.split(self.cover_bytes(object, &range)), range }
                }
                Leg::Joined(waiter, count) if manner.is_for_peer() && waiter.flight.asks_peers() => {
                    self.pass_by(pin, until(count), &mut permit, manner, convoy)
                }
                Leg::Joined(waiter, count) => {
                    let source = self.joined(stretch.first.0..stretch.first.0 + count, until(count).end);
                    Part::Flying { range: until(count), waiter, source }
                }
                Leg::Claimed(waiter, keeps, count) => {
                    let bytes = waiter.flight.range.end - waiter.flight.range.start;
                    manner.tell(&waiter.flight);
                    self.send_off(&waiter.flight, keeps, permit.split(bytes), convoy);
                    Part::Flying { range: until(count), waiter, source: Source::Origin }
                }
                Leg::Unwanted(count) if manner == Manner::Keep => {
                    at = until(count).end;
                    continue;
                }
                Leg::Unwanted(count) => self.pass_by(pin, until(count), &mut permit, manner, convoy),
            };
            at = match &part {
                Part::Kept { range, .. } | Part::Flying { range, .. } => range.end,
            };
            parts.push_back(part);
        }
        parts
    }

    /// Fetches exactly `range`, past the cache.
    fn pass_by(
        self: &Arc<Self>,
        pin: &Pin,
        range: Range<u64>,
        permit: &mut Permit,
        manner: Manner,
        convoy: Option<&Convoy>,
    ) -> Part {
        let piece_bytes = u64::from(self.objects.load().piece_bytes());
        let asks_peers = !manner.is_for_peer() && self.asks_peers(pin.object(), range.start);
        let (waiter, new) = self.flights.board(pin, range.clone(), piece_bytes, asks_peers);
        if new {
            manner.tell(&waiter.flight);
            self.send_off(&waiter.flight, Vec::new(), permit.split(range.end - range.start), convoy);
        }
        let source = if new { Source::Bypass } else { Source::Joined };
        Part::Flying { range, waiter, source }
    }

    async fn finish(
        self: &Arc<Self>,
        pin: &Pin,
        range: Range<u64>,
        parts: VecDeque<Part>,
        waits: &mut Waits,
    ) -> Result<Reply> {
        let mut reply = self.gather(pin, parts, waits).await;
        let object = pin.object();
        match &mut reply {
            Ok(reply) => {
                reply.source = self.source_of(object, &range, reply.source);
                self.answered(object, range, reply.source);
            }
            Err(_) => drop(self.counters.failed.fetch_add(1, Relaxed)),
        }
        reply
    }

    pub(super) async fn gather(
        self: &Arc<Self>,
        pin: &Pin,
        mut parts: VecDeque<Part>,
        waits: &mut Waits,
    ) -> Result<Reply> {
        let object = pin.object();
        let mut segments: Vec<Bytes> = Vec::new();
        let mut slowest = Source::Tier(self.stocks[0].1.medium);
        let mut losses = 0;
        while let Some(part) = parts.pop_front() {
            let (began, generation) = (Instant::now(), self.stamps.generation());
            match part {
                Part::Kept { range, permit } => {
                    let kept = self.read_kept(object, range.clone(), permit).await?;
                    waits.disk += began.elapsed();
                    match kept {
                        Ok((bytes, source)) => {
                            segments.push(bytes);
                            waits.oldest = oldest_of(waits.oldest, generation);
                            slowest = slowest.max(source);
                        }
                        Err(mut permit) => {
                            losses += 1;
                            let again = if losses > MAX_LOSSES {
                                VecDeque::from([self.pass_by(pin, range, &mut permit, waits.manner, None)])
                            } else {
                                self.begin(pin, range, permit, waits.manner, None)
                            };
                            again.into_iter().rev().for_each(|part| parts.push_front(part));
                        }
                    }
                }
                Part::Flying { range, waiter, source } => {
                    let _waiting = (self.shared.demand.wait(), self.meter.wait(&waits.reader));
                    segments.extend(waiter.wait(range).await?);
                    waits.oldest = oldest_of(waits.oldest, waiter.flight.generation());
                    waits.origin += began.elapsed();
                    let by_peers = matches!(source, Source::Origin | Source::Bypass) && waiter.flight.came_from_peers();
                    slowest = slowest.max(if by_peers { Source::Peer } else { source });
                }
            }
            let key = || self.objects.load().key(object);
            if waits.oldest.is_some_and(|oldest| self.stamps.accepted_since(oldest, key)) {
                return Err(self.changed_during_read(object));
            }
        }
        Ok(Reply { segments, source: slowest })
    }

    /// Reads what was on shelves a moment ago; gives the permit back if it no longer is.
    async fn read_kept(
        self: &Arc<Self>,
        object: ObjectSlot,
        range: Range<u64>,
        permit: Permit,
    ) -> Result<Result<(Bytes, Source), Permit>> {
        let mut buffer: Buffer = permit.buffer((range.end - range.start) as usize);
        let mut fill = self.fill(object, range.start, buffer.as_mut(), false);
        if matches!(fill, Fill::WouldBlock) {
            let dataset = Arc::clone(self);
            let work = move || {
                let fill = dataset.fill(object, range.start, buffer.as_mut(), true);
                (buffer, fill)
            };
            (buffer, fill) = self.shared.reads.run(work).await?;
        }
        Ok(match fill {
            Fill::Done(source) => Ok((buffer.freeze(), source)),
            Fill::WouldBlock | Fill::Lost => Err(buffer.into_permit()),
        })
    }

    /// Fills `buf` from the shelves: from one if it has it all, else piece by piece.
    pub(super) fn fill(self: &Arc<Self>, object: ObjectSlot, offset: u64, buf: &mut [u8], wait: bool) -> Fill {
        if buf.is_empty() {
            return Fill::Done(Source::Tier(self.stocks[0].1.medium));
        }
        let objects = self.objects.load();
        let piece_bytes = u64::from(objects.piece_bytes());
        let first_piece = objects.first_piece(object).0;
        let pieces = |from: u64, len: usize| {
            first_piece + (from / piece_bytes) as u32..first_piece + (from + len as u64).div_ceil(piece_bytes) as u32
        };
        match self.fill_from_one(object, offset, buf, wait, pieces(offset, buf.len())) {
            Fill::Lost if pieces(offset, buf.len()).len() > 1 => {}
            fill => return fill,
        }
        let mut slowest = Source::Tier(self.stocks[0].1.medium);
        let (mut at, mut rest) = (offset, buf);
        while !rest.is_empty() {
            let len = ((at / piece_bytes + 1) * piece_bytes - at).min(rest.len() as u64) as usize;
            let (part, behind) = rest.split_at_mut(len);
            match self.fill_from_one(object, at, part, wait, pieces(at, len)) {
                Fill::Done(source) => slowest = slowest.max(source),
                fill => return fill,
            }
            at += len as u64;
            rest = behind;
        }
        Fill::Done(slowest)
    }

    fn fill_from_one(
        self: &Arc<Self>,
        object: ObjectSlot,
        offset: u64,
        buf: &mut [u8],
        wait: bool,
        pieces: Range<u32>,
    ) -> Fill {
        for (level, (_, stock)) in self.stocks.iter().enumerate() {
            match stock.shelf.read(object, offset, buf, wait) {
                ShelfRead::Done => return Fill::Done(self.hit(level, pieces)),
                ShelfRead::WouldBlock => return Fill::WouldBlock,
                ShelfRead::Missing => {}
                ShelfRead::Corrupt => {
                    let lost = stock.forget_lost();
                    self.counters.corrupt_pieces.fetch_add(lost, Relaxed);
                    tracing::warn!(
                        dataset = self.config().name,
                        pieces = lost,
                        "cached bytes were damaged; fetching them again"
                    );
                }
            }
        }
        Fill::Lost
    }

    /// Pieces were read from the shelf of a tier: as what that counts.
    pub(super) fn hit(self: &Arc<Self>, level: usize, pieces: Range<u32>) -> Source {
        let stock = &self.stocks[level].1;
        let held = stock.hit(pieces.clone());
        if level > 0 {
            pieces.for_each(|piece| self.promote_soon(level, PieceId(piece)));
        }
        match held {
            Some(Reason::Prefetched) => Source::Prefetched,
            Some(Reason::Substitute) => Source::Substituted,
            Some(Reason::Promised | Reason::Staged | Reason::Guessed) | None => Source::Tier(stock.medium),
        }
    }

    fn log_if_slow(&self, object: ObjectSlot, took: Duration, waits: &Waits) {
        if took > self.shared.slow_read {
            tracing::warn!(
                dataset = self.config().name,
                path = self.objects().path(object),
                ?took,
                waited_for_budget = ?waits.budget,
                waited_for_disk = ?waits.disk,
                waited_for_origin = ?waits.origin,
                "slow read"
            );
        }
    }
}
