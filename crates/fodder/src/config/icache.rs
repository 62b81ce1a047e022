//! iCache's configuration file, read as what it means here. docs/CONFIGURATION.md has the same table for people.
//!
//! Nothing is dropped silently: every key that has no meaning here becomes a note that says why.

use super::{Config, Problem, file};
use fodder_core::config::{DatasetConfig, Quota};
use fodder_policy::Policy;
use fodder_server::cluster::{Way, membership::Seed};
use serde::Deserialize;
use serde_yaml_ng::Mapping;
use std::net::{IpAddr, Ipv4Addr};

/// iCache's keys. `node` and `cluster` are sections of Fodder's own, and texts in iCache's.
pub(super) const KEYS: [&str; 21] = [
    "name",
    "node",
    "cluster",
    "clusterinfo_refresh_interval",
    "uuid",
    "restport",
    "restadminport",
    "rpcport",
    "gossipport",
    "cache_ratio",
    "cache_type",
    "dcserver_data_path",
    "async_building_task",
    "package_design",
    "loading_cache_size",
    "etcd_nodes",
    "multijob_support",
    "debug",
    "enableadmin",
    "logpath",
    "us_ratio",
];

/// Whether a file is iCache's: it has one of its keys, and none of Fodder's sections.
pub(super) fn is_icache(mapping: &Mapping) -> bool {
    let ours = ["engine", "datasets", "cache_size", "log"].iter().any(|key| mapping.contains_key(*key));
    let ours = ours || mapping.get("cluster").is_some_and(|cluster| cluster.is_mapping());
    let theirs = mapping.iter().any(|(key, value)| match key.as_str() {
        Some("node" | "cluster") => value.is_string(),
        Some(key) => KEYS.contains(&key),
        None => false,
    });
    theirs && !ours
}

/// iCache's keys. Those that have no meaning here are taken as they come.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct File {
    name: Anything,
    cluster: Option<String>,
    clusterinfo_refresh_interval: Anything,
    node: Option<String>,
    uuid: Anything,
    restport: Option<u16>,
    restadminport: Anything,
    rpcport: Option<u16>,
    gossipport: Option<u16>,
    cache_ratio: Option<f64>,
    cache_type: Option<String>,
    dcserver_data_path: Option<String>,
    async_building_task: Anything,
    package_design: Option<bool>,
    loading_cache_size: Anything,
    etcd_nodes: Anything,
    multijob_support: Anything,
    debug: bool,
    enableadmin: bool,
    logpath: Option<String>,
    us_ratio: Anything,
}

type Anything = Option<serde_yaml_ng::Value>;

/// The same configuration in Fodder's words, and notes on what could not be said in them.
pub(super) fn translate(text: &str, mapping: &Mapping) -> Result<(Config, Vec<String>), Problem> {
    let file: File = serde_yaml_ng::from_str(text).map_err(|error| file::explain(&error, text))?;
    let problem = |key: &str, message: String| Problem { line: line_of(text, key), message };
    let mut config = Config::default();

    if let Some(node) = file.node.filter(|node| !node.is_empty()) {
        let host = host(&node).ok_or_else(|| {
            problem("node", format!("node: {node:?} is not an IP address: write one such as 127.0.0.1"))
        })?;
        config.node.rest.set_ip(host);
        config.node.grpc.set_ip(host);
    }
    if let Some(port) = file.restport {
        config.node.rest.set_port(port);
    }
    if let Some(port) = file.rpcport {
        config.node.grpc.set_port(port);
    }
    if let Some(package_design) = file.package_design {
        config.node.icache.package_design = package_design;
    }
    if file.enableadmin {
        let message = "enableadmin: there is no separate admin server: statistics and administration are on the REST port, \
                       under /metrics and /api/v1; set it to false";
        return Err(problem("enableadmin", message.into()));
    }
    if file.debug {
        config.log.level = "debug".into();
    }
    if let Some(path) = file.logpath.filter(|path| !path.is_empty()) {
        let is_file = path.ends_with(".log");
        config.log.file = Some(if is_file { path.into() } else { std::path::Path::new(&path).join("fodder.log") });
    }
    let quota = match file.cache_ratio {
        Some(ratio) if ratio > 0.0 && ratio <= 1.0 => Some(Quota::Share(ratio)),
        Some(ratio) => {
            return Err(problem("cache_ratio", format!("cache_ratio: must be above 0 and at most 1, not {ratio}")));
        }
        None => None,
    };
    let policy = match file.cache_type.as_deref() {
        Some(kind) => policy(kind).ok_or_else(|| {
            let known = ["lru", "lfu", "isa", "quiver", "semantic", "coordl"];
            problem("cache_type", format!("cache_type: unknown value {kind:?}{}", file::suggestion(kind, &known)))
        })?,
        None => Policy::default(),
    };
    match file.dcserver_data_path.filter(|path| !path.is_empty()) {
        Some(origin) => {
            let dataset = DatasetConfig { policy, quota, ..DatasetConfig::new("", origin) };
            let dataset = super::complete(dataset).map_err(|error| problem("dcserver_data_path", error.to_string()))?;
            config.datasets.push(dataset);
        }
        None => config.cache_size = quota,
    }
    let mut notes: Vec<_> = mapping.iter().filter_map(|(key, value)| meaningless(key.as_str()?, value)).collect();
    let wrong = |message| problem("etcd_nodes", format!("etcd_nodes: {message}"));
    notes.extend(join_by_etcd(&mut config, file.etcd_nodes.as_ref()).map_err(wrong)?);
    let wrong = |message| problem("cluster", format!("cluster: {message}"));
    notes.extend(join_by_gossip(&mut config, file.cluster.as_deref(), file.gossipport).map_err(wrong)?);
    Ok((config, notes))
}

