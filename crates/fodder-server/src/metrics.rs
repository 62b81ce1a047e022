//! What a node counts, as OpenMetrics text. docs/METRICS.md lists every name; a test compares the two.
//!
//! Nothing is counted here: each scrape reads the engine's status, so that the hot path pays for no metric.

mod job;
mod peer;

use crate::{NodeInfo, cluster::PeerStatus};
use fodder_core::{
    Dataset, Engine,
    engine::{DatasetStats, DatasetStatus, EngineStatus, TierStatus},
};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, NoLabelSet, text},
    metrics::MetricType,
    registry::Registry,
};
use std::{
    fmt,
    sync::{Arc, atomic::Ordering},
    time::UNIX_EPOCH,
};

/// What a node that is alone has not taken of what others say of jobs.
const NOTHING_UNTAKEN: [(&str, u64); 3] = [("words", 0), ("scores", 0), ("embeddings", 0)];

/// The metrics of one node.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
}

impl Metrics {
    pub(crate) fn new(engine: Arc<Engine>, info: Arc<NodeInfo>) -> Self {
        Self::of(move || {
            let of = |dataset: &Arc<Dataset>| job::OfDataset {
                dataset: dataset.config().name.clone(),
                jobs: dataset.jobs().status(),
            };
            Scrape::new(engine.status(), engine.datasets().iter().map(of).collect(), &info)
        })
    }

    fn of(scrape: impl Fn() -> Scrape + Send + Sync + 'static) -> Self {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Node { scrape: Box::new(scrape) }));
        Self { registry }
    }

    /// All of them, as they stand.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        text::encode(&mut text, &self.registry).expect("a string takes any text");
        text
    }
}

