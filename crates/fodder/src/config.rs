//! The configuration of a node: defaults, then the file, then the environment, then flags; checked once, here.
//!
//! Each crate owns its own settings; this composes them. It starts nothing and contacts nobody.

mod file;
mod icache;
mod origin;
mod place;
#[cfg(test)]
mod tests;

use crate::cli::{ClusterArgs, EtcdArgs, LogFormat, ServeArgs};
use anyhow::{Context, Result, bail, ensure};
use fodder_core::config::{DatasetConfig, EngineConfig, Medium, Quota, TierConfig};
use fodder_server::{ClusterConfig, NodeConfig, cluster::TlsConfig};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

pub use file::{Problem, parse};
pub use origin::{dataset_name, is_origin, resolve_origin};
pub use place::{auto_size, default_cache_dir, expand_home, remember_auto_size};

/// Everything a configuration file may say.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// How much disk the cache may use; None is a share of the free disk. `20%` is a share of each dataset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_size: Option<Quota>,
    /// The cache: directory, tiers, memory, origins.
    pub engine: EngineConfig,
    /// Where it listens.
    pub node: NodeConfig,
    /// The nodes it shares its cache with.
    pub cluster: ClusterConfig,
    /// What it serves from the start.
    pub datasets: Vec<DatasetConfig>,
    /// Its log.
    pub log: LogConfig,
}

/// The log of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogConfig {
    /// A level, or a filter such as `info,fodder_core=debug`.
    pub level: String,
    /// The file; None is stderr.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// Text for people, or JSON.
    pub format: LogFormat,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { level: "info".into(), file: None, format: LogFormat::Text }
    }
}

/// A configuration with nothing left open, and what there is to say about how it came about.
#[derive(Debug, Clone, PartialEq)]
pub struct Effective {
    /// The settings.
    pub config: Config,
    /// What a file asked for that means nothing here, or something else; each is logged once.
    pub notes: Vec<String>,
    /// The size of the cache, if nobody chose one.
    pub auto_bytes: Option<u64>,
}

impl Effective {
    /// Puts defaults, file, environment and flags together and checks the result.
    pub fn new(args: &ServeArgs) -> Result<Self> {
        let (mut config, notes) = match &args.config {
            Some(path) => load(path)?,
            None => (Config::default(), Vec::new()),
        };
        apply_flags(&mut config, args)?;
        let auto_bytes = fill_in(&mut config)?;
        check(&config)?;
        Ok(Self { config, notes, auto_bytes })
    }
}

/// Reads a file: Fodder's own YAML, or iCache's, with notes on what iCache's keys became.
pub fn load(path: &Path) -> Result<(Config, Vec<String>)> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    parse(&text).map_err(|problem| anyhow::anyhow!("{}", problem.shown_in(&path.display().to_string(), &text)))
}

/// Flags and the environment, which clap has put into one.
fn apply_flags(config: &mut Config, args: &ServeArgs) -> Result<()> {
    let ServeArgs { cache_dir, cache_size, tiers, record, rest, grpc, socket, .. } = args;
    if let Some(dir) = cache_dir {
        config.engine.cache_dir = dir.clone();
    }
    if let Some(size) = cache_size {
        config.cache_size = Some(*size);
    }
    if !tiers.is_empty() {
        config.engine.tiers = tiers.iter().map(|tier| tier.0.clone()).collect();
    }
    if record.is_some() {
        config.engine.record = record.clone();
    }
    if let Some(address) = rest {
        config.node.rest = *address;
    }
    if let Some(address) = grpc {
        config.node.grpc = *address;
    }
    if socket.is_some() {
        config.node.socket = socket.clone();
    }
    apply_cluster_flags(&mut config.cluster, &args.cluster);
    anyhow::ensure!(
        args.origin.is_some() || args.listing == Default::default(),
        "the flags for listing an origin need an ORIGIN; for datasets of a configuration file, use their setting `listing`"
    );
    if let Some(origin) = &args.origin {
        let dataset = DatasetConfig {
            layout: args.layout.clone().unwrap_or_default(),
            policy: args.policy.unwrap_or_default(),
            refresh_interval: args.refresh,
            anonymous: args.anonymous,
            listing: args.listing.config(),
            ..DatasetConfig::new(args.name.clone().unwrap_or_default(), origin.clone())
        };
        let dataset = complete(dataset)?;
        config.datasets.retain(|other| other.name != dataset.name);
        config.datasets.push(dataset);
    }
    Ok(())
}

