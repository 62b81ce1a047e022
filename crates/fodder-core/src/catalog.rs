//! A dataset's objects and its snapshots.
//!
//! Objects live in *segments* (files of flat columns, mapped read-only), each version of an object in a slot of its own.
//! A *snapshot* is an order of slots and knows how they become items. A refresh appends one segment with what is new and
//! seals one snapshot; a *manifest* names the files that count, and replacing it commits. `docs/decisions/0003` has the
//! format. Objects that nothing needs any more are removed (`compact`, 0029). This module knows no tiers, policies or endpoints.

mod compact;
mod diff;
mod directory;
mod empty;
mod file;
mod index;
mod link;
mod listing;
mod manifest;
mod name;
mod object;
mod order;
mod packed;
mod pieces;
mod reader;
pub(crate) mod record;
mod rules;
mod seal;
mod segment;
mod snapshot;
mod source;
mod told;
mod version;

pub use compact::Release;
pub use directory::{Child, Entry, Resume};
pub use object::Objects;
pub use rules::RefreshRules;
pub use snapshot::Snapshot;
pub use told::Arriving;

use crate::{
    Error, Result,
    id::{ObjectSlot, SnapshotId, Version},
    layout::Layout,
    origin::{ListingDetails, Origin, RootIdentity},
};
use arc_swap::ArcSwap;
use compact::Living;
use diff::Diff;
use file::Unusable;
use futures::{StreamExt, TryStreamExt};
use index::Fresh;
use listing::Listing;
use manifest::Manifest;
use pieces::Placed;
use segment::{Rows, Segment};
use source::Source;
use std::{
    fmt, fs,
    ops::Range,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};
use tokio::sync::{Mutex, OwnedMutexGuard};
use told::Told;

/// Snapshots that are kept: a job stays on its snapshot for an epoch.
const KEPT_SNAPSHOTS: usize = 4;

/// An item of a snapshot: a byte range of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The object it lies in.
    pub object: ObjectSlot,
    /// The bytes of the object it is.
    pub range: Range<u64>,
    /// Its class, where the layout has classes.
    pub label: Option<u32>,
}

/// What a refresh found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct RefreshReport {
    /// Objects that were not there before.
    pub added: u64,
    /// Objects whose version changed.
    pub changed: u64,
    /// Objects that are gone.
    pub removed: u64,
    /// Objects that stayed as they were.
    pub unchanged: u64,
}

/// Decides whether a local file of which only the change time differs still has the bytes of its version.
#[async_trait::async_trait]
pub trait Revalidate: Send + Sync {
    /// Whether the file, which is now of version `now`, has the bytes that are known of `object`.
    async fn is_unchanged(&self, object: ObjectSlot, now: Version) -> bool;
}

/// Files that are compared at once.
const PARALLEL_COMPARISONS: usize = 4;

/// Keeps the slots of suspects whose contents are unchanged.
async fn revalidated(revalidate: &dyn Revalidate, listing: &Listing, diff: &mut Diff) {
    let suspects = std::mem::take(&mut diff.suspects);
    let compared = futures::stream::iter(suspects).map(|(index, slot)| async move {
        let now = listing.entry(index).version;
        (index, slot, revalidate.is_unchanged(slot, now).await)
    });
    let mut compared = compared.buffer_unordered(PARALLEL_COMPARISONS);
    while let Some((index, slot, unchanged)) = compared.next().await {
        if unchanged {
            diff.keep(index, slot);
        }
    }
}

/// A dataset's catalog on disk and in (mapped) memory.
#[derive(Debug)]
pub struct Catalog {
    inner: Arc<Inner>,
    /// Held while the catalog changes, by whoever changes it, even if nobody waits for the result any more.
    changing: Arc<Mutex<()>>,
}

#[derive(Debug)]
struct Inner {
    dir: PathBuf,
    identity: blake3::Hash,
    layout: Layout,
    state: ArcSwap<State>,
    living: Living,
    tables: OnceLock<Box<dyn Tables>>,
}

/// Tables with something for each object or each piece.
pub trait Tables: Send + Sync {
    /// There are other objects: more, before there is a snapshot that has them, or fewer.
    fn follow(&self, objects: &Arc<Objects>);

