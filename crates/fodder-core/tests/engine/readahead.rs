//! What is there before it is asked for, though nobody said that it would be: readahead, and what it costs the origin.

use crate::{
    jobs::introduction,
    world::{World, content},
};
use fodder_core::{
    Dataset, Result,
    engine::{DatasetStats, Pattern},
    id::ObjectSlot,
    job::Mode,
};
use fodder_policy::{Policy, readahead::Rent};
use futures::TryStreamExt;
use std::{ops::Range, os::unix::fs::FileExt, sync::Arc, time::Duration};

const MIB: u64 = 1 << 20;

/// Reads as a door does: what is warm at once, and else with what is known of the reads before.
async fn read(dataset: &Arc<Dataset>, object: ObjectSlot, range: Range<u64>, handle: u64) -> Result<Vec<u8>> {
    let mut bytes = vec![0; (range.end - range.start) as usize];
    if dataset.try_read(object, range.start, &mut bytes).is_some() {
        dataset.notice_read(object, &range, handle, false);
        return Ok(bytes);
    }
    let pattern = dataset.notice_read(object, &range, handle, true);
    let replies = dataset.read_stream_as(object, range, pattern);
    let segments = replies.map_ok(|reply| reply.segments.concat()).try_collect::<Vec<_>>();
    Ok(segments.await?.concat())
}

/// Reads all of an object in parts of so many bytes, and compares.
async fn read_all(dataset: &Arc<Dataset>, path: &str, size: u64, part: u64, handle: u64) {
    let object = dataset.snapshot().lookup(path).unwrap();
    let expected = content(path, 0, size as usize);
    for start in (0..size).step_by(part as usize) {
        let range = start..(start + part).min(size);
        let bytes = read(dataset, object, range.clone(), handle).await.unwrap();
        assert!(bytes == expected[range.start as usize..range.end as usize], "{path}: {range:?}");
    }
}

