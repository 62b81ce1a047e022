//! How a node stands, in the few numbers that others are told.

use fodder_api::v1;
use fodder_core::Engine;

/// How this node stands.
pub(crate) fn standing(engine: &Engine) -> v1::Standing {
    let status = engine.status();
    let mut standing = v1::Standing::default();
    for tier in &status.tiers {
        standing.held_bytes += tier.used_bytes;
        standing.quota_bytes += tier.quota_bytes;
    }
    for dataset in &status.datasets {
        let stats = &dataset.stats;
        let hits = stats.hits_mem + stats.hits_ssd + stats.hits_hdd + stats.prefetched + stats.substituted;
        standing.hits += hits;
        standing.reads += hits + stats.joined + stats.peer + stats.origin + stats.bypass;
        standing.from_origin_bytes += stats.bytes_from_origin;
        standing.from_peers_bytes += stats.bytes_from_peers;
        standing.to_peers_bytes += stats.bytes_to_peers;
    }
    standing
}
