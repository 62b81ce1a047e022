//! The catalog as a whole, over a source in memory.
#![allow(clippy::unwrap_used)]

mod classes;
mod compact;
mod damage;
mod directory;
mod model;
mod shards;
mod told;

use super::*;
use crate::{
    id::{PieceId, Version},
    origin::{Link, ObjectEntry},
};
use bytes::Bytes;
use futures::{StreamExt, stream::BoxStream};
use std::{collections::BTreeMap, sync::Mutex as StdMutex};

/// An origin in memory: path to (version, bytes or a size without bytes).
#[derive(Debug, Default)]
pub(super) struct Memory {
    objects: StdMutex<BTreeMap<String, (String, u64, Bytes)>>,
    /// Where listing fails, if it does.
    fails_after: StdMutex<Option<usize>>,
    /// Versions that are listed and are no longer there.
    listed_as: StdMutex<BTreeMap<String, String>>,
    /// Symbolic links.
    links: StdMutex<Vec<Link>>,
    /// Empty directories, each with a slash at its end.
    empty_directories: StdMutex<Vec<String>>,
    /// Ranges that were read.
    reads: StdMutex<Vec<(String, Range<u64>)>>,
}

impl Memory {
    pub(super) fn put(&self, path: &str, version: &str, bytes: impl Into<Bytes>) {
        let bytes = bytes.into();
        self.objects.lock().unwrap().insert(path.into(), (version.into(), bytes.len() as u64, bytes));
    }

    /// An object that is only listed.
    pub(super) fn put_size(&self, path: &str, version: &str, size: u64) {
        self.objects.lock().unwrap().insert(path.into(), (version.into(), size, Bytes::new()));
    }

    pub(super) fn put_empty_directories(&self, paths: &[&str]) {
        *self.empty_directories.lock().unwrap() = paths.iter().map(|path| (*path).to_owned()).collect();
    }

    pub(super) fn remove(&self, path: &str) {
        self.objects.lock().unwrap().remove(path);
    }
}

#[async_trait::async_trait]
impl Source for Memory {
    fn list(&self) -> BoxStream<'_, Result<ObjectEntry>> {
        let mut objects = self.objects.lock().unwrap().clone();
        for (path, version) in self.listed_as.lock().unwrap().iter() {
            objects.get_mut(path).unwrap().0.clone_from(version);
        }
        let entries = objects
            .into_iter()
            .rev()
            .map(|(path, (version, size, _))| Ok(ObjectEntry { path, size, version: Version(version.into()) }));
        let fails = *self.fails_after.lock().unwrap();
        let failure = fails.map(|_| Err(Error::Unavailable("the origin went away".into())));
        futures::stream::iter(entries.take(fails.unwrap_or(usize::MAX)).chain(failure)).boxed()
    }

    fn take_details(&self) -> ListingDetails {
        ListingDetails {
            links: self.links.lock().unwrap().clone(),
            empty_directories: self.empty_directories.lock().unwrap().clone(),
            ..ListingDetails::default()
        }
    }

    async fn get(&self, path: &str, version: &Version, range: Range<u64>) -> Result<BoxStream<'static, Result<Bytes>>> {
        self.reads.lock().unwrap().push((path.into(), range.clone()));
        let (current, _, bytes) = self.objects.lock().unwrap().get(path).cloned().unwrap();
        if *current != *version.0 {
            return Err(Error::Stale(format!("{path} changed")));
        }
        let bytes = bytes.slice(range.start as usize..range.end as usize);
        let chunks: Vec<_> = bytes.chunks(1000).map(Bytes::copy_from_slice).map(Ok).collect();
        Ok(futures::stream::iter(chunks).boxed())
    }
}

/// A directory in memory where there is one: syncing is not what is tested.
pub(super) fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

pub(super) fn identity() -> blake3::Hash {
    blake3::hash(b"a dataset")
}

pub(super) fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

