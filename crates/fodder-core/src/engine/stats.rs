//! What is counted, and how a node describes itself.

use super::{
    Source,
    job::{Kind, Served as Given},
};
use crate::config::{DatasetConfig, Medium};
use fodder_policy::residency::Explanation;
use serde::Serialize;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Counts of one dataset since the node started. A *read* is one item, or one chunk of a long stream.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct DatasetStats {
    /// Reads answered from a tier in memory alone.
    pub hits_mem: u64,
    /// Reads answered from solid-state disks at the slowest.
    pub hits_ssd: u64,
    /// Reads answered from spinning disks at the slowest.
    pub hits_hdd: u64,
    /// Reads answered from a tier, where a plan or a guess had put it ahead of its first reader.
    pub prefetched: u64,
    /// Reads answered from a tier, to a job that had asked for another item.
    pub substituted: u64,
    /// Reads that joined a fetch which was under way.
    pub joined: u64,
    /// Reads that were answered by other nodes.
    pub peer: u64,
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
    /// Bytes fetched from other nodes.
    pub bytes_from_peers: u64,
    /// Bytes given to other nodes.
    pub bytes_to_peers: u64,
    /// Requests sent to the origin.
    pub origin_requests: u64,
    /// Pieces evicted.
    pub evicted_pieces: u64,
    /// Pieces that the policy wanted and the disk was too slow to take; they will be missed again.
    pub unkept_pieces: u64,
    /// Pieces whose bytes on disk were damaged or gone, and are fetched again.
    pub corrupt_pieces: u64,
    /// Planned items that jobs were given at their places.
    pub given_planned: u64,
    /// Planned items that jobs were given before or after their places.
    pub given_reordered: u64,
    /// Items that jobs were given in the place of others.
    pub given_substituted: u64,
    /// Items that jobs were given once more, so that every rank got equally many.
    pub given_pads: u64,
    /// Items that were brought in before anybody asked for them.
    pub fetched_ahead: u64,
    /// Bytes that were fetched ahead of readers without a plan, on a guess.
    pub readahead_bytes: u64,
    /// Of these, bytes of pieces that were read then.
    pub readahead_used_bytes: u64,
    /// And bytes of pieces that nobody read in time.
    pub readahead_wasted_bytes: u64,
}

/// What is counted for every answer. A thread has a stripe of its own, or shares it with few, so that threads that
/// hit do not wait for each other's cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Served {
    hits: [AtomicU64; 3],
    prefetched: AtomicU64,
    substituted: AtomicU64,
    joined: AtomicU64,
    peer: AtomicU64,
    origin: AtomicU64,
    bypass: AtomicU64,
    bytes: AtomicU64,
}

const STRIPES: usize = 16;

thread_local! {
    static STRIPE: usize = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        NEXT.fetch_add(1, Relaxed) % STRIPES
    };
}

/// The counters behind [`DatasetStats`].
#[derive(Debug, Default)]
pub(super) struct Counters {
    served: [Served; STRIPES],
    pub(super) failed: AtomicU64,
    pub(super) bytes_from_origin: AtomicU64,
    pub(super) bytes_from_peers: AtomicU64,
    pub(super) bytes_to_peers: AtomicU64,
    pub(super) origin_requests: AtomicU64,
    pub(super) evicted_pieces: AtomicU64,
    pub(super) unkept_pieces: AtomicU64,
    pub(super) corrupt_pieces: AtomicU64,
    /// Items given to jobs, by [`Kind`].
    given: [AtomicU64; 4],
    pub(super) fetched_ahead: AtomicU64,
}

impl Counters {
    /// One read was answered.
    pub(super) fn served(&self, source: Source, bytes: u64) {
        let served = &self.served[STRIPE.with(|stripe| *stripe)];
        let counter = match source {
            Source::Tier(medium) => &served.hits[medium as usize],
            Source::Prefetched => &served.prefetched,
            Source::Substituted => &served.substituted,
            Source::Joined => &served.joined,
            Source::Peer => &served.peer,
            Source::Origin => &served.origin,
            Source::Bypass => &served.bypass,
        };
        counter.fetch_add(1, Relaxed);
        served.bytes.fetch_add(bytes, Relaxed);
    }

