//! What ten million items cost in memory, mapped pages counted, beside their front-coded names: the catalog, the
//! tier's index and the policy, each by its own account, and the process's resident memory as a second opinion.

use super::Setting;
use crate::{
    bucket,
    outcome::{Line, Target},
    process::{self, Process},
};
use anyhow::{Context, Result};
use clap::Args;
use fodder_core::{
    catalog::{Catalog, RefreshRules},
    config::{Medium, TierConfig},
    layout::Layout,
    origin::{Origin, OriginOptions},
    tier::Tier,
};
use fodder_policy::Policy;
use serde::{Deserialize, Serialize};
use std::{
    fs,
    hint::black_box,
    path::{Path, PathBuf},
};

const ALLOWED_BYTES: f64 = 40.0;

/// Measures it.
pub(super) fn run(setting: &Setting) -> Result<Vec<Line>> {
    let workspace = setting.workspace()?;
    let items: u64 = setting.choose(10_000_000, 200_000);
    let catalog = workspace.path().join("catalog");
    build_catalog(&catalog, items)?;
    let mut lines = Vec::new();
    for policy in [Policy::Minio, Policy::Lru] {
        let arguments = ["weigh", "--policy", policy.name(), "--place", text(workspace.path())?];
        let weight: Weight = serde_json::from_str(&Process::start(&arguments)?.answer()?)?;
        let part = |bytes: u64| bytes as f64 / items as f64;
        let own = part(weight.catalog) + part(weight.tier) + part(weight.policy);
        let mut line = |what: String, value, against: &str, other, target| {
            lines.push(Line::new(what, "B/item", value, against, other, target));
        };
        let millions = items as f64 / 1e6;
        let total = format!("catalog + index + {policy}, {millions} M items");
        line(total, own, "allowed", ALLOWED_BYTES, Target::AtMost(1.0));
        for (what, bytes) in [("  catalog", weight.catalog), ("  tier index", weight.tier), ("  policy", weight.policy)]
        {
            line(what.into(), part(bytes), "all of these", own, Target::Context);
        }
        let resident = part(weight.resident_after.saturating_sub(weight.resident_before));
        let with_names = own + part(weight.names);
        line("  resident, names included".into(), resident, "own account and names", with_names, Target::Context);
    }
    Ok(lines)
}

fn build_catalog(dir: &Path, items: u64) -> Result<()> {
    let uri = bucket::serve(items, 110_000)?;
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        let origin = Origin::open(&uri, &OriginOptions { anonymous: true, ..OriginOptions::default() }).await?;
        Catalog::build(dir, &identity(), &Layout::Files, &origin, &RefreshRules::default()).await?;
        Ok(())
    })
}

fn identity() -> blake3::Hash {
    blake3::hash(b"bytes-per-item")
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("the directory's name is text")
}

/// What a process found when it opened the catalog.
#[derive(Debug, Serialize, Deserialize)]
struct Weight {
    catalog: u64,
    tier: u64,
    policy: u64,
    names: u64,
    resident_before: u64,
    resident_after: u64,
}

/// A process that opens a catalog, puts a tier and a policy beside it, and says what they weigh.
#[derive(Debug, Args)]
pub(crate) struct WeighArguments {
    /// The policy.
    #[arg(long)]
    policy: Policy,
    /// Where the catalog is, and a tier can be.
    #[arg(long)]
    place: PathBuf,
}

impl WeighArguments {
    /// The child's side.
    pub(crate) fn run(self) -> Result<()> {
        let dir = self.place.join("catalog");
        let resident_before = resident()?;
        let catalog = Catalog::open(&dir, &identity(), &Layout::Files)?.context("the catalog was just built")?;
        let (objects, snapshot) = (catalog.objects(), catalog.current());
        let path = self.place.join(format!("tier-{}", self.policy));
        let tier = Tier::open(&TierConfig { path, medium: Medium::Ssd, quota_bytes: 1 << 30 })?;
        let shelf = tier.attach("bench", objects.clone())?;
        let mut policy = self.policy.build();
        (0..objects.pieces()).for_each(|piece| policy.inserted(piece, 1));
        for id in 0..snapshot.len() {
            let item = snapshot.item(id)?;
            black_box((objects.path(item.object), objects.version(item.object)));
        }
        let catalog_bytes = objects.memory_bytes() + snapshot.memory_bytes();
        let weight = Weight {
            catalog: catalog_bytes as u64,
            tier: (tier.memory_bytes() + shelf.memory_bytes()) as u64,
            policy: policy.memory_bytes() as u64,
            names: size_of_files(&dir)?.saturating_sub(catalog_bytes as u64),
            resident_before,
            resident_after: resident()?,
        };
        process::say(&serde_json::to_string(&weight)?)
    }
}

/// Bytes of this process that are in memory, mapped files included.
fn resident() -> Result<u64> {
    let pages = fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = pages.split(' ').nth(1).context("statm has a second field")?.parse()?;
    Ok(pages * rustix::param::page_size() as u64)
}

fn size_of_files(dir: &Path) -> Result<u64> {
    fs::read_dir(dir)?.map(|entry| Ok(entry?.metadata()?.len())).sum()
}
