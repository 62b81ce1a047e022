//! Several datasets in one tier, several tiers under one dataset.

use crate::world::{World, content, read};
use fodder_core::{
    Dataset, Engine, Error,
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
async fn what_an_earlier_node_left_yields_as_far_as_it_must_and_what_is_expected_does_not() {
    let mut left = World::new(Policy::Minio, 24 << 20);
    let mut new = World::new(Policy::Minio, 24 << 20);
    for n in 0..20 {
        left.put(&format!("object-{n}"), content("left", n, MIB));
    }
    for n in 0..12 {
        new.put(&format!("object-{n}"), content("new", n, MIB));
    }
    let (engine, one) = left.start().await.unwrap();
    read_all(&one, &left).await;
    settled("the first fills the tier", || one.status().cached_bytes >= 20 << 20).await;
    engine.shutdown().await;
    drop((engine, one));

    // The next node in the same directory is for another dataset, at first together with the first, then alone.
    let config = DatasetConfig { name: "new".into(), ..new.dataset_config() };
    let engine = Engine::open(left.engine_config()).await.unwrap();
    engine.expect(["world".to_owned()]);
    let two = engine.add_dataset(config).await.unwrap();
    read_all(&two, &new).await;
    settled("as much as is free", || two.status().cached_bytes >= 2 << 20).await;
    assert!(two.status().cached_bytes < 5 << 20, "{}", two.status().cached_bytes);
    engine.expect([]);
    // A piece that a busy disk does not take in time is kept the next time.
    let filled = async {
        while two.status().cached_pieces < 12 {
            read_all(&two, &new).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), filled).await.expect("all of it finds room");

    let one = engine.add_dataset(left.dataset_config()).await.unwrap();
    let rest = one.status().cached_pieces;
    assert!((9..=12).contains(&rest), "no more is dropped than had to be: {rest}");
    read_all(&one, &left).await;
    engine.shutdown().await;
    drop((engine, one, two));
    let (engine, one) = left.start().await.unwrap();
    read_all(&one, &left).await;
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_failed_is_tried_again_and_fills() {
    let mut world = World::new(Policy::Minio, 24 << 20);
    for n in 0..4 {
        world.put(&format!("object-{n}"), content("disk", n, MIB));
    }
    let (engine, dataset) = world.start().await.unwrap();
    // Nothing can be made where its directory should be.
    let place = world.tier_dirs()[0].join("data/world");
    let _ = std::fs::remove_dir(&place);
    std::fs::write(&place, "in the way").unwrap();
    read_all(&dataset, &world).await;
    settled("the disk has failed", || engine.status().tiers[0].health != "ok").await;
    assert_eq!(dataset.status().cached_bytes, 0);
    std::fs::remove_file(&place).unwrap();
    let healed = async {
        while dataset.status().cached_bytes < 4 << 20 {
            read_all(&dataset, &world).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), healed).await.expect("what the disk takes again is kept");
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn intervals_of_no_length_are_refused() {
    let world = World::new(Policy::Minio, 64 << 20);
    let config = EngineConfig { scrub_interval: Duration::ZERO, ..world.engine_config() };
    let refused = Engine::open(config).await.unwrap_err();
    assert!(matches!(&refused, Error::Invalid(text) if text.contains("scrub_interval")), "{refused}");
    let engine = Engine::open(world.engine_config()).await.unwrap();
    let config = DatasetConfig { refresh_interval: Some(Duration::ZERO), ..world.dataset_config() };
    let refused = engine.add_dataset(config).await.unwrap_err();
    assert!(matches!(&refused, Error::Invalid(text) if text.contains("refresh_interval")), "{refused}");
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