pub(super) fn build(dir: &Path, layout: &str, source: &Memory) -> Result<Catalog> {
    wait(Catalog::build_with(dir, &identity(), &layout.parse().unwrap(), source, &RefreshRules::default()))
}

impl Catalog {
    /// A refresh that nothing stops.
    pub(super) async fn refresh_from(&self, source: &dyn Source) -> Result<RefreshReport> {
        let rules = RefreshRules { confirm_removals: true, ..RefreshRules::default() };
        self.refresh_and(source, &rules, None).await
    }
}

pub(super) fn reopen(dir: &Path, layout: &str) -> Option<Catalog> {
    Catalog::open(dir, &identity(), &layout.parse().unwrap()).unwrap()
}

/// The names of all items, in order.
pub(super) fn names(snapshot: &Snapshot) -> Vec<String> {
    (0..snapshot.len()).map(|id| snapshot.item_name(id).unwrap()).collect()
}

#[test]
fn an_empty_dataset_is_a_snapshot_without_items() {
    let dir = scratch();
    for layout in ["files", "blocks", "tar", "tfrecord"] {
        let catalog = build(&dir.path().join(layout), layout, &Memory::default()).unwrap();
        let snapshot = catalog.current();
        assert_eq!((snapshot.len(), snapshot.object_count(), catalog.objects().pieces()), (0, 0, 0));
        assert!(matches!(snapshot.item(0), Err(Error::NotFound(text)) if text.contains("0 items")));
        assert_eq!(snapshot.lookup(""), None);
        assert!(snapshot.list("", None, 10).is_empty());
        assert_eq!(reopen(&dir.path().join(layout), layout).unwrap().current().id(), snapshot.id());
    }
}

#[test]
fn blocks_cut_objects_and_leave_empty_ones_out() {
    let (dir, source) = (scratch(), Memory::default());
    source.put_size("a", "1", 5 << 20);
    source.put_size("b", "2", 0);
    source.put_size("c", "3", 1);
    source.put_size("huge", "4", 5 << 40);
    let snapshot = build(dir.path(), "blocks:2MiB", &source).unwrap().current();
    assert_eq!(snapshot.len(), 3 + 1 + (5 << 19));
    let part = |id| snapshot.item(id).unwrap();
    assert_eq!((part(0).range, part(2).range), (0..2 << 20, 4 << 20..5 << 20));
    assert_eq!(part(3), Item { object: snapshot.lookup("c").unwrap(), range: 0..1, label: None });
    assert_eq!(part(snapshot.len() - 1).range, (5 << 40) - (2 << 20)..5 << 40);
    assert_eq!(snapshot.items_of(snapshot.lookup("b").unwrap()), 3..3);
    let named: Vec<String> = (0..4).map(|id| snapshot.item_name(id).unwrap()).collect();
    assert_eq!(named, ["a#0", "a#1", "a#2", "c"]);
}

#[test]
fn odd_names_are_kept_exactly_and_nothing_else_is_found() {
    let (dir, source) = (scratch(), Memory::default());
    let long = "x".repeat(1024);
    let odd = ["../../etc/passwd", "a\nb", "a", "a/b", "a//b", "é", "e\u{301}", "/lead", &long, ".", "..", "a\0b", " "];
    odd.iter().enumerate().for_each(|(n, path)| source.put_size(path, &n.to_string(), n as u64));
    let catalog = build(dir.path(), "files", &source).unwrap();
    let snapshot = catalog.current();
    assert_eq!(snapshot.object_count() as usize, odd.len());
    for (n, path) in odd.iter().enumerate() {
        let slot = snapshot.lookup(path).unwrap();
        assert_eq!((catalog.objects().path(slot), catalog.objects().size(slot)), (path.to_string(), n as u64));
        assert_eq!(catalog.objects().version(slot), Version(n.to_string().into()));
    }
    for path in ["", "etc/passwd", "../..", "a/", "b", "xx", "É"] {
        assert_eq!(snapshot.lookup(path), None, "{path}");
    }
}

