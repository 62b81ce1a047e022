//! Objects that change at the origin behind the cache's back.

use crate::{
    jobs::introduction,
    world::{World, content, read},
};
use fodder_core::{
    Dataset, Engine, Error,
    config::{DatasetConfig, Quota},
    job::{Mode, Order},
    layout::Layout,
};
use fodder_policy::Policy;
use fodder_s3_server::{Fault, Server};
use futures::FutureExt;
use std::{sync::Arc, time::Duration};

const MIB: usize = 1 << 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_that_changed_is_old_or_stale_and_never_mixed() {
    let mut world = World::new(Policy::Minio, 64 << 20);
    world.put("a", content("a", 1, 4 * MIB));
    let (engine, dataset) = world.start().await.unwrap();
    let old = dataset.snapshot().lookup("a").unwrap();
    read(&dataset, old, 0..MIB as u64, false).await.unwrap();
    world.put("a", content("a", 2, 4 * MIB));

    let cached = read(&dataset, old, 0..MIB as u64, false).await.unwrap();
    assert!(cached == content("a", 1, 4 * MIB)[..MIB], "what is cached whole is answered as it was");
    for stream in [false, true] {
        let crossing = read(&dataset, old, 0..2 * MIB as u64, stream).await;
        assert!(matches!(crossing, Err(Error::Stale(_))), "{crossing:?}");
    }

    let report = dataset.refresh().await.unwrap();
    assert_eq!((report.added, report.changed, report.removed), (0, 1, 0));
    let new = dataset.snapshot().lookup("a").unwrap();
    assert_ne!(old, new);
    let bytes = read(&dataset, new, 0..4 * MIB as u64, false).await.unwrap();
    assert!(bytes == content("a", 2, 4 * MIB));
    engine.shutdown().await;
}

/// A server whose next listing is answered only after the time in which these tests must end.
fn stall(server: &Server) {
    server.faults("", [Fault::Late(Duration::from_secs(600))]);
}

