//! What this node gives to another: from its tiers, or, for what it owns, from one flight to the origin. Never from a third
//! node, so there are no circles, also when two nodes disagree about who owns what.

use super::{Role, Wanted};
use crate::{
    Error, Result,
    engine::{
        Dataset, Reply,
        read::{Fill, Manner, Part, REQUEST_BYTES, Waits},
    },
    id::{FileKey, ObjectSlot, PieceId},
};
use futures::stream::{self, BoxStream};
use std::{
    collections::VecDeque,
    ops::Range,
    sync::{Arc, atomic::Ordering::Relaxed},
};

/// As what another node asks this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// As the owner of the bytes.
    AsOwner,
    /// In the place of the owner, which does not answer.
    InOwnersPlace,
    /// For what it holds, and nothing else.
    AsHolder,
}

impl Dataset {
    /// The object that a peer means, if this node knows that version of it.
    pub fn known_to_peers(&self, path: &str, key: FileKey) -> Result<ObjectSlot> {
        let (snapshot, objects) = (self.snapshot(), self.objects());
        snapshot.lookup(path).filter(|object| objects.key(*object) == key).ok_or_else(|| {
            let name = &self.config().name;
            Error::Stale(format!("this node's newest snapshot of {name:?} has another version of {path:?}, or none"))
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

    /// Reads a range for a peer, piece by piece as the pieces arrive. [`Error::NotFound`] if this node neither holds nor
    /// owns it, or does not hold it and the peer asks for nothing else.
    pub fn give(
        self: &Arc<Self>,
        object: ObjectSlot,
        range: Range<u64>,
        asked: Asked,
    ) -> BoxStream<'static, Result<Reply>> {
        if let Err(error) = self.may_give(object, &range, asked) {
            return Box::pin(stream::once(async { Err(error) }));
        }
        let giving = Giving { dataset: Arc::clone(self), object, left: range, parts: VecDeque::new(), counts: true };
        Box::pin(stream::try_unfold(giving, |mut giving| async move {
            Ok(giving.next().await?.map(|reply| (reply, giving)))
        }))
    }

    /// Fetches what this node owns and another holds, and says when it is here or will not be. [`Error::NotFound`] if it
    /// does not own it.
    pub async fn take(self: &Arc<Self>, object: ObjectSlot, range: Range<u64>) -> Result<()> {
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
        let mut giving =
            Giving { dataset: Arc::clone(self), object, left: range, parts: VecDeque::new(), counts: false };
        while giving.next().await?.is_some() {}
        self.flights.landed_all(pieces).await;
        Ok(())
    }

    /// What is held here and belongs to other nodes: ranges of one parcel, and of one request, each.
    pub async fn held_for_others(self: &Arc<Self>) -> Result<Vec<Wanted>> {
        let dataset = Arc::clone(self);
        self.shared.mind.run(move || dataset.held_for_others_now()).await
    }

    fn held_for_others_now(&self) -> Vec<Wanted> {
        let (objects, snapshot, name) = (self.objects(), self.snapshot(), &self.config().name);
        let piece_bytes = u64::from(objects.piece_bytes());
        let mut all: Vec<Wanted> = Vec::new();
        for object in snapshot.objects() {
            let (key, size, first) = (objects.key(object), objects.size(object), objects.first_piece(object).0);
            let mut open: Option<Range<u64>> = None;
            let mut close = |range: Option<Range<u64>>| {
                let wanted = |range| Wanted {
                    dataset: name.clone(),
                    path: objects.path(object),
                    key,
                    object_bytes: size,
                    range,
                    for_peer: false,
                };
                all.extend(range.map(wanted));
            };
            for index in 0..size.div_ceil(piece_bytes) {
                let piece = PieceId(first + index as u32);
                let range = index * piece_bytes..((index + 1) * piece_bytes).min(size);
                let goes_on = range.start % REQUEST_BYTES != 0;
                if !self.holds(piece) || !self.is_guest(piece) {
                    close(open.take());
                } else if let Some(open) = open.as_mut().filter(|_| goes_on) {
                    open.end = range.end;
                } else {
                    close(open.replace(range));
                }
            }
            close(open);
        }
        all
    }

    fn pieces_in(&self, object: ObjectSlot, range: &Range<u64>) -> Range<u32> {
        let objects = self.objects.load();
        let (first, piece_bytes) = (objects.first_piece(object).0, u64::from(objects.piece_bytes()));
        first + (range.start / piece_bytes) as u32..first + range.end.div_ceil(piece_bytes) as u32
    }

    fn may_give(&self, object: ObjectSlot, range: &Range<u64>, asked: Asked) -> Result<()> {
        self.check(object, range)?;
        let objects = self.objects();
        let owns = || self.role(objects.key(object), range.start) == Role::Owner;
        if asked == Asked::InOwnersPlace || asked == Asked::AsOwner && owns() {
            return Ok(());
        }
        if self.pieces_in(object, range).all(|piece| self.holds(PieceId(piece))) {
            return Ok(());
        }
        let path = objects.path(object);
        Err(Error::NotFound(format!("this node neither holds nor owns those bytes of {path:?}: ask their owner")))
    }
}

/// A range on its way to a peer.
struct Giving {
    dataset: Arc<Dataset>,
    object: ObjectSlot,
    /// What has not been begun.
    left: Range<u64>,
    parts: VecDeque<Part>,
    /// Whether it goes to a peer.
    counts: bool,
}

impl Giving {
    async fn next(&mut self) -> Result<Option<Reply>> {
        let dataset = &self.dataset;
        if self.parts.is_empty() {
            if self.left.is_empty() {
                return Ok(None);
            }
            let range = self.left.start..self.left.end.min(self.left.start + REQUEST_BYTES);
            self.left.start = range.end;
            // Memory of its own: readers here may hold all of theirs while they wait for the very node that asks.
            let permit = dataset.shared.giving.acquire(dataset.cover_bytes(self.object, &range)).await?;
            self.parts = dataset.begin(self.object, range, permit, Manner::Peer);
        }
        let Some(part) = self.parts.pop_front() else { return Ok(None) };
        let (first, behind) = part.split_first();
        behind.into_iter().for_each(|part| self.parts.push_front(part));
        let mut waits = Waits::of(Manner::Peer);
        let reply = dataset.gather(self.object, VecDeque::from([first]), &mut waits).await?;
        if self.counts {
            let bytes = reply.segments.iter().map(|segment| segment.len() as u64).sum();
            dataset.counters.bytes_to_peers.fetch_add(bytes, Relaxed);
        }
        Ok(Some(reply))
    }
}
