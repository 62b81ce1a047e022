//! What scenarios share: data to read, an engine over it, orders to read in.

use anyhow::{Context, Result, ensure};
use fodder_core::{
    Dataset, Engine,
    catalog::Item,
    config::{DatasetConfig, EngineConfig, Medium, TierConfig},
    layout::Layout,
};
use fodder_policy::Policy;
use rand::{SeedableRng, rngs::SmallRng, seq::SliceRandom};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

/// The dataset's name in every scenario.
pub(crate) const NAME: &str = "bench";

/// Fills `bytes` with what no disk or file system can compress; the same for the same seed.
pub(crate) fn scramble(seed: u64, bytes: &mut [u8]) {
    let mut state = seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    for chunk in bytes.chunks_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        chunk.copy_from_slice(&state.to_le_bytes()[..chunk.len()]);
    }
}

/// Writes `count` files of `len` bytes below `dir`, in ten classes.
pub(crate) fn write_files(dir: &Path, count: usize, len: usize) -> Result<()> {
    let mut bytes = vec![0; len];
    (0..10).try_for_each(|class| fs::create_dir_all(dir.join(format!("class{class}"))))?;
    for number in 0..count {
        scramble(number as u64, &mut bytes);
        fs::write(file(dir, number), &bytes).with_context(|| format!("cannot write to {}", dir.display()))?;
    }
    Ok(())
}

/// Where [`write_files`] puts a file.
pub(crate) fn file(dir: &Path, number: usize) -> PathBuf {
    dir.join(format!("class{}/{number:06}.jpg", number % 10))
}

/// 0..len in an order that depends on the seed alone.
pub(crate) fn shuffled(len: usize, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..len).collect();
    order.shuffle(&mut SmallRng::seed_from_u64(seed));
    order
}

/// How an engine is configured in a scenario: one SSD tier in `cache_dir`.
pub(crate) fn engine_config(cache_dir: &Path, quota_bytes: u64) -> EngineConfig {
    let path = cache_dir.join("tier");
    let tiers = vec![TierConfig { path, medium: Medium::Ssd, quota_bytes }];
    EngineConfig { cache_dir: cache_dir.to_owned(), tiers, ..EngineConfig::default() }
}

/// How the dataset is configured in a scenario.
pub(crate) fn dataset_config(origin: String, layout: Layout, policy: Policy) -> DatasetConfig {
    DatasetConfig { layout, policy, ..DatasetConfig::new(NAME, origin) }
}

/// An engine with one dataset.
#[derive(Debug)]
pub(crate) struct Cache {
    /// The engine, which the dataset needs to live.
    pub(crate) engine: Arc<Engine>,
    /// Its dataset.
    pub(crate) dataset: Arc<Dataset>,
}

impl Cache {
    /// Opens an engine in `cache_dir` over files in a local directory (or any other origin).
    pub(crate) async fn open(cache_dir: &Path, quota_bytes: u64, origin: String) -> Result<Self> {
        fs::create_dir_all(cache_dir)?;
        let engine = Engine::open(engine_config(cache_dir, quota_bytes)).await?;
        let dataset = engine.add_dataset(dataset_config(origin, Layout::Files, Policy::Minio)).await?;
        Ok(Self { engine, dataset })
    }

    /// All items in order.
    pub(crate) fn items(&self) -> Result<Vec<Item>> {
        let snapshot = self.dataset.snapshot();
        Ok((0..snapshot.len()).map(|id| snapshot.item(id)).collect::<Result<_, _>>()?)
    }

    /// Reads every item until all of them are hits.
    pub(crate) async fn warm(&self) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(300);
        let mut buffer = Vec::new();
        for item in self.items()? {
            buffer.resize((item.range.end - item.range.start) as usize, 0);
            while self.dataset.try_read(item.object, item.range.start, &mut buffer).is_none() {
                ensure!(Instant::now() < deadline, "the cache was not warm after five minutes");
                self.dataset.read(item.object, item.range.clone()).await?;
            }
        }
        Ok(())
    }
}

/// The cache files below a tier, by name.
pub(crate) fn cache_files(tier: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut directories = vec![tier.join("data")];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).with_context(|| format!("cannot list {}", directory.display()))? {
            let entry = entry?;
            if entry.file_type()?.is_dir() { directories.push(entry.path()) } else { files.push(entry.path()) }
        }
    }
    Ok(files)
}

/// Lets this process open as many files as the system allows it.
pub(crate) fn raise_open_files() -> Result<()> {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).context("cannot raise the limit of open files")
}
