//! The OpenAPI description of the REST door.
//!
//! Paths are described at their handlers. The engine's types know nothing of OpenAPI, so what they look like on the wire
//! is described here, and tests compare the two.
#![allow(dead_code, reason = "these types only describe what the engine's own look like on the wire")]

use super::{ProblemBody, cluster, dataset, job, node, object, warm};
use crate::icache::rest as icache;
use utoipa::{OpenApi, ToSchema};

/// Everything the REST door answers.
#[derive(OpenApi)]
#[openapi(
    info(title = "Fodder", description = "A training-data cache: the REST door of one node.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")),
    paths(
        node::index, node::healthz, node::readyz, node::metrics, node::openapi, node::status, cluster::cluster,
        cluster::reload,
        dataset::list, dataset::add, dataset::get, dataset::remove, dataset::refresh, dataset::evict, dataset::verify,
        dataset::advice, warm::warm,
        object::list, object::object, object::item,
        job::list, job::introduce, job::get, job::leave, job::checkpoint,
        job::epoch::begin, job::epoch::next, job::epoch::acknowledge, job::epoch::consumed, job::epoch::resume,
        job::epoch::renew, job::report::scores, job::report::embeddings,
        icache::statistic, icache::cache, icache::node, icache::cluster,
        icache::jobs, icache::post_job, icache::put_job, icache::delete_job,
    ),
    components(schemas(ProblemBody)),
    tags(
        (name = "node", description = "The node itself"),
        (name = "datasets", description = "What the node serves"),
        (name = "data", description = "The bytes"),
        (name = "jobs", description = "Who trains on a dataset"),
        (name = "icache", description = "The paths of iCache's server, for its clients"),
    )
)]
pub(super) struct Description;

