//! iCache's doors: its gRPC operator and its REST paths, so that its clients work against a node unchanged.
//!
//! iCache serves one dataset, knows samples by number and counts its cache in samples; this module translates. Its
//! bugs are not part of the interface: a job's end ends only the job, and a hit is a hit. What must not be here:
//! decisions about what is cached or which sample answers; the jobs of the dataset make them.

mod implicit;
mod importance;
mod job;
mod operator;
mod place;
pub(crate) mod rest;
mod sample;

pub(crate) use operator::service;

use fodder_core::job::Mode;
use fodder_core::{
    Dataset, Engine, Error, Result,
    config::Quota,
    engine::{DatasetStatus, TierStatus},
    layout::Layout,
};
use fodder_policy::Policy;
use implicit::Implicit;
use job::JobTable;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// What a user may set about iCache's doors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct IcacheConfig {
    /// The dataset that iCache's clients read. None: the only one of layout `files`.
    pub dataset: Option<String>,
    /// Whether cached samples may stand in for unimportant ones, with the policy `importance`.
    pub package_design: bool,
}

impl Default for IcacheConfig {
    fn default() -> Self {
        Self { dataset: None, package_design: true }
    }
}

/// What iCache's doors keep: the choice of a dataset, the jobs that introduced themselves and those that did not, what
/// was counted.
#[derive(Debug, Default)]
pub(crate) struct Icache {
    config: IcacheConfig,
    /// The name that was chosen first: a dataset that is added later must not change what a running job reads.
    chosen: Mutex<Option<String>>,
    jobs: Mutex<JobTable>,
    implicit: Implicit,
    losses: AtomicU64,
    epochs: AtomicU64,
    /// Samples that were sent and another node's cache had.
    remote_hits: AtomicU64,
}

impl Icache {
    /// Doors with nothing counted yet.
    pub(crate) fn new(config: IcacheConfig) -> Self {
        Self { config, ..Self::default() }
    }

    /// Losses that were accepted.
    pub(crate) fn losses(&self) -> u64 {
        self.losses.load(Ordering::Relaxed)
    }

    /// Ends of epochs that were announced.
    pub(crate) fn epochs(&self) -> u64 {
        self.epochs.load(Ordering::Relaxed)
    }

    /// Whether another sample may answer a request for an unimportant one.
    fn may_substitute(&self, dataset: &Dataset) -> bool {
        self.config.package_design && dataset.config().policy == Policy::Importance
    }

    /// A job of the dataset for one that introduced itself at `/mjob`.
    fn introduce(&self, engine: &Engine, uuid: &str) -> Result<()> {
        if [implicit::SAMPLER, implicit::ANY].contains(&uuid) {
            return Err(Error::Conflict(format!("the name {uuid:?} is reserved: use the uuid that op=INIT returned")));
        }
        let job = implicit::introduction(uuid.to_owned(), Mode::Strict, Some(JobTable::KEEP_SILENT));
        self.dataset(engine)?.jobs().introduce(job).map(drop)
    }

    /// The job is alive. It comes back if the dataset has forgotten it, as after a restart of the dataset.
    fn renew(&self, engine: &Engine, uuid: &str) -> Result<()> {
        let dataset = self.dataset(engine)?;
        match dataset.jobs().find(uuid) {
            Some(job) => dataset.jobs().renew(job),
            None => self.introduce(engine, uuid),
        }
    }

    /// Jobs are over. One that the dataset does not know any more has nothing to end.
    fn leave(&self, engine: &Engine, uuids: impl IntoIterator<Item = String>) {
        let Ok(dataset) = self.dataset(engine) else { return };
        for job in uuids.into_iter().filter_map(|uuid| dataset.jobs().find(&uuid)) {
            if let Err(error) = dataset.jobs().leave(job) {
                tracing::debug!(%job, %error, "cannot end a finished job");
            }
        }
    }

    /// The dataset that iCache's clients read.
    fn dataset(&self, engine: &Engine) -> Result<Arc<Dataset>> {
        if let Some(name) = &self.config.dataset {
            return engine.dataset(name);
        }
        let mut chosen = self.chosen.lock();
        if let Some(dataset) = chosen.as_deref().and_then(|name| engine.dataset(name).ok()) {
            return Ok(dataset);
        }
        let mut files: Vec<_> =
            engine.datasets().into_iter().filter(|dataset| dataset.config().layout == Layout::Files).collect();
        match files.len() {
            1 => {
                let dataset = files.remove(0);
                *chosen = Some(dataset.config().name.clone());
                Ok(dataset)
            }
            0 if engine.is_starting() => Err(Error::Unavailable(
                "the node is starting and has no dataset of layout `files` yet: try again in a moment".into(),
            )),
            0 => Err(Error::NotFound(
                "iCache's clients need a dataset of layout `files`, and this node has none: add one".into(),
            )),
            _ => {
                let names: Vec<_> = files.iter().map(|dataset| dataset.config().name.as_str()).collect();
                Err(Error::Conflict(format!(
                    "iCache's clients cannot name a dataset, and this node has several ({}): set `node.icache.dataset`",
                    names.join(", ")
                )))
            }
        }
    }
}

/// How many samples of a dataset fit into its part of the cache, by the mean size of its samples.
///
/// iCache counts its cache in samples (`cache_ratio` of them) and its client sizes its windows by that number; a node
/// counts bytes, so this is an estimate, and exact where all samples are of one size.
fn capacity_samples(dataset: &DatasetStatus, tiers: &[TierStatus], datasets: usize) -> u64 {
    let fits = match dataset.config.quota {
        Some(Quota::Share(share)) => (dataset.items as f64 * share.clamp(0.0, 1.0)) as u64,
        Some(Quota::Bytes(bytes)) => samples_in(bytes, dataset),
        None => {
            let quota: u64 = tiers.iter().map(|tier| tier.quota_bytes).sum();
            samples_in(quota / datasets.max(1) as u64, dataset)
        }
    };
    fits.min(dataset.items)
}

fn samples_in(bytes: u64, dataset: &DatasetStatus) -> u64 {
    let fits = u128::from(dataset.items) * u128::from(bytes) / u128::from(dataset.total_bytes.max(1));
    u64::try_from(fits).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
