//! Objects that a refresh no longer finds: when that is refused, and what happens to their cached data.

use crate::world::{World, content, read};
use fodder_core::{
    Dataset, Engine, Error,
    config::{DatasetConfig, ListingConfig},
};
use fodder_policy::Policy;
use std::{fs, path::Path, process::Command, sync::Arc, time::Duration};

const MIB: usize = 1 << 20;

/// A tmpfs, which is unmounted when dropped.
struct Tmpfs<'a>(&'a Path);

impl<'a> Tmpfs<'a> {
    fn mount(at: &'a Path) -> Option<Self> {
        let mounted = Command::new("mount").args(["-t", "tmpfs", "none"]).arg(at).output();
        mounted.is_ok_and(|output| output.status.success()).then_some(Self(at))
    }
}

impl Drop for Tmpfs<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

async fn open(origin: &Path) -> (World, Arc<Engine>, Arc<Dataset>) {
    let world = World::new(Policy::Minio, 64 << 20);
    let engine = Engine::open(world.engine_config()).await.unwrap();
    let dataset = engine.add_dataset(DatasetConfig::new("world", origin.to_str().unwrap())).await.unwrap();
    (world, engine, dataset)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refresh_of_an_unmounted_origin_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    // Not empty below the mount, and a small dataset: only the file system tells that it is not mounted.
    fs::write(dir.path().join("README"), "mount the data here").unwrap();
    let Some(mounted) = Tmpfs::mount(dir.path()) else { fodder_testing::skip!("mounting a tmpfs needs root") };
    fs::write(dir.path().join("a"), "a").unwrap();
    fs::write(dir.path().join("b"), "b").unwrap();
    let (_world, engine, dataset) = open(dir.path()).await;
    let before = dataset.snapshot().id();
    drop(mounted);

    let error = dataset.refresh().await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, Error::Conflict(_)) && text.contains("is the origin mounted?"), "{text}");
    assert!(text.contains("fodder index world --confirm-removals"), "{text}");
    assert_eq!(dataset.snapshot().id(), before);
    assert_eq!(dataset.status().problems, [text]);

    // The same data mounted again is accepted, though it is another mount.
    let mounted = Tmpfs::mount(dir.path()).unwrap();
    fs::write(dir.path().join("b"), "b").unwrap();
    assert_eq!(dataset.refresh().await.unwrap().removed, 1);
    assert_eq!(dataset.status().problems, [""; 0]);
    drop(mounted);
    assert!(dataset.refresh().await.is_err());
    let report = dataset.refresh_with(true).await.unwrap();
    assert_eq!((report.added, report.removed), (1, 1));
    // What was confirmed is what later refreshes are compared with.
    fs::write(dir.path().join("c"), "c").unwrap();
    fs::remove_file(dir.path().join("README")).unwrap();
    assert_eq!(dataset.refresh().await.unwrap().removed, 1);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listing_without_most_of_the_objects_must_be_confirmed() {
    let dir = tempfile::tempdir().unwrap();
    let file = |n: usize| dir.path().join(format!("{n:02}"));
    (0..30).for_each(|n| fs::write(file(n), "x").unwrap());
    let (_world, engine, dataset) = open(dir.path()).await;
    (0..15).for_each(|n| fs::remove_file(file(n)).unwrap());
    assert_eq!(dataset.refresh().await.unwrap().removed, 15, "half of them is not more than half");
    (15..26).for_each(|n| fs::remove_file(file(n)).unwrap());
    assert!(matches!(dataset.refresh().await, Err(Error::Conflict(_))));
    assert_eq!(dataset.snapshot().object_count(), 15);
    assert_eq!(dataset.refresh_with(true).await.unwrap().removed, 11);
    (26..29).for_each(|n| fs::remove_file(file(n)).unwrap());
    assert_eq!(dataset.refresh().await.unwrap().removed, 3, "a few are always accepted");
    fs::remove_file(file(29)).unwrap();
    assert!(matches!(dataset.refresh().await, Err(Error::Conflict(_))), "an empty listing is not");
    assert_eq!(dataset.refresh_with(true).await.unwrap().removed, 1);
    engine.shutdown().await;
}

/// How much of a removed object is cached after another one was read that does not fit beside it.
async fn left_of_a_removed_object(grace: Duration) -> u64 {
    let mut world = World::new(Policy::Lru, 8 << 20);
    world.put("kept", content("kept", 1, 2 * MIB));
    world.put("removed", content("removed", 1, 2 * MIB));
    world.put("z", content("z", 1, 4 * MIB));
    let engine = Engine::open(world.engine_config()).await.unwrap();
    let listing = ListingConfig { removed_grace: grace, ..ListingConfig::default() };
    let dataset = engine.add_dataset(DatasetConfig { listing, ..world.dataset_config() }).await.unwrap();
    let slot = |path: &str| dataset.snapshot().lookup(path).unwrap();
    let (kept, removed, z) = (slot("kept"), slot("removed"), slot("z"));
    for (object, size) in [(kept, 2), (removed, 2)] {
        read(&dataset, object, 0..size * MIB as u64, false).await.unwrap();
        dataset.lease(object).await.unwrap();
    }
    world.remove("removed");
    assert_eq!(dataset.refresh().await.unwrap().removed, 1);
    read(&dataset, z, 0..4 * MIB as u64, false).await.unwrap();
    let _ = dataset.lease(z).await;
    let left = dataset.residence(removed).cached_bytes;
    engine.shutdown().await;
    left
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removed_objects_keep_their_cached_data_for_a_grace_period() {
    let hour = Duration::from_secs(3600);
    assert_eq!(left_of_a_removed_object(hour).await, 2 << 20, "the least recently used object is evicted instead");
    assert!(left_of_a_removed_object(Duration::ZERO).await < 2 << 20, "without grace it is evicted first");
}
