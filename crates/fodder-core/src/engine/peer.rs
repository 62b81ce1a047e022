//! Other nodes, as one more place between the tiers and the origin.
//!
//! The engine knows no members and no sockets: whoever joins a node to a cluster says through [`Peers`] whom to ask. A peer
//! can only ever save a request to the origin: whatever it does instead of sending the right bytes, the origin is asked
//! for the rest.

mod give;
mod share;
mod supply;

pub use give::{Asked, Held, OnShelf};
pub use share::Extent;
pub(super) use supply::Supply;

use super::job::{Embeddings, PlanSnapshot};
use crate::{
    Result,
    id::{FileKey, ObjectSlot, PieceId},
};
use async_trait::async_trait;
use fodder_policy::job::Scores;
use std::{fmt, ops::Range, sync::Arc, time::Duration};

/// What is placed together: neighbouring pieces, so many bytes of an object. Every size of a piece divides it.
pub const PARCEL_BYTES: u64 = 64 << 20;

/// What an object may cost on disk beside its bytes: the rest of its last block, its name.
const OBJECT_BYTES: u64 = 8 << 10;

/// Bytes of one version of an object, as one node asks another for them.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// What the dataset is called.
    pub dataset: String,
    /// The object's path.
    pub path: String,
    /// Which version of it: equal keys mean equal bytes.
    pub key: FileKey,
    /// Bytes of the whole object.
    pub object_bytes: u64,
    /// Which bytes; all of one parcel.
    pub range: Range<u64>,
    /// They are wanted for another node, which asked this one. Then only what others have in their tiers is of use.
    pub for_peer: bool,
    /// How long the first who is asked for them was waited for already, in vain.
    pub waited: Duration,
}

/// What a node is to a parcel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It fetches the bytes from the origin, for all, and keeps them.
    Owner,
    /// It keeps a copy that it takes from the owner.
    Spare,
    /// Others own it. It may keep a copy where there is room.
    Guest,
}

/// Bytes on their way from a peer. They may end early.
#[async_trait]
pub trait Given: Send {
    /// Puts the next bytes to the front of `buffer`, compared with the sender's checksums; how many. 0: there are no more.
    async fn next(&mut self, buffer: &mut [u8]) -> Result<usize>;
}

/// Several things on their way from one peer, in the order asked.
#[async_trait]
pub trait Handed: Send {
    /// Puts the next of them into `buffer`, which has its length, compared with the sender's checksums. False: the peer does not
    /// have it at hand, and it is to be asked for by itself. After an error nothing more comes.
    async fn next(&mut self, buffer: &mut [u8]) -> Result<bool>;
}

/// The other nodes of a cluster.
#[async_trait]
pub trait Peers: fmt::Debug + Send + Sync {
    /// Asks whoever has these bytes or fetches them for all, if that is another node and it can be asked; of what this
    /// node owns, whoever may still have it from before. None: ask the origin.
    async fn read(&self, wanted: Wanted) -> Option<Box<dyn Given>>;

    /// The node that is asked first for these bytes, if it answers and may have them at hand.
    fn hander(&self, _dataset: &str, _key: FileKey, _offset: u64) -> Option<u128> {
        None
    }

    /// Asks one node for several things at once, for as many of them as it has at hand. If they must be asked for one by one,
    /// says how long this one was waited for in vain.
    async fn hand(&self, _hander: u128, _wanted: Vec<Wanted>) -> Result<Box<dyn Handed>, Duration> {
        Err(Duration::ZERO)
    }

    /// What this node is to the bytes of a dataset's object at an offset.
    fn role(&self, dataset: &str, key: FileKey, offset: u64) -> Role;

    /// Whether those bytes have an owner now that may not have them yet, and look for them here.
    fn is_sought(&self, _dataset: &str, _key: FileKey, _offset: u64) -> bool {
        false
    }

    /// A dataset is there, or has a new snapshot: who owns what may hang on [what it consists of](super::Dataset::extents).
    fn consists(&self, _dataset: &super::Dataset) {}

    /// A dataset is there no more.
    fn forgets(&self, _dataset: &str) {}

    /// A job has reported scores here, of a snapshot of so many items. May be passed on; must not wait.
    fn scored(&self, _dataset: &str, _job: &str, _items: u32, _scores: Scores<'_>) {}

    /// A job has reported embeddings here, of items of a snapshot. May be passed on; must not wait.
    fn embedded(&self, _dataset: &str, _job: &str, _on: PlanSnapshot, _embeddings: Embeddings<'_>) {}

    /// A job has said here that its scores take effect. May be passed on; must not wait.
    fn scores_apply(&self, _dataset: &str, _job: &str) {}
}

impl super::Engine {
    /// From now on these are asked before an origin is. Only the first call counts.
    pub fn join(&self, peers: Arc<dyn Peers>) {
        let _ = self.shared.peers.set(peers);
    }

    /// Other nodes have come or gone: what is cached may have other owners now.
    pub async fn peers_changed(&self) -> Result<()> {
        for dataset in self.datasets() {
            dataset.tell_peers().await?;
        }
        Ok(())
    }
}

impl super::Dataset {
    /// What this node is to a parcel; alone it owns everything.
    fn role(&self, key: FileKey, offset: u64) -> Role {
        self.shared.peers.get().map_or(Role::Owner, |peers| peers.role(&self.config().name, key, offset))
    }

    /// Tells the peers what it consists of, and finds out what belongs to them.
    pub(super) async fn tell_peers(self: &Arc<Self>) -> Result<()> {
        let dataset = Arc::clone(self);
        let tell = move || {
            if let Some(peers) = dataset.shared.peers.get() {
                peers.consists(&dataset);
                dataset.recount_guests();
            }
        };
        self.shared.mind.run(tell).await
    }

    /// Whether a flight for a reader here asks peers for more than what they hold.
    pub(super) fn asks_peers(&self, object: ObjectSlot, offset: u64) -> bool {
        self.shared.peers.get().is_some() && self.role(self.objects.load().key(object), offset) != Role::Owner
    }

    /// Whether a piece belongs to other nodes.
    pub(super) fn is_guest(&self, piece: PieceId) -> bool {
        self.shared.peers.get().is_some_and(|peers| {
            let (object, range) = self.piece_range(piece);
            peers.role(&self.config().name, self.objects.load().key(object), range.start) == Role::Guest
        })
    }

    /// Whether a piece is looked for by an owner that has come to own it not long ago.
    fn is_sought(&self, piece: PieceId) -> bool {
        self.shared.peers.get().is_some_and(|peers| {
            let (object, range) = self.piece_range(piece);
            peers.is_sought(&self.config().name, self.objects.load().key(object), range.start)
        })
    }

    /// Whether a piece is kept only where there is room: it belongs to other nodes, and the dataset does not fit in here.
    pub(super) fn is_mere_guest(&self, piece: PieceId) -> bool {
        self.is_guest(piece) && !self.fits()
    }

    /// Whether all of the dataset has room in what it may hold on this node. Then it is all kept here, whoever owns it.
    fn fits(&self) -> bool {
        let snapshot = self.snapshot();
        let bytes = snapshot.total_bytes() + u64::from(snapshot.object_count()) * OBJECT_BYTES;
        self.stocks.iter().map(|(space, stock)| space.share_of(stock)).sum::<u64>() >= bytes
    }

    fn recount_guests(&self) {
        for (_, stock) in &self.stocks {
            stock.recount_guests(|piece| self.is_guest(piece), |piece| self.is_sought(piece));
        }
    }
}