/// Everything that one scrape shows.
struct Scrape {
    engine: EngineStatus,
    jobs: Vec<job::OfDataset>,
    connections: [(&'static str, u64); 3],
    members: Vec<(String, u64)>,
    peers: Vec<PeerStatus>,
    untaken: [(&'static str, u64); 3],
    losses: u64,
    epochs: u64,
    version: &'static str,
    started_seconds: f64,
    memory: Memory,
}

impl Scrape {
    fn new(engine: EngineStatus, jobs: Vec<job::OfDataset>, info: &NodeInfo) -> Self {
        let open = &info.state.connections;
        let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        Self {
            engine,
            jobs,
            connections: [("rest", count(&open.rest)), ("grpc", count(&open.grpc)), ("frames", count(&open.frames))],
            members: members(info),
            peers: info.state.peering().map(|peering| peering.status()).unwrap_or_default(),
            untaken: info.state.peering().map_or(NOTHING_UNTAKEN, |peering| peering.untaken()),
            losses: info.state.icache.losses(),
            epochs: info.state.icache.epochs(),
            version: info.version,
            started_seconds: info.started_at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64(),
            memory: Memory::now(),
        }
    }
}

/// How many members of the cluster are in each state, as this node sees them.
fn members(info: &NodeInfo) -> Vec<(String, u64)> {
    let members = info.state.cluster().map(|joined| joined.membership.members().borrow().clone());
    let mut counts = std::collections::BTreeMap::<String, u64>::new();
    for seen in members.iter().flat_map(|members| members.all()) {
        *counts.entry(seen.state()).or_default() += 1;
    }
    counts.into_iter().collect()
}

/// Resident memory of this process, as the kernel counts it.
#[derive(Default)]
struct Memory {
    resident_bytes: u64,
    anonymous_bytes: u64,
}

impl Memory {
    fn now() -> Self {
        std::fs::read_to_string("/proc/self/status").map(|text| Self::parse(&text)).unwrap_or_default()
    }

    fn parse(status: &str) -> Self {
        let bytes = |field: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
            let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
            kib.unwrap_or_default() * 1024
        };
        Self { resident_bytes: bytes("VmRSS"), anonymous_bytes: bytes("RssAnon") }
    }
}

struct Node {
    scrape: Box<dyn Fn() -> Scrape + Send + Sync>,
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Node")
    }
}

impl Collector for Node {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let scrape = (self.scrape)();
        let mut out = Out(encoder);
        datasets(&mut out, &scrape.engine.datasets)?;
        job::jobs(&mut out, &scrape.jobs)?;
        tiers(&mut out, &scrape.engine.tiers)?;
        process(&mut out, &scrape)
    }
}

fn datasets(out: &mut Out<'_>, all: &[DatasetStatus]) -> fmt::Result {
    type Of<T> = fn(&T) -> u64;
    let reads: [(&str, Of<DatasetStats>); 9] = [
        ("tier_mem", |stats| stats.hits_mem),
        ("tier_ssd", |stats| stats.hits_ssd),
        ("tier_hdd", |stats| stats.hits_hdd),
        ("joined", |stats| stats.joined),
        ("peer", |stats| stats.peer),
        ("origin", |stats| stats.origin),
        ("bypass", |stats| stats.bypass),
        ("prefetched", |stats| stats.prefetched),
        ("substituted", |stats| stats.substituted),
    ];
    let hits: [(&str, Of<DatasetStats>); 3] =
        [("MEM", |stats| stats.hits_mem), ("SSD", |stats| stats.hits_ssd), ("HDD", |stats| stats.hits_hdd)];
    let given: [(&str, Of<DatasetStats>); 4] = [
        ("planned", |stats| stats.given_planned),
        ("reordered", |stats| stats.given_reordered),
        ("substituted", |stats| stats.given_substituted),
        ("pad", |stats| stats.given_pads),
    ];
    let by = |label: &'static str, counts: &[(&'static str, Of<DatasetStats>)]| -> Vec<Series> {
        all.iter()
            .flat_map(|one| {
                counts.iter().map(move |(value, count)| {
                    (vec![("dataset", one.config.name.clone()), (label, (*value).to_owned())], count(&one.stats))
                })
            })
            .collect()
    };
    out.counter("fodder_reads", "Reads that were answered, by where the bytes came from", &by("source", &reads))?;
    out.counter("fodder_hits", "Reads that were answered from a tier alone", &by("tier", &hits))?;
    out.counter(
        "fodder_deliveries",
        "Items that jobs were given, by how they relate to the plan",
        &by("kind", &given),
    )?;

    let of = |count: Of<DatasetStatus>| -> Vec<Series> {
        all.iter().map(|one| (vec![("dataset", one.config.name.clone())], count(one))).collect()
    };
    out.counter("fodder_failed_reads", "Reads that failed", &of(|one| one.stats.failed))?;
    out.counter("fodder_served_bytes", "Bytes handed to readers", &of(|one| one.stats.bytes_served))?;
    out.counter("fodder_origin_bytes", "Bytes fetched from the origin", &of(|one| one.stats.bytes_from_origin))?;
    out.counter("fodder_peer_bytes", "Bytes fetched from other nodes", &of(|one| one.stats.bytes_from_peers))?;
    out.counter("fodder_given_bytes", "Bytes given to other nodes", &of(|one| one.stats.bytes_to_peers))?;
    out.counter("fodder_origin_requests", "Requests sent to the origin", &of(|one| one.stats.origin_requests))?;
    out.counter(
        "fodder_fetched_ahead_items",
        "Items that were brought in before anybody asked for them",
        &of(|one| one.stats.fetched_ahead),
    )?;
    let readahead: [(&str, &str, Of<DatasetStatus>); 3] = [
        ("fodder_readahead_bytes", "Bytes fetched ahead of readers without a plan", |one| one.stats.readahead_bytes),
        ("fodder_readahead_used_bytes", "Of these, bytes that were read", |one| one.stats.readahead_used_bytes),
        ("fodder_readahead_wasted_bytes", "And bytes nobody read in time", |one| one.stats.readahead_wasted_bytes),
    ];
    for (name, help, count) in readahead {
        out.counter(name, help, &of(count))?;
    }
    out.counter("fodder_evicted_pieces", "Pieces that were evicted", &of(|one| one.stats.evicted_pieces))?;
    out.counter(
        "fodder_unkept_pieces",
        "Pieces that were not kept because the disk was too slow",
        &of(|one| one.stats.unkept_pieces),
    )?;
    out.counter(
        "fodder_corrupt_pieces",
        "Cached pieces whose bytes did not match their checksum",
        &of(|one| one.stats.corrupt_pieces),
    )?;
    out.gauge("fodder_cached_bytes", "Bytes on disk, over all tiers", &of(|one| one.cached_bytes))?;
    out.gauge("fodder_cached_pieces", "Pieces that are cached", &of(|one| one.cached_pieces))?;
    out.gauge("fodder_dataset_pieces", "Pieces of all objects of the catalog", &of(|one| one.pieces))?;
    out.gauge("fodder_dataset_items", "Items in the newest snapshot", &of(|one| one.items))?;
    out.gauge("fodder_dataset_objects", "Objects in the newest snapshot", &of(|one| u64::from(one.objects)))?;
    out.gauge("fodder_dataset_bytes", "Bytes of all objects in the newest snapshot", &of(|one| one.total_bytes))
}