    /// Whether nobody uses the numbers of pieces any more that belonged to objects which have left.
    fn may_reuse(&self) -> bool;
}

impl fmt::Debug for dyn Tables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tables")
    }
}

/// What readers see; replaced whole.
#[derive(Debug)]
struct State {
    manifest: Manifest,
    objects: Arc<Objects>,
    /// Oldest first, as the manifest names them. Never empty once the catalog is built.
    snapshots: Vec<Arc<Snapshot>>,
}

impl Catalog {
    /// Reopens the catalog in `dir` without asking the origin; None if there is none, or one that must be
    /// rebuilt (older format, another layout or origin, damaged), which is logged.
    pub fn open(dir: &Path, identity: &blake3::Hash, layout: &Layout) -> Result<Option<Self>> {
        match State::open(dir, identity, layout) {
            Ok(None) => Ok(None),
            Ok(Some(state)) => {
                state.manifest.sweep(dir);
                Ok(Some(Self::new(dir, identity, layout, state)))
            }
            Err(Unusable::Rebuild(why)) => {
                tracing::warn!(dir = %dir.display(), %why, "rebuilding the catalog");
                Ok(None)
            }
            Err(Unusable::Fail(error)) => Err(error),
        }
    }

    /// Lists the origin, indexes its objects and seals the first snapshot.
    pub async fn build(
        dir: &Path,
        identity: &blake3::Hash,
        layout: &Layout,
        origin: &Origin,
        rules: &RefreshRules,
    ) -> Result<Self> {
        Self::build_with(dir, identity, layout, origin, rules).await
    }

    async fn build_with(
        dir: &Path,
        identity: &blake3::Hash,
        layout: &Layout,
        source: &dyn Source,
        rules: &RefreshRules,
    ) -> Result<Self> {
        fs::create_dir_all(dir).map_err(|error| Error::io("create", dir, &error))?;
        let catalog = Self::new(dir, identity, layout, State::empty(dir, identity, layout)?);
        catalog.refresh_and(source, rules, None).await?;
        Ok(catalog)
    }

    /// Lists the origin again; if anything differs, seals a new snapshot that shares the unchanged objects.
    pub async fn refresh(&self, origin: &Origin, rules: &RefreshRules) -> Result<RefreshReport> {
        self.refresh_and(origin, rules, None).await
    }

    /// The same; `revalidate` compares the contents of local files of which only the change time differs.
    pub async fn refresh_with(
        &self,
        origin: &Origin,
        rules: &RefreshRules,
        revalidate: &dyn Revalidate,
    ) -> Result<RefreshReport> {
        self.refresh_and(origin, rules, Some(revalidate)).await
    }

    async fn refresh_and(
        &self,
        source: &dyn Source,
        rules: &RefreshRules,
        revalidate: Option<&dyn Revalidate>,
    ) -> Result<RefreshReport> {
        let guard = self.changing.clone().lock_owned().await;
        let mut listing = rules.cancellable(list(source)).await?;
        let mut details = source.take_details();
        let state = self.inner.state.load_full();
        let layout = self.inner.layout.clone();
        let known = Arc::clone(&state);
        let (listing, details, mut diff) = blocking(move || {
            listing.sort();
            details.sort_links();
            details.empty_directories = empty::settled(details.empty_directories, &listing)?;
            let diff = Diff::compare(&listing, &known.objects, known.snapshots.last().map(Arc::as_ref));
            Ok((listing, details, diff))
        })
        .await?;
        if let Some(revalidate) = revalidate {
            revalidated(revalidate, &listing, &mut diff).await;
        }
        let (listing, diff, others) = blocking(move || {
            let known = state.snapshots.last().map_or(0, |newest| newest.object_count());
            diff.assign(&listing, &state.objects, known)?;
            let others = diff.keeps_a_good_shard(&layout, &listing, &state.objects);
            Ok((listing, diff, others))
        })
        .await?;
        let report = diff.report;
        let state = self.inner.state.load_full();
        rules.check(&report, state.manifest.root.as_ref(), details.root.as_ref())?;
        let newest = state.snapshots.last().cloned();
        if !diff.differs() && newest.is_some_and(|newest| newest.has_details(&details)) {
            let (inner, root) = (self.inner.clone(), details.root);
            blocking(move || inner.record_root(&guard, root)).await?;
            return Ok(report);
        }
        let fresh = Fresh::index(&self.inner.layout, listing, diff.fresh, others, source).await?;
        let inner = self.inner.clone();
        blocking(move || inner.commit(&guard, &fresh, &diff.slots, &details, None)).await?;
        Ok(report)
    }

