//! Several datasets in one tier, several tiers under one dataset.

use crate::world::{World, content, read};
use fodder_core::{
    Dataset, Engine,
    config::{DatasetConfig, EngineConfig, Medium},
    engine::Source,
};
use fodder_policy::Policy;
use std::{
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

const MIB: usize = 1 << 20;

async fn read_all(dataset: &Arc<Dataset>, world: &World) {
    for (path, bytes) in &world.origin {
        let object = dataset.snapshot().lookup(path).unwrap();
        assert!(read(dataset, object, 0..bytes.len() as u64, true).await.unwrap() == *bytes);
    }
}

/// Writing to the tiers goes on behind a read: waits until it is so.
async fn settled(what: &str, mut so: impl FnMut() -> bool) {
    let wait = async {
        while !so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), wait).await.unwrap_or_else(|_| panic!("waited in vain: {what}"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dataset_that_fills_a_tier_yields_to_one_that_has_less_than_its_share() {
    let mut first = World::new(Policy::Minio, 24 << 20);
    let mut second = World::new(Policy::Minio, 24 << 20);
    for n in 0..24 {
        for world in [&mut first, &mut second] {
            let path = format!("object-{n}");
            world.put(&path, content(&path, 0, MIB));
        }
    }
    let (engine, one) = first.start().await.unwrap();
    read_all(&one, &first).await;
    settled("the first fills the tier", || one.status().cached_bytes > 20 << 20).await;
    let config = DatasetConfig { name: "second".into(), ..second.dataset_config() };
    let two = engine.add_dataset(config).await.unwrap();
    for _ in 0..3 {
        read_all(&two, &second).await;
    }
    settled("the second has its share", || two.status().cached_bytes > 10 << 20).await;
    let (one, two) = (one.status().cached_bytes, two.status().cached_bytes);
    assert!(one > 6 << 20 && two < 16 << 20, "the first keeps about half: {one} and {two}");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dataset_that_nobody_reads_any_more_yields_everything() {
    let mut first = World::new(Policy::Minio, 24 << 20);
    let mut second = World::new(Policy::Minio, 24 << 20);
    for n in 0..20 {
        for world in [&mut first, &mut second] {
            let path = format!("object-{n}");
            world.put(&path, content(&path, 0, MIB));
        }
    }
    let config = EngineConfig { idle_after: Duration::from_millis(1500), ..first.engine_config() };
    let engine = Engine::open(config).await.unwrap();
    let one = engine.add_dataset(first.dataset_config()).await.unwrap();
    read_all(&one, &first).await;
    settled("the first is cached", || one.status().cached_pieces == 20).await;
    let config = DatasetConfig { name: "second".into(), ..second.dataset_config() };
    let two = engine.add_dataset(config).await.unwrap();
    let all_of_the_second = async {
        while two.status().cached_pieces < 20 {
            read_all(&two, &second).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), all_of_the_second).await.expect("the first never became idle");
    assert!(one.status().cached_pieces < 8, "it had to go below its share: {}", one.status().cached_pieces);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_that_nobody_reads_is_found_and_fetched_again() {
    let mut world = World::new(Policy::Minio, 24 << 20);
    (0..4).for_each(|n| world.put(&format!("object-{n}"), content(&format!("object-{n}"), 0, MIB)));
    let config = EngineConfig {
        scrub_interval: Duration::from_millis(10),
        scrub_bytes_per_second: 1 << 30,
        ..world.engine_config()
    };
    let engine = Engine::open(config).await.unwrap();
    let dataset = engine.add_dataset(world.dataset_config()).await.unwrap();
    read_all(&dataset, &world).await;
    settled("all are cached", || dataset.status().cached_pieces == 4).await;
    let tier = world.tier_dirs().remove(0);
    let files = walk(&tier.join("data"));
    assert_eq!(files.len(), 4);
    let file = std::fs::File::options().write(true).open(&files[2]).unwrap();
    file.write_all_at(&[0xff; 64], 4096).unwrap();
    settled("the damaged one is dropped", || dataset.status().cached_pieces == 3).await;
    read_all(&dataset, &world).await;
    settled("it was fetched anew", || dataset.status().cached_pieces == 4).await;
    assert_eq!(dataset.stats().origin, 5);
    engine.shutdown().await;
}

fn walk(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_memory_evicts_goes_to_the_disk_and_comes_back_when_it_is_read() {
    let mut world = World::new(Policy::Lru, 6 << 20);
    world.mem = Some(tempfile::tempdir_in("/dev/shm").unwrap());
    for n in 0..8 {
        let path = format!("object-{n}");
        world.put(&path, content(&path, 0, MIB));
    }
    let (engine, dataset) = world.start().await.unwrap();
    read_all(&dataset, &world).await;
    settled("all eight are cached in two tiers", || dataset.status().cached_pieces >= 8).await;
    assert_eq!(dataset.stats().origin, 8);
    let mut moved_down = None;
    for object in dataset.snapshot().objects() {
        let mut source = Source::Joined;
        // What was just written is joined until its writer has said so.
        while source == Source::Joined {
            source = dataset.read(object, 0..MIB as u64).await.unwrap().source;
        }
        assert!(matches!(source, Source::Tier(_)), "nothing was lost: {source:?}");
        moved_down = moved_down.or((source == Source::Tier(Medium::Ssd)).then_some(object));
    }
    let moved_down = moved_down.expect("memory does not hold all eight");
    let mut buf = vec![0; MIB];
    let in_memory = Some(Source::Tier(Medium::Mem));
    settled("it is moved up again", || dataset.try_read(moved_down, 0, &mut buf) == in_memory).await;
    engine.shutdown().await;
}