fn tiers(out: &mut Out<'_>, all: &[TierStatus]) -> fmt::Result {
    let labels =
        |tier: &TierStatus| vec![("tier", format!("{:?}", tier.medium).to_uppercase()), ("path", tier.path.clone())];
    let of =
        |count: fn(&TierStatus) -> u64| -> Vec<Series> { all.iter().map(|one| (labels(one), count(one))).collect() };
    out.gauge("fodder_tier_used_bytes", "Bytes a tier holds", &of(|tier| tier.used_bytes))?;
    out.gauge("fodder_tier_quota_bytes", "The most bytes a tier may hold", &of(|tier| tier.quota_bytes))?;
    let health: Vec<Series> = all
        .iter()
        .flat_map(|tier| {
            ["ok", "unstable", "down"].map(|state| {
                let mut labels = labels(tier);
                labels.push(("health", state.to_owned()));
                (labels, u64::from(tier.health == state))
            })
        })
        .collect();
    out.gauge("fodder_tier_health", "1 for the state a tier is in, 0 for the others", &health)
}

fn process(out: &mut Out<'_>, scrape: &Scrape) -> fmt::Result {
    let one = |value| [(Vec::new(), value)];
    out.gauge("fodder_budget_limit_bytes", "Memory for bytes on their way", &one(scrape.engine.budget_bytes))?;
    out.gauge("fodder_budget_used_bytes", "How much of that memory is in use", &one(scrape.engine.budget_used_bytes))?;
    let members: Vec<_> =
        scrape.members.iter().map(|(state, count)| (vec![("state", state.clone())], *count)).collect();
    out.gauge("fodder_cluster_members", "Members of the cluster, as this node sees them", &members)?;
    peer::peers(out, &scrape.peers)?;
    let untaken = scrape.untaken.map(|(what, count)| (vec![("what", what.to_owned())], count));
    out.counter("fodder_untaken_job_news", "What nodes say of jobs and was not taken", &untaken)?;
    let connections = scrape.connections.map(|(door, count)| (vec![("door", door.to_owned())], count));
    out.gauge("fodder_connections", "Connections that are open", &connections)?;
    out.counter("fodder_icache_losses", "Losses accepted from iCache's clients", &one(scrape.losses))?;
    out.counter("fodder_icache_epochs", "Ends of epochs announced by iCache's clients", &one(scrape.epochs))?;
    let memory = &scrape.memory;
    out.gauge("fodder_process_resident_bytes", "Resident memory of the process", &one(memory.resident_bytes))?;
    out.gauge(
        "fodder_process_anonymous_bytes",
        "Resident memory that is not file pages",
        &one(memory.anonymous_bytes),
    )?;
    let started = scrape.started_seconds;
    out.0
        .encode_descriptor(
            "fodder_process_start_time_seconds",
            "When the node started, in seconds since 1970",
            None,
            MetricType::Gauge,
        )?
        .encode_gauge(&started)?;
    let version = [(vec![("version", scrape.version.to_owned())], 1)];
    out.gauge("fodder_build_info", "1, with the version of the program", &version)
}

/// Labels and the value under them.
type Series = (Vec<(&'static str, String)>, u64);

/// Where the text goes.
struct Out<'a>(DescriptorEncoder<'a>);

impl Out<'_> {
    /// A number that only grows; `_total` is put behind its name.
    fn counter(&mut self, name: &str, help: &str, series: &[Series]) -> fmt::Result {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in series {
            match labels.is_empty() {
                true => metric.encode_counter::<NoLabelSet, _, u64>(value, None)?,
                false => metric.encode_family(labels)?.encode_counter::<NoLabelSet, _, u64>(value, None)?,
            }
        }
        Ok(())
    }

    /// A number that goes up and down.
    fn gauge(&mut self, name: &str, help: &str, series: &[Series]) -> fmt::Result {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, value) in series {
            match labels.is_empty() {
                true => metric.encode_gauge(value)?,
                false => metric.encode_family(labels)?.encode_gauge(value)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests;
