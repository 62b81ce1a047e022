//! Tiers: directories of ordinary files that hold what has arrived.

use crate::{
    Error, Result,
    catalog::Objects,
    config::{Medium, TierConfig},
    id::{ObjectSlot, PieceId},
};
use std::{fs::File, sync::Arc};

/// One directory with a quota: its files, its index, its committer.
#[derive(Debug)]
pub struct Tier {}

impl Tier {
    /// Opens (or makes) the tier and replays its index.
    pub fn open(config: &TierConfig) -> Result<Arc<Self>> {
        let _ = config;
        Err(Error::Internal("not built yet".into()))
    }
    /// What it is made of.
    pub fn medium(&self) -> Medium {
        Medium::Ssd
    }
    /// The most it may hold.
    pub fn quota_bytes(&self) -> u64 {
        0
    }
    /// What it holds now or has reserved: blocks of all files, unlinked ones that are leased included, plus overhead.
    pub fn used_bytes(&self) -> u64 {
        0
    }
    /// One dataset's part of the tier. What the index remembers of its objects is on the shelf at once, unverified.
    pub fn attach(self: &Arc<Self>, dataset: &str, objects: Arc<Objects>) -> Result<Arc<Shelf>> {
        let _ = (dataset, objects);
        Err(Error::Internal("not built yet".into()))
    }
    /// Makes everything that was written durable, and stops the committer.
    pub fn close(&self) {}
}

/// How a read of a shelf ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShelfRead {
    /// The buffer is filled with checked bytes.
    Done,
    /// The pages are not in memory (or must be checked first): ask again from a thread that may wait.
    WouldBlock,
    /// Something of the range is not here (any more).
    Missing,
}

/// Space set aside in a tier for one piece, given back when dropped unused.
#[derive(Debug)]
pub struct Reservation {}

/// A sealed cache file handed out: pinned until dropped.
#[derive(Debug)]
pub struct Lease {
    /// The whole object's bytes, exactly; open for reading.
    pub file: Arc<File>,
    /// The object's size.
    pub size: u64,
}

/// One dataset's part of one tier.
#[derive(Debug)]
pub struct Shelf {}

impl Shelf {
    /// Learns of the objects that a refresh added.
    pub fn grow(&self, objects: Arc<Objects>) {
        let _ = objects;
    }
    /// Whether a piece is here.
    pub fn has(&self, piece: PieceId) -> bool {
        let _ = piece;
        false
    }
    /// Every piece that is here, for filling a policy after a start.
    pub fn pieces(&self) -> Vec<PieceId> {
        Vec::new()
    }
    /// Reads `buf.len()` bytes of an object from `offset`. With `wait` false it never blocks on a disk.
    pub fn read(&self, object: ObjectSlot, offset: u64, buf: &mut [u8], wait: bool) -> ShelfRead {
        let _ = (object, offset, buf, wait);
        ShelfRead::Missing
    }
    /// Blocks on disk a piece will be charged.
    pub fn cost(&self, piece: PieceId) -> u64 {
        let _ = piece;
        0
    }
    /// Sets space aside; None if the quota or the disk's floor of free space does not allow it now.
    pub fn reserve(&self, bytes: u64) -> Option<Reservation> {
        let _ = bytes;
        None
    }
    /// Writes a piece. After Ok it is served; it is durable with the next commit.
    pub fn write(&self, piece: PieceId, bytes: &[u8], reservation: Reservation) -> Result<()> {
        let _ = (piece, bytes, reservation);
        Err(Error::Internal("not built yet".into()))
    }
    /// Drops a piece; a sealed object is dropped whole. Every piece that left.
    pub fn evict(&self, piece: PieceId) -> Vec<PieceId> {
        let _ = piece;
        Vec::new()
    }
    /// Hands out a complete object's file, sealed and checked; None if it is not complete here.
    pub fn lease(&self, object: ObjectSlot) -> Result<Option<Lease>> {
        let _ = object;
        Ok(None)
    }
    /// Bytes of disk charged to this dataset here.
    pub fn used_bytes(&self) -> u64 {
        0
    }
}
