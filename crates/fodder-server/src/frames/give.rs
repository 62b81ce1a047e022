//! What other nodes ask of this one: bytes, with a checksum for each part. Whole pieces are sent from their cache files, with
//! the checksum that they were written with; other warm ones are read and sent by this thread; what must be waited for is
//! sent as it arrives, and until then the other side is told that it will come. Whoever was sent what does not match asks again,
//! and what is here is compared first.

use super::{
    connection::{Connection, End},
    output::{error_head, text_of},
};
use crate::{
    cluster::{Peering, Side, Token},
    wire,
};
use fodder_api::frames::{Give, Kind, MetHead, PartHead, ReplyHead, Request, checksum};
use fodder_core::{
    Dataset, Error, Result,
    engine::{
        Reply,
        peer::{Asked, OnShelf},
    },
    id::{FileKey, ObjectSlot},
};
use futures::StreamExt;
use std::{ops::Range, sync::Arc, time::Duration};
use tokio::time::timeout;

/// Bytes of a part: few enough that the other side checks one while the next is on its way.
const GIVEN_BYTES: usize = 256 << 10;

/// How often somebody who waits is told that it will come.
const HEARTBEAT: Duration = Duration::from_millis(200);

/// How far two nodes have come in proving that they belong together.
#[derive(Debug, Default)]
pub(super) enum Acquaintance {
    #[default]
    Stranger,
    /// It was told this node's proof, and must answer with this one.
    Met(blake3::Hash),
    Proven,
}

/// What a node asks for, found here.
struct Found {
    dataset: Arc<Dataset>,
    object: ObjectSlot,
    range: Range<u64>,
}

impl Connection {
    /// Answers a greeting: proves that this node knows the token, and says with what the other side may prove it.
    pub(super) fn meet(&mut self, request: u32, nonce: [u8; 16]) -> Result<Result<(), End>> {
        self.has_certificate()?;
        let peering = self.peering()?;
        let token = peering.token().ok_or_else(|| Error::Denied("the cluster of this node has no token".into()))?;
        let mine: [u8; 16] = rand::random();
        let proof = |side: Side, token: &Token| token.proof(side, &nonce, &mine);
        let met = MetHead { nonce: mine, proof: *proof(Side::Node, token).as_bytes() };
        let expected = proof(Side::Peer, token);
        self.acquaintance = Acquaintance::Met(expected);
        let head = ReplyHead::new(Kind::Met, request, MetHead::BYTES);
        Ok(self.output.frame(&mut self.socket, &head, &[&met.encode()]).map_err(End::from))
    }

    pub(super) fn prove(&mut self, request: u32, proof: [u8; 32]) -> Result<Result<(), End>> {
        match std::mem::take(&mut self.acquaintance) {
            // Compared in the same time wherever they differ.
            Acquaintance::Met(expected) if expected == proof => {
                self.acquaintance = Acquaintance::Proven;
                Ok(self.done(request))
            }
            _ => Err(Error::Denied("the proof is wrong: give all nodes of the cluster the same token".into())),
        }
    }

    pub(super) fn give(&mut self, request: u32, asked: Give<'_>) -> Result<Result<(), End>> {
        let found = self.find(&asked)?;
        if asked.again {
            match self.wait_and_say_so(request, found.dataset.doubt(found.object, found.range.clone())) {
                Ok(compared) => compared?,
                Err(end) => return Ok(Err(end)),
            }
        }
        if asked.at_hand {
            return match self.send_warm(request, &found) {
                Ok(end) if end == found.range.end => Ok(Ok(())),
                Ok(_) => Err(Error::NotFound("those bytes are not cached".into())),
                Err(end) => Ok(Err(end)),
            };
        }
        let as_what = match asked {
            Give { only_held: true, stand_in: true, .. } => Asked::AsFormerOwner,
            Give { only_held: true, .. } => Asked::AsHolder,
            Give { stand_in: true, .. } => Asked::InOwnersPlace,
            _ => Asked::AsOwner,
        };
        Ok(self.send_found(request, &found, as_what))
    }

    /// Fetches what this node owns and the other side holds; answers when it is here.
    pub(super) fn take(&mut self, request: u32, asked: Give<'_>) -> Result<Result<(), End>> {
        let Found { dataset, object, range } = self.find(&asked)?;
        match self.wait_and_say_so(request, dataset.take(object, range)) {
            Ok(taken) => taken.map(|()| self.done(request)),
            Err(end) => Ok(Err(end)),
        }
    }

    /// Waits for the engine, and tells the other side again and again that the answer will come.
    pub(super) fn wait_and_say_so<T>(&mut self, request: u32, work: impl Future<Output = T>) -> Result<T, End> {
        let mut work = std::pin::pin!(work);
        loop {
            match self.wait(timeout(HEARTBEAT, work.as_mut()))? {
                Ok(done) => return Ok(done),
                Err(_) => self.coming(request)?,
            }
        }
    }

    /// Whether the other side has shown a certificate, where this node asks for one.
    fn has_certificate(&self) -> Result<()> {
        match (self.door.info.state.tls(), self.caller.vouched()) {
            (None, _) => Ok(()),
            (Some(_), None) => Err(Error::Denied("this node answers other nodes over TLS only".into())),
            (Some(_), Some(vouched)) if vouched.holds() => Ok(()),
            // It may connect again with a certificate that is in order.
            (Some(_), Some(_)) => Err(Error::Closed),
        }
    }

