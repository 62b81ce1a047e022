//! Old versions of objects leave the catalog: what stays bounded, and what everybody who still has one reads.

use crate::{
    jobs::{self, introduction},
    world::{World, content, is_origins_fault, read},
};
use fodder_core::{
    Dataset, Engine,
    catalog::Snapshot,
    config::{DatasetConfig, ListingConfig},
    id::ObjectSlot,
    job::{BatchRequest, Mode, Order},
};
use fodder_policy::Policy;
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

const MIB: usize = 1 << 20;

fn bytes_below(dir: &Path) -> u64 {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}

fn catalog_dir(world: &World) -> std::path::PathBuf {
    world.dir.path().join("cache/catalog/world")
}

fn slot(dataset: &Dataset, path: &str) -> ObjectSlot {
    dataset.snapshot().lookup(path).unwrap()
}

/// Reads all of an object, from a cache that keeps it.
async fn cache(dataset: &Arc<Dataset>, object: ObjectSlot) -> Vec<u8> {
    let size = dataset.objects().size(object);
    read(dataset, object, 0..size, true).await.unwrap()
}

const FILES: u32 = 3000;
const REFRESHES: u64 = 60;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_refreshes_that_change_everything_leave_a_few_versions() {
    let mut world = World::new(Policy::Lru, 64 << 20);
    // In memory where there is room for it: syncing is not what is tested.
    if let Ok(dir) = tempfile::tempdir_in("/dev/shm") {
        world.dir = dir;
        fs::create_dir(world.origin_dir()).unwrap();
    }
    let path = |n: u32| format!("{n:05}");
    let origin = world.origin_dir();
    let put = |version: u64| {
        (0..FILES).for_each(|n| fs::write(origin.join(path(n)), content(&path(n), version, 20)).unwrap());
    };
    put(0);
    let (engine, dataset) = world.start().await.unwrap();
    let (first_memory, first_disk) = (dataset.memory_bytes(), bytes_below(&catalog_dir(&world)));
    for version in 1..=REFRESHES {
        put(version);
        assert_eq!(dataset.refresh().await.unwrap().changed, u64::from(FILES));
        for n in (0..FILES).step_by(30) {
            let bytes = cache(&dataset, slot(&dataset, &path(n))).await;
            assert!(bytes == content(&path(n), version, 20));
        }
        // Four snapshots are kept, and as many versions again may wait for the next compaction.
        let most = 9 * FILES;
        let objects = dataset.objects();
        assert!(objects.count() <= most, "{} versions after {version} refreshes", objects.count());
        assert!(objects.pieces() <= most, "{} numbers of pieces after {version} refreshes", objects.pieces());
        assert!(dataset.status().pieces <= u64::from(most));
        let disk = bytes_below(&catalog_dir(&world));
        assert!(disk <= 12 * first_disk, "{disk} bytes on disk after {version} refreshes, {first_disk} at first");
        // Shelves have tables in chunks of 16,384; policies have 4 to 8 bytes a piece.
        let memory = dataset.memory_bytes();
        assert!(memory <= 10 * first_memory, "{memory} bytes of memory after {version}, {first_memory} at first");
        assert!(dataset.status().cached_pieces <= 100 * 9, "dead versions are still cached");
    }
    assert_eq!(dataset.verify().await.unwrap().corrupt, 0);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_on_an_old_snapshot_goes_on_with_its_items() {
    let items = 40;
    let mut world = jobs::world(Policy::Lru, items, 2 * items);
    let (engine, dataset) = world.start().await.unwrap();
    let old = dataset.snapshot();
    let expected: Vec<Vec<u8>> = (0..items).map(|n| world.origin[&jobs::name(n)].clone()).collect();
    for object in old.objects() {
        cache(&dataset, object).await;
    }
    let deadline = Instant::now() + Duration::from_secs(30);
    while dataset.status().cached_pieces < u64::from(items) {
        assert!(Instant::now() < deadline, "not all items are cached");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let job = dataset.jobs().introduce(introduction("old", Mode::Strict)).unwrap();
    dataset.jobs().begin(job, 0, 0, Order::Seed(7)).unwrap();
    for version in 1..8 {
        for n in 0..items {
            world.put(&jobs::name(n), content(&jobs::name(n), version, jobs::ITEM_BYTES));
        }
        dataset.refresh().await.unwrap();
        dataset.compact_fully().await.unwrap();
    }
    assert!(dataset.snapshot_by_id(old.id()).is_err(), "the catalog keeps newer ones");
    let id = old.id();
    drop(old);
    dataset.compact_fully().await.unwrap();
    let mut seen = Vec::new();
    for number in 0.. {
        let request = BatchRequest { job, epoch: 0, rank: 0, number, count: 7 };
        let batch = dataset.jobs().next_batch(request).await.unwrap();
        if batch.items.is_empty() {
            break;
        }
        assert_eq!(batch.snapshot, id);
        let snapshot = dataset.snapshot_beginning(&id.0).unwrap();
        for served in batch.items.iter() {
            let item = snapshot.item(u64::from(served.served)).unwrap();
            let bytes = read(&dataset, item.object, item.range, false).await.unwrap();
            assert!(bytes == expected[served.served as usize], "item {} of another version", served.served);
            seen.push(served.served);
        }
        dataset.jobs().acknowledge(job, 0, 0, number).unwrap();
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..items).collect::<Vec<_>>());
    dataset.jobs().leave(job).unwrap();
    engine.shutdown().await;
}

async fn with_grace(world: &World, grace: Duration) -> (Arc<Engine>, Arc<Dataset>) {
    let engine = Engine::open(world.engine_config()).await.unwrap();
    let listing = ListingConfig { removed_grace: grace, ..ListingConfig::default() };
    let dataset = engine.add_dataset(DatasetConfig { listing, ..world.dataset_config() }).await.unwrap();
    (engine, dataset)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_object_keeps_its_cached_bytes_while_its_grace_lasts_and_not_longer() {
    for grace in [Duration::from_secs(3600), Duration::from_secs(2)] {
        let mut world = World::new(Policy::Lru, 64 << 20);
        world.put("removed", content("removed", 1, MIB));
        world.put("changing", content("changing", 0, 1000));
        let (engine, dataset) = with_grace(&world, grace).await;
        let removed = slot(&dataset, "removed");
        cache(&dataset, removed).await;
        drop(dataset.lease(removed).await.unwrap());
        world.remove("removed");
        let deadline = Instant::now() + Duration::from_secs(30);
        for version in 1.. {
            world.put("changing", content("changing", version, 1000));
            dataset.refresh().await.unwrap();
            dataset.compact_fully().await.unwrap();
            let left = dataset.objects().contains(removed);
            match grace > Duration::from_secs(60) {
                true => assert!(left && dataset.residence(removed).cached_bytes == MIB as u64),
                false if !left => break,
                false => assert!(Instant::now() < deadline, "each snapshot without it begins its grace anew"),
            }
            if grace > Duration::from_secs(60) && version > 10 {
                // It comes back as it was, and is a hit.
                break;
            }
        }
        engine.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_file_of_a_version_that_has_left_is_not_cached_any_more_unless_it_is_leased() {
    let mut world = World::new(Policy::Lru, 64 << 20);
    for path in ["leased", "cached"] {
        world.put(path, content(path, 0, 10_000));
    }
    let (engine, dataset) = world.start().await.unwrap();
    let [leased, cached] = ["leased", "cached"].map(|path| slot(&dataset, path));
    cache(&dataset, cached).await;
    drop(dataset.lease(cached).await.unwrap());
    let lease = dataset.lease(leased).await.unwrap();
    for version in 1..8 {
        ["leased", "cached"].iter().for_each(|path| world.put(path, content(path, version, 10_000)));
        dataset.refresh().await.unwrap();
        dataset.compact_fully().await.unwrap();
    }
    let objects = dataset.objects();
    assert!(objects.contains(leased) && !objects.contains(cached));
    assert_eq!(dataset.status().cached_pieces, 1);
    assert!(dataset.read(cached, 0..10).await.is_err());
    assert!(dataset.try_read(cached, 0, &mut [0; 10]).is_none());
    drop(lease);
    world.put("cached", content("cached", 8, 10_000));
    dataset.refresh().await.unwrap();
    dataset.compact_fully().await.unwrap();
    assert!(!dataset.objects().contains(leased));
    assert_eq!(dataset.status().cached_pieces, 0);
    engine.shutdown().await;
}

/// What each slot must read, for ever.
type Expected = Arc<Mutex<BTreeMap<ObjectSlot, Arc<Vec<u8>>>>>;

fn learn(expected: &Expected, world: &World, snapshot: &Snapshot) {
    let mut expected = expected.lock().unwrap();
    for (path, bytes) in &world.origin {
        if let Some(object) = snapshot.lookup(path) {
            let bytes = expected.entry(object).or_insert_with(|| Arc::new(bytes.clone())).clone();
            assert!(bytes == Arc::new(world.origin[path].clone()), "a slot was given to another version");
        }
    }
}

/// Mostly a new slot, whose pieces have the numbers of old ones.
fn pick(known: &BTreeMap<ObjectSlot, Arc<Vec<u8>>>, rng: &mut SmallRng) -> (ObjectSlot, Arc<Vec<u8>>) {
    let back = rng.random_range(0..known.len()).min(rng.random_range(0..known.len()));
    known.iter().rev().nth(back).map(|(object, bytes)| (*object, Arc::clone(bytes))).unwrap()
}

/// Reads a random part of a slot that was given out at some time. Right bytes, or a reason at the origin.
async fn read_any(dataset: &Arc<Dataset>, expected: &Expected, rng: &mut SmallRng) -> bool {
    let (object, bytes) = pick(&expected.lock().unwrap(), rng);
    let start = rng.random_range(0..=bytes.len());
    let end = rng.random_range(start..=bytes.len());
    let mut buffer = vec![0; end - start];
    if !buffer.is_empty() && dataset.try_read(object, start as u64, &mut buffer).is_some() {
        assert!(buffer == bytes[start..end], "wrong warm bytes of {object:?}");
    }
    if rng.random_bool(0.1)
        && let Ok(Some(lease)) = dataset.try_lease(object)
    {
        let mut all = vec![0; bytes.len()];
        std::os::unix::fs::FileExt::read_exact_at(&*lease.file, &mut all, 0).unwrap();
        assert!(all == *bytes, "a leased file of another version for {object:?}");
    }
    match read(dataset, object, start as u64..end as u64, rng.random_bool(0.5)).await {
        Ok(read) => {
            assert!(read == bytes[start..end], "wrong bytes of {object:?}");
            true
        }
        Err(error) => {
            assert!(is_origins_fault(&error), "{error}");
            false
        }
    }
}

fn some_size(rng: &mut SmallRng) -> usize {
    match rng.random_range(0..8) {
        0 => 0,
        1..6 => rng.random_range(1..100_000),
        _ => rng.random_range(MIB..3 * MIB),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_see_right_bytes_while_versions_leave_and_pieces_are_reused() {
    for seed in 0..3 {
        let mut world = World::new(Policy::Lru, 12 << 20);
        world.mem = Some(tempfile::tempdir_in("/dev/shm").unwrap());
        let mut rng = SmallRng::seed_from_u64(seed);
        let paths: Vec<String> = (0..12).map(|n| format!("object-{n}")).collect();
        for path in &paths {
            let size = some_size(&mut rng);
            world.put(path, content(path, 0, size));
        }
        let (engine, dataset) = world.start().await.unwrap();
        let (expected, done, reads) =
            (Expected::default(), Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        learn(&expected, &world, &dataset.snapshot());
        let readers: Vec<_> = (0..4)
            .map(|reader| {
                let (dataset, expected, done) = (Arc::clone(&dataset), Arc::clone(&expected), Arc::clone(&done));
                let (reads, mut rng) = (Arc::clone(&reads), SmallRng::seed_from_u64(1000 * seed + reader));
                tokio::spawn(async move {
                    while !done.load(Relaxed) {
                        let was_read = read_any(&dataset, &expected, &mut rng).await;
                        reads.fetch_add(u64::from(was_read), Relaxed);
                    }
                })
            })
            .collect();
        let mut compactions = 0;
        for version in 1..40 {
            for path in &paths {
                let size = some_size(&mut rng);
                if rng.random_bool(0.6) {
                    world.put(path, content(path, version, size));
                }
            }
            dataset.refresh().await.unwrap();
            learn(&expected, &world, &dataset.snapshot());
            compactions += u32::from(dataset.compact_fully().await.unwrap());
        }
        done.store(true, Relaxed);
        for reader in readers {
            reader.await.unwrap();
        }
        assert!(
            compactions > 20 && reads.load(Relaxed) > 100,
            "{compactions} compactions, {} reads",
            reads.load(Relaxed)
        );
        assert!(dataset.objects().pieces() < 600, "{} numbers of pieces", dataset.objects().pieces());
        assert_eq!(dataset.verify().await.unwrap().corrupt, 0);
        engine.shutdown().await;
    }
}

/// Bytes by path.
type Listed = BTreeMap<String, Vec<u8>>;

/// A node, what it must answer, and the snapshots that somebody holds.
struct Run {
    world: World,
    rng: SmallRng,
    node: Option<(Arc<Engine>, Arc<Dataset>)>,
    expected: Expected,
    held: Vec<(Arc<Snapshot>, Listed)>,
    version: u64,
}

impl Run {
    fn dataset(&self) -> &Arc<Dataset> {
        &self.node.as_ref().unwrap().1
    }

    async fn step(&mut self) {
        match self.rng.random_range(0..100) {
            0..50 => drop(read_any(&Arc::clone(self.dataset()), &self.expected, &mut self.rng).await),
            50..60 => self.read_held().await,
            60..72 => self.change(),
            72..84 => {
                self.dataset().refresh().await.unwrap();
                learn(&self.expected, &self.world, &self.dataset().snapshot());
            }
            84..91 => drop(self.dataset().compact_fully().await.unwrap()),
            91..96 if self.held.len() < 3 => self.held.push((self.dataset().snapshot(), self.listed())),
            91..97 => drop(self.held.pop()),
            _ => self.restart().await,
        }
    }

    /// What the newest snapshot lists.
    fn listed(&self) -> Listed {
        let (snapshot, expected) = (self.dataset().snapshot(), self.expected.lock().unwrap());
        let objects = self.dataset().objects();
        snapshot.objects().map(|object| (objects.path(object), expected[&object].to_vec())).collect()
    }

    fn change(&mut self) {
        self.version += 1;
        let path = format!("object-{}", self.rng.random_range(0..15));
        if self.rng.random_bool(0.2) && self.world.origin.len() > 6 && self.world.origin.contains_key(&path) {
            return self.world.remove(&path);
        }
        let size = some_size(&mut self.rng);
        self.world.put(&path, content(&path, self.version, size));
    }

    async fn read_held(&mut self) {
        for (snapshot, listed) in &self.held {
            assert_eq!(snapshot.object_count() as usize, listed.len());
            for (id, (path, bytes)) in listed.iter().enumerate() {
                let item = snapshot.item(id as u64).unwrap();
                assert_eq!(snapshot.lookup(path), Some(item.object));
                assert!(self.dataset().objects().contains(item.object), "an object of a held snapshot has left");
                match read(self.dataset(), item.object, item.range, true).await {
                    Ok(read) => assert!(read == *bytes, "wrong bytes of {path} in a held snapshot"),
                    Err(error) => assert!(is_origins_fault(&error), "{error}"),
                }
            }
        }
    }

    /// In order, or from what a kill would have left on the disk.
    async fn restart(&mut self) {
        self.held.clear();
        let (engine, dataset) = self.node.take().unwrap();
        let (id, before) = (dataset.snapshot().id(), dataset.objects());
        let (cache, image) = (self.world.dir.path().join("cache"), self.world.dir.path().join("image"));
        let is_killed = self.rng.random_bool(0.5);
        if is_killed {
            let copied = Command::new("cp").arg("-a").arg(&cache).arg(&image).status().unwrap();
            assert!(copied.success());
        }
        engine.shutdown().await;
        drop((engine, dataset));
        if is_killed {
            fs::remove_dir_all(&cache).unwrap();
            fs::rename(&image, &cache).unwrap();
        }
        self.node = Some(self.world.start().await.unwrap());
        assert_eq!(self.dataset().snapshot().id(), id);
        assert_eq!(self.dataset().objects().len(), before.len(), "slots that were given out are not given out again");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn through_changes_compactions_and_restarts_every_slot_reads_its_version() {
    for seed in 0..6 {
        println!("seed {seed}");
        let mut world = World::new(if seed % 2 == 0 { Policy::Lru } else { Policy::Minio }, 16 << 20);
        let mut rng = SmallRng::seed_from_u64(seed);
        for n in 0..10 {
            let (path, size) = (format!("object-{n}"), some_size(&mut rng));
            world.put(&path, content(&path, 0, size));
        }
        let node = Some(world.start().await.unwrap());
        let mut run = Run { world, rng, node, expected: Expected::default(), held: Vec::new(), version: 0 };
        learn(&run.expected, &run.world, &run.dataset().snapshot());
        for _ in 0..150 {
            run.step().await;
        }
        assert_eq!(run.dataset().verify().await.unwrap().corrupt, 0);
        let (engine, _dataset) = run.node.take().unwrap();
        engine.shutdown().await;
    }
}