/// The cluster of the nodes that gossip with the one that `cluster` names, as iCache's memberlist does; or a note why
/// `gossipport` is not used.
fn join_by_gossip(config: &mut Config, cluster: Option<&str>, port: Option<u16>) -> Result<Option<String>, String> {
    let cluster = cluster.map(str::trim).filter(|cluster| !cluster.is_empty());
    if config.cluster.membership == Way::Etcd {
        let key = if cluster.is_some() { "cluster" } else { "gossipport" };
        let is_set = cluster.is_some() || port.is_some();
        return Ok(is_set.then(|| format!("{key} has no effect: nodes find each other through etcd_nodes")));
    }
    let Some(cluster) = cluster else {
        return Ok(port.map(|_| "gossipport has no effect: cluster names no node to gossip with".into()));
    };
    let seeds = Seed::parse(cluster, port)?;
    let ip = config.node.grpc.ip();
    if ip.is_loopback() && !seeds.iter().all(Seed::is_here) {
        return Ok(Some(format!("cluster has no effect: no other machine reaches a node that listens at {ip}")));
    }
    config.cluster.membership = Way::Gossip;
    config.cluster.gossip = port.map(|port| (ip, port).into());
    let seed = |one: &str| match port {
        Some(port) if !one.contains(':') => format!("{one}:{port}"),
        _ => one.to_owned(),
    };
    config.cluster.join = cluster.split(',').map(|one| seed(one.trim())).collect();
    Ok(None)
}

/// The cluster of the nodes that name the same etcd; or a note why the node is in none.
fn join_by_etcd(config: &mut Config, nodes: Option<&serde_yaml_ng::Value>) -> Result<Option<String>, String> {
    let text = match nodes {
        Some(serde_yaml_ng::Value::String(text)) => text.replace([';', ' '], ","),
        Some(serde_yaml_ng::Value::Sequence(list)) => {
            list.iter().filter_map(|one| one.as_str()).collect::<Vec<_>>().join(",")
        }
        _ => String::new(),
    };
    let servers: Vec<_> = text.split(',').filter(|one| !one.is_empty()).collect();
    let text = servers.iter().map(|one| one.trim_start_matches("http://")).collect::<Vec<_>>().join(",");
    if text.is_empty() {
        return Ok(None);
    }
    let seeds = Seed::parse(&text, None)?;
    if config.node.grpc.ip().is_loopback() && !seeds.iter().all(Seed::is_here) {
        let ip = config.node.grpc.ip();
        return Ok(Some(format!("etcd_nodes has no effect: no other machine reaches a node that listens at {ip}")));
    }
    config.cluster.membership = Way::Etcd;
    config.cluster.join = vec![text];
    Ok(None)
}

/// The policy for a `cache_type`. None: no such type.
fn policy(kind: &str) -> Option<Policy> {
    Some(match kind {
        "lru" => Policy::Lru,
        "lfu" => Policy::Lfu,
        "coordl" => Policy::Minio,
        "isa" => Policy::Importance,
        "quiver" => Policy::Quiver,
        "semantic" => Policy::Semantic,
        _ => return None,
    })
}

/// Why a key means nothing here; None for keys that do, and for values that ask for nothing.
fn meaningless(key: &str, value: &serde_yaml_ng::Value) -> Option<String> {
    let asks_nothing = value.is_null() || value.as_str() == Some("") || value.as_bool() == Some(false);
    let why = match key {
        _ if asks_nothing => return None,
        "uuid" => "a node is known by its addresses",
        "name" => "a node has no name beside its addresses",
        "clusterinfo_refresh_interval" => "cluster.heartbeat says how often nodes hear of each other",
        "restadminport" => "administration is on the REST port, under /api/v1",
        "async_building_task" => "importance is updated without a pool of builders",
        "us_ratio" => "the dataset's tuning.importance.low_region is the share of unimportant samples",
        "loading_cache_size" => "memory for bytes on their way is bounded by engine.memory_budget",
        "multijob_support" => "several jobs may always share a node",
        _ => return None,
    };
    Some(format!("{key} has no effect: {why}"))
}

fn host(node: &str) -> Option<IpAddr> {
    if node == "localhost" { Some(Ipv4Addr::LOCALHOST.into()) } else { node.parse().ok() }
}

fn line_of(text: &str, key: &str) -> Option<usize> {
    text.lines().position(|line| line.starts_with(key)).map(|index| index + 1)
}
