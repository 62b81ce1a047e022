//! Random reads, evictions, restarts, changes at the origin and faults, on the real engine and on a map.

use crate::world::{World, content, is_origins_fault, read};
use fodder_core::{Dataset, Engine, layout::Layout, tier::Lease};
use fodder_policy::Policy;
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use std::{collections::BTreeMap, os::unix::fs::FileExt, sync::Arc};

/// What the cache may hold beyond its quota: what is in flight.
const IN_FLIGHT_BYTES: u64 = 8 << 20;

struct Run {
    world: World,
    rng: SmallRng,
    node: Option<(Arc<Engine>, Arc<Dataset>)>,
    /// What the current snapshot should give, by path.
    sealed: BTreeMap<String, Vec<u8>>,
    leases: Vec<(Lease, Vec<u8>)>,
    version: u64,
}

impl Run {
    async fn start(mut world: World, seed: u64) -> Self {
        let mut rng = SmallRng::seed_from_u64(seed);
        for n in 0..rng.random_range(3..12) {
            let path = format!("class{}/object-{n}.png", n % 3);
            world.put(&path, content(&path, 0, size(&mut rng)));
        }
        let node = Some(world.start().await.unwrap());
        let sealed = world.origin.clone();
        Self { world, rng, node, sealed, leases: Vec::new(), version: 0 }
    }

    async fn step(&mut self) {
        match self.rng.random_range(0..100) {
            0..60 => self.read_something().await,
            60..68 => self.change_the_origin().await,
            68..76 => self.refresh().await,
            76..82 => self.restart().await,
            82..88 => {
                let prefix = format!("class{}/", self.rng.random_range(0..4));
                self.dataset().evict(&prefix).await.unwrap();
            }
            88..90 => assert_eq!(self.dataset().verify().await.unwrap().corrupt, 0),
            90..96 => self.lease_something().await,
            _ => self.leases.truncate(2),
        }
    }

    async fn read_something(&mut self) {
        let (path, expected) = self.pick();
        let Some(object) = self.dataset().snapshot().lookup(&path) else { panic!("{path} is sealed and not found") };
        let start = self.rng.random_range(0..=expected.len());
        let end = self.rng.random_range(start..=expected.len().min(start + (8 << 20)));
        let stream = self.rng.random_bool(0.3);
        match read(self.dataset(), object, start as u64..end as u64, stream).await {
            Ok(bytes) => assert!(bytes == expected[start..end], "wrong bytes {start}..{end} of {path}"),
            Err(error) => assert!(is_origins_fault(&error) && self.may_fail(&path), "{path}: {error}"),
        }
        let mut buf = vec![0; end - start];
        if self.dataset().try_read(object, start as u64, &mut buf).is_some() {
            assert!(buf == expected[start..end], "wrong warm bytes {start}..{end} of {path}");
        }
    }

    /// A read may fail only if the object is no longer at the origin as it was sealed, or the origin has faults.
    fn may_fail(&self, path: &str) -> bool {
        !self.world.origin_prefix.is_empty() || self.world.origin.get(path) != self.sealed.get(path)
    }

    async fn change_the_origin(&mut self) {
        self.version += 1;
        let path = if self.rng.random_bool(0.3) || self.sealed.is_empty() {
            format!("class{}/new-{}.png", self.version % 4, self.version)
        } else {
            self.pick().0
        };
        if self.rng.random_bool(0.2) && self.world.origin.contains_key(&path) && self.world.origin.len() > 2 {
            self.world.remove(&path);
        } else {
            let len = size(&mut self.rng);
            self.world.put(&path, content(&path, self.version, len));
        }
    }

    async fn refresh(&mut self) {
        match self.dataset().refresh().await {
            Ok(_) => self.sealed = self.world.origin.clone(),
            Err(error) => assert!(is_origins_fault(&error) && !self.world.origin_prefix.is_empty(), "{error}"),
        }
        assert_eq!(self.dataset().snapshot().len(), self.sealed.len() as u64);
    }