/// Waits until the counts are as they should be.
async fn until(dataset: &Arc<Dataset>, what: &str, ready: impl Fn(&DatasetStats) -> bool) {
    let wait = async {
        while !ready(&dataset.stats()) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let done = tokio::time::timeout(Duration::from_secs(60), wait).await;
    done.unwrap_or_else(|_| panic!("{what}: {:?}", dataset.stats()));
}

fn world(prefix: &str, quota_bytes: u64, objects: &[(&str, u64)]) -> World {
    let mut world = World::new(Policy::Minio, quota_bytes);
    world.origin_prefix = prefix.into();
    for (path, size) in objects {
        world.put(path, content(path, 0, *size as usize));
    }
    world
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_reads_in_sequence_become_few_large_requests() {
    let size = 48 * MIB;
    let world = world("throttled:latency=5ms:", 256 << 20, &[("a", size)]);
    let (engine, dataset) = world.start().await.unwrap();
    read_all(&dataset, "a", size, 64 << 10, 7).await;
    let stats = dataset.stats();
    assert_eq!(stats.bytes_from_origin, size, "every byte once: {stats:?}");
    assert!(stats.origin_requests <= 24, "768 reads became {} requests", stats.origin_requests);
    assert_eq!(stats.readahead_bytes, stats.readahead_used_bytes, "{stats:?}");
    assert!(stats.readahead_bytes >= size / 2, "{stats:?}");
    assert_eq!(stats.readahead_wasted_bytes, 0);
    assert!(stats.origin + stats.bypass <= 24, "hardly anybody had to ask the origin: {stats:?}");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_read_ahead_and_not_kept_is_read_from_memory_in_parts() {
    let size = 32 * MIB;
    // Room for next to nothing of it.
    let world = world("throttled:latency=5ms:", 2 << 20, &[("a", size)]);
    let (engine, dataset) = world.start().await.unwrap();
    read_all(&dataset, "a", size, 128 << 10, 7).await;
    let stats = dataset.stats();
    assert!(stats.bytes_from_origin <= size + 2 * MIB, "every byte about once: {stats:?}");
    assert!(stats.origin_requests <= 24, "{} requests", stats.origin_requests);
    let staged = || engine.status().budget_used_bytes;
    let wait = async {
        while staged() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), wait).await.unwrap_or_else(|_| panic!("{} bytes stay", staged()));
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_lies_unread_than_was_allowed() {
    let mut world = world("", 256 << 20, &[("a", 64 * MIB)]);
    world.policy = Policy::Lru;
    let mut config = world.engine_config();
    config.readahead_bytes = 16 << 20;
    let engine = fodder_core::Engine::open(config).await.unwrap();
    let dataset = engine.add_dataset(world.dataset_config()).await.unwrap();
    let object = dataset.snapshot().lookup("a").unwrap();
    for n in 0..20 {
        read(&dataset, object, n * MIB..(n + 1) * MIB, 7).await.unwrap();
        let stats = dataset.stats();
        let unread = stats.readahead_bytes - stats.readahead_used_bytes - stats.readahead_wasted_bytes;
        assert!(unread <= 16 << 20, "{unread} bytes lie unread");
    }
    assert!(dataset.stats().readahead_used_bytes > 0);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_may_be_told_not_to_guess() {
    let world = world("", 256 << 20, &[("a", 16 * MIB)]);
    let mut config = world.engine_config();
    config.readahead_bytes = 0;
    let engine = fodder_core::Engine::open(config).await.unwrap();
    let dataset = engine.add_dataset(world.dataset_config()).await.unwrap();
    read_all(&dataset, "a", 16 * MIB, MIB, 7).await;
    let stats = dataset.stats();
    assert_eq!((stats.readahead_bytes, stats.origin_requests), (0, 16));
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_reads_large_objects_one_after_another_does_not_begin_anew_with_each() {
    let size = 24 * MIB;
    let names = ["0", "1", "2", "3"];
    let world = world("throttled:latency=5ms:", 256 << 20, &names.map(|name| (name, size)));
    let (engine, dataset) = world.start().await.unwrap();
    for (n, name) in names.iter().enumerate() {
        dataset.notice_open(dataset.snapshot().lookup(name).unwrap(), true);
        read_all(&dataset, name, size, MIB, n as u64 + 1).await;
        if n == 1 {
            // Of the next the beginnings come anyway, 8 MiB each; of the one where it goes on, as far as it looks.
            until(&dataset, "the next object", |stats| stats.bytes_from_origin >= 2 * size + 16 * MIB + 8 * MIB).await;
        }
    }
    let stats = dataset.stats();
    assert_eq!(stats.bytes_from_origin, 4 * size, "every byte once: {stats:?}");
    assert_eq!((stats.readahead_bytes, stats.readahead_wasted_bytes), (stats.readahead_used_bytes, 0), "{stats:?}");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_read_a_large_object_to_its_end_opens_the_next_when_all_of_it_is_there() {
    let size = 24 * MIB;
    let names = ["0", "1", "2", "3"];
    let world = world("throttled:latency=5ms:", 256 << 20, &names.map(|name| (name, size)));
    let (engine, dataset) = world.start().await.unwrap();
    let objects = names.map(|name| dataset.snapshot().lookup(name).unwrap());
    assert!(!dataset.notice_open_file(objects[0], false), "nothing is known of who opens the first");
    read_all(&dataset, "0", size, MIB, 1).await;
    for (object, name) in objects.into_iter().zip(names).skip(1) {
        // The one before may have brought all of it in.
        let mut lease = dataset.try_open(object).unwrap();
        if dataset.notice_open_file(object, lease.is_some()) {
            assert!(dataset.comes_whole(object, Duration::from_secs(60)).await, "{name} comes");
            lease = dataset.try_open(object).unwrap();
        }
        let mut bytes = vec![0; size as usize];
        lease.unwrap_or_else(|| panic!("{name} is whole")).file.read_exact_at(&mut bytes, 0).unwrap();
        assert!(bytes == content(name, 0, size as usize), "{name}");
    }
    let stats = dataset.stats();
    assert_eq!(stats.bytes_from_origin, 4 * size, "every byte once: {stats:?}");
    assert_eq!((stats.readahead_bytes, stats.readahead_wasted_bytes), (stats.readahead_used_bytes, 0), "{stats:?}");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_opens_an_object_does_not_wait_for_a_slow_origin_and_is_not_asked_to_again() {
    let size = 16 * MIB;
    let names = ["0", "1", "2"];
    let world = world("throttled:bandwidth=20MB/s:", 256 << 20, &names.map(|name| (name, size)));
    let (engine, dataset) = world.start().await.unwrap();
    let objects = names.map(|name| dataset.snapshot().lookup(name).unwrap());
    dataset.notice_open_file(objects[0], false);
    read_all(&dataset, "0", size, MIB, 1).await;
    assert!(dataset.notice_open_file(objects[1], false));
    assert!(
        !dataset.comes_whole(objects[1], Duration::from_millis(100)).await,
        "16 MB do not come in a tenth of a second"
    );
    read_all(&dataset, "1", size, MIB, 2).await;
    assert!(!dataset.notice_open_file(objects[2], false), "the next is read as it comes");
    assert_eq!(dataset.stats().readahead_wasted_bytes, 0);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_reads_the_first_of_a_directory_has_as_much_of_the_second_brought_in() {
    let objects = [("a/0", 4 * MIB), ("a/1", 32 * MIB), ("a/2", MIB)];
    let world = world("throttled:latency=5ms:", 256 << 20, &objects);
    let (engine, dataset) = world.start().await.unwrap();
    read_all(&dataset, "a/0", 4 * MIB, MIB, 7).await;
    until(&dataset, "of the second", |stats| stats.bytes_from_origin >= 8 * MIB).await;
    let second = dataset.snapshot().lookup("a/1").unwrap();
    until(&dataset, "it is kept", |_| dataset.residence(second).cached_bytes >= 4 * MIB).await;
    assert_eq!(dataset.stats().bytes_from_origin, 8 * MIB, "and no more");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_reads_another_of_a_directory_or_its_only_one_has_nothing_brought_in() {
    let objects = ["a/0", "a/1", "a/2", "b/0", "c/0"].map(|name| (name, 4 * MIB));
    let world = world("throttled:latency=5ms:", 256 << 20, &objects);
    let (engine, dataset) = world.start().await.unwrap();
    for (handle, name) in ["a/1", "b/0"].into_iter().enumerate() {
        read_all(&dataset, name, 4 * MIB, MIB, handle as u64 + 1).await;
    }
    let stats = dataset.stats();
    assert_eq!(stats.bytes_from_origin, 8 * MIB, "{stats:?}");
    assert_eq!(stats.readahead_bytes, stats.readahead_used_bytes, "nothing was guessed that was not read: {stats:?}");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_in_the_order_of_names_are_there_before_they_are_opened() {
    let names: Vec<String> = (0..40).map(|n| format!("{n:03}")).collect();
    let objects: Vec<_> = names.iter().map(|name| (name.as_str(), 100_000)).collect();
    let world = world("", 256 << 20, &objects);
    let (engine, dataset) = world.start().await.unwrap();
    for (n, name) in names.iter().enumerate() {
        read_all(&dataset, name, 100_000, 100_000, 0).await;
        if n >= 2 {
            let there = 100_000 * (n as u64 + 5).min(40);
            until(&dataset, "the next four are fetched", |stats| stats.bytes_from_origin >= there).await;
        }
    }
    let stats = dataset.stats();
    assert_eq!(stats.bytes_from_origin, 40 * 100_000);
    assert!(stats.origin <= 3, "only the first ones had to be asked for: {stats:?}");
    assert_eq!(stats.readahead_used_bytes, stats.readahead_bytes, "{stats:?}");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_job_nothing_is_guessed() {
    let world = world("", 256 << 20, &[("a", 16 * MIB)]);
    let (engine, dataset) = world.start().await.unwrap();
    dataset.jobs().introduce(introduction("job", Mode::Strict)).unwrap();
    read_all(&dataset, "a", 16 * MIB, MIB, 7).await;
    assert_eq!(dataset.stats().readahead_bytes, 0);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_origin_that_fails_fails_guesses_without_a_trace() {
    let mut world = world("", 256 << 20, &[("a", 64 * MIB)]);
    let (engine, dataset) = world.start().await.unwrap();
    world.remove("a");
    let object = dataset.snapshot().lookup("a").unwrap();
    for n in 0..4 {
        dataset.notice_read(object, &(n * MIB..(n + 1) * MIB), 7, true);
    }
    until(&dataset, "it was tried", |stats| stats.readahead_bytes > 0).await;
    until(&dataset, "and given up", |stats| stats.readahead_wasted_bytes == stats.readahead_bytes).await;
    engine.shutdown().await;
    assert_eq!(engine.status().budget_used_bytes, 0);
}

/// A number that follows from another, with no order in it.
fn scattered(n: u64) -> u64 {
    let n = (n ^ (n >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (n ^ (n >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 13
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_reads_here_and_there_is_not_sent_whole_pieces() {
    let size = 64 * MIB;
    let world = world("", 1 << 30, &[("tokens", size)]);
    let (engine, dataset) = world.start().await.unwrap();
    let object = dataset.snapshot().lookup("tokens").unwrap();
    let expected = content("tokens", 0, size as usize);
    let mut used = 0;
    for n in 1..=128u64 {
        let start = scattered(n) % (size / 8192 - 1) * 8192 + 1;
        let bytes = read(&dataset, object, start..start + 8192, 7).await.unwrap();
        assert!(bytes == expected[start as usize..][..8192]);
        used += 8192;
    }
    let stats = dataset.stats();
    assert_eq!(stats.readahead_bytes, 0, "reads that jump bring in nothing ahead");
    assert!(stats.bytes_from_origin <= used + MIB, "{} bytes fetched for {used}", stats.bytes_from_origin);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_reads_everything_at_random_ends_with_a_cached_object_and_fetched_it_about_once() {
    let size = 16 * MIB;
    let world = world("", 1 << 30, &[("tokens", size)]);
    let (engine, dataset) = world.start().await.unwrap();
    let object = dataset.snapshot().lookup("tokens").unwrap();
    let mut places: Vec<u64> = (0..size / 8192).collect();
    places.sort_by_key(|place| scattered(*place));
    let mut used = 0;
    for place in places {
        read(&dataset, object, place * 8192..(place + 1) * 8192, 7).await.unwrap();
        used += 8192;
        let fetched = dataset.stats().bytes_from_origin;
        // The beginning of an object is never a jump.
        assert!(fetched <= used * u64::from(Rent::MOST_BYTES_A_BYTE) + MIB, "{fetched} bytes fetched for {used}");
    }
    let stats = dataset.stats();
    assert!(stats.bytes_from_origin <= size + size / 8, "{stats:?}");
    until(&dataset, "most of it is cached", |_| dataset.residence(object).cached_bytes == size).await;
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_read_anywhere_brings_in_its_pieces() {
    let world = world("", 256 << 20, &[("a", 32 * MIB)]);
    let (engine, dataset) = world.start().await.unwrap();
    let object = dataset.snapshot().lookup("a").unwrap();
    assert_eq!(dataset.notice_read(object, &(20 * MIB..21 * MIB), 7, true), Pattern::Jump);
    read(&dataset, object, 10 * MIB..11 * MIB, 8).await.unwrap();
    until(&dataset, "it is kept", |_| dataset.residence(object).cached_bytes == MIB).await;
    assert_eq!(dataset.stats().bytes_from_origin, MIB);
    engine.shutdown().await;
}
