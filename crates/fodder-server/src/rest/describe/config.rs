//! What is said of a dataset or a job when it is added, as it looks on the wire.

use utoipa::ToSchema;

/// A named origin with a layout, a policy and a quota.
#[derive(ToSchema)]
pub(in crate::rest) struct DatasetConfig {
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
    /// How the origin is listed, and which removals a refresh accepts.
    #[schema(required = false)]
    listing: ListingConfig,
}

/// How an origin is listed, and which removals a refresh accepts.
#[derive(ToSchema)]
pub(in crate::rest) struct ListingConfig {
    /// Which symbolic links of a local origin are followed.
    #[schema(default = "inside")]
    follow_links: FollowLinks,
    /// How many paths through symbolic links may list the same directory.
    #[schema(default = 256)]
    max_aliases: u32,
    /// The largest number of entries.
    #[schema(default = 1_000_000_000)]
    max_entries: u64,
    /// The deepest nesting of directories.
    #[schema(default = 1024)]
    max_depth: u32,
    /// The largest amount of memory for names and versions, such as `8GiB`.
    #[schema(default = "8GiB")]
    max_memory: String,
    /// The longest time that a listing may take, such as `6h`.
    #[schema(default = "6h")]
    timeout: String,
    /// A refresh that removes a larger share of the objects, from 0 to 1, must be confirmed.
    #[schema(default = 0.5)]
    max_removed: f64,
    /// How long removed objects keep their cached data, such as `1h`.
    #[schema(default = "1h")]
    removed_grace: String,
}

/// Which symbolic links of a local origin are followed.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
pub(in crate::rest) enum FollowLinks {
    Inside,
    All,
    Never,
}

/// How objects become items.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
pub(in crate::rest) enum Layout {
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
pub(in crate::rest) enum Policy {
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
pub(in crate::rest) struct Tuning {
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
pub(in crate::rest) struct ImportanceTuning {
    /// The share of the cached bytes that packs of low-score items may take from the others.
    #[schema(default = 0.1)]
    low_region: f64,
}

/// What can be set about the policy `semantic`.
#[derive(ToSchema)]
pub(in crate::rest) struct SemanticTuning {
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
pub(in crate::rest) enum Mode {
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
pub(in crate::rest) enum Uneven {
    Pad,
    Drop,
    Exact,
}
