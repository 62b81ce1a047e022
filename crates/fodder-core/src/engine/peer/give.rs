//! What this node gives to another: from its tiers, or, for what it owns, from one flight to the origin. Never from a third
//! node, so there are no circles, also when two nodes disagree about who owns what.

use super::{Role, Wanted};
use crate::{
    Error, Result,
    engine::{
        Dataset, Reply,
        flight::Course,
        pins::Pin,
        read::{Fill, Manner, Part, REQUEST_BYTES, Waits},
    },
    id::{FileKey, ObjectSlot, PieceId},
    tier,
};
use futures::stream::{self, BoxStream};
use std::{
    collections::VecDeque,
    fs::File,
    ops::Range,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

/// A whole piece that can be sent from its cache file.
#[derive(Debug)]
pub struct OnShelf {
    view: tier::View,
    /// Bytes of the piece.
    pub length: u64,
    /// Their CRC-32C as they were written. The file may change meanwhile: who receives them compares.
    pub crc: u32,
}

impl OnShelf {
    /// The file; the piece stands where it stands in the object.
    pub fn file(&self) -> &File {
        self.view.file()
    }
}

/// Objects that are looked through at a time for what others own.
const PAGE: u32 = 4096;

/// As what another node asks this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// As the owner of the bytes.
    AsOwner,
    /// In the place of the owner, which does not answer.
    InOwnersPlace,
    /// For what it holds or the origin is sending it, and nothing else.
    AsHolder,
    /// The same; and if it still takes itself for the owner, it is to fetch: whoever asks owns it since a moment ago, and has
    /// asked all others.
    AsFormerOwner,
}

/// What is looked for among what a node holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// What belongs to other nodes.
    ForOthers,
    /// Everything.
    All,
}

impl Dataset {
    /// The object that a peer means, if this node knows that version of it: from its newest snapshot or, for jobs that are on
    /// an older one, from another that is kept.
    pub fn known_to_peers(&self, path: &str, key: FileKey) -> Result<ObjectSlot> {
        let objects = self.objects();
        // Nodes compare local files on their own: a version with an accepted change time is not exchanged.
        let is_it = |object: &ObjectSlot| objects.key(*object) == key && !self.stamps.has(|| key);
        let found = self.snapshots().into_iter().rev().find_map(|snapshot| snapshot.lookup(path).filter(is_it));
        found.ok_or_else(|| {
            let name = &self.config().name;
            Error::Stale(format!("the snapshots of {name:?} on this node have another version of {path:?}, or none"))
        })
    }

    /// Fills `buf` for a peer from the cache on this thread, if that is possible without waiting.
    pub fn try_give(self: &Arc<Self>, object: ObjectSlot, offset: u64, buf: &mut [u8]) -> bool {
        let filled = matches!(self.fill(object, offset, buf, false), Fill::Done(_));
        if filled {
            self.counters.bytes_to_peers.fetch_add(buf.len() as u64, Relaxed);
        }
        filled
    }

    /// The piece that begins at `offset`, for a peer that is sent all of it, if it is in a tier and ends by `end`.
    pub fn try_give_piece(self: &Arc<Self>, object: ObjectSlot, offset: u64, end: u64) -> Option<OnShelf> {
        let piece = PieceId(self.pieces_in(object, &(offset..offset + 1)).start);
        let range = self.piece_range(piece).1;
        if range.start != offset || range.end > end {
            return None;
        }
        let (level, view) = self.look_into(object, &range)?;
        let stock = &self.stocks[level].1;
        let crc = stock.shelf.crc_of(piece);
        // The checksum is that of the filling which is shown.
        stock.shelf.still_shows(&view).then(|| {
            self.hit(level, piece.0..piece.0 + 1);
            let length = range.end - range.start;
            self.counters.bytes_to_peers.fetch_add(length, Relaxed);
            OnShelf { view, length, crc }
        })
    }

    /// Compares what is cached of a range with its checksums, since a peer was sent bytes of it that do not match. What differs is
    /// dropped, so that it is given no more and fetched again.
    pub async fn doubt(self: &Arc<Self>, object: ObjectSlot, range: Range<u64>) -> Result<()> {
        self.check(object, &range)?;
        let dataset = Arc::clone(self);
        self.shared.reads.run(move || dataset.doubt_now(object, &range)).await
    }

