//! How long a node takes to come back to a million cached items: the time to open the engine and its dataset in a new
//! process, by which everything that was cached is served again.

use super::Setting;
use crate::{
    bucket, fixture,
    outcome::{Line, Target, median},
    process::{self, Process},
};
use anyhow::{Context, Result, ensure};
use clap::Args;
use fodder_core::{
    Engine,
    config::{DatasetConfig, EngineConfig},
    id::PieceId,
    layout::Layout,
    tier::Tier,
};
use fodder_policy::Policy;
use std::{
    path::{Path, PathBuf},
    time::Instant,
};

const QUOTA_BYTES: u64 = 20 << 30;

/// Measures it.
pub(super) fn run(setting: &Setting) -> Result<Vec<Line>> {
    let workspace = setting.workspace()?;
    let items: u64 = setting.choose(1_000_000, 20_000);
    let uri = bucket::serve(items, 1)?;
    fill(workspace.path(), &uri)?;
    let mut lines = Vec::new();
    for policy in [Policy::Minio, Policy::Lru] {
        let seconds = (0..setting.choose(5, 1)).map(|_| reopen(workspace.path(), &uri, policy, items));
        let seconds = seconds.collect::<Result<Vec<_>>>()?;
        let per_million = median(&seconds) * 1e6 / items as f64;
        let what = format!("open with {} k items cached, {policy}", items / 1000);
        lines.push(Line::new(what, "s/million", per_million, "allowed", 1.0, Target::AtMost(1.0)));
    }
    Ok(lines)
}

fn configs(dir: &Path, uri: &str, policy: Policy) -> (EngineConfig, DatasetConfig) {
    let mut dataset = fixture::dataset_config(uri.into(), Layout::Files, policy);
    dataset.anonymous = true;
    (fixture::engine_config(dir, QUOTA_BYTES), dataset)
}

/// Builds the catalog as a node does, then puts every piece into the tier without asking the origin.
fn fill(dir: &Path, uri: &str) -> Result<()> {
    let (engine_config, dataset_config) = configs(dir, uri, Policy::Minio);
    let runtime = tokio::runtime::Runtime::new()?;
    let objects = runtime.block_on(async {
        let engine = Engine::open(engine_config.clone()).await?;
        let objects = engine.add_dataset(dataset_config).await?.objects();
        engine.shutdown().await;
        anyhow::Ok(objects)
    })?;
    let tier = Tier::open(&engine_config.tiers[0])?;
    let shelf = tier.attach(fixture::NAME, objects.clone())?;
    for piece in (0..objects.pieces()).map(PieceId) {
        let reservation = shelf.reserve(shelf.cost(piece)).context("the tier is full")?;
        shelf.write(piece, &[&[piece.0 as u8]], reservation)?;
    }
    tier.close();
    Ok(())
}

/// Seconds a new process needs to open everything.
fn reopen(dir: &Path, uri: &str, policy: Policy, items: u64) -> Result<f64> {
    let dir = dir.to_str().context("the directory's name is text")?;
    let answer = Process::start(&["reopen", "--policy", policy.name(), "--place", dir, "--uri", uri])?.answer()?;
    let (seconds, pieces) = answer.split_once(' ').context("SECONDS PIECES")?;
    ensure!(pieces.parse() == Ok(items), "only {pieces} of {items} pieces came back");
    Ok(seconds.parse()?)
}

/// A process that opens a cache and says how long it took.
#[derive(Debug, Args)]
pub(crate) struct ReopenArguments {
    /// The policy.
    #[arg(long)]
    policy: Policy,
    /// The cache directory.
    #[arg(long)]
    place: PathBuf,
    /// The dataset's origin.
    #[arg(long)]
    uri: String,
}

impl ReopenArguments {
    /// The child's side.
    pub(crate) fn run(self) -> Result<()> {
        let (engine_config, dataset_config) = configs(&self.place, &self.uri, self.policy);
        let runtime = tokio::runtime::Runtime::new()?;
        runtime.block_on(async {
            let start = Instant::now();
            let engine = Engine::open(engine_config).await?;
            let dataset = engine.add_dataset(dataset_config).await?;
            let seconds = start.elapsed().as_secs_f64();
            process::say(&format!("{seconds} {}", dataset.status().cached_pieces))?;
            engine.shutdown().await;
            Ok(())
        })
    }
}
