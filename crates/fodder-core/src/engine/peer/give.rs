//! What this node gives to another: from its tiers, or, for what it owns, from one flight to the origin. Never from a third
//! node, so there are no circles, also when two nodes disagree about who owns what.

use super::Role;
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
        only_held: bool,
    ) -> BoxStream<'static, Result<Reply>> {
        if let Err(error) = self.may_give(object, &range, only_held) {
            return Box::pin(stream::once(async { Err(error) }));
        }
        let giving = Giving { dataset: Arc::clone(self), object, left: range, parts: VecDeque::new() };
        Box::pin(stream::try_unfold(giving, |mut giving| async move {
            Ok(giving.next().await?.map(|reply| (reply, giving)))
        }))
    }

    fn may_give(&self, object: ObjectSlot, range: &Range<u64>, only_held: bool) -> Result<()> {
        self.check(object, range)?;
        let objects = self.objects();
        if !only_held && self.role(objects.key(object), range.start) == Role::Owner {
            return Ok(());
        }
        let (first, piece_bytes) = (objects.first_piece(object).0, u64::from(objects.piece_bytes()));
        let mut pieces = range.start / piece_bytes..range.end.div_ceil(piece_bytes);
        if pieces.all(|piece| self.holds(PieceId(first + piece as u32))) {
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
        let bytes = reply.segments.iter().map(|segment| segment.len() as u64).sum();
        dataset.counters.bytes_to_peers.fetch_add(bytes, Relaxed);
        Ok(Some(reply))
    }
}