    fn doubt_now(&self, object: ObjectSlot, range: &Range<u64>) {
        for (_, stock) in &self.stocks {
            if stock.shelf.compare(object, range) {
                continue;
            }
            self.counters.corrupt_pieces.fetch_add(stock.forget_lost(), Relaxed);
            tracing::warn!(
                dataset = self.config().name,
                object = self.objects().path(object),
                "cached bytes that were sent to another node are damaged; fetching them again"
            );
        }
    }

    /// Reads a range for a peer, piece by piece as the pieces arrive. [`Error::NotFound`] if this node neither holds nor
    /// owns it, or does not hold it and the peer asks for nothing else.
    pub fn give(
        self: &Arc<Self>,
        object: ObjectSlot,
        range: Range<u64>,
        asked: Asked,
    ) -> BoxStream<'static, Result<Reply>> {
        let pin = match self.pin(object).and_then(|pin| self.may_give(object, &range, asked).map(|()| pin)) {
            Ok(pin) => pin,
            Err(error) => return Box::pin(stream::once(async { Err(error) })),
        };
        let manner = if asked == Asked::AsFormerOwner { Manner::Straight } else { Manner::Peer };
        let giving = Giving::new(self, pin, range, manner);
        Box::pin(stream::try_unfold(giving, |mut giving| async move {
            Ok(giving.next().await?.map(|reply| (reply, giving)))
        }))
    }

    /// Fetches what this node owns and another holds, and says when it is kept here. [`Error::NotFound`] if this node does not
    /// own it, [`Error::Full`] if it has no room for all of it: what there is no room for is not fetched.
    pub async fn take(self: &Arc<Self>, object: ObjectSlot, range: Range<u64>) -> Result<()> {
        let pin = self.pin(object)?;
        self.check(object, &range)?;
        let objects = self.objects();
        if self.role(objects.key(object), range.start) == Role::Guest {
            let path = objects.path(object);
            return Err(Error::NotFound(format!("this node does not own those bytes of {path:?}")));
        }
        let pieces = self.pieces_in(object, &range);
        if pieces.clone().all(|piece| self.holds(PieceId(piece))) {
            return Ok(());
        }
        // Not counted as a read: nobody here has asked for it.
        let mut taking = Giving::new(self, pin.clone(), range, Manner::Keep);
        while taking.next().await?.is_some() {}
        self.flights.settled(pieces.clone(), |piece| self.staging.has(piece)).await;
        let path = objects.path(object);
        match self.missing(pieces).map(|piece| self.admit_below(0, piece).is_some()).min() {
            None => Ok(()),
            Some(true) => Err(Error::Unavailable(format!("this node could not keep those bytes of {path:?} now"))),
            Some(false) => Err(Error::Full(format!("this node has no room for those bytes of {path:?}"))),
        }
    }

    /// A spare was asked for what it should hold: next time it does. Not if many are under way.
    fn take_soon(self: &Arc<Self>, object: ObjectSlot, range: Range<u64>) {
        if let Ok(slot) = Arc::clone(&self.shared.takes).try_acquire_owned() {
            let dataset = Arc::clone(self);
            self.spawn(async move {
                let _slot = slot;
                if let Err(error) = dataset.take(object, range).await {
                    tracing::debug!(dataset = dataset.config().name, %error, "cannot store a replica");
                }
            });
        }
    }

    /// What is held here, among some objects from a place in the snapshot on: ranges of one parcel, and of one request, each;
    /// and the place to go on at.
    pub async fn held(self: &Arc<Self>, held: Held, from: u32) -> Result<(Vec<Wanted>, Option<u32>)> {
        let dataset = Arc::clone(self);
        self.shared.mind.run(move || dataset.held_now(held, from)).await
    }

    fn held_now(&self, held: Held, from: u32) -> (Vec<Wanted>, Option<u32>) {
        let snapshot = self.snapshot();
        let end = snapshot.object_count().min(from.saturating_add(PAGE));
        let mut all = Vec::new();
        for object in (from..end).filter_map(|place| snapshot.object_at(place)) {
            self.held_of(object, held, &mut all);
        }
        (all, (end < snapshot.object_count()).then_some(end))
    }

    fn held_of(&self, object: ObjectSlot, held: Held, all: &mut Vec<Wanted>) {
        let (objects, mut ranges) = (self.objects(), Vec::<Range<u64>>::new());
        for piece in self.pieces_of(object).map(PieceId) {
            let range = self.piece_range(piece).1;
            if !self.holds(piece) || held == Held::ForOthers && !self.is_guest(piece) {
                continue;
            }
            match ranges.last_mut() {
                Some(last) if last.end == range.start && !range.start.is_multiple_of(REQUEST_BYTES) => {
                    last.end = range.end
                }
                _ => ranges.push(range),
            }
        }
        all.extend(ranges.into_iter().map(|range| Wanted {
            dataset: self.config().name.clone(),
            path: objects.path(object),
            key: objects.key(object),
            object_bytes: objects.size(object),
            range,
            for_peer: false,
            waited: Duration::ZERO,
        }));
    }

    pub(in crate::engine) fn pieces_in(&self, object: ObjectSlot, range: &Range<u64>) -> Range<u32> {
        let objects = self.objects.load();
        if !objects.contains(object) {
            return 0..0;
        }
        let (first, piece_bytes) = (objects.first_piece(object).0, u64::from(objects.piece_bytes()));
        first + (range.start / piece_bytes) as u32..first + range.end.div_ceil(piece_bytes) as u32
    }

    fn may_give(self: &Arc<Self>, object: ObjectSlot, range: &Range<u64>, asked: Asked) -> Result<()> {
        self.check(object, range)?;
        let objects = self.objects();
        let owns = || self.role(objects.key(object), range.start) == Role::Owner;
        if asked == Asked::InOwnersPlace || asked == Asked::AsOwner && owns() {
            return Ok(());
        }
        // Nobody waits here for a flight that looks for them among peers: it may wait for the very one who asks.
        let may_fetch = asked == Asked::AsFormerOwner && owns();
        let is_there = |piece: PieceId| {
            self.holds(piece)
                || match self.flights.course(piece) {
                    Course::FromOrigin => true,
                    Course::Sought => false,
                    // It may have landed meanwhile.
                    Course::Nowhere => may_fetch || self.holds(piece),
                }
        };
        if self.pieces_in(object, range).map(PieceId).all(is_there) {
            return Ok(());
        }
        if asked == Asked::AsOwner && self.role(objects.key(object), range.start) == Role::Spare {
            self.take_soon(object, range.clone());
        }
        let path = objects.path(object);
        Err(Error::NotFound(format!("this node neither holds nor owns those bytes of {path:?}: ask their owner")))
    }
}