    /// Whether a request may be answered. Nodes are asked for their proofs where they are answered.
    pub(super) fn may_ask(&self, request: &Request<'_>) -> Result<()> {
        use Request::{Give, Meet, Prove, Take, Tell};
        if matches!(request, Meet { .. } | Prove { .. } | Give(_) | Take(_) | Tell { .. }) {
            return Ok(());
        }
        let admitted = self.door.info.state.admit(Some(&self.caller));
        admitted.or_else(|denied| self.is_of_the_cluster().map_err(|_| denied))
    }

    fn peering(&self) -> Result<Arc<Peering>> {
        let state = &self.door.info.state;
        match state.peering() {
            Some(peering) => Ok(Arc::clone(peering)),
            // It listens before it has joined. Who is denied does not come again for a minute.
            None if !state.is_ready() => Err(Error::Unavailable("this node is starting: try again in a moment".into())),
            None => Err(Error::Denied("this node is not in a cluster".into())),
        }
    }

    /// Whether the other side may be answered: it has shown and proven everything that the cluster asks for.
    pub(super) fn is_of_the_cluster(&self) -> Result<()> {
        self.has_certificate()?;
        let is_proven = matches!(self.acquaintance, Acquaintance::Proven);
        if self.peering()?.token().is_some() && !is_proven {
            return Err(Error::Denied("this node sends data only to nodes that know the token of its cluster".into()));
        }
        Ok(())
    }

    fn find(&self, asked: &Give<'_>) -> Result<Found> {
        self.is_of_the_cluster()?;
        if asked.length > Dataset::MAX_READ_BYTES {
            return Err(Error::Invalid(format!("a node sends at most {} bytes at a time", Dataset::MAX_READ_BYTES)));
        }
        let dataset = self.door.engine.dataset_for_peer(asked.dataset)?;
        let object = dataset.known_to_peers(asked.path, FileKey(asked.key))?;
        let range = asked.offset..asked.offset + asked.length;
        if range.end > dataset.objects().size(object) {
            return Err(Error::Invalid("the range ends beyond the end of the object".into()));
        }
        Ok(Found { dataset, object, range })
    }

    /// Sends what can be sent without waiting; how far that is.
    fn send_warm(&mut self, request: u32, found: &Found) -> Result<u64, End> {
        let Found { dataset, object, range } = found;
        let object_bytes = dataset.objects().size(*object);
        let mut at = range.start;
        while at < range.end {
            if self.socket.sends_files()
                && let Some(piece) = dataset.try_give_piece(*object, at, range.end)
            {
                let OnShelf { length, crc, .. } = piece;
                let part = PartHead { crc, offset: at, end: range.end, object_bytes };
                let head = ReplyHead::new(Kind::Part, request, PartHead::BYTES + length as usize);
                self.output.flush(&mut self.socket)?;
                let heads = [&head.encode()[..], &part.encode()].concat();
                self.socket.send_file(&heads, piece.file(), at..at + length, self.door.stall)?;
                at += length;
                continue;
            }
            let room = self.output.room(&mut self.socket)?;
            let length = (range.end - at).min(GIVEN_BYTES as u64) as usize;
            let Some(buffer) = room.get_mut(..length) else {
                self.output.flush(&mut self.socket)?;
                continue;
            };
            if !dataset.try_give(*object, at, buffer) {
                break;
            }
            let part = PartHead { crc: checksum(buffer), offset: at, end: range.end, object_bytes };
            self.output.commit_part(request, &part, length);
            self.output.flush(&mut self.socket)?;
            at += length as u64;
        }
        Ok(at)
    }

    fn send_found(&mut self, request: u32, found: &Found, asked: Asked) -> Result<(), End> {
        let Found { dataset, object, range } = found;
        let object_bytes = dataset.objects().size(*object);
        let mut at = self.send_warm(request, found)?;
        let mut stream = dataset.give(*object, at..range.end, asked);
        let mut is_told = false;
        while at < range.end {
            let reply = match self.wait(timeout(if is_told { HEARTBEAT } else { Duration::ZERO }, stream.next()))? {
                Ok(Some(reply)) => reply,
                Ok(None) => Err(Error::Internal("a stream ended before its range did".into())),
                Err(_) => {
                    is_told = true;
                    self.coming(request)?;
                    continue;
                }
            };
            match reply {
                Ok(Reply { segments, .. }) => {
                    for bytes in segments.iter().flat_map(|segment| segment.chunks(GIVEN_BYTES)) {
                        let part = PartHead { crc: checksum(bytes), offset: at, end: range.end, object_bytes };
                        let head = ReplyHead::new(Kind::Part, request, PartHead::BYTES + bytes.len());
                        self.output.frame(&mut self.socket, &head, &[&part.encode(), bytes])?;
                        at += bytes.len() as u64;
                    }
                    self.output.flush(&mut self.socket)?;
                }
                Err(error) => {
                    let text = text_of(&error);
                    let head = error_head(request, wire::code(&error), &text);
                    return Ok(self.output.frame(&mut self.socket, &head, &[text.as_bytes()])?);
                }
            }
        }
        Ok(())
    }

    fn coming(&mut self, request: u32) -> Result<(), End> {
        self.output.frame(&mut self.socket, &ReplyHead::new(Kind::Coming, request, 0), &[])?;
        Ok(self.output.flush(&mut self.socket)?)
    }
}
