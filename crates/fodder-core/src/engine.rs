//! The engine of a node: its datasets over its tiers.

mod adopt;
mod ahead;
mod convoy;
mod dataset;
mod demand;
mod disk;
mod evict;
mod fetch;
mod flight;
mod guess;
mod guest;
mod held;
mod hold;
pub mod job;
mod life;
mod lock;
mod meter;
mod misfit;
pub mod peer;
mod pins;
mod read;
mod readahead;
mod record;
mod release;
mod retired;
mod revalidate;
mod scrub;
mod segment;
mod shared;
mod shutdown;
mod space;
mod staging;
mod stamps;
mod stats;
mod stock;
mod view;
pub mod warm;

pub use convoy::Convoy;
pub use dataset::Dataset;
pub use fodder_policy::advise::{Advice, Limit, Row as AdviceRow};
pub use fodder_policy::readahead::{Pattern, ReaderId};
pub use meter::Reader;
pub use stats::{
    DatasetStats, DatasetStatus, EngineStatus, EvictRemainder, EvictReport, Residence, TierStatus, VerifyReport,
};
pub use view::View;

use crate::{
    Error, Result,
    catalog::{Catalog, RefreshRules},
    config::{DatasetConfig, EngineConfig, Medium, Quota, TierConfig},
    origin::{Origin, OriginOptions},
    tier::Health,
};
use bytes::Bytes;
use lock::DirLock;
use parking_lot::{Mutex, RwLock};
use serde::Serialize;
use shared::Shared;
use space::Space;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::PathBuf,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::JoinHandle,
};

/// Where the bytes of a reply came from. When a reply has several sources, the slowest is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// A tier of this node: a plain hit.
    Tier(Medium),
    /// A tier of this node, where it had been put before anybody asked for it: by plan, or on a guess.
    Prefetched,
    /// A tier of this node, for a job that had asked for another item.
    Substituted,
    /// A fetch that another reader had already started.
    Joined,
    /// Another node.
    Peer,
    /// The origin, and the bytes stay in the cache.
    Origin,
    /// The origin, and the policy (or a full disk) kept the bytes out of the cache.
    Bypass,
}

/// The answer to a read: the bytes, in order, in as many segments as they came.
#[derive(Debug)]
pub struct Reply {
    /// The bytes. Their memory counts against the budget until the last segment is dropped.
    pub segments: Vec<Bytes>,
    /// Where they came from.
    pub source: Source,
}

/// One node's cache: datasets over tiers.
#[derive(Debug)]
pub struct Engine {
    config: EngineConfig,
    lock: Mutex<DirLock>,
    /// The tiers, fastest first.
    spaces: Vec<Arc<Space>>,
    datasets: RwLock<BTreeMap<String, Arc<Dataset>>>,
    /// Names of datasets that are still to be added while the node starts.
    expected: RwLock<BTreeSet<String>>,
    /// Readers are to ask again in a moment.
    holds_readers: AtomicBool,
    /// Datasets are added and removed one at a time.
    changing: tokio::sync::Mutex<()>,
    watcher: OnceLock<Watcher>,
    shared: Arc<Shared>,
    scrubber: Mutex<Option<JoinHandle<()>>>,
}

/// Is shown the datasets when they change.
#[derive(Clone)]
struct Watcher(Arc<Watch>);

type Watch = dyn Fn(&[Arc<Dataset>]) + Send + Sync;

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watcher")
    }
}

impl Engine {
    /// Locks the cache directory and opens the tiers. No dataset yet.
    pub async fn open(config: EngineConfig) -> Result<Arc<Self>> {
        config.check()?;
        let lock = DirLock::take(&config.cache_dir)?;
        let mut tiers = config.tiers.clone();
        if tiers.is_empty() {
            tiers.push(default_tier(&config)?);
        }
        tiers.sort_by_key(|tier| tier.medium);
        let idle_after = config.idle_after;
        let open = move || tiers.iter().map(|tier| Space::open(tier, idle_after).map(Arc::new)).collect();
        let spaces: Result<Vec<_>> = on_blocking_thread(open).await;
        let spaces = spaces?;
        let shared = Shared::start(&config)?;
        let engine = Arc::new(Self {
            lock: Mutex::new(lock),
            spaces,
            datasets: RwLock::default(),
            expected: RwLock::default(),
            holds_readers: AtomicBool::new(false),
            changing: tokio::sync::Mutex::default(),
            watcher: OnceLock::new(),
            shared,
            scrubber: Mutex::default(),
            config,
        });
        let scrubber = scrub::start(&engine);
        let scrubber = scrubber.map_err(|error| Error::Unavailable(format!("cannot start a thread: {error}")))?;
        *engine.scrubber.lock() = Some(scrubber);
        Ok(engine)
    }

