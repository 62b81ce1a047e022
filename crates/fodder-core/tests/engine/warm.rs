//! Warming: what is brought in, what is left out, and what is said about it.

use crate::world::{World, content, read};
use fodder_core::{
    Dataset, Error,
    config::{DatasetConfig, Quota},
    engine::warm::{Order, Progress, Selection, Share},
};
use fodder_policy::Policy;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

const MIB: usize = 1 << 20;

fn all() -> Order {
    below("")
}

fn below(path: &str) -> Order {
    let selection = Selection::Path(path.into());
    Order { selection, share: Share::All, max_bytes: None, bytes_per_second: None, workers: 8 }
}

async fn warm(dataset: &Arc<Dataset>, order: Order) -> Progress {
    let mut warming = dataset.warm(order).unwrap();
    tokio::time::timeout(Duration::from_secs(60), warming.ended()).await.expect("it comes to its end").unwrap()
}

/// `count` objects of `bytes` bytes each, in two directories.
fn world(policy: Policy, quota_bytes: u64, count: usize, bytes: usize) -> World {
    let mut world = World::new(policy, quota_bytes);
    for n in 0..count {
        let path = format!("{}/{n:03}", ["train", "val"][n % 2]);
        world.put(&path, content(&path, 0, bytes));
    }
    world
}