/// Runs something until the server has been asked for a listing, and gives it up then.
async fn abandon<T>(server: &Server, work: impl Future<Output = T>) {
    let before = server.requests();
    let asked = async {
        while server.requests() == before {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::select! {
        _ = work => panic!("a listing that stalls has ended"),
        () = tokio::time::timeout(Duration::from_secs(30), asked).map(Result::unwrap) => {}
    }
}

/// Before this is over a stalled request is not even tried again.
const SOON: Duration = Duration::from_secs(12);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refresh_whose_caller_goes_away_stops_listing() {
    let world = World::new(Policy::Minio, 64 << 20);
    let server = Server::start("127.0.0.1:0").await.unwrap();
    server.put("a", "content");
    let origin = format!("s3://bucket?endpoint={}", server.endpoint());
    let config = DatasetConfig { anonymous: true, ..DatasetConfig::new("world", origin) };
    let engine = Engine::open(world.engine_config()).await.unwrap();
    stall(&server);
    abandon(&server, engine.add_dataset(config.clone())).await;
    let added = tokio::time::timeout(SOON, engine.add_dataset(config)).await;
    let dataset = added.expect("the abandoned listing has stopped").unwrap();
    server.put("b", "content");
    stall(&server);
    abandon(&server, dataset.refresh()).await;
    let report =
        tokio::time::timeout(SOON, dataset.refresh()).await.expect("the abandoned listing has stopped").unwrap();
    assert_eq!(report.added, 1);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_snapshot_no_longer_has_makes_room_even_where_nothing_is_ever_evicted() {
    let mut world = World::new(Policy::Minio, 8 << 20);
    world.put("a", content("a", 1, 5 * MIB));
    let (engine, dataset) = world.start().await.unwrap();
    for version in 2..6 {
        let object = dataset.snapshot().lookup("a").unwrap();
        let kept_whole = async {
            // On a busy machine the disk may be too slow for a piece, which is then fetched again.
            while dataset.lease(object).await.is_err() {
                read(&dataset, object, 0..5 * MIB as u64, true).await.unwrap();
            }
        };
        tokio::time::timeout(Duration::from_secs(30), kept_whole).await.expect("it is kept whole");
        world.put("a", content("a", version, 5 * MIB));
        dataset.refresh().await.unwrap();
    }
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_cache_file_is_fetched_again() {
    let mut world = World::new(Policy::Minio, 64 << 20);
    world.put("a", content("a", 1, 3 * MIB));
    let (engine, dataset) = world.start().await.unwrap();
    let object = dataset.snapshot().lookup("a").unwrap();
    read(&dataset, object, 0..3 * MIB as u64, true).await.unwrap();
    engine.shutdown().await;
    drop((engine, dataset));

    let tier = world.tier_dirs().remove(0);
    let file = files_below(&tier.join("data")).remove(0);
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[MIB + 17] ^= 4;
    std::fs::write(&file, bytes).unwrap();

    let (engine, dataset) = world.start().await.unwrap();
    let bytes = read(&dataset, object, 0..3 * MIB as u64, true).await.unwrap();
    assert!(bytes == content("a", 1, 3 * MIB));
    assert!(dataset.stats().corrupt_pieces > 0);
    engine.shutdown().await;
}

pub fn files_below(dir: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_read_before_an_eviction_is_gone_behind_it() {
    let mut world = World::new(Policy::Minio, 128 << 20);
    for n in 0..48 {
        world.put(&format!("{n:02}"), content(&format!("{n:02}"), 1, 1 << 20));
    }
    let (_engine, dataset) = world.start().await.unwrap();
    for round in 0..4 {
        let snapshot = dataset.snapshot();
        let reads = snapshot.objects().map(|object| {
            let dataset = Arc::clone(&dataset);
            async move { dataset.read(object, 0..dataset.objects().size(object)).await.map(drop) }
        });
        futures::future::try_join_all(reads).await.unwrap();
        dataset.evict("").await.unwrap();
        let is_there = |object: &_| dataset.residence(*object).whole.is_some();
        assert_eq!(snapshot.objects().filter(is_there).count(), 0, "in round {round}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_eviction_reports_what_leases_keep_until_they_are_returned() {
    let mut world = World::new(Policy::Minio, 64 << 20);
    for path in ["a", "b"] {
        world.put(path, content(path, 1, MIB));
    }
    let (engine, dataset) = world.start().await.unwrap();
    let [a, b] = ["a", "b"].map(|path| dataset.snapshot().lookup(path).unwrap());
    let lease = dataset.lease(a).await.unwrap();
    drop(dataset.lease(b).await.unwrap());
    let report = dataset.evict("").await.unwrap();
    assert_eq!(report.pieces, 2, "{report:?}");
    assert!((MIB as u64..2 * MIB as u64).contains(&report.bytes), "only one of them is freed: {report:?}");
    let left = report.remainder;
    assert_eq!(left.leased_files, 1);
    assert!((MIB as u64..2 * MIB as u64).contains(&left.leased_bytes), "{left:?}");
    // Nothing is cached any more, and the space is still not free.
    let again = dataset.evict("").await.unwrap();
    assert_eq!((again.pieces, again.bytes), (0, 0));
    assert_eq!(again.remainder, left);
    assert_eq!(dataset.status().cached_bytes, left.leased_bytes);
    drop(lease);
    assert_eq!(dataset.evict("").await.unwrap().remainder, Default::default());
    assert_eq!(dataset.status().cached_bytes, 0);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dataset_that_was_removed_does_nothing_more_though_somebody_has_it() {
    let mut world = World::new(Policy::Minio, 64 << 20);
    world.put("a", content("a", 1, MIB));
    let config = DatasetConfig { refresh_interval: Some(Duration::from_millis(20)), ..world.dataset_config() };
    let engine = Engine::open(world.engine_config()).await.unwrap();
    let old = engine.add_dataset(config.clone()).await.unwrap();
    engine.remove_dataset("world").await.unwrap();
    let new = engine.add_dataset(config).await.unwrap();
    for path in ["b", "c"] {
        world.put(path, content(path, 1, MIB));
        let comes = async {
            while new.snapshot().lookup(path).is_none() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), comes).await.expect("the new one refreshes");
    }
    assert!(old.snapshot().lookup("b").is_none(), "the old one does not");
    let refreshed = old.refresh().await;
    assert!(matches!(refreshed, Err(Error::Closed)), "{refreshed:?}");
    let object = old.snapshot().lookup("a").unwrap();
    let gone = read(&old, object, 0..MIB as u64, false).await;
    assert!(matches!(gone, Err(Error::Closed)), "{:?}", gone.map(|bytes| bytes.len()));
    engine.shutdown().await;
    drop((engine, old, new));
    ["a", "b", "c"].into_iter().for_each(|path| world.remove(path));
    let (engine, dataset) = world.start().await.expect("the catalog is the new one's, and whole");
    assert!(dataset.snapshot().lookup("c").is_some());
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dataset_is_removed_though_its_origin_is_being_listed() {
    let mut world = World::new(Policy::Minio, 64 << 20);
    world.put("a", content("a", 1, 10));
    let (engine, dataset) = world.start().await.unwrap();
    for _ in 0..20 {
        world.put("a", content("a", 2, 10));
        let refreshing = tokio::spawn({
            let dataset = engine.dataset("world").unwrap();
            async move { dataset.refresh().await }
        });
        tokio::task::yield_now().await;
        engine.remove_dataset("world").await.unwrap();
        assert!(!world.dir.path().join("cache/catalog/world").exists(), "nobody makes it again");
        let _ = refreshing.await.unwrap();
        assert!(!world.dir.path().join("cache/catalog/world").exists(), "nobody makes it again");
        engine.add_dataset(world.dataset_config()).await.unwrap();
    }
    drop(dataset);
    engine.shutdown().await;
}

/// Rewrites an object in place and sets its modification time back, as `rsync --inplace -t` does.
fn rewrite_in_place(world: &World, path: &str, bytes: &[u8]) {
    let path = world.origin_dir().join(path);
    let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
    let mut file = std::fs::File::options().write(true).open(&path).unwrap();
    std::io::Write::write_all(&mut file, bytes).unwrap();
    file.set_modified(modified).unwrap();
}

/// Changes the mode of an object, and with it nothing but the change time.
fn change_mode(world: &World, path: &str, mode: u32) {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
    std::fs::set_permissions(world.origin_dir().join(path), mode).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_rewritten_in_place_with_equal_time_and_size_is_never_mixed() {
    let mut world = World::new(Policy::Minio, 64 << 20);
    world.put("a", content("a", 1, 4 * MIB));
    let (engine, dataset) = world.start().await.unwrap();
    let old = dataset.snapshot().lookup("a").unwrap();
    read(&dataset, old, 0..MIB as u64, false).await.unwrap();
    rewrite_in_place(&world, "a", &content("a", 2, 4 * MIB));

    for stream in [false, true] {
        let crossing = read(&dataset, old, 0..4 * MIB as u64, stream).await;
        assert!(matches!(crossing, Err(Error::Stale(_))), "{:?}", crossing.map(|bytes| bytes.len()));
    }
    let report = dataset.refresh().await.unwrap();
    assert_eq!((report.changed, report.unchanged), (1, 0));
    let new = dataset.snapshot().lookup("a").unwrap();
    let bytes = read(&dataset, new, 0..4 * MIB as u64, false).await.unwrap();
    assert!(bytes == content("a", 2, 4 * MIB));
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_mode_keeps_the_version_and_what_is_cached() {
    let mut world = World::new(Policy::Minio, 64 << 20);
    world.put("a", content("a", 1, 4 * MIB));
    world.put("b", content("b", 1, 100));
    let (engine, dataset) = world.start().await.unwrap();
    let [a, b] = ["a", "b"].map(|path| dataset.snapshot().lookup(path).unwrap());
    read(&dataset, a, 0..MIB as u64, false).await.unwrap();
    read(&dataset, b, 0..100, false).await.unwrap();
    let (snapshot, cached) = (dataset.snapshot().id(), dataset.status().cached_bytes);

    // Found by a read of what is not cached, then by a refresh, then after a restart.
    change_mode(&world, "a", 0o600);
    let bytes = read(&dataset, a, 0..2 * MIB as u64, false).await.unwrap();
    assert!(bytes == content("a", 1, 4 * MIB)[..2 * MIB]);
    ["a", "b"].iter().for_each(|path| change_mode(&world, path, 0o640));
    let report = dataset.refresh().await.unwrap();
    assert_eq!((report.changed, report.unchanged), (0, 2));
    assert_eq!(dataset.snapshot().id(), snapshot);
    assert!(dataset.status().cached_bytes >= cached);
    engine.shutdown().await;
    drop((engine, dataset));

    let (engine, dataset) = world.start().await.unwrap();
    assert_eq!(dataset.refresh().await.unwrap().unchanged, 2);
    let bytes = read(&dataset, a, 0..4 * MIB as u64, true).await.unwrap();
    assert!(bytes == content("a", 1, 4 * MIB));
    engine.shutdown().await;
}

/// Waits until so many bytes are fetched for a job, and staged.
async fn staged(dataset: &Arc<Dataset>, bytes: u64) {
    let wait = async {
        // An eviction pauses prefetching.
        while dataset.stats().bytes_from_origin < bytes
            || dataset.evict("").await.unwrap().remainder.staged_bytes < bytes
        {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), wait).await.expect("what the job is to read is staged");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_mode_of_an_object_with_staged_pieces_fails_no_read() {
    let mut world = World::new(Policy::Minio, 64 << 20);
    world.layout = Layout::Blocks { block_bytes: MIB as u32 };
    // Nothing is kept: what a job is to read waits in memory.
    world.quota = Some(Quota::Bytes(1));
    let expected = content("a", 1, 8 * MIB);
    world.put("a", expected.clone());
    let (engine, dataset) = world.start().await.unwrap();
    let job = dataset.jobs().introduce(introduction("reader", Mode::Strict)).unwrap();
    dataset.jobs().begin(job, 0, 0, Order::Ids([0, 1].into())).unwrap();
    staged(&dataset, 2 * MIB as u64).await;
    let object = dataset.snapshot().lookup("a").unwrap();
    let range = |piece: usize| (piece * MIB) as u64..((piece + 1) * MIB) as u64;
    change_mode(&world, "a", 0o600);
    for piece in [4, 0, 5, 1] {
        let bytes = read(&dataset, object, range(piece), piece < 4).await.unwrap();
        assert!(bytes == expected[piece * MIB..(piece + 1) * MIB], "piece {piece}");
    }
    dataset.jobs().leave(job).unwrap();
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rewritten_object_with_staged_pieces_is_stale() {
    let mut world = World::new(Policy::Minio, 64 << 20);
    world.layout = Layout::Blocks { block_bytes: MIB as u32 };
    world.quota = Some(Quota::Bytes(1));
    world.put("a", content("a", 1, 8 * MIB));
    let (engine, dataset) = world.start().await.unwrap();
    let job = dataset.jobs().introduce(introduction("reader", Mode::Strict)).unwrap();
    dataset.jobs().begin(job, 0, 0, Order::Ids([0].into())).unwrap();
    staged(&dataset, MIB as u64).await;
    let object = dataset.snapshot().lookup("a").unwrap();
    rewrite_in_place(&world, "a", &content("a", 2, 8 * MIB));
    let other = read(&dataset, object, 4 * MIB as u64..5 * MIB as u64, false).await;
    assert!(matches!(other, Err(Error::Stale(_))), "{:?}", other.map(|bytes| bytes.len()));
    dataset.jobs().leave(job).unwrap();
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_whose_change_time_finds_no_room_is_a_new_version_after_a_refresh() {
    let mut world = World::new(Policy::Minio, 64 << 20);
    ["a", "b"].into_iter().for_each(|path| world.put(path, content(path, 1, 2 * MIB)));
    let (engine, dataset) = world.start().await.unwrap();
    dataset.limit_accepted_change_times(1);
    for path in ["a", "b"] {
        let object = dataset.snapshot().lookup(path).unwrap();
        read(&dataset, object, 0..MIB as u64, false).await.unwrap();
        change_mode(&world, path, 0o600);
    }
    let report = dataset.refresh().await.unwrap();
    assert_eq!((report.changed, report.unchanged), (1, 1));
    for path in ["a", "b"] {
        let object = dataset.snapshot().lookup(path).unwrap();
        let bytes = read(&dataset, object, 0..2 * MIB as u64, false).await.unwrap();
        assert!(bytes == content(path, 1, 2 * MIB), "{path}");
    }
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_eviction_by_hand_includes_objects_that_the_origin_no_longer_has() {
    let mut world = World::new(Policy::Minio, 64 << 20);
    for path in ["kept/a", "old/a", "old/b"] {
        world.put(path, content(path, 1, MIB));
    }
    let (engine, dataset) = world.start().await.unwrap();
    for path in ["kept/a", "old/a", "old/b"] {
        let object = dataset.snapshot().lookup(path).unwrap();
        read(&dataset, object, 0..MIB as u64, false).await.unwrap();
    }
    world.remove("old/b");
    world.put("old/a", content("old/a", 2, MIB));
    dataset.refresh().await.unwrap();
    assert_eq!(dataset.evict("old/").await.unwrap().pieces, 2);
    assert_eq!(dataset.evict("").await.unwrap().pieces, 1);
    assert_eq!(dataset.status().cached_pieces, 0);
    engine.shutdown().await;
}

/// The only cache file below a directory.
fn cache_file(dir: &std::path::Path) -> Option<std::path::PathBuf> {
    let mut entries = std::fs::read_dir(dir).ok()?.map(|entry| entry.unwrap().path());
    entries.find_map(|path| if path.is_dir() { cache_file(&path) } else { Some(path) })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pieces_that_a_lease_finds_damaged_leave_the_policies() {
    let mut world = World::new(Policy::Lru, 64 << 20);
    world.put("a", content("a", 1, MIB));
    let (engine, dataset) = world.start().await.unwrap();
    let object = dataset.snapshot().lookup("a").unwrap();
    read(&dataset, object, 0..MIB as u64, false).await.unwrap();
    engine.shutdown().await;
    drop((engine, dataset));
    let file = cache_file(&world.tier_dirs()[0].join("data")).unwrap();
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[1000] ^= 1;
    std::fs::write(&file, bytes).unwrap();

    let (engine, dataset) = world.start().await.unwrap();
    assert!(dataset.try_lease(object).unwrap().is_none());
    let forgotten = async {
        while dataset.stats().corrupt_pieces == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), forgotten).await.expect("the policy is updated without a read");
    engine.shutdown().await;
}