    /// Leaves a note for whoever finds the cache directory held: who we are and where we listen.
    pub fn announce(&self, note: &str) -> Result<()> {
        self.lock.lock().note(note)
    }

    /// What it was opened with.
    pub fn config(&self) -> &EngineConfig {
        &self.config
    }

    /// Has all datasets shown now and after every change, before whoever made the change is answered. On a thread that may
    /// wait for a disk. Only the first watcher counts.
    pub async fn watch(&self, watcher: impl Fn(&[Arc<Dataset>]) + Send + Sync + 'static) -> Result<()> {
        let _one_at_a_time = self.changing.lock().await;
        self.watcher.get_or_init(|| Watcher(Arc::new(watcher)));
        self.show().await
    }

    async fn show(&self) -> Result<()> {
        let Some(Watcher(watcher)) = self.watcher.get().cloned() else { return Ok(()) };
        let datasets = self.datasets();
        on_blocking_thread(move || {
            watcher(&datasets);
            Ok(())
        })
        .await
    }

    /// Names datasets that are about to be added: until they are, whoever asks for one is told to ask again. The names that
    /// were expected before are not any more.
    pub fn expect(&self, names: impl IntoIterator<Item = String>) {
        let mut expected = self.expected.write();
        *expected = names.into_iter().collect();
        self.spaces.iter().for_each(|space| space.await_datasets(!expected.is_empty()));
        // A client can report its leases once its dataset is there.
        self.begin_lease_recovery();
    }

    /// Whether datasets are still to be added.
    pub fn is_starting(&self) -> bool {
        !self.expected.read().is_empty()
    }

    /// Adds a dataset: reopens its catalog, or lists the origin. Adding it twice alike is fine;
    /// [`Error::Conflict`] if the name is taken by something else. Dropping the future stops the listing; once the listing is
    /// complete, the dataset is added in any case.
    pub async fn add_dataset(self: &Arc<Self>, config: DatasetConfig) -> Result<Arc<Dataset>> {
        check(&config)?;
        let (engine, rules) = (Arc::clone(self), RefreshRules::default());
        let _cancel_when_dropped = rules.cancel.clone().drop_guard();
        self.shared.to_its_end(&self.shared.closing, async move { engine.add_dataset_here(config, &rules).await }).await
    }

    async fn add_dataset_here(&self, config: DatasetConfig, rules: &RefreshRules) -> Result<Arc<Dataset>> {
        let _one_at_a_time = self.changing.lock().await;
        let (anonymous, listing) = (config.anonymous, config.listing.clone());
        let options = OriginOptions { anonymous, concurrency: self.config.origin_concurrency, listing };
        let origin = Origin::open(&config.origin, &options).await?;
        if let Some(dataset) = self.datasets.read().get(&config.name).cloned() {
            let same = DatasetConfig { origin: origin.uri().to_owned(), ..config } == *dataset.config();
            let name = &dataset.config().name;
            let taken = || {
                format!(
                    "there is already another dataset {name:?}: choose another name with --name, or remove it with `fodder datasets remove {name}`"
                )
            };
            return if same { Ok(dataset) } else { Err(Error::Conflict(taken())) };
        }
        let identity = blake3::hash(format!("{}\0{}", config.name, origin.identity()).as_bytes());
        let dir = self.catalog_dir(&config.name);
        let (known_dir, layout) = (dir.clone(), config.layout.clone());
        let known = on_blocking_thread(move || Catalog::open(&known_dir, &identity, &layout)).await?;
        let catalog = match known {
            Some(catalog) => catalog,
            None => Catalog::build(&dir, &identity, &config.layout, &origin, rules).await?,
        };
        let (spaces, shared) = (self.spaces.clone(), Arc::clone(&self.shared));
        let attach = move || Dataset::attach(config, catalog, origin, &spaces, shared);
        let dataset = on_blocking_thread(attach).await?;
        dataset.refresh_at_intervals();
        dataset.tend_jobs();
        dataset.prefetch();
        dataset.measure();
        dataset.read_ahead();
        dataset.tell_peers().await?;
        self.datasets.write().insert(dataset.config().name.clone(), Arc::clone(&dataset));
        if self.is_starting() {
            // Clients of this one can report their leases from now on.
            self.begin_lease_recovery();
        }
        self.show().await?;
        Ok(dataset)
    }

