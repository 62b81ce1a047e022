//! What came of something that was asked for, as it looks on the wire.

use super::config::Policy;
use utoipa::ToSchema;

/// How far a warming is. Every object of `files` ends up in exactly one of `files_there`, `files_too_large`,
/// `files_declined`, `files_failed` and `files_evicted`.
#[derive(ToSchema)]
pub(in crate::rest) struct WarmLine {
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
    /// Of these, objects that were deleted or changed at the origin since they were listed.
    files_outdated: u64,
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
pub(in crate::rest) struct WarmNode {
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
pub(in crate::rest) struct WarmProblem {
    /// Which.
    path: String,
    /// What happened.
    message: String,
}

/// What a refresh found.
#[derive(ToSchema)]
pub(in crate::rest) struct RefreshReport {
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
pub(in crate::rest) struct EvictReport {
    /// Pieces that left.
    pieces: u64,
    /// Bytes on disk that were freed.
    bytes: u64,
    /// Each node of the cluster; none, if it was this node alone.
    nodes: Vec<NodeEviction>,
    /// What still occupies space on all nodes together, or will soon.
    remainder: Option<EvictRemainder>,
}

/// What an eviction could not free, by reason.
#[derive(ToSchema)]
pub(in crate::rest) struct EvictRemainder {
    /// Evicted files that other processes have open by a lease. Their space is freed when they close them.
    leased_files: u64,
    /// Bytes on disk of those files.
    leased_bytes: u64,
    /// Pieces that are staged in memory for jobs.
    staged_pieces: u64,
    /// Bytes of memory of those pieces.
    staged_bytes: u64,
    /// Pieces that are being fetched: they are cached when they arrive.
    fetching_pieces: u64,
    /// Bytes of those pieces.
    fetching_bytes: u64,
    /// Jobs that are open on the dataset. Each fetches its planned items again when it requests its next batch.
    jobs: Vec<String>,
}

/// What one of several nodes did.
#[derive(ToSchema)]
pub(in crate::rest) struct NodeEviction {
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
    /// What still occupies space, or will soon.
    remainder: Option<EvictRemainder>,
}

/// What each node made of its configuration.
#[derive(ToSchema)]
pub(in crate::rest) struct ReloadReply {
    /// This node, or all of its cluster.
    nodes: Vec<NodeReload>,
}

/// What one node made of its configuration.
#[derive(ToSchema)]
pub(in crate::rest) struct NodeReload {
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
pub(in crate::rest) struct Advice {
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
pub(in crate::rest) enum Limit {
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
pub(in crate::rest) struct AdviceRow {
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
pub(in crate::rest) struct VerifyReport {
    /// Pieces whose checksum matched.
    good: u64,
    /// Pieces that did not match, and were dropped.
    corrupt: u64,
    /// Bytes that were read.
    bytes: u64,
}