async fn everything_is_right(dataset: &Arc<Dataset>, world: &World) {
    for (path, bytes) in &world.origin {
        let object = dataset.snapshot().lookup(path).unwrap();
        assert!(read(dataset, object, 0..bytes.len() as u64, true).await.unwrap() == *bytes, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn warming_fetches_every_object_once_and_again_nothing() {
    let mut world = world(Policy::Minio, 64 << 20, 20, 300_000);
    world.put("empty", Vec::new());
    world.put("train/large", content("train/large", 0, 9 * MIB + 17));
    let (engine, dataset) = world.start().await.unwrap();
    let total = 20 * 300_000 + 9 * MIB as u64 + 17;
    let first = warm(&dataset, all()).await;
    assert!(first.is_complete(), "{first:?}");
    assert_eq!((first.files, first.files_there, first.files_skipped), (22, 22, 1), "the empty one was there");
    assert_eq!((first.bytes, first.bytes_there, first.bytes_fetched), (total, total, total));
    assert_eq!(dataset.stats().origin_requests, 20 + 3, "a request for each object, three for the large one");
    assert_eq!(dataset.stats().bytes_from_origin, total);
    let second = warm(&dataset, all()).await;
    assert!(second.is_complete());
    assert_eq!((second.files_skipped, second.bytes_skipped, second.bytes_fetched), (22, total, 0));
    everything_is_right(&dataset, &world).await;
    assert_eq!(dataset.stats().bytes_from_origin, total, "readers found everything");
    assert_eq!(dataset.stats().origin, 0);
    engine.shutdown().await;
    assert_eq!(engine.status().budget_used_bytes, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_read_before_is_skipped_piece_by_piece() {
    let mut world = World::new(Policy::Minio, 64 << 20);
    world.put("large", content("large", 0, 8 * MIB));
    let (engine, dataset) = world.start().await.unwrap();
    let object = dataset.snapshot().lookup("large").unwrap();
    dataset.read(object, 3 * MIB as u64..5 * MIB as u64).await.unwrap();
    while dataset.residence(object).cached_bytes < 2 * MIB as u64 {
        tokio::task::yield_now().await;
    }
    let progress = warm(&dataset, all()).await;
    assert!(progress.is_complete());
    assert_eq!((progress.bytes_skipped, progress.bytes_fetched), (2 * MIB as u64, 6 * MIB as u64));
    assert_eq!(dataset.stats().bytes_from_origin, 8 * MIB as u64);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_path_is_a_directory_an_object_or_the_beginning_of_names() {
    let world = world(Policy::Minio, 64 << 20, 10, 1000);
    let (engine, dataset) = world.start().await.unwrap();
    for (path, files) in [("val/009", 1), ("val", 5), ("val/", 5), ("train/00", 5), ("", 10)] {
        let progress = warm(&dataset, below(path)).await;
        assert_eq!((progress.files, progress.is_complete()), (files, true), "{path:?}");
    }
    assert_eq!(dataset.stats().origin_requests, 10);
    for path in ["vla", "/val", "val/009/x"] {
        let refused = dataset.warm(below(path));
        assert!(matches!(&refused, Err(Error::NotFound(text)) if text.contains(path)), "{path:?}: {refused:?}");
    }
    let listed: Vec<_> =
        ["val/001", "train/000", "val/001"].map(|path| dataset.snapshot().lookup(path).unwrap()).to_vec();
    let progress = warm(&dataset, Order { selection: Selection::Objects(listed), ..all() }).await;
    assert_eq!((progress.files, progress.files_skipped), (2, 2), "what is listed twice counts once");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_no_objects_are_there_is_nothing_to_warm_but_an_empty_list_is_done() {
    let world = World::new(Policy::Minio, 64 << 20);
    let (engine, dataset) = world.start().await.unwrap();
    for selection in [Selection::Path(String::new()), Selection::Shown(String::new()), Selection::Path("a".into())] {
        let refused = dataset.warm(Order { selection, ..all() });
        assert!(matches!(&refused, Err(Error::NotFound(text)) if text.contains("has no files")), "{refused:?}");
    }
    let progress = warm(&dataset, Order { selection: Selection::Objects(Vec::new()), ..all() }).await;
    assert_eq!((progress.files, progress.is_complete()), (0, true));
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn warming_that_is_stopped_goes_on_where_it_was() {
    let mut world = world(Policy::Minio, 64 << 20, 40, 200_000);
    world.origin_prefix = "throttled:latency=10ms:".into();
    let (engine, dataset) = world.start().await.unwrap();
    let mut warming = dataset.warm(Order { workers: 2, ..all() }).unwrap();
    while warming.progress().files_there < 5 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(!warming.progress().is_complete());
    drop(warming);
    let given_back = async {
        while engine.status().budget_used_bytes > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), given_back).await.expect("the memory is given back");
    let fetched = dataset.stats().origin_requests;
    assert!(fetched < 40, "it stopped");
    let rest = warm(&dataset, all()).await;
    assert!(rest.is_complete());
    assert!(rest.files_skipped >= 5 && rest.files_skipped < 40, "{rest:?}");
    assert_eq!(rest.bytes_fetched, (40 - rest.files_skipped) * 200_000);
    everything_is_right(&dataset, &world).await;
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_large_request_what_has_come_counts_before_its_end() {
    let mut world = World::new(Policy::Minio, 64 << 20);
    world.put("large", content("large", 0, 4 * MIB));
    world.origin_prefix = "throttled:latency=1ms,bandwidth=2MB/s:".into();
    let (engine, dataset) = world.start().await.unwrap();
    let mut warming = dataset.warm(all()).unwrap();
    let came = async {
        while warming.progress().bytes_there == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), came).await.expect("something comes");
    let progress = warming.progress();
    assert!(progress.bytes_there < 4 * MIB as u64 && progress.files_there == 0, "{progress:?}");
    drop(warming);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_exceeds_the_most_that_may_be_there_is_left_out_and_told() {
    let mut world = World::new(Policy::Minio, 64 << 20);
    for (path, bytes) in [("a", 400_000), ("b", 500_000), ("c", 300_000), ("d", 250_000)] {
        world.put(path, content(path, 0, bytes));
    }
    let (engine, dataset) = world.start().await.unwrap();
    let order = Order { max_bytes: Some(1_000_000), ..all() };
    for fetched in [900_000, 0] {
        let progress = warm(&dataset, order.clone()).await;
        assert_eq!((progress.files_there, progress.files_too_large), (2, 2), "{progress:?}");
        assert_eq!((progress.bytes_there, progress.bytes_fetched), (900_000, fetched));
        assert!(progress.finished && !progress.is_complete());
    }
    let progress = warm(&dataset, Order { max_bytes: Some(0), ..all() }).await;
    assert_eq!((progress.files_there, progress.files_too_large), (2, 2), "what is there stays there");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_that_declines_is_not_overruled_and_costs_no_fetch() {
    let mut world = world(Policy::Minio, 64 << 20, 16, MIB);
    world.policy = Policy::Minio;
    let engine = fodder_core::Engine::open(world.engine_config()).await.unwrap();
    // Six of them, and what their files cost beside their bytes.
    let quota = Some(Quota::Bytes((6 << 20) + (256 << 10)));
    let config = fodder_core::config::DatasetConfig { quota, ..world.dataset_config() };
    let dataset = engine.add_dataset(config).await.unwrap();
    for _ in 0..2 {
        let progress = warm(&dataset, all()).await;
        assert_eq!((progress.files_there, progress.files_declined, progress.files_evicted), (6, 10, 0), "{progress:?}");
        assert!(progress.declined_because.contains("minio"), "{}", progress.declined_because);
        assert!(!progress.is_complete());
        assert_eq!(dataset.stats().bytes_from_origin, 6 << 20, "nothing is fetched in vain");
    }
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_policy_that_evicts_what_cannot_fit_is_told_and_not_fetched() {
    let world = world(Policy::Lru, 8 << 20, 24, MIB);
    let (engine, dataset) = world.start().await.unwrap();
    let progress = warm(&dataset, all()).await;
    assert!(progress.finished && !progress.is_complete(), "{progress:?}");
    let Progress { files_there, files_declined, files_evicted, .. } = progress;
    assert_eq!(files_there + files_declined + files_evicted, 24, "{progress:?}");
    assert!(files_there >= 5 && files_declined >= 16, "{progress:?}");
    // What was given up at once is tried again, a little.
    assert!(progress.bytes_fetched <= 12 << 20, "{progress:?}");
    assert!(progress.declined_because.contains("8.0 MiB"), "{progress:?}");
    let again = warm(&dataset, below("val/")).await;
    assert!(again.files == 12 && again.files_there >= 5, "others make room: {again:?}");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_bytes_are_taken_than_the_bandwidth_allows() {
    let world = world(Policy::Minio, 64 << 20, 8, 250_000);
    let (engine, dataset) = world.start().await.unwrap();
    let began = Instant::now();
    let progress = warm(&dataset, Order { bytes_per_second: Some(2_000_000), ..all() }).await;
    assert!(progress.is_complete());
    // The last object waits for the seven before it.
    let least = Duration::from_secs_f64(7.0 * 250_000.0 / 2_000_000.0) - Duration::from_millis(60);
    let took = began.elapsed();
    assert!(took >= least, "{took:?}");
    let (told, fetched) = (progress.bytes_per_second, progress.bytes_fetched as f64);
    assert!(told >= fetched / took.as_secs_f64() && told <= fetched / least.as_secs_f64(), "the average: {told}");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_that_are_gone_are_failures_with_names_and_the_others_come() {
    let world = world(Policy::Minio, 64 << 20, 10, 1000);
    let (engine, dataset) = world.start().await.unwrap();
    for path in ["train/000", "val/003"] {
        std::fs::remove_file(world.origin_dir().join(path)).unwrap();
    }
    let progress = warm(&dataset, all()).await;
    assert_eq!((progress.files_there, progress.files_failed), (8, 2), "{progress:?}");
    let mut named: Vec<_> = progress.problems.iter().map(|problem| problem.path.as_str()).collect();
    named.sort_unstable();
    assert_eq!(named, ["train/000", "val/003"]);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_are_gone_or_changed_are_passed_over_however_many_they_are() {
    let mut world = world(Policy::Minio, 64 << 20, 300, 100);
    let (engine, dataset) = world.start().await.unwrap();
    std::fs::remove_dir_all(world.origin_dir().join("train")).unwrap();
    for n in (1..200).step_by(2) {
        let path = format!("val/{n:03}");
        world.put(&path, content(&path, 1, 101));
    }
    let progress = warm(&dataset, all()).await;
    assert_eq!((progress.files_there, progress.files_failed, progress.files_outdated), (50, 250, 250), "{progress:?}");
    dataset.refresh().await.unwrap();
    let progress = warm(&dataset, all()).await;
    assert_eq!((progress.files_there, progress.is_complete()), (150, true), "{progress:?}");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_origin_that_gives_nothing_is_given_up() {
    let world = World::new(Policy::Minio, 64 << 20);
    let server = fodder_s3_server::Server::start("127.0.0.1:0").await.unwrap();
    for n in 0..300 {
        let key = format!("{n:03}");
        server.put(&key, "content");
        // Trying again is of no use, which takes no time.
        server.faults(&key, [fodder_s3_server::Fault::Status(501, "NotImplemented")]);
    }
    let origin = format!("s3://bucket?endpoint={}", server.endpoint());
    let config = DatasetConfig { anonymous: true, ..DatasetConfig::new("world", origin) };
    let engine = fodder_core::Engine::open(world.engine_config()).await.unwrap();
    let dataset = engine.add_dataset(config).await.unwrap();
    let ended = dataset.warm(all()).unwrap().ended().await;
    assert!(matches!(&ended, Err(Error::Unavailable(text)) if text.contains("64 consecutive failures")), "{ended:?}");
    assert!(dataset.stats().origin_requests < 100);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_and_warming_share_one_fetch_of_each_object() {
    let mut world = world(Policy::Minio, 64 << 20, 30, 100_000);
    world.origin_prefix = "throttled:latency=5ms:".into();
    let (engine, dataset) = world.start().await.unwrap();
    let warming = tokio::spawn({
        let dataset = Arc::clone(&dataset);
        async move { warm(&dataset, all()).await }
    });
    everything_is_right(&dataset, &world).await;
    assert!(warming.await.unwrap().is_complete());
    assert_eq!(dataset.stats().bytes_from_origin, 30 * 100_000);
    engine.shutdown().await;
}