    async fn restart(&mut self) {
        let (engine, dataset) = self.node.take().unwrap();
        engine.shutdown().await;
        drop((engine, dataset));
        self.node = Some(self.world.start().await.unwrap());
        let items = self.dataset().snapshot().len();
        assert_eq!(items, self.sealed.len() as u64, "a restart does not list the origin again");
    }

    fn dataset(&self) -> &Arc<Dataset> {
        &self.node.as_ref().unwrap().1
    }

    async fn lease_something(&mut self) {
        let (path, expected) = self.pick();
        let Some(object) = self.dataset().snapshot().lookup(&path) else { panic!("{path} is sealed and not found") };
        match self.dataset().lease(object).await {
            Ok(lease) => self.leases.push((lease, expected)),
            Err(fodder_core::Error::Full(_)) => {}
            Err(error) => assert!(is_origins_fault(&error) && self.may_fail(&path), "{path}: {error}"),
        }
        self.leases.truncate(6);
    }

    fn pick(&mut self) -> (String, Vec<u8>) {
        let n = self.rng.random_range(0..self.sealed.len());
        self.sealed.iter().nth(n).map(|(path, bytes)| (path.clone(), bytes.clone())).unwrap()
    }

    fn check(&self) {
        for (lease, expected) in &self.leases {
            let mut bytes = vec![0; expected.len()];
            lease.file.read_exact_at(&mut bytes, 0).unwrap();
            assert!(bytes == *expected, "a leased file changed");
            assert_eq!(lease.file.metadata().unwrap().len(), expected.len() as u64);
        }
        for tier in self.world.tier_dirs() {
            let (du, quota) = (self.world.du_bytes(&tier), self.world.quota_bytes);
            assert!(du <= quota + IN_FLIGHT_BYTES, "{} holds {du} bytes, its quota is {quota}", tier.display());
        }
    }
}

/// Mostly small, sometimes empty, sometimes several pieces.
fn size(rng: &mut SmallRng) -> usize {
    match rng.random_range(0..10) {
        0 => 0,
        1..6 => rng.random_range(1..200_000),
        6..9 => rng.random_range(900_000..3_500_000),
        _ => rng.random_range(8 << 20..11 << 20),
    }
}

async fn run(world: World, seed: u64, steps: usize) {
    println!("seed {seed}");
    let mut run = Run::start(world, seed).await;
    for _ in 0..steps {
        run.step().await;
        run.check();
    }
    run.node.as_ref().unwrap().0.shutdown().await;
    run.check();
}

const STEPS: usize = 60;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_lru_every_read_gives_the_bytes_that_were_sealed() {
    for seed in 0..6 {
        run(World::new(Policy::Lru, 16 << 20), seed, STEPS).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_minio_every_read_gives_the_bytes_that_were_sealed() {
    for seed in 100..106 {
        run(World::new(Policy::Minio, 16 << 20), seed, STEPS).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_two_tiers_bytes_move_between_them_unharmed() {
    for seed in 200..204 {
        let mut world = World::new(Policy::Lru, 12 << 20);
        world.mem = Some(tempfile::tempdir_in("/dev/shm").unwrap());
        run(world, seed, STEPS).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_faulty_origin_reads_fail_or_are_right() {
    for seed in 300..303 {
        let mut world = World::new(Policy::Lru, 16 << 20);
        world.origin_prefix = format!("throttled:latency=1ms,faults=0.1,seed={seed}:");
        run(world, seed, STEPS / 2).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_blocks_every_read_gives_the_bytes_that_were_sealed() {
    for seed in 400..404 {
        let mut world = World::new(Policy::Lru, 16 << 20);
        world.layout = Layout::Blocks { block_bytes: 1 << 20 };
        let mut run = Run::start(world, seed).await;
        for _ in 0..STEPS {
            run.read_something().await;
            run.check();
        }
        run.node.as_ref().unwrap().0.shutdown().await;
    }
}