/// A range on its way to a peer, or into the cache because a peer said so.
struct Giving {
    dataset: Arc<Dataset>,
    /// The object, which stays in the catalog.
    pin: Pin,
    /// What has not been begun.
    left: Range<u64>,
    parts: VecDeque<Part>,
    /// For a peer it asks no peers.
    manner: Manner,
    /// The generation of the oldest bytes that were given.
    oldest: Option<u64>,
}

impl Giving {
    fn new(dataset: &Arc<Dataset>, pin: Pin, left: Range<u64>, manner: Manner) -> Self {
        Self { dataset: Arc::clone(dataset), pin, left, parts: VecDeque::new(), manner, oldest: None }
    }

    async fn next(&mut self) -> Result<Option<Reply>> {
        let (dataset, is_for_peer) = (&self.dataset, self.manner.is_for_peer());
        while self.parts.is_empty() && !self.left.is_empty() {
            let range = self.left.start..self.left.end.min(self.left.start + REQUEST_BYTES);
            self.left.start = range.end;
            // What a peer asks for has memory of its own: readers here may hold all of theirs while they wait for the very
            // node that asks.
            let budget = if is_for_peer { &dataset.shared.giving } else { &dataset.shared.budget };
            let permit = budget.acquire(dataset.cover_bytes(self.pin.object(), &range)).await?;
            self.parts = dataset.begin(&self.pin, range, permit, self.manner, None);
        }
        let Some(part) = self.parts.pop_front() else { return Ok(None) };
        let (first, behind) = part.split_first();
        behind.into_iter().for_each(|part| self.parts.push_front(part));
        let mut waits = Waits::of(self.manner);
        waits.oldest = self.oldest;
        let reply = dataset.gather(&self.pin, VecDeque::from([first]), &mut waits).await?;
        self.oldest = waits.oldest;
        if is_for_peer {
            let bytes = reply.segments.iter().map(|segment| segment.len() as u64).sum();
            dataset.counters.bytes_to_peers.fetch_add(bytes, Relaxed);
        }
        Ok(Some(reply))
    }
}
