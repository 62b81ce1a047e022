//! The engine of a node: its datasets over its tiers.

use crate::{
    Error, Result,
    catalog::{Objects, RefreshReport, Snapshot},
    config::{DatasetConfig, EngineConfig, Medium},
    id::{ObjectSlot, SnapshotId},
    tier::Lease,
};
use bytes::Bytes;
use futures::stream::BoxStream;
use serde::Serialize;
use std::{ops::Range, sync::Arc};

/// Where the bytes of a reply came from. When a reply has several sources, the slowest is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// A tier of this node: a plain hit.
    Tier(Medium),
    /// A fetch that another reader had already started.
    Joined,
    /// The origin, and the bytes stay in the cache.
    Origin,
    /// The origin, and the policy (or a full disk) kept the bytes out of the cache.
    Bypass,
}

/// The answer to a read: the bytes, in order, in as many segments as they came.
#[derive(Debug)]
pub struct Reply {
    /// The bytes. Their memory counts against the budget until the last segment is dropped.
    pub segments: Vec<Bytes>,
    /// Where they came from.
    pub source: Source,
}

/// Counts of one dataset since the node started.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct DatasetStats {
    /// Reads answered from a tier alone, by medium.
    pub hits_mem: u64,
    /// See `hits_mem`.
    pub hits_ssd: u64,
    /// See `hits_mem`.
    pub hits_hdd: u64,
    /// Reads that joined a fetch which was under way.
    pub joined: u64,
    /// Reads that went to the origin and filled the cache.
    pub origin: u64,
    /// Reads that went to the origin past the cache.
    pub bypass: u64,
    /// Reads that failed.
    pub failed: u64,
    /// Bytes handed to readers.
    pub bytes_served: u64,
    /// Bytes fetched from the origin.
    pub bytes_from_origin: u64,
    /// Requests sent to the origin.
    pub origin_requests: u64,
    /// Pieces evicted.
    pub evicted_pieces: u64,
    /// Pieces whose bytes on disk did not match their checksum, and were fetched again.
    pub corrupt_pieces: u64,
}

/// How one dataset stands.
#[derive(Debug, Clone, Serialize)]
pub struct DatasetStatus {
    /// Its configuration; the origin is shown without credentials.
    pub config: DatasetConfig,
    /// The newest snapshot's id.
    pub snapshot: String,
    /// Items in the newest snapshot.
    pub items: u64,
    /// Objects in the newest snapshot.
    pub objects: u32,
    /// Bytes of all objects in the newest snapshot.
    pub total_bytes: u64,
    /// Bytes on disk charged to the dataset, over all tiers.
    pub cached_bytes: u64,
    /// Pieces that are cached.
    pub cached_pieces: u64,
    /// Pieces of all objects of the catalog.
    pub pieces: u64,
    /// What was counted.
    pub stats: DatasetStats,
}

/// How one tier stands.
#[derive(Debug, Clone, Serialize)]
pub struct TierStatus {
    /// Its directory.
    pub path: String,
    /// What it is made of.
    pub medium: Medium,
    /// The most it may hold.
    pub quota_bytes: u64,
    /// What it holds.
    pub used_bytes: u64,
    /// `ok`, `unstable` (writes failed lately: reads only) or `down`.
    pub health: &'static str,
}

/// How the engine stands.
#[derive(Debug, Clone, Serialize)]
pub struct EngineStatus {
    /// The tiers, fastest first.
    pub tiers: Vec<TierStatus>,
    /// The datasets by name.
    pub datasets: Vec<DatasetStatus>,
    /// Memory budget for bytes on their way.
    pub budget_bytes: u64,
    /// How much of it is in use.
    pub budget_used_bytes: u64,
}

/// What an eviction by hand did.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct EvictReport {
    /// Pieces that left.
    pub pieces: u64,
    /// Bytes on disk that were freed.
    pub bytes: u64,
}

/// What re-reading the cache found.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct VerifyReport {
    /// Pieces whose checksum matched.
    pub good: u64,
    /// Pieces that did not match, and were dropped.
    pub corrupt: u64,
    /// Bytes that were read.
    pub bytes: u64,
}

/// One node's cache: datasets over tiers.
#[derive(Debug)]
pub struct Engine {}