    /// Forgets a dataset and drops what is cached of it. Nothing happens at the origin.
    pub async fn remove_dataset(&self, name: &str) -> Result<()> {
        let _one_at_a_time = self.changing.lock().await;
        let dataset = self.dataset(name)?;
        self.datasets.write().remove(name);
        dataset.close().await;
        dataset.detach();
        if let Some(peers) = self.shared.peers.get() {
            peers.forgets(name);
        }
        self.show().await?;
        let (spaces, name, dir) = (self.spaces.clone(), name.to_owned(), self.catalog_dir(name));
        let delete = move || -> Result<()> {
            for space in &spaces {
                space.tier.detach(&name)?;
            }
            match std::fs::remove_dir_all(&dir) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io("remove", &dir, &error)),
                _ => Ok(()),
            }
        };
        on_blocking_thread(delete).await
    }

    /// A dataset by name; the error says which there are.
    pub fn dataset(&self, name: &str) -> Result<Arc<Dataset>> {
        if self.holds_readers.load(Relaxed) {
            let text =
                "the node is starting and does not know the other nodes of its cluster yet: try again in a moment";
            return Err(Error::Unavailable(text.into()));
        }
        self.dataset_for_peer(name)
    }

    /// From now on readers are told to ask again in a moment; or not any more.
    pub fn hold_readers(&self, holds: bool) {
        self.holds_readers.store(holds, Relaxed);
    }

    /// One of the datasets, for another node, which is not held up.
    pub fn dataset_for_peer(&self, name: &str) -> Result<Arc<Dataset>> {
        let datasets = self.datasets.read();
        datasets.get(name).cloned().ok_or_else(|| {
            if self.expected.read().contains(name) {
                return Error::Unavailable(format!(
                    "the node is starting and has not opened dataset {name:?} yet: try again in a moment"
                ));
            }
            let names: Vec<_> = datasets.keys().map(String::as_str).collect();
            Error::NotFound(match names.as_slice() {
                [] => {
                    format!("there is no dataset {name:?}: this node has none yet (add one with `fodder datasets add`)")
                }
                names => format!("there is no dataset {name:?}; this node has: {}", names.join(", ")),
            })
        })
    }

    /// All datasets, by name.
    pub fn datasets(&self) -> Vec<Arc<Dataset>> {
        self.datasets.read().values().cloned().collect()
    }

    /// How the engine stands.
    pub fn status(&self) -> EngineStatus {
        let tier = |space: &Arc<Space>| TierStatus {
            path: space.path.display().to_string(),
            medium: space.tier.medium(),
            quota_bytes: space.tier.quota_bytes(),
            used_bytes: space.tier.used_bytes(),
            health: match space.tier.health() {
                Health::Ok => "ok",
                Health::Unstable => "unstable",
                Health::Down => "down",
            },
        };
        EngineStatus {
            tiers: self.spaces.iter().map(tier).collect(),
            datasets: self.datasets().iter().map(|dataset| dataset.status()).collect(),
            budget_bytes: self.shared.budget.total_bytes(),
            budget_used_bytes: self.shared.budget.used_bytes(),
        }
    }

    /// Clients can connect from now on, and report the leases that an earlier node gave them.
    pub fn begin_lease_recovery(&self) {
        self.spaces.iter().for_each(|space| space.tier.begin_recovery());
    }

    /// The node is about to end its connections. Clients keep their leased files, and the next node must know of them.
    pub fn keep_lease_record(&self) {
        self.spaces.iter().for_each(|space| space.tier.keep_lease_record());
    }

    fn catalog_dir(&self, dataset: &str) -> PathBuf {
        self.config.cache_dir.join("catalog").join(dataset)
    }
}

impl Drop for Engine {
    /// An engine that was not shut down still ends what it started. What was not committed will be a miss.
    fn drop(&mut self) {
        self.shared.closing.cancel();
    }
}

/// Work that reads and writes much before an engine or a dataset is there.
async fn on_blocking_thread<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(|error| Error::Internal(error.to_string()))?
}

/// Most of the free disk.
fn default_tier(config: &EngineConfig) -> Result<TierConfig> {
    let stat = rustix::fs::statvfs(&config.cache_dir)
        .map_err(|error| Error::io("look at the disk of", &config.cache_dir, &error.into()))?;
    let quota_bytes = stat.f_bavail * stat.f_frsize / 10 * 8;
    Ok(TierConfig { path: config.cache_dir.join("tier"), medium: Medium::Ssd, quota_bytes })
}

/// What must be right about a dataset before anything is done with it.
fn check(config: &DatasetConfig) -> Result<()> {
    let name = &config.name;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > 64 || name.starts_with('.') || !name.chars().all(plain) {
        return Err(Error::Invalid(format!(
            "{name:?} cannot be a dataset's name: use letters, digits, `-`, `_` and `.`, at most 64, not beginning with `.`"
        )));
    }
    if let Some(Quota::Share(share)) = config.quota
        && !(share > 0.0 && share <= 1.0)
    {
        return Err(Error::Invalid(format!(
            "the share of a dataset in the cache must be above 0 and at most 1, not {share}"
        )));
    }
    config.listing.check()?;
    config.check_interval()
}
