//! The catalog of a local directory, through a real origin.
#![allow(clippy::unwrap_used)]

use fodder_core::{
    Error,
    catalog::{Catalog, RefreshRules},
    layout::Layout,
    origin::{Origin, OriginOptions},
};
use futures::TryStreamExt;
use std::{fs, path::Path};

async fn open(path: &Path) -> Origin {
    Origin::open(path.to_str().unwrap(), &OriginOptions::default()).await.unwrap()
}

fn identity(origin: &Origin) -> blake3::Hash {
    blake3::hash(origin.identity().as_bytes())
}

fn put(top: &Path, path: &str, bytes: impl AsRef<[u8]>) {
    let path = top.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

fn names(catalog: &Catalog) -> Vec<String> {
    let snapshot = catalog.current();
    (0..snapshot.len()).map(|id| snapshot.item_name(id).unwrap()).collect()
}

#[tokio::test]
async fn a_directory_of_classes_is_listed_refreshed_and_reopened() {
    let (top, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    ["dog/1.jpg", "cat/2.jpg", "cat/1.png", "cat/notes.txt"].iter().for_each(|path| put(top.path(), path, path));
    let origin = open(top.path()).await;
    let identity = identity(&origin);
    let catalog =
        Catalog::build(dir.path(), &identity, &Layout::Files, &origin, &RefreshRules::default()).await.unwrap();
    assert_eq!(names(&catalog), ["cat/1.png", "cat/2.jpg", "dog/1.jpg"]);
    assert_eq!(catalog.current().classes(), ["cat", "dog"]);
    let (first, kept) = (catalog.current().id(), catalog.current().lookup("dog/1.jpg").unwrap());

    let report = catalog.refresh(&origin, &RefreshRules::default()).await.unwrap();
    assert_eq!((report.unchanged, report.added + report.changed + report.removed), (4, 0));
    assert_eq!(catalog.current().id(), first);

    put(top.path(), "ant/0.jpg", "new");
    put(top.path(), "cat/2.jpg", "longer than before");
    fs::remove_file(top.path().join("cat/1.png")).unwrap();
    let report = catalog.refresh(&origin, &RefreshRules::default()).await.unwrap();
    assert_eq!((report.added, report.changed, report.removed, report.unchanged), (1, 1, 1, 2));
    drop(catalog);
    let catalog = Catalog::open(dir.path(), &identity, &Layout::Files).unwrap().unwrap();
    assert_eq!(names(&catalog), ["ant/0.jpg", "cat/2.jpg", "dog/1.jpg"]);
    assert_eq!(catalog.current().lookup("dog/1.jpg"), Some(kept), "what did not change keeps its slot");
    let old = catalog.snapshot(first).unwrap();
    assert_eq!(old.item_name(0).unwrap(), "cat/1.png");
}

#[tokio::test]
async fn the_bytes_of_an_item_are_those_of_its_range() {
    let (top, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let bytes: Vec<u8> = (0..5_000_000u32).map(|n| (n % 251) as u8).collect();
    put(top.path(), "big", &bytes);
    let origin = open(top.path()).await;
    let layout: Layout = "blocks:2MiB".parse().unwrap();
    let catalog =
        Catalog::build(dir.path(), &identity(&origin), &layout, &origin, &RefreshRules::default()).await.unwrap();
    let (snapshot, objects) = (catalog.current(), catalog.objects());
    let item = snapshot.item(2).unwrap();
    let version = objects.version(item.object);
    let chunks = origin.get(&objects.path(item.object), &version, item.range.clone()).await.unwrap();
    let chunks: Vec<_> = chunks.try_collect().await.unwrap();
    assert_eq!(chunks.concat(), bytes[item.range.start as usize..item.range.end as usize]);
    put(top.path(), "big", "changed");
    let stale = origin.get("big", &version, 0..1).await.map(|_| ());
    assert!(matches!(stale, Err(Error::Stale(_))), "{stale:?}");
}

#[tokio::test]
async fn an_origin_that_is_gone_changes_nothing() {
    let (top, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    put(top.path(), "data/a", "a");
    let origin = open(&top.path().join("data")).await;
    let catalog = Catalog::build(dir.path(), &identity(&origin), &Layout::Files, &origin, &RefreshRules::default())
        .await
        .unwrap();
    fs::rename(top.path().join("data"), top.path().join("elsewhere")).unwrap();
    assert!(catalog.refresh(&origin, &RefreshRules::default()).await.is_err());
    assert_eq!(names(&catalog), ["a"]);
}