impl Engine {
    /// Locks the cache directory and opens the tiers. No dataset yet.
    pub async fn open(config: EngineConfig) -> Result<Arc<Self>> {
        let _ = config;
        Err(Error::Internal("not built yet".into()))
    }

    /// Adds a dataset: reopens its catalog, or lists the origin. [`Error::Conflict`] if the name is taken by another origin.
    pub async fn add_dataset(&self, config: DatasetConfig) -> Result<Arc<Dataset>> {
        let _ = config;
        Err(Error::Internal("not built yet".into()))
    }

    /// Forgets a dataset and drops what is cached of it.
    pub async fn remove_dataset(&self, name: &str) -> Result<()> {
        let _ = name;
        Err(Error::Internal("not built yet".into()))
    }

    /// A dataset by name; the error says which there are.
    pub fn dataset(&self, name: &str) -> Result<Arc<Dataset>> {
        Err(Error::NotFound(format!("no dataset {name:?}")))
    }

    /// All datasets, by name.
    pub fn datasets(&self) -> Vec<Arc<Dataset>> {
        Vec::new()
    }

    /// How the engine stands.
    pub fn status(&self) -> EngineStatus {
        unimplemented!()
    }

    /// Waits for what is under way, makes everything durable, and gives the directory free.
    pub async fn shutdown(&self) {}
}

/// One dataset of a running node. Everything a door may ask for.
#[derive(Debug)]
pub struct Dataset {}

impl Dataset {
    /// The longest range one [`Dataset::read`] takes; longer ones are streamed.
    pub const MAX_READ_BYTES: u64 = 8 << 20;

    /// Its configuration.
    pub fn config(&self) -> &DatasetConfig {
        unimplemented!()
    }

    /// The newest snapshot.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        unimplemented!()
    }

    /// An older snapshot that is still kept.
    pub fn snapshot_by_id(&self, id: SnapshotId) -> Result<Arc<Snapshot>> {
        Err(Error::NotFound(format!("no snapshot {id}")))
    }

    /// The objects of all kept snapshots: sizes, paths, versions.
    pub fn objects(&self) -> Arc<Objects> {
        unimplemented!()
    }

    /// Fills `buf` from the cache on this thread, if that is possible without waiting: the warm path.
    /// None means ask [`Dataset::read`]. The caller has checked the range against the object's size.
    pub fn try_read(&self, object: ObjectSlot, offset: u64, buf: &mut [u8]) -> Option<Source> {
        let _ = (object, offset, buf);
        None
    }

    /// Reads a range of an object of at most [`Dataset::MAX_READ_BYTES`], from the cache or the origin.
    pub async fn read(self: &Arc<Self>, object: ObjectSlot, range: Range<u64>) -> Result<Reply> {
        let _ = (object, range);
        Err(Error::Internal("not built yet".into()))
    }

    /// Reads a range of any length, in order, fetching ahead as the budget allows.
    pub fn read_stream(self: &Arc<Self>, object: ObjectSlot, range: Range<u64>) -> BoxStream<'static, Result<Reply>> {
        let _ = (object, range);
        Box::pin(futures::stream::empty())
    }

    /// Hands out the whole object as a sealed file, fetching what is missing. [`Error::Full`] if it does not fit the cache.
    pub async fn lease(self: &Arc<Self>, object: ObjectSlot) -> Result<Lease> {
        let _ = object;
        Err(Error::Internal("not built yet".into()))
    }

    /// Looks for new, changed and removed objects.
    pub async fn refresh(self: &Arc<Self>) -> Result<RefreshReport> {
        Err(Error::Internal("not built yet".into()))
    }

    /// Drops what is cached of the objects whose path begins with `prefix`.
    pub async fn evict(self: &Arc<Self>, prefix: &str) -> Result<EvictReport> {
        let _ = prefix;
        Err(Error::Internal("not built yet".into()))
    }

    /// Reads everything that is cached and compares it with its checksums.
    pub async fn verify(self: &Arc<Self>) -> Result<VerifyReport> {
        Err(Error::Internal("not built yet".into()))
    }

    /// How it stands.
    pub fn status(&self) -> DatasetStatus {
        unimplemented!()
    }

    /// What was counted.
    pub fn stats(&self) -> DatasetStats {
        DatasetStats::default()
    }
}