fn apply_cluster_flags(config: &mut ClusterConfig, args: &ClusterArgs) {
    let ClusterArgs {
        join,
        membership,
        advertise,
        zone,
        replicas,
        gossip,
        token_file,
        cluster_cert,
        cluster_key,
        cluster_ca,
        etcd,
    } = args;
    if !join.is_empty() {
        config.join = join.clone();
    }
    config.membership = membership.unwrap_or(config.membership);
    config.advertise = advertise.clone().or(config.advertise.take());
    config.replicas = replicas.unwrap_or(config.replicas);
    config.gossip = gossip.or(config.gossip);
    config.token_file = token_file.clone().or(config.token_file.take());
    if let (Some(cert), Some(key), Some(ca)) = (cluster_cert, cluster_key, cluster_ca) {
        config.tls = Some(TlsConfig { cert: cert.clone(), key: key.clone(), ca: ca.clone() });
    }
    if let Some(zone) = zone {
        config.zone = zone.clone();
    }
    let EtcdArgs { etcd_ca, etcd_cert, etcd_key, etcd_user, etcd_password_file } = etcd;
    for (setting, flag) in [
        (&mut config.etcd.ca, etcd_ca),
        (&mut config.etcd.cert, etcd_cert),
        (&mut config.etcd.key, etcd_key),
        (&mut config.etcd.password_file, etcd_password_file),
    ] {
        *setting = flag.clone().or(setting.take());
    }
    config.etcd.user = etcd_user.clone().or(config.etcd.user.take());
}

/// A dataset with its name and an origin that means the same in every directory.
pub fn complete(mut dataset: DatasetConfig) -> Result<DatasetConfig> {
    dataset.origin = resolve_origin(&dataset.origin)?;
    if dataset.name.is_empty() {
        dataset.name = dataset_name(&dataset.origin);
    }
    dataset.check_interval()?;
    dataset.listing.check()?;
    Ok(dataset)
}

/// Puts in what depends on this machine: the directory, the tier, its size. Says if the size was chosen here.
fn fill_in(config: &mut Config) -> Result<Option<u64>> {
    let mut auto_bytes = None;
    let engine = &mut config.engine;
    engine.cache_dir = match engine.cache_dir.as_os_str().is_empty() {
        true => default_cache_dir()?,
        false => std::path::absolute(expand_home(&engine.cache_dir)?)?,
    };
    for tier in &mut engine.tiers {
        tier.path = std::path::absolute(expand_home(&tier.path)?)?;
    }
    if engine.tiers.is_empty() {
        let quota_bytes = match config.cache_size {
            Some(Quota::Bytes(bytes)) => bytes,
            Some(Quota::Share(_)) | None => *auto_bytes.insert(auto_size(&engine.cache_dir)?),
        };
        engine.tiers = vec![TierConfig { path: engine.cache_dir.join("tier"), medium: Medium::Ssd, quota_bytes }];
    } else if let Some(Quota::Bytes(_)) = config.cache_size {
        bail!("tiers have their own sizes: leave out cache_size (--cache-size), or give a share such as 20%");
    }
    engine.tiers.sort_by_key(|tier| tier.medium);
    if config.node.socket.is_none() {
        config.node.socket = Some(engine.cache_dir.join("fodder.sock"));
    }
    for dataset in &mut config.datasets {
        *dataset = complete(dataset.clone())?;
        if dataset.quota.is_none() {
            dataset.quota = config.cache_size.filter(|size| matches!(size, Quota::Share(_)));
        }
    }
    config.cache_size = None;
    Ok(auto_bytes)
}

/// What no single setting can be blamed for, and what would fail late.
fn check(config: &Config) -> Result<()> {
    let mut names = std::collections::BTreeSet::new();
    for dataset in &config.datasets {
        check_name(&dataset.name)?;
        ensure!(
            names.insert(&dataset.name),
            "two datasets are called {:?}: give one of them another name",
            dataset.name
        );
    }
    for tier in &config.engine.tiers {
        ensure!(
            tier.quota_bytes >= MIN_TIER_BYTES,
            "the tier {} may hold only {} bytes, which is less than 16 MiB: increase the cache size (--cache-size, FODDER_CACHE_SIZE), or choose a disk with more free space (--cache-dir)",
            tier.path.display(),
            tier.quota_bytes
        );
    }
    let mut paths: Vec<_> = config.engine.tiers.iter().map(|tier| &tier.path).collect();
    paths.sort();
    if let Some(pair) = paths.windows(2).find(|pair| pair[1].starts_with(pair[0])) {
        bail!("the tiers {} and {} overlap: give each a directory of its own", pair[0].display(), pair[1].display());
    }
    config.engine.check()?;
    config.cluster.check()?;
    if let Some(socket) = &config.node.socket {
        let length = socket.as_os_str().len();
        ensure!(
            length <= MAX_SOCKET_PATH,
            "the path of the Unix socket has {length} bytes, and the system allows {MAX_SOCKET_PATH}: give a shorter path \
             with --socket ({})",
            socket.display()
        );
    }
    Ok(())
}

/// The longest path a Unix socket may have.
const MAX_SOCKET_PATH: usize = 107;
/// Less is a mistake: a handful of pieces in flight would fill it.
const MIN_TIER_BYTES: u64 = 16 << 20;

/// Dataset names become file names and parts of URLs.
pub fn check_name(name: &str) -> Result<()> {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    ensure!(
        !name.is_empty() && name.len() <= 64 && name.chars().all(good) && !name.starts_with('.'),
        "{name:?} cannot be a dataset's name: use letters, digits, `-`, `_` and `.`, at most 64, not beginning with `.`"
    );
    Ok(())
}
