//! A node that is killed at any moment, hundreds of times, over one cache directory.

use crate::program::Node;
use fodder_api::{
    Address,
    frames::{Batch, FrameClient, Leased},
};
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    time::Duration,
};

/// How often the node is killed; FODDER_CRASHES says otherwise.
const CRASHES: u64 = 200;
/// Three times what the cache holds, so that pieces are evicted and filled again all the time.
const OBJECTS: usize = 96;
const CACHE: &str = "16MiB";

struct World {
    origin: tempfile::TempDir,
    cache: tempfile::TempDir,
    contents: Vec<Vec<u8>>,
}

impl World {
    fn new(rng: &mut SmallRng) -> Self {
        let (origin, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let contents: Vec<Vec<u8>> = (0..OBJECTS)
            .map(|n| {
                let len = if n % 8 == 0 { rng.random_range(1 << 20..5 << 20) } else { rng.random_range(0..300_000) };
                let mut bytes = vec![0; len];
                rng.fill(&mut bytes[..]);
                fs::write(origin.path().join(format!("{n:03}")), &bytes).unwrap();
                bytes
            })
            .collect();
        Self { origin, cache, contents }
    }

    fn start(&self) -> Node {
        let origin = self.origin.path().to_str().unwrap();
        Node::start(self.cache.path(), &[origin, "--name", "world", "--policy", "lru", "--cache-size", CACHE])
    }

    fn check(&self, id: u64, bytes: &[u8], when: &str) {
        assert!(self.contents[id as usize] == bytes, "item {id} has wrong bytes {when}");
    }
}

/// Reads items at random until the node dies; every answer must be right.
fn read_until_dead(
    world: &World,
    socket: &str,
    seed: u64,
    dead: &AtomicBool,
    reads: &AtomicU64,
    leases: bool,
) -> Vec<(u64, Leased)> {
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut held = Vec::new();
    let Ok(mut client) = FrameClient::connect(&Address::Unix(Path::new(socket).into())) else { return held };
    let Ok(opened) = client.open("world", None) else { return held };
    let mut batch = Batch::new();
    while !dead.load(Relaxed) {
        let ids: Vec<u64> = (0..rng.random_range(1..8)).map(|_| rng.random_range(0..OBJECTS as u64)).collect();
        if leases && rng.random_bool(0.2) {
            let Ok(found) = client.get_leases(opened.handle, &ids[..1]) else { break };
            held.extend(found.into_iter().flatten().map(|lease| (ids[0], lease)));
            held.truncate(16);
            continue;
        }
        if client.get_items(opened.handle, &ids, &mut batch).is_err() {
            break;
        }
        for (id, item) in ids.iter().zip(batch.iter()) {
            if let Ok(bytes) = item.data {
                world.check(*id, bytes, "while the node is being killed");
                reads.fetch_add(1, Relaxed);
            }
        }
    }
    held
}

#[test]
fn a_node_that_is_killed_again_and_again_serves_no_wrong_byte() {
    let crashes = std::env::var("FODDER_CRASHES").ok().and_then(|text| text.parse().ok()).unwrap_or(CRASHES);
    let mut rng = SmallRng::seed_from_u64(7);
    let world = World::new(&mut rng);
    let reads = AtomicU64::new(0);
    let mut leases: Vec<(u64, Leased)> = Vec::new();
    for crash in 0..crashes {
        let mut node = world.start();
        let dead = AtomicBool::new(false);
        let socket = node.line("socket").to_owned();
        let delay = Duration::from_micros(rng.random_range(0..120_000));
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..3)
                .map(|reader| {
                    let (world, socket, dead, reads) = (&world, &socket, &dead, &reads);
                    scope.spawn(move || read_until_dead(world, socket, crash * 8 + reader, dead, reads, reader == 0))
                })
                .collect();
            std::thread::sleep(delay);
            node.child.kill().unwrap();
            node.child.wait().unwrap();
            dead.store(true, Relaxed);
            for reader in readers {
                leases.extend(reader.join().unwrap());
            }
        });
        leases.truncate(64);
        for (id, lease) in &leases {
            world.check(*id, &lease.read().unwrap(), "in a lease that outlived its node");
        }
    }
    assert!(reads.load(Relaxed) > crashes, "hardly anything was read: {reads:?}");
    let node = world.start();
    for (id, bytes) in world.contents.iter().enumerate() {
        let got = node.client(&["get", "world", &id.to_string()]).good();
        assert!(got.stdout == *bytes, "item {id} has wrong bytes after all");
    }
    assert_eq!(node.client(&["verify", "world"]).good().code, 0);
    assert_eq!(node.stop(), 0);
}