#[test]
fn of_objects_listed_twice_the_last_stays() {
    let mut listing = Listing::default();
    for (path, size) in [("b", 1), ("a", 2), ("b", 3), ("a", 4), ("b", 5)] {
        listing.push(&ObjectEntry { path: path.into(), size, version: Version("v".into()) }).unwrap();
    }
    listing.sort();
    let sizes: Vec<u64> = (0..listing.len()).map(|index| listing.row(index).size).collect();
    assert_eq!(sizes, [4, 5]);
}

#[test]
fn a_listing_that_fails_in_the_middle_changes_nothing() {
    let (dir, source) = (scratch(), Memory::default());
    (0..10).for_each(|n| source.put_size(&format!("f{n}"), "1", 1));
    let catalog = build(dir.path(), "files", &source).unwrap();
    let before = (catalog.current().id(), names(&catalog.current()));
    *source.fails_after.lock().unwrap() = Some(5);
    assert!(matches!(wait(catalog.refresh_from(&source)), Err(Error::Unavailable(_))));
    assert_eq!((catalog.current().id(), names(&catalog.current())), before);
    assert!(build(&dir.path().join("other"), "files", &source).is_err());
    assert!(reopen(&dir.path().join("other"), "files").is_none());
}

#[test]
fn too_many_pieces_are_refused() {
    let (dir, source) = (scratch(), Memory::default());
    source.put_size("a", "1", 1 << 51);
    source.put_size("b", "1", (1 << 51) - (1 << 20));
    assert_eq!(build(dir.path(), "files", &source).unwrap().objects().pieces(), u32::MAX);
    source.put_size("c", "1", 1);
    assert!(matches!(build(dir.path(), "files", &source), Err(Error::Invalid(_))));
}

#[test]
fn another_origin_or_layout_is_built_anew() {
    let (dir, source) = (scratch(), Memory::default());
    source.put_size("a", "1", 1);
    build(dir.path(), "files", &source).unwrap();
    assert!(reopen(dir.path(), "blocks").is_none());
    assert!(Catalog::open(dir.path(), &blake3::hash(b"another"), &Layout::Files).unwrap().is_none());
    assert!(reopen(&dir.path().join("nothing"), "files").is_none());
    build(dir.path(), "blocks", &source).unwrap();
    assert_eq!(reopen(dir.path(), "blocks").unwrap().current().len(), 1);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3, "the files of the old catalog are gone");
}

#[test]
fn pieces_and_objects_find_each_other() {
    let (dir, source) = (scratch(), Memory::default());
    for n in 0..100u64 {
        source.put_size(&format!("{n:03}"), "v", [0, 1, 1 << 20, (1 << 20) + 1, 7 << 20][n as usize % 5]);
    }
    let objects = build(dir.path(), "files", &source).unwrap().objects();
    let mut piece = 0;
    for slot in (0..objects.len()).map(ObjectSlot) {
        assert_eq!(objects.first_piece(slot), PieceId(piece));
        for _ in 0..objects.size(slot).div_ceil(1 << 20) {
            assert_eq!(objects.object_of(PieceId(piece)), Some(slot));
            piece += 1;
        }
    }
    assert_eq!(objects.pieces(), piece);
}

#[test]
fn an_item_of_files_takes_at_most_26_bytes_beside_its_name() {
    let (dir, source) = (scratch(), Memory::default());
    for n in 0..20_000u64 {
        let etag = format!("\"{}\"", &blake3::hash(&n.to_le_bytes()).to_hex()[..32]);
        source.put_size(&format!("n{:04}/n{:04}_{n}.JPEG", n % 100, n % 100), &etag, n * 10_000_019 % (20 << 20));
    }
    let catalog = build(dir.path(), "files", &source).unwrap();
    let bytes = catalog.objects().memory_bytes() + catalog.current().memory_bytes();
    assert!(bytes <= 26 * 20_000, "{} bytes an item", bytes as f64 / 20_000.0);
}