    /// Has tables follow its objects. Only the first call counts.
    pub fn followed_by(&self, tables: impl Tables + 'static) {
        let _ = self.inner.tables.set(Box::new(tables));
    }

    /// A place for a snapshot that another node tells.
    pub fn arriving(&self) -> Result<Arriving> {
        Arriving::new(&self.inner.dir)
    }

    /// Takes a snapshot that another node has sealed, without listing the origin; records are read from shards that are new
    /// here. It is kept like the others, and the newest stays the newest.
    pub async fn adopt(&self, id: SnapshotId, arriving: Arriving, origin: &Origin) -> Result<Arc<Snapshot>> {
        self.adopt_from(id, arriving, origin).await
    }

    async fn adopt_from(&self, id: SnapshotId, arriving: Arriving, source: &dyn Source) -> Result<Arc<Snapshot>> {
        let guard = self.changing.clone().lock_owned().await;
        if let Some(here) = self.snapshot(id) {
            return Ok(here);
        }
        let (state, layout) = (self.inner.state.load_full(), self.inner.layout.clone());
        let (told, diff) = blocking(move || {
            let told = arriving.read(id, &layout)?;
            let diff = Diff::new(&told.listing, &state.objects, state.snapshots.last().map(Arc::as_ref))?;
            diff.agrees(&layout, &state.objects, &told.items)?;
            Ok((told, diff))
        })
        .await?;
        let Told { listing, items, details } = told;
        let fresh = Fresh::as_told(&self.inner.layout, listing, diff.fresh, &items, source).await?;
        let inner = self.inner.clone();
        blocking(move || inner.commit(&guard, &fresh, &diff.slots, &details, Some(id))).await
    }

    /// Waits until whoever changes it is done.
    pub async fn settled(&self) {
        drop(self.changing.lock().await);
    }

    fn new(dir: &Path, identity: &blake3::Hash, layout: &Layout, state: State) -> Self {
        let living = Living::default();
        living.add(state.snapshots.iter());
        let state = ArcSwap::from_pointee(state);
        let (layout, tables) = (layout.clone(), OnceLock::new());
        let inner = Inner { dir: dir.to_owned(), identity: *identity, layout, state, living, tables };
        Self { inner: Arc::new(inner), changing: Arc::default() }
    }

    /// The directory it is kept in.
    pub(crate) fn dir(&self) -> &Path {
        &self.inner.dir
    }

    /// The newest snapshot.
    pub fn current(&self) -> Arc<Snapshot> {
        self.inner.state.load().snapshots.last().expect("a built catalog has a snapshot").clone()
    }

    /// A snapshot by its id, as long as it is kept (the newest few are).
    pub fn snapshot(&self, id: SnapshotId) -> Option<Arc<Snapshot>> {
        self.inner.state.load().snapshots.iter().find(|snapshot| snapshot.id() == id).cloned()
    }

    /// All snapshots that are kept.
    pub fn snapshots(&self) -> Vec<Arc<Snapshot>> {
        self.inner.state.load().snapshots.clone()
    }

    /// All objects of all snapshots that are kept, and some older ones. Changes with a refresh: take it anew after one.
    pub fn objects(&self) -> Arc<Objects> {
        self.inner.state.load().objects.clone()
    }
}

/// Everything that a source lists.
async fn list(source: &dyn Source) -> Result<Listing> {
    let mut listing = Listing::default();
    let mut entries = source.list();
    while let Some(entry) = entries.try_next().await? {
        listing.push(&entry)?;
    }
    Ok(listing)
}

/// Work that computes or waits for a disk, away from the threads that serve.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(Error::Internal(format!("indexing failed: {error}"))),
    }
}