    /// A job was given items.
    pub(super) fn given(&self, items: &[Given]) {
        for item in items {
            self.given[item.kind as usize].fetch_add(1, Relaxed);
        }
    }

    pub(super) fn snapshot(&self) -> DatasetStats {
        let given = |kind: Kind| self.given[kind as usize].load(Relaxed);
        let sum = |count: fn(&Served) -> &AtomicU64| self.served.iter().map(|served| count(served).load(Relaxed)).sum();
        DatasetStats {
            hits_mem: sum(|served| &served.hits[Medium::Mem as usize]),
            hits_ssd: sum(|served| &served.hits[Medium::Ssd as usize]),
            hits_hdd: sum(|served| &served.hits[Medium::Hdd as usize]),
            prefetched: sum(|served| &served.prefetched),
            substituted: sum(|served| &served.substituted),
            joined: sum(|served| &served.joined),
            peer: sum(|served| &served.peer),
            origin: sum(|served| &served.origin),
            bypass: sum(|served| &served.bypass),
            failed: self.failed.load(Relaxed),
            bytes_served: sum(|served| &served.bytes),
            bytes_from_origin: self.bytes_from_origin.load(Relaxed),
            bytes_from_peers: self.bytes_from_peers.load(Relaxed),
            bytes_to_peers: self.bytes_to_peers.load(Relaxed),
            origin_requests: self.origin_requests.load(Relaxed),
            evicted_pieces: self.evicted_pieces.load(Relaxed),
            unkept_pieces: self.unkept_pieces.load(Relaxed),
            corrupt_pieces: self.corrupt_pieces.load(Relaxed),
            given_planned: given(Kind::Planned),
            given_reordered: given(Kind::Reordered),
            given_substituted: given(Kind::Substituted),
            given_pads: given(Kind::Pad),
            fetched_ahead: self.fetched_ahead.load(Relaxed),
            ..DatasetStats::default()
        }
    }
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
    /// What a policy that chooses among others has chosen, and why; of the fastest tier.
    pub explanation: Option<Explanation>,
    /// Why its layout probably does not fit its objects, and what to do.
    pub warning: Option<String>,
    /// What was counted.
    pub stats: DatasetStats,
    /// Why the last refresh failed or was refused, and what the newest listing left out; sentences for the operator.
    pub problems: Vec<String>,
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

/// How much of an object is cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Residence {
    /// Bytes of it that some tier has.
    pub cached_bytes: u64,
    /// The fastest tier that has all of it.
    pub whole: Option<crate::config::Medium>,
}

/// What an eviction by hand did.
#[derive(Debug, Clone, Default, Serialize)]
pub struct EvictReport {
    /// Pieces that left.
    pub pieces: u64,
    /// Bytes on disk that were freed.
    pub bytes: u64,
    /// What still occupies space, or will soon.
    pub remainder: EvictRemainder,
}

/// What an eviction could not free, by reason.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct EvictRemainder {
    /// Evicted files that other processes have open by a lease. Their space is freed when the leases are returned.
    pub leased_files: u64,
    /// Bytes on disk of those files.
    pub leased_bytes: u64,
    /// Pieces that are staged in memory for jobs. They are released when the jobs have read them or leave.
    pub staged_pieces: u64,
    /// Bytes of memory of those pieces.
    pub staged_bytes: u64,
    /// Pieces that are being fetched: they are cached when they arrive.
    pub fetching_pieces: u64,
    /// Bytes of those pieces.
    pub fetching_bytes: u64,
    /// Jobs that are open on the dataset. Each fetches its planned items again when it requests its next batch.
    pub jobs: Vec<String>,
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
