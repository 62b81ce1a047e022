//! How a node and its datasets stand, as it looks on the wire.

use super::config::{DatasetConfig, Policy};
use utoipa::ToSchema;

/// How the node stands.
#[derive(ToSchema)]
pub(in crate::rest) struct NodeStatus {
    /// The version of the program.
    version: String,
    /// Its process.
    pid: u32,
    /// When it started, in milliseconds since 1970.
    started_at_ms: u64,
    /// Where it listens.
    addresses: Addresses,
    /// Whether the datasets that were configured are open.
    ready: bool,
    /// The tiers, fastest first.
    tiers: Vec<TierStatus>,
    /// The datasets, by name.
    datasets: Vec<DatasetStatus>,
    /// Memory for bytes on their way.
    budget_bytes: u64,
    /// How much of it is in use.
    budget_used_bytes: u64,
}

/// Where a node listens.
#[derive(ToSchema)]
pub(in crate::rest) struct Addresses {
    /// host:port of REST and metrics.
    rest: String,
    /// host:port of gRPC and frames.
    grpc: String,
    /// The path of the Unix socket, which speaks gRPC and frames.
    socket: Option<String>,
}

/// How one tier stands.
#[derive(ToSchema)]
pub(in crate::rest) struct TierStatus {
    /// Its directory.
    path: String,
    /// What it is made of.
    medium: Medium,
    /// The most it may hold.
    quota_bytes: u64,
    /// What it holds.
    used_bytes: u64,
    /// `ok`, `unstable` (writes failed lately: reads only) or `down`.
    health: String,
}

/// What a tier is made of.
#[derive(ToSchema)]
#[schema(rename_all = "UPPERCASE")]
pub(in crate::rest) enum Medium {
    Mem,
    Ssd,
    Hdd,
}

/// How one dataset stands.
#[derive(ToSchema)]
pub(in crate::rest) struct DatasetStatus {
    /// Its configuration; the origin is shown without credentials.
    config: DatasetConfig,
    /// The newest snapshot.
    snapshot: String,
    /// Items in the newest snapshot.
    items: u64,
    /// Objects in the newest snapshot.
    objects: u32,
    /// Bytes of all objects in the newest snapshot.
    total_bytes: u64,
    /// Bytes on disk, over all tiers.
    cached_bytes: u64,
    /// Pieces that are cached.
    cached_pieces: u64,
    /// Pieces of all objects of the catalog.
    pieces: u64,
    /// What the policy `auto` has chosen, and why; null for every other.
    explanation: Option<Explanation>,
    /// Why the layout probably does not fit the objects, and what to do.
    warning: Option<String>,
    /// Why the last refresh failed or was refused, and what the newest listing left out.
    problems: Vec<String>,
    /// What was counted since the node started.
    stats: DatasetStats,
}

/// Which policy is at work, and why.
#[derive(ToSchema)]
pub(in crate::rest) struct Explanation {
    /// The policy that decides now.
    chosen: Policy,
    /// Why, in a sentence.
    why: String,
    /// How each policy would do, the best first.
    shadows: Vec<ShadowRatio>,
}

/// How one policy would do.
#[derive(ToSchema)]
pub(in crate::rest) struct ShadowRatio {
    /// Which.
    policy: Policy,
    /// The share of bytes that its shadow hit lately.
    hit_ratio: f64,
}

/// Counts of one dataset since the node started.
#[derive(ToSchema)]
pub(in crate::rest) struct DatasetStats {
    /// Reads answered from a tier of memory alone.
    hits_mem: u64,
    /// Reads answered from a tier on a solid-state disk.
    hits_ssd: u64,
    /// Reads answered from a tier on a spinning disk.
    hits_hdd: u64,
    /// Reads that joined a fetch which was under way.
    joined: u64,
    /// Reads answered from a tier, where a plan or a guess had put it ahead of its first reader.
    prefetched: u64,
    /// Reads answered from a tier, to a job that had asked for another item.
    substituted: u64,
    /// Reads that were answered by other nodes.
    peer: u64,
    /// Reads that went to the origin and filled the cache.
    origin: u64,
    /// Reads that went to the origin past the cache.
    bypass: u64,
    /// Reads that failed.
    failed: u64,
    /// Bytes handed to readers.
    bytes_served: u64,
    /// Bytes fetched from the origin.
    bytes_from_origin: u64,
    /// Bytes fetched from other nodes.
    bytes_from_peers: u64,
    /// Bytes given to other nodes.
    bytes_to_peers: u64,
    /// Requests sent to the origin.
    origin_requests: u64,
    /// Pieces evicted.
    evicted_pieces: u64,
    /// Pieces that the policy wanted and the disk was too slow to take.
    unkept_pieces: u64,
    /// Pieces whose bytes on disk did not match their checksum, and were fetched again.
    corrupt_pieces: u64,
    /// Planned items that jobs were given at their places.
    given_planned: u64,
    /// Planned items that jobs were given before or after their places.
    given_reordered: u64,
    /// Items that jobs were given in the place of others.
    given_substituted: u64,
    /// Items that jobs were given once more, so that every rank got equally many.
    given_pads: u64,
    /// Items that were brought in before anybody asked for them.
    fetched_ahead: u64,
    /// Bytes that were fetched ahead of readers without a plan.
    readahead_bytes: u64,
    /// Of these, bytes that were read then.
    readahead_used_bytes: u64,
    /// And bytes that nobody read in time.
    readahead_wasted_bytes: u64,
}