/// How the node stands.
#[derive(ToSchema)]
pub(super) struct NodeStatus {
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

/// How far a warming is. Every object of `files` ends up in exactly one of `files_there`, `files_too_large`,
/// `files_declined`, `files_failed` and `files_evicted`.
#[derive(ToSchema)]
pub(super) struct WarmLine {
    /// progress, or finished for the last line; failed if it could not go on, and then there is only an `error`.
    event: String,
    /// Objects that were chosen.
    files: u64,
    /// Their bytes.
    bytes: u64,
    /// Objects of which every byte is in a tier.
    files_there: u64,
    /// Bytes that are in a tier.
    bytes_there: u64,
    /// Objects that were there before.
    files_skipped: u64,
    /// Bytes that were there before.
    bytes_skipped: u64,
    /// Bytes that were fetched for it.
    bytes_fetched: u64,
    /// Objects left out because they exceed `max_bytes`.
    files_too_large: u64,
    /// Objects that the cache does not keep whole.
    files_declined: u64,
    /// Why.
    declined_because: String,
    /// Objects that the origin did not give.
    files_failed: u64,
    /// Objects that were there, and that the residency policy gave up again.
    files_evicted: u64,
    /// Always 0 here.
    files_unknown: u64,
    /// Always empty here.
    unknown: Vec<u64>,
    /// Lately.
    bytes_per_second: f64,
    /// How long it will still take, in milliseconds, if that can be told.
    eta_ms: Option<u64>,
    /// It is over.
    finished: bool,
    /// It is over, and every byte is in a tier.
    complete: bool,
    /// The first things that went wrong.
    problems: Vec<WarmProblem>,
    /// The nodes that bring it in together; none, if it is this node alone.
    nodes: Vec<WarmNode>,
    /// Where nodes keep copies beside the owners': bytes of them.
    bytes_copied: u64,
    /// And bytes of them that are there.
    bytes_copied_there: u64,
}

/// How far one of several nodes is.
#[derive(ToSchema)]
struct WarmNode {
    /// Who it is: 32 hex digits.
    id: String,
    /// Where its gRPC and frames are reached.
    address: String,
    /// Objects that it owns.
    files: u64,
    /// Bytes that it owns.
    bytes: u64,
    /// Objects of which it has its part.
    files_there: u64,
    /// Bytes of its own that are in a tier.
    bytes_there: u64,
    /// Bytes that it fetched.
    bytes_fetched: u64,
    /// Bytes that it keeps as copies beside the owners'.
    bytes_copied: u64,
    /// And those of them that are there.
    bytes_copied_there: u64,
    /// It is done.
    finished: bool,
    /// Why it does not bring anything in; empty, if it does.
    error: String,
}

/// Why an object is not there.
#[derive(ToSchema)]
struct WarmProblem {
    /// Which.
    path: String,
    /// What happened.
    message: String,
}

/// Where a node listens.
#[derive(ToSchema)]
struct Addresses {
    /// host:port of REST and metrics.
    rest: String,
    /// host:port of gRPC and frames.
    grpc: String,
    /// The path of the Unix socket, which speaks gRPC and frames.
    socket: Option<String>,
}

/// How one tier stands.
#[derive(ToSchema)]
struct TierStatus {
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
enum Medium {
    Mem,
    Ssd,
    Hdd,
}

/// How one dataset stands.
#[derive(ToSchema)]
pub(super) struct DatasetStatus {
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
    /// What was counted since the node started.
    stats: DatasetStats,
}

/// Which policy is at work, and why.
#[derive(ToSchema)]
struct Explanation {
    /// The policy that decides now.
    chosen: Policy,
    /// Why, in a sentence.
    why: String,
    /// How each policy would do, the best first.
    shadows: Vec<ShadowRatio>,
}

/// How one policy would do.
#[derive(ToSchema)]
struct ShadowRatio {
    /// Which.
    policy: Policy,
    /// The share of bytes that its shadow hit lately.
    hit_ratio: f64,
}

/// A named origin with a layout, a policy and a quota.
#[derive(ToSchema)]
pub(super) struct DatasetConfig {
    /// How clients call it: letters, digits, `-`, `_` and `.`, at most 64 characters.
    name: String,
    /// Where the data lives: a URI, or a path on the node's host.
    origin: String,
    /// How objects become items.
    #[schema(default = "files")]
    layout: Layout,
    /// What stays when the cache is full.
    #[schema(default = "minio")]
    policy: Policy,
    /// What can be set about policies and jobs.
    #[schema(required = false)]
    tuning: Tuning,
    /// The share of the tiers that is this dataset's own, `20GiB` or `20%` of the dataset; null: an equal share of what
    /// is left.
    #[schema(required = false)]
    quota: Option<String>,
    /// How often to look for changes, such as `5m`; null: only when asked.
    #[schema(required = false)]
    refresh_interval: Option<String>,
    /// Read a public bucket without credentials.
    #[schema(default = false)]
    anonymous: bool,
}

/// How objects become items.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
enum Layout {
    Files,
    Blocks {
        /// Bytes of a block.
        block_bytes: u32,
    },
    Tar,
    Tfrecord,
}

/// What stays when the cache is full.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
enum Policy {
    Minio,
    Lru,
    Lfu,
    Sieve,
    S3Fifo,
    Importance,
    Semantic,
    Quiver,
    Pending,
    Plan,
    Auto,
}

/// What can be set about a dataset's policies and jobs.
#[derive(ToSchema)]
struct Tuning {
    /// How often scores that jobs report take effect, such as `5m`; null: at the end of the epoch.
    #[schema(required = false)]
    update_interval: Option<String>,
    /// What is brought in before it is asked for: `demand`, `plan`, `pending`, `pack` or `{"chunk": {"over": "ids"}}`;
    /// null: what goes with the policy.
    #[schema(required = false)]
    fetching: Option<serde_json::Value>,
    /// About the policy `importance`.
    #[schema(required = false)]
    importance: ImportanceTuning,
    /// About the policy `semantic`.
    #[schema(required = false)]
    semantic: SemanticTuning,
}

/// What can be set about the policy `importance`.
#[derive(ToSchema)]
struct ImportanceTuning {
    /// The share of the cached bytes that packs of low-score items may take from the others.
    #[schema(default = 0.1)]
    low_region: f64,
}

/// What can be set about the policy `semantic`.
#[derive(ToSchema)]
struct SemanticTuning {
    /// Links of each embedding in the graph of neighbours (HNSW's M).
    #[schema(default = 8)]
    m: u32,
    /// Candidates that are looked at while the graph is built and searched (HNSW's ef).
    #[schema(default = 100)]
    ef: u32,
    /// Neighbours that are asked for.
    #[schema(default = 500)]
    k: u32,
    /// How alike two samples must be to be neighbours.
    #[schema(default = 0.98)]
    similarity: f64,
    /// The share of the cached bytes that keys may take from the others.
    #[schema(default = 0.1)]
    homophily_region: f64,
    /// How much a use adds to a score; 0: nothing.
    #[schema(default = 0.1)]
    use_weight: f64,
}

/// How a job wants to be answered.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
pub(super) enum Mode {
    /// What was planned, in the order planned.
    Strict,
    /// Each planned item exactly once an epoch, cached ones first.
    Reorder {
        /// How many of the planned items that are still to come are looked at for a cached one.
        window: u32,
    },
    /// A cached item may stand in for a missing one.
    Approx {
        /// The largest share of an epoch's deliveries that may be substitutes, from 0 to 1.
        max_fraction: f64,
        /// Whether a substitute must have the label of the item it stands in for.
        same_class: bool,
        /// How often one item may be delivered in an epoch, its own turn included.
        max_repeats: u32,
    },
}

/// What ranks do when a plan does not divide by their number.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
pub(super) enum Uneven {
    Pad,
    Drop,
    Exact,
}

/// Counts of one dataset since the node started.
#[derive(ToSchema)]
struct DatasetStats {
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

/// What a refresh found.
#[derive(ToSchema)]
pub(super) struct RefreshReport {
    /// Objects that were not there before.
    added: u64,
    /// Objects whose version changed.
    changed: u64,
    /// Objects that are gone.
    removed: u64,
    /// Objects that stayed as they were.
    unchanged: u64,
}

/// What an eviction did, on all nodes together.
#[derive(ToSchema)]
pub(super) struct EvictReport {
    /// Pieces that left.
    pieces: u64,
    /// Bytes on disk that were freed.
    bytes: u64,
    /// Each node of the cluster; none, if it was this node alone.
    nodes: Vec<NodeEviction>,
}

/// What one of several nodes did.
#[derive(ToSchema)]
struct NodeEviction {
    /// Who it is: 32 hex digits.
    id: String,
    /// Where its gRPC and frames are reached.
    address: String,
    /// Pieces that left.
    pieces: u64,
    /// Bytes on disk that were freed.
    bytes: u64,
    /// Why it did nothing; empty, if it did.
    error: String,
}

/// What each node made of its configuration.
#[derive(ToSchema)]
pub(super) struct ReloadReply {
    /// This node, or all of its cluster.
    nodes: Vec<NodeReload>,
}

/// What one node made of its configuration.
#[derive(ToSchema)]
struct NodeReload {
    /// Who it is: 32 hex digits; empty, if it is in no cluster.
    id: String,
    /// Where its gRPC and frames are reached.
    address: String,
    /// Datasets that it serves now.
    added: Vec<String>,
    /// Datasets that it does not serve any more.
    removed: Vec<String>,
    /// What else the configuration says now, which the node will do when it is started again.
    needs_restart: Vec<String>,
    /// What could not be done, and why; empty, if everything could.
    error: String,
}

/// What readers wait for, and what would help.
#[derive(ToSchema)]
pub(super) struct Advice {
    /// What they wait for most; null where nothing was measured.
    limit: Option<Limit>,
    /// The share of their time that they wait for storage.
    storage_share: f64,
    /// How it is, and what to do.
    #[schema(value_type = Vec<String>, min_items = 2, max_items = 2)]
    sentences: [String; 2],
    /// As it is now, then each change; nothing where nothing was measured.
    rows: Vec<AdviceRow>,
    /// The policy that hits most; null where too little was seen to tell.
    policy: Option<Policy>,
}

/// What readers wait for most.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
enum Limit {
    /// Items to come from the origin.
    Storage,
    /// Their own work: preprocessing or the GPU, which cannot be told apart.
    Own,
    /// Items to be made into batches.
    Preprocessing,
    /// The GPU: data is always ready.
    Gpu,
}

/// How readers would do under one change.
#[derive(ToSchema)]
struct AdviceRow {
    /// What is changed.
    what: String,
    /// The share of bytes that need not come from the origin.
    hit_ratio: f64,
    /// Items a second that are read; null where it cannot be told.
    items_per_second: Option<f64>,
    /// The same in terms of what it is now.
    speed: Option<f64>,
}

/// What re-reading the cache found.
#[derive(ToSchema)]
pub(super) struct VerifyReport {
    /// Pieces whose checksum matched.
    good: u64,
    /// Pieces that did not match, and were dropped.
    corrupt: u64,
    /// Bytes that were read.
    bytes: u64,
}