impl State {
    fn empty(dir: &Path, identity: &blake3::Hash, layout: &Layout) -> Result<Self> {
        let manifest = Manifest {
            identity: identity.to_string(),
            layout: layout.to_string(),
            segments: Vec::new(),
            next_slot: 0,
            snapshots: Vec::new(),
            next_file: manifest::unused_number(dir),
            root: None,
        };
        let objects = Objects::new(*identity, layout.piece_bytes(), 0, 0, Vec::new()).map_err(internal)?;
        Ok(Self { manifest, objects, snapshots: Vec::new() })
    }

    fn open(dir: &Path, identity: &blake3::Hash, layout: &Layout) -> Result<Option<Self>, Unusable> {
        let Some(manifest) = Manifest::read(dir)? else { return Ok(None) };
        if manifest.identity != identity.to_string() {
            return Err(Unusable::Rebuild("it is of another origin".into()));
        }
        if manifest.layout != layout.to_string() {
            return Err(Unusable::Rebuild(format!("its layout is {}, not {layout}", manifest.layout)));
        }
        let segments = manifest.segments.iter().map(|name| Segment::open(&dir.join(name)));
        let segments = segments.collect::<Result<_, _>>()?;
        let objects = Objects::open(*identity, layout.piece_bytes(), manifest.next_slot, segments)?;
        let snapshots = manifest.snapshots.iter().map(|name| {
            let snapshot = Snapshot::open(&dir.join(name), layout, objects.clone())?;
            Ok(Arc::new(snapshot))
        });
        let snapshots: Vec<_> = snapshots.collect::<Result<_, Unusable>>()?;
        if snapshots.is_empty() {
            return Err(Unusable::Rebuild("it has no snapshot".into()));
        }
        Ok(Some(Self { manifest, objects, snapshots }))
    }
}

impl Inner {
    /// Writes what is fresh as a segment, seals a snapshot of `slots` and `details` (in path order), and makes both count: as the
    /// newest or, if it was `told` under that name, beside it.
    fn commit(
        &self,
        _changing: &OwnedMutexGuard<()>,
        fresh: &Fresh,
        slots: &[u32],
        details: &ListingDetails,
        told: Option<SnapshotId>,
    ) -> Result<Arc<Snapshot>> {
        let state = self.state.load_full();
        let mut manifest = state.manifest.clone();
        let objects = self.append(&mut manifest, &state.objects, fresh)?;
        let name = number(&mut manifest, "snapshot");
        let path = self.dir.join(&name);
        seal::seal(&path, &self.layout, &objects, slots, details)?;
        let sealed = Arc::new(Snapshot::open(&path, &self.layout, objects.clone()).map_err(internal)?);
        if told.is_some_and(|told| told != sealed.id()) {
            return Err(Error::Corrupt(format!("a snapshot that another node tells is {} here", sealed.id())));
        }
        let kept = manifest.snapshots.iter().zip(&state.snapshots).filter(|(_, old)| old.id() != sealed.id());
        let kept = kept.map(|(name, old)| (name.clone(), Arc::new(old.over(objects.clone()))));
        let mut snapshots: Vec<_> = kept.collect();
        let newest = snapshots.len();
        snapshots.insert(if told.is_some() { newest.saturating_sub(1) } else { newest }, (name, sealed.clone()));
        snapshots.drain(..snapshots.len().saturating_sub(KEPT_SNAPSHOTS));
        let (names, snapshots) = snapshots.into_iter().unzip();
        manifest.snapshots = names;
        if told.is_none() {
            manifest.root = details.root.or(manifest.root);
        }
        manifest.write(&self.dir)?;
        manifest.sweep(&self.dir);
        self.publish(State { manifest, objects, snapshots });
        Ok(sealed)
    }

    /// Shows readers what was committed.
    fn publish(&self, state: State) {
        if let Some(tables) = self.tables.get() {
            tables.follow(&state.objects);
        }
        self.living.add(state.snapshots.iter());
        self.state.store(Arc::new(state));
    }

    /// Records which file system was listed, if it is another one than before.
    fn record_root(&self, _changing: &OwnedMutexGuard<()>, root: Option<RootIdentity>) -> Result<()> {
        let state = self.state.load_full();
        if root.is_none() || root == state.manifest.root {
            return Ok(());
        }
        let manifest = Manifest { root, ..state.manifest.clone() };
        manifest.write(&self.dir)?;
        let (objects, snapshots) = (state.objects.clone(), state.snapshots.clone());
        self.state.store(Arc::new(State { manifest, objects, snapshots }));
        Ok(())
    }

