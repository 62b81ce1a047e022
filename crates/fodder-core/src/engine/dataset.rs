//! One dataset of a running node: its catalog, its origin and its stocks, and everything a door may ask of them
//! beside reading (which is in `read.rs`).

use super::{
    DatasetStats, DatasetStatus, EvictReport, Residence, Source, VerifyReport,
    flight::Flights,
    guess::Guesses,
    hold::Reason,
    job::{Notices, Prefetcher, Settings, State},
    meter::Meter,
    pins::Pins,
    readahead::Lookahead,
    release::Followers,
    retired::Retired,
    revalidate::Comparison,
    shared::Shared,
    space::Space,
    staging::Staging,
    stamps::Stamps,
    stats::Counters,
    stock::Stock,
};
use crate::{
    Error, Result,
    catalog::{Catalog, Child, Objects, RefreshReport, RefreshRules, Snapshot},
    config::{DatasetConfig, Quota},
    id::{ObjectSlot, PieceId, SnapshotId},
    origin::Origin,
    tier::{Checked, Lease},
};
use arc_swap::ArcSwap;
use fodder_policy::fetching::Strategy;
use futures::TryStreamExt;
use parking_lot::Mutex;
use std::{
    collections::BTreeSet,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio_util::sync::CancellationToken;

/// The part of the memory budget that may hold what jobs are still to read.
const STAGING_PART: u64 = 4;
/// How long an eviction by hand waits for what is being written.
const EVICT_WAIT: Duration = Duration::from_secs(5);
/// Problems of a snapshot that a status shows.
const MAX_SHOWN_PROBLEMS: usize = 10;

/// One dataset of a running node.
#[derive(Debug)]
pub struct Dataset {
    config: DatasetConfig,
    catalog: Catalog,
    pub(super) objects: Arc<ArcSwap<Objects>>,
    /// The objects that must not leave the catalog now.
    pub(super) pins: Arc<Pins>,
    pub(super) origin: Origin,
    /// What it holds in each tier, fastest first; never empty.
    pub(super) stocks: Vec<(Arc<Space>, Arc<Stock>)>,
    pub(super) flights: Arc<Flights>,
    pub(super) counters: Counters,
    pub(super) meter: Meter,
    pub(super) jobs: Arc<State>,
    pub(super) prefetcher: Arc<Prefetcher>,
    pub(super) staging: Staging,
    pub(super) lookahead: Arc<Lookahead>,
    pub(super) guessed: Guesses,
    pub(super) shared: Arc<Shared>,
    /// Its number in the record of what is read.
    pub(super) recorded_as: Option<u32>,
    pub(super) refreshing: tokio::sync::Mutex<()>,
    /// Change times of local files whose contents were compared.
    pub(super) stamps: Stamps,
    /// Held while a read compares a file: readers compare one at a time.
    pub(super) revalidating: tokio::sync::Mutex<()>,
    refresh_asked: AtomicBool,
    /// Why the last refresh failed.
    refresh_problem: Mutex<Option<String>>,
    /// The last such reason that was logged: it is not logged again at every interval.
    logged_problem: Mutex<Option<String>>,
    /// The word to stop: the node stops, or has removed the dataset.
    pub(super) closing: CancellationToken,
}

impl Dataset {
    /// Puts a dataset over the tiers of a node.
    pub(super) fn attach(
        config: DatasetConfig,
        catalog: Catalog,
        origin: Origin,
        spaces: &[Arc<Space>],
        shared: Arc<Shared>,
    ) -> Result<Arc<Self>> {
        let (objects, notices) = (catalog.objects(), Arc::<Notices>::default());
        let mut stocks = Vec::with_capacity(spaces.len());
        for space in spaces {
            let shelf = space.tier.attach(&config.name, Arc::clone(&objects) as _)?;
            let (policy, notices) = (config.policy.build_with(&config.tuning.residency()), Arc::clone(&notices));
            let stock = Stock::new(shelf, space.tier.medium(), policy, notices, objects.piece_bytes());
            stocks.push((Arc::clone(space), Arc::new(stock)));
        }
        for (space, stock) in &stocks {
            space.join(Arc::clone(stock));
        }
        let strategy = config.tuning.fetching.unwrap_or_else(|| Strategy::beside(config.policy));
        let prefetches = (shared.origin_concurrency / 2).max(1);
        let staging = Staging::new(shared.budget.total_bytes() / STAGING_PART);
        let max_staged_bytes = staging.most_bytes();
        let jobs = State::new(catalog.current(), notices, Settings { max_staged_bytes, ..config.tuning.jobs() });
        let recorded_as = shared.recording.as_ref().map(|recording| recording.dataset(&config.name));
        let objects = Arc::new(ArcSwap::new(objects));
        let shelves = stocks.iter().map(|(_, stock)| Arc::clone(&stock.shelf)).collect();
        catalog.followed_by(Followers { shelves, objects: Arc::clone(&objects) });
        let stamps = Stamps::open(catalog.dir().join("stamps"));
        let dataset = Self {
            config: DatasetConfig { origin: origin.uri().to_owned(), ..config },
            catalog,
            objects,
            pins: Arc::default(),
            origin,
            stocks,
            flights: Arc::default(),
            counters: Counters::default(),
            meter: Meter::default(),
            jobs: Arc::new(jobs),
            prefetcher: Arc::new(Prefetcher::new(strategy, prefetches)),
            staging,
            lookahead: Arc::new(Lookahead::new(shared.guesses.most_bytes(), prefetches)),
            guessed: Guesses::new(Arc::clone(&shared.guesses)),
            closing: shared.closing.child_token(),
            shared,
            recorded_as,
            refreshing: tokio::sync::Mutex::default(),
            stamps,
            revalidating: tokio::sync::Mutex::default(),
            refresh_asked: AtomicBool::new(false),
            refresh_problem: Mutex::default(),
            logged_problem: Mutex::default(),
        };
        dataset.follow_snapshot();
        let dataset = Arc::new(dataset);
        dataset.compact_now();
        Ok(dataset)
    }

    /// Leaves the tiers.
    pub(super) fn detach(&self) {
        for (space, stock) in &self.stocks {
            space.leave(stock);
        }
        self.lookahead.wake();
    }

    /// Its configuration; the origin is shown without credentials.
    pub fn config(&self) -> &DatasetConfig {
        &self.config
    }

    pub(super) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The newest snapshot.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.catalog.current()
    }

    /// A snapshot that is still kept.
    pub fn snapshot_by_id(&self, id: SnapshotId) -> Result<Arc<Snapshot>> {
        self.catalog.snapshot(id).ok_or_else(|| {
            let (name, current) = (&self.config.name, self.catalog.current().id());
            Error::NotFound(format!("dataset {name:?} no longer has snapshot {id}; the newest is {current}"))
        })
    }

    /// All snapshots that are kept.
    pub fn snapshots(&self) -> Vec<Arc<Snapshot>> {
        self.catalog.snapshots()
    }

    /// The objects of all kept snapshots: sizes, paths, versions.
    pub fn objects(&self) -> Arc<Objects> {
        self.objects.load_full()
    }

    /// Hands out an object that is whole in one tier, on this thread, which may wait for the disk.
    pub fn try_lease(&self, object: ObjectSlot) -> Result<Option<Lease>> {
        let lease = self.lease_now(object)?;
        if lease.is_some() {
            self.guess_read(self.pieces_of(object));
            self.meter.read(self.pieces_of(object), |piece| self.piece_len(PieceId(piece)));
            self.meter.leased(self.objects.load().size(object));
        }
        Ok(lease)
    }

    /// The same without counting a hit, for a client that reports its reads by [`opened_again`](Self::opened_again).
    pub fn try_lease_uncounted(&self, object: ObjectSlot) -> Result<Option<Lease>> {
        for (_, stock) in &self.stocks {
            if let Some(lease) = stock.shelf.lease(object)? {
                return Ok(Some(lease));
            }
        }
        Ok(None)
    }

    /// The same for somebody who opens the object as a file: one hit, whatever is then read of it.
    pub fn try_open(&self, object: ObjectSlot) -> Result<Option<Lease>> {
        let lease = self.lease_now(object)?;
        if let Some(lease) = &lease {
            let source = self.source_of(object, &(0..lease.size), Source::Tier(lease.medium));
            self.answered(object, 0..lease.size, source);
        }
        Ok(lease)
    }

    /// Somebody who has an object's file opened it again: one more hit, if the object is still cached.
    pub fn opened_again(&self, object: ObjectSlot) {
        let pieces = || self.pieces_of(object);
        let whole = self.stocks.iter().find(|(_, stock)| pieces().all(|piece| stock.shelf.has(PieceId(piece))));
        if let Some((_, stock)) = whole {
            stock.hit(pieces());
            self.answered(object, 0..self.objects.load().size(object), Source::Tier(stock.medium));
        }
    }

    fn lease_now(&self, object: ObjectSlot) -> Result<Option<Lease>> {
        for (_, stock) in &self.stocks {
            if let Some(lease) = stock.shelf.lease(object)? {
                stock.hit(self.pieces_of(object));
                return Ok(Some(lease));
            }
        }
        Ok(None)
    }

    /// Hands out the whole object as a sealed file, fetching what is missing. [`Error::Full`] if the cache does not keep it.
    pub async fn lease(self: &Arc<Self>, object: ObjectSlot) -> Result<Lease> {
        let _pin = self.pin(object)?;
        let dataset = Arc::clone(self);
        if let Some(lease) = self.shared.reads.run(move || dataset.try_lease(object)).await?? {
            return Ok(lease);
        }
        let size = self.objects().size(object);
        self.check_leasable(object)?;
        self.read_stream(object, 0..size).try_for_each(|_| async { Ok(()) }).await?;
        // What waits in memory for jobs lands when they have come, which may be after whoever waits here.
        self.flights.settled(self.pieces_of(object), |piece| self.staging.has(piece)).await;
        let dataset = Arc::clone(self);
        let lease = self.shared.reads.run(move || dataset.lease_now(object)).await??;
        lease.ok_or_else(|| {
            let path = self.objects().path(object);
            Error::Full(format!(
                "{path:?} ({size} bytes) is not cached completely in one tier: increase the cache size, or read it instead"
            ))
        })
    }

    /// [`Error::Invalid`] for an object that never has a cache file of its own.
    pub fn check_leasable(&self, object: ObjectSlot) -> Result<()> {
        if !self.stocks.iter().all(|(_, stock)| stock.shelf.cell_bytes(object).is_some()) {
            return Ok(());
        }
        let objects = self.objects();
        let (path, size) = (objects.path(object), objects.size(object));
        Err(Error::Invalid(format!("{path:?} ({size} bytes) is too small for a cache file of its own: read it")))
    }

    /// Whether one tier has all of an object.
    pub fn is_whole(&self, object: ObjectSlot) -> bool {
        self.stocks.iter().any(|(_, stock)| self.pieces_of(object).all(|piece| stock.shelf.has(PieceId(piece))))
    }

    /// How much of an object is cached, and in which tier if one has all of it.
    pub fn residence(&self, object: ObjectSlot) -> Residence {
        let pieces = || self.pieces_of(object).map(PieceId);
        let cached = pieces().filter(|piece| self.holds(*piece)).map(|piece| u64::from(self.piece_len(piece)));
        let whole = self.stocks.iter().find(|(_, stock)| pieces().all(|piece| stock.shelf.has(piece)));
        Residence { cached_bytes: cached.sum(), whole: whole.map(|(_, stock)| stock.medium) }
    }

    /// When an object was last written, in nanoseconds since 1970, if the origin's versions say so.
    pub fn modified_ns(&self, object: ObjectSlot) -> Option<i64> {
        self.origin.modified_ns(&self.objects.load().version(object))
    }

    /// Looks for new, changed and removed objects. [`Error::Conflict`] if so many objects are missing that the origin is probably
    /// not mounted. Dropping the future stops the listing; once the listing is complete, its result is committed in any case.
    pub async fn refresh(self: &Arc<Self>) -> Result<RefreshReport> {
        self.refresh_with(false).await
    }

    /// The same; with `confirm_removals` whatever is missing.
    pub async fn refresh_with(self: &Arc<Self>, confirm_removals: bool) -> Result<RefreshReport> {
        let (max_removed, name) = (self.config.listing.max_removed, self.config.name.clone());
        let rules = RefreshRules { max_removed, confirm_removals, dataset: name, ..RefreshRules::default() };
        let dataset = Arc::clone(self);
        let _cancel_when_dropped = rules.cancel.clone().drop_guard();
        self.to_its_end(async move { dataset.refresh_here(&rules).await }).await
    }

    async fn refresh_here(self: &Arc<Self>, rules: &RefreshRules) -> Result<RefreshReport> {
        let _one_at_a_time = self.refreshing.lock().await;
        let comparison = Comparison(Arc::clone(self));
        let outcome = self.catalog.refresh_with(&self.origin, rules, &comparison).await;
        if !rules.cancel.is_cancelled() {
            *self.refresh_problem.lock() = outcome.as_ref().err().map(ToString::to_string);
        }
        let report = outcome?;
        self.save_stamps()
            .await
            .unwrap_or_else(|error| tracing::warn!(%error, "files are compared again after a restart"));
        self.follow_snapshot();
        self.jobs.refreshed(self.snapshot());
        self.compact().await;
        self.tell_peers().await?;
        Ok(report)
    }

    /// A reader met an object that had changed: a dataset that refreshes by itself does so now.
    pub(super) fn refresh_soon(self: &Arc<Self>) {
        if self.config.refresh_interval.is_some() {
            self.refresh_aside();
        }
    }

    /// Refreshes, and nobody waits for it.
    pub fn refresh_aside(self: &Arc<Self>) {
        if self.refresh_asked.swap(true, Relaxed) {
            return;
        }
        let dataset = Arc::clone(self);
        self.spawn(async move {
            let outcome = dataset.refresh().await;
            dataset.refresh_asked.store(false, Relaxed);
            dataset.log_refresh(outcome);
        });
    }

    /// Refreshes at the configured interval until the dataset is closed.
    pub(super) fn refresh_at_intervals(self: &Arc<Self>) {
        let Some(interval) = self.config.refresh_interval else { return };
        let dataset = Arc::downgrade(self);
        self.spawn(async move {
            loop {
                tokio::time::sleep(interval).await;
                let Some(dataset) = dataset.upgrade() else { return };
                dataset.log_refresh(dataset.refresh().await);
            }
        });
    }

    /// Drops what is cached of the objects whose path begins with `prefix`. Prefetching pauses until a job requests its next
    /// batch; otherwise an idle loader would fetch its plan again at once.
    pub async fn evict(self: &Arc<Self>, prefix: &str) -> Result<EvictReport> {
        self.prefetcher.pause();
        self.wait_for_writes().await;
        let (dataset, prefix) = (Arc::clone(self), prefix.to_owned());
        self.shared.reads.run(move || dataset.evict_now(&prefix)).await
    }

    /// What somebody has read already may still be on its way to a disk.
    async fn wait_for_writes(&self) {
        let written = self.flights.arrived_settled(|piece| self.staging.has(piece));
        let _ = tokio::time::timeout(EVICT_WAIT, written).await;
    }

    /// Drops what is cached of the object at a path, or of what is below a directory. [`Error::NotFound`] if nothing is there.
    pub async fn evict_path(self: &Arc<Self>, path: &str) -> Result<EvictReport> {
        match self.snapshot().find(path) {
            Some(Child::Directory) if path.is_empty() => self.evict("").await,
            Some(Child::Directory) => self.evict(&format!("{path}/")).await,
            Some(Child::Object(object)) => {
                self.prefetcher.pause();
                self.wait_for_writes().await;
                let dataset = Arc::clone(self);
                self.shared.reads.run(move || dataset.evict_object(object)).await
            }
            None => {
                let name = &self.config().name;
                Err(Error::NotFound(format!("there is no {path:?} in dataset {name:?}")))
            }
        }
    }

    fn evict_object(self: &Arc<Self>, object: ObjectSlot) -> EvictReport {
        let mut report = EvictReport::default();
        self.evict_counted(object, &mut report);
        report.remainder = self.evict_remainder();
        report
    }

    /// Counted object by object: readers may fill the cache again meanwhile.
    fn evict_counted(&self, object: ObjectSlot, report: &mut EvictReport) {
        for (_, stock) in &self.stocks {
            let before = stock.used_bytes();
            let pieces = stock.evict_object(object);
            report.pieces += pieces;
            report.bytes += match stock.shelf.cell_bytes(object) {
                Some(bytes) => pieces * bytes,
                None => before.saturating_sub(stock.used_bytes()),
            };
        }
    }

    fn evict_now(self: &Arc<Self>, prefix: &str) -> EvictReport {
        let objects = self.objects();
        let mut report = EvictReport::default();
        // All versions, also those that the newest snapshot does not have: their bytes are cached all the same.
        let cached: BTreeSet<_> = self.stocks.iter().flat_map(|(_, stock)| stock.shelf.objects()).collect();
        for object in cached.into_iter().filter(|object| objects.path(*object).starts_with(prefix)) {
            self.evict_counted(object, &mut report);
        }
        report.remainder = self.evict_remainder();
        report
    }

    /// Reads everything that is cached and compares it with its checksums.
    pub async fn verify(self: &Arc<Self>) -> Result<VerifyReport> {
        let dataset = Arc::clone(self);
        self.shared.moves.run(move || dataset.verify_now()).await
    }

    fn verify_now(&self) -> VerifyReport {
        self.check_stocks(&mut |_| !self.is_closed())
    }

    /// Reads everything again; `progress` is told how much so far, after each object, and says whether to go on.
    pub(super) fn check_stocks(&self, progress: &mut dyn FnMut(&Checked) -> bool) -> VerifyReport {
        let mut report = VerifyReport::default();
        for (_, stock) in &self.stocks {
            let shelf = stock.shelf.verify(&mut *progress);
            report.good += shelf.good;
            report.corrupt += shelf.corrupt;
            report.bytes += shelf.bytes;
            self.counters.corrupt_pieces.fetch_add(stock.forget_lost(), Relaxed);
        }
        report
    }

    /// Removes pieces from the policies that the tiers lost outside of reads: at a lease, a failed write or sync, a sweep.
    pub(super) fn forget_lost(&self) {
        let lost = self.stocks.iter().map(|(_, stock)| stock.forget_lost()).sum();
        self.counters.corrupt_pieces.fetch_add(lost, Relaxed);
    }

    /// How it stands.
    pub fn status(&self) -> DatasetStatus {
        let snapshot = self.snapshot();
        DatasetStatus {
            config: self.config.clone(),
            snapshot: snapshot.id().to_string(),
            items: snapshot.len(),
            objects: snapshot.object_count(),
            total_bytes: snapshot.total_bytes(),
            cached_bytes: self.cached_bytes(),
            cached_pieces: self.stocks.iter().map(|(_, stock)| stock.shelf.len() as u64).sum(),
            pieces: u64::from(self.objects.load().piece_count()),
            explanation: self.stocks[0].1.explain(),
            warning: self.layout_warning(&snapshot),
            stats: self.stats(),
            problems: self.problems(&snapshot),
        }
    }

    /// Why the last refresh failed, and what the snapshot lacks.
    fn problems(&self, snapshot: &Snapshot) -> Vec<String> {
        let of_snapshot = snapshot.problems().iter().cloned();
        self.refresh_problem.lock().clone().into_iter().chain(of_snapshot).take(MAX_SHOWN_PROBLEMS).collect()
    }

    /// What was counted.
    pub fn stats(&self) -> DatasetStats {
        let evicted_pieces = self.stocks.iter().map(|(_, stock)| stock.evicted_pieces()).sum();
        let [readahead_bytes, readahead_used_bytes, readahead_wasted_bytes] = self.guessed.totals();
        DatasetStats {
            evicted_pieces,
            readahead_bytes,
            readahead_used_bytes,
            readahead_wasted_bytes,
            ..self.counters.snapshot()
        }
    }

    /// Bytes of memory and mapped pages for catalog, index, policies and jobs, beside the front-coded names.
    pub fn memory_bytes(&self) -> usize {
        let stocks = self.stocks.iter().map(|(_, stock)| stock.policy_memory_bytes() + stock.shelf.memory_bytes());
        let jobs = self.jobs.memory_bytes();
        self.objects.load().memory_bytes() + self.snapshot().memory_bytes() + stocks.sum::<usize>() + jobs
    }

    /// Whether any tier has a piece.
    pub(super) fn holds(&self, piece: PieceId) -> bool {
        self.stocks.iter().any(|(_, stock)| stock.shelf.has(piece))
    }

    /// Keeps a piece, in the tier that has it, until it was read, at most for so long.
    pub(super) fn hold(&self, piece: u32, reason: Reason, patience: Duration) {
        if let Some((_, stock)) = self.stocks.iter().find(|(_, stock)| stock.shelf.has(PieceId(piece))) {
            stock.holds.hold(piece, reason, patience);
        }
    }

    /// The bytes of one piece.
    pub(super) fn piece_len(&self, piece: PieceId) -> u32 {
        let range = self.piece_range(piece).1;
        (range.end - range.start) as u32
    }

    /// The object a piece belongs to, and its bytes in it. None, and none, if the object has left.
    pub(super) fn piece_range(&self, piece: PieceId) -> (ObjectSlot, Range<u64>) {
        let objects = self.objects.load();
        let Some(object) = objects.object_of(piece) else { return (ObjectSlot::NONE, 0..0) };
        let piece_bytes = u64::from(objects.piece_bytes());
        let start = u64::from(piece.0 - objects.first_piece(object).0) * piece_bytes;
        (object, start..(start + piece_bytes).min(objects.size(object)))
    }

    /// The pieces of an object.
    pub(super) fn pieces_of(&self, object: ObjectSlot) -> Range<u32> {
        let objects = self.objects.load();
        let first = objects.first_piece(object).0;
        first..first + objects.pieces_of(object)
    }

    fn cached_bytes(&self) -> u64 {
        self.stocks.iter().map(|(_, stock)| stock.used_bytes()).sum()
    }

    /// What follows from the newest snapshot: what is no longer in it, and how much the dataset may hold.
    pub(super) fn follow_snapshot(&self) {
        let (snapshots, grace) = (self.catalog.snapshots(), self.config.listing.removed_grace);
        let before = self.stocks[0].1.ends_of_grace();
        let retired = Retired::find(&snapshots, &self.objects.load(), grace, &before);
        for (_, stock) in &self.stocks {
            stock.retire(retired.clone());
        }
        self.set_caps();
    }

    /// Spreads the dataset's quota over the tiers, the fastest first.
    fn set_caps(&self) {
        let mut left = match self.config.quota {
            None => return,
            Some(Quota::Bytes(bytes)) => bytes,
            Some(Quota::Share(share)) => (self.snapshot().total_bytes() as f64 * share).ceil() as u64,
        };
        for (space, stock) in &self.stocks {
            let here = left.min(space.tier.quota_bytes());
            stock.set_cap_bytes(here);
            left -= here;
        }
    }

    /// Logs a refresh without a caller. A reason that stays the same is logged once.
    fn log_refresh(&self, outcome: Result<RefreshReport>) {
        let (name, mut logged) = (&self.config.name, self.logged_problem.lock());
        match outcome {
            Ok(report) => {
                *logged = None;
                if report.changed + report.added + report.removed > 0 {
                    tracing::info!(dataset = name, ?report, "the origin has changed; using a new snapshot");
                }
            }
            Err(error) => {
                let text = Some(error.to_string());
                if *logged != text {
                    tracing::warn!(dataset = name, %error, "cannot refresh; keeping the current snapshot");
                    *logged = text;
                }
            }
        }
    }
}
