//! A small world for engine tests: an origin directory that changes, an engine over it that restarts.

use fodder_core::{
    Dataset, Engine, Error, Result,
    config::{DatasetConfig, EngineConfig, Medium, Quota, TierConfig, Tuning},
    id::ObjectSlot,
    layout::Layout,
};
use fodder_policy::Policy;
use futures::TryStreamExt;
use std::{
    collections::BTreeMap,
    fs,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};
use tempfile::TempDir;

pub struct World {
    pub dir: TempDir,
    pub mem: Option<TempDir>,
    pub origin_prefix: String,
    pub policy: Policy,
    pub layout: Layout,
    pub quota_bytes: u64,
    /// The dataset's own share of the tiers.
    pub quota: Option<Quota>,
    pub tuning: Tuning,
    /// What the origin holds now.
    pub origin: BTreeMap<String, Vec<u8>>,
    clock: u64,
}

impl World {
    pub fn new(policy: Policy, quota_bytes: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("origin")).unwrap();
        Self {
            dir,
            mem: None,
            origin_prefix: String::new(),
            policy,
            layout: Layout::Files,
            quota_bytes,
            quota: None,
            tuning: Tuning::default(),
            origin: BTreeMap::new(),
            clock: 0,
        }
    }

    pub fn origin_dir(&self) -> PathBuf {
        self.dir.path().join("origin")
    }

    pub fn tier_dirs(&self) -> Vec<PathBuf> {
        let mem = self.mem.as_ref().map(|mem| mem.path().join("tier"));
        mem.into_iter().chain([self.dir.path().join("cache/tier")]).collect()
    }

    /// Puts an object at the origin as a careful writer does: a new file, renamed into place.
    pub fn put(&mut self, path: &str, bytes: Vec<u8>) {
        let target = self.origin_dir().join(path);
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        let temp = self.dir.path().join("upload");
        fs::write(&temp, &bytes).unwrap();
        self.clock += 1;
        let stamp = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 + self.clock);
        fs::File::options().write(true).open(&temp).unwrap().set_modified(stamp).unwrap();
        fs::rename(temp, target).unwrap();
        self.origin.insert(path.to_owned(), bytes);
    }

    pub fn remove(&mut self, path: &str) {
        fs::remove_file(self.origin_dir().join(path)).unwrap();
        self.origin.remove(path);
    }

    pub fn engine_config(&self) -> EngineConfig {
        let medium = |path: &Path| if path.starts_with("/dev/shm") { Medium::Mem } else { Medium::Ssd };
        let tier = |path: PathBuf| TierConfig { medium: medium(&path), path, quota_bytes: self.quota_bytes };
        EngineConfig {
            cache_dir: self.dir.path().join("cache"),
            tiers: self.tier_dirs().into_iter().map(tier).collect(),
            memory_budget_bytes: 32 << 20,
            ..EngineConfig::default()
        }
    }

    pub fn dataset_config(&self) -> DatasetConfig {
        let origin = format!("{}{}", self.origin_prefix, self.origin_dir().display());
        DatasetConfig {
            layout: self.layout.clone(),
            policy: self.policy,
            quota: self.quota,
            tuning: self.tuning.clone(),
            ..DatasetConfig::new("world", origin)
        }
    }

    pub async fn start(&self) -> Result<(Arc<Engine>, Arc<Dataset>)> {
        let engine = Engine::open(self.engine_config()).await?;
        let dataset = engine.add_dataset(self.dataset_config()).await?;
        Ok((engine, dataset))
    }

    /// Blocks on disk of all tiers, as `du` counts them.
    pub fn du_bytes(&self, tier: &Path) -> u64 {
        fn walk(path: &Path) -> u64 {
            use std::os::unix::fs::MetadataExt;
            let Ok(meta) = fs::symlink_metadata(path) else { return 0 };
            let below = if meta.is_dir() { fs::read_dir(path) } else { return meta.blocks() * 512 };
            let below: u64 = below.into_iter().flatten().flatten().map(|entry| walk(&entry.path())).sum();
            meta.blocks() * 512 + below
        }
        walk(tier)
    }
}

/// Reads a range by whichever way fits.
pub async fn read(dataset: &Arc<Dataset>, object: ObjectSlot, range: Range<u64>, stream: bool) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if stream {
        let mut replies = dataset.read_stream(object, range);
        while let Some(reply) = replies.try_next().await? {
            reply.segments.iter().for_each(|segment| bytes.extend_from_slice(segment));
        }
    } else {
        let reply = dataset.read(object, range).await?;
        reply.segments.iter().for_each(|segment| bytes.extend_from_slice(segment));
    }
    Ok(bytes)
}

/// Whether a failed read may be put down to the origin and not to the cache.
pub fn is_origins_fault(error: &Error) -> bool {
    matches!(error, Error::Stale(_) | Error::NotFound(_) | Error::Unavailable(_))
}

/// Bytes that tell their path and version apart at every offset.
pub fn content(path: &str, version: u64, len: usize) -> Vec<u8> {
    let seed = path.bytes().fold(version.wrapping_mul(0x9e37_79b9_7f4a_7c15), |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (0..len.div_ceil(8) as u64)
        .flat_map(|word| (seed ^ word.wrapping_mul(0xd6e8_feb8_6659_fd93)).rotate_left(23).to_le_bytes())
        .take(len)
        .collect()
}