    /// Adds a segment for the fresh objects. Small segments at the end are written again as part of it, so that there
    /// are never more than a few, however often the origin changes.
    fn append(&self, manifest: &mut Manifest, objects: &Objects, fresh: &Fresh) -> Result<Arc<Objects>> {
        let mut segments = objects.placed().to_vec();
        let piece_bytes = self.layout.piece_bytes();
        if fresh.is_empty() {
            let in_use = objects.end_in_use();
            return Objects::new(self.identity, piece_bytes, objects.len(), in_use, segments).map_err(internal);
        }
        let (mut keep, mut length) = (segments.len(), u64::from(fresh.len()));
        while keep > 0 && u64::from(segments[keep - 1].segment.len()) <= 2 * length {
            keep -= 1;
            length += u64::from(segments[keep].segment.len());
        }
        let name = number(manifest, "segment");
        let path = self.dir.join(&name);
        let merged = Chain { old: segments.split_off(keep), fresh };
        let next_slot = objects.len() + fresh.len();
        let slots: Vec<u32> = merged.old_slots().chain(objects.len()..next_slot).collect();
        segment::write(&path, piece_bytes, &slots, &merged, self.layout.has_records())?;
        let known = merged.old_slots().map(|slot| Some(objects.first_piece(ObjectSlot(slot)).0));
        let known = known.chain(std::iter::repeat(None));
        let reuses = self.tables.get().is_none_or(|tables| tables.may_reuse());
        let segment = Segment::open(&path).map_err(internal)?;
        segments.push(Placed::place(segment, known, &mut objects.free(reuses))?);
        manifest.segments.truncate(keep);
        manifest.segments.push(name);
        manifest.next_slot = next_slot;
        let in_use = if reuses { 0 } else { objects.end_in_use() };
        Objects::new(self.identity, piece_bytes, next_slot, in_use, segments).map_err(internal)
    }
}

fn number(manifest: &mut Manifest, kind: &str) -> String {
    let number = manifest.next_file;
    manifest.next_file += 1;
    format!("{kind}-{number}.cat")
}

/// A file that was written a moment ago cannot be used.
fn internal(unusable: Unusable) -> Error {
    match unusable {
        Unusable::Rebuild(why) => Error::Unavailable(format!("the catalog could not be read back: {why}")),
        Unusable::Fail(error) => error,
    }
}

/// Old segments and what is fresh, as one.
struct Chain<'a> {
    old: Vec<Placed>,
    fresh: &'a Fresh,
}

impl Chain<'_> {
    fn old_slots(&self) -> impl Iterator<Item = u32> + '_ {
        self.old.iter().flat_map(|Placed { segment, .. }| (0..segment.len()).map(|row| segment.slot_of(row)))
    }

    /// The parts, each with the number of its first row.
    fn parts(&self) -> impl Iterator<Item = (u32, &dyn Rows)> {
        let old = self.old.iter().map(|placed| (placed.segment.len(), placed.segment.as_ref() as &dyn Rows));
        let all = old.chain([(self.fresh.len(), self.fresh as &dyn Rows)]);
        all.scan(0, |first, (length, rows)| {
            let part = (*first, rows);
            *first += length;
            Some(part)
        })
    }
}

impl Rows for Chain<'_> {
    fn each(&self, take: &mut dyn FnMut(segment::Row<'_>) -> Result<()>) -> Result<()> {
        self.parts().try_for_each(|(_, rows)| rows.each(take))
    }

    fn each_record(&self, take: &mut dyn FnMut(u32, record::Record<'_>) -> Result<()>) -> Result<()> {
        self.parts().try_for_each(|(first, rows)| rows.each_record(&mut |row, record| take(first + row, record)))
    }

    fn problems(&self) -> Vec<(u32, String)> {
        let all = self
            .parts()
            .flat_map(|(first, rows)| rows.problems().into_iter().map(move |(row, text)| (first + row, text)));
        all.collect()
    }
}

#[cfg(test)]
mod tests;
