//! Several nodes as one cache, as real processes: what leaves the origin, and what a death costs. What is exact when no
//! machine is busy (one fetch an object, a full cache) is tested with nodes in one process.

mod operate;
mod warm;

use crate::program::{Node, wait_for};
use fodder_api::{
    Address,
    frames::{Batch, FrameClient},
};
use fodder_s3_server::Server;
use rand::{RngExt, SeedableRng, rngs::SmallRng, seq::SliceRandom};
use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

const TOKEN: &str = "a word that all nodes of this cluster know";
const BYTES: usize = 256 << 10;

/// Nodes over an origin that counts.
struct Fleet {
    dir: TempDir,
    server: Server,
    _runtime: tokio::runtime::Runtime,
    contents: Vec<Vec<u8>>,
    cache_size: String,
    nodes: Vec<Option<Node>>,
    addresses: Vec<String>,
}

impl Fleet {
    /// So many nodes, each with so much cache, over so many objects.
    fn new(count: usize, objects: usize, cache_bytes: usize) -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let server = runtime.block_on(Server::start("127.0.0.1:0")).unwrap();
        let mut rng = SmallRng::seed_from_u64(7);
        let contents: Vec<Vec<u8>> = (0..objects)
            .map(|n| {
                let mut bytes = vec![0; BYTES];
                rng.fill(&mut bytes[..]);
                server.put(&format!("{n:04}"), bytes.clone());
                bytes
            })
            .collect();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("token"), TOKEN).unwrap();
        let addresses = (1..=count).map(|n| format!("127.0.0.{n}:0")).collect();
        let nodes = (0..count).map(|_| None).collect();
        let cache_size = format!("{}KiB", cache_bytes >> 10);
        let mut fleet = Self { dir, server, _runtime: runtime, contents, cache_size, nodes, addresses };
        (0..count).for_each(|n| fleet.start(n));
        fleet.agree();
        fleet
    }

    fn bytes(&self) -> u64 {
        (self.contents.len() * BYTES) as u64
    }

    /// Starts a node, where it was before if it was.
    fn start(&mut self, n: usize) {
        let origin = format!("s3://bucket?endpoint={}&region=us-east-1", self.server.endpoint());
        let token = self.dir.path().join("token");
        let others: Vec<_> = self.addresses.iter().filter(|address| !address.ends_with(":0")).cloned().collect();
        // The first has nobody to join yet, and says so by naming nobody.
        let join = if others.is_empty() { "127.0.0.1:1".into() } else { others.join(",") };
        let node = Node::start(
            &self.dir.path().join(format!("cache-{n}")),
            &[
                &origin,
                "--name",
                "world",
                "--anonymous",
                "--cache-size",
                &self.cache_size,
                "--grpc",
                &self.addresses[n],
                "--join",
                &join,
                "--token-file",
                token.to_str().unwrap(),
            ],
        );
        self.addresses[n] = node.line("grpc").to_owned();
        self.nodes[n] = Some(node);
    }

    /// Waits until each node that runs sees as many serving as there are.
    fn agree(&self) {
        let running: Vec<_> = self.nodes.iter().flatten().collect();
        for node in &running {
            wait_for("all nodes to see each other", || {
                let status = node.client(&["cluster", "status", "--json"]).good();
                let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
                let members = status["members"].as_array().unwrap();
                members.iter().filter(|member| member["state"] == "serving").count() == running.len()
            });
        }
    }

    fn client(&self, n: usize) -> Client<'_> {
        let address: Address = self.addresses[n].parse().unwrap();
        let mut client = FrameClient::connect(&address).unwrap();
        let handle = client.open("world", None).unwrap().handle;
        Client { client, handle, batch: Batch::new(), contents: &self.contents }
    }

    /// Each node reads everything, all at once, each in an order of its own.
    fn epoch(&self, seed: u64) {
        thread::scope(|scope| {
            for n in 0..self.nodes.len() {
                scope.spawn(move || {
                    let mut order: Vec<u64> = (0..self.contents.len() as u64).collect();
                    order.shuffle(&mut SmallRng::seed_from_u64(seed * 100 + n as u64));
                    let mut client = self.client(n);
                    order.into_iter().for_each(|id| client.read(id));
                });
            }
        });
    }

    /// How much each node got from others.
    fn taken(&self) -> Vec<u64> {
        let of = |node: &Node| node.status()["datasets"][0]["stats"]["bytes_from_peers"].as_u64().unwrap();
        self.nodes.iter().flatten().map(of).collect()
    }
}

struct Client<'a> {
    client: FrameClient,
    handle: u32,
    batch: Batch,
    contents: &'a [Vec<u8>],
}

impl Client<'_> {
    /// Reads an object, which must come and be right.
    fn read(&mut self, id: u64) {
        self.client.get_items(self.handle, &[id], &mut self.batch).unwrap();
        let item = self.batch.iter().next().unwrap();
        assert!(item.data.unwrap() == self.contents[id as usize], "item {id} has the wrong bytes");
    }
}

fn three_epochs(count: usize) {
    let objects = 200;
    // Too little for all of it on one node, and enough for all of it on all, however the shares fall.
    let fleet = Fleet::new(count, objects, objects * (BYTES + 8192) * 8 / 5 / count);
    let before = fleet.server.bytes_sent();
    fleet.epoch(1);
    let first = fleet.server.bytes_sent() - before;
    assert!(first >= fleet.bytes());
    assert!(first < fleet.bytes() * 11 / 10, "{first} bytes left the origin in the first epoch of {}", fleet.bytes());
    for epoch in 2..4 {
        let before = fleet.server.bytes_sent();
        fleet.epoch(epoch);
        let again = fleet.server.bytes_sent() - before;
        assert!(again < fleet.bytes() / 10, "{again} bytes left the origin again in epoch {epoch}");
    }
    let taken = fleet.taken();
    assert!(taken.iter().all(|bytes| *bytes > fleet.bytes() / 2), "{taken:?}");
    println!("{count} nodes: {first} bytes left the origin for {} bytes of data", fleet.bytes());
}

#[test]
fn three_processes_are_one_cache() {
    three_epochs(3);
}

#[test]
fn five_processes_are_one_cache() {
    three_epochs(5);
}

#[test]
fn a_node_that_is_killed_under_load_again_and_again_fails_no_read_of_the_others() {
    const KILLS: u64 = 3;
    let objects = 120;
    let mut fleet = Fleet::new(5, objects, objects * BYTES * 2 / 3);
    fleet.epoch(0);
    let before = fleet.server.bytes_sent();
    let (stop, reads, longest) = (AtomicBool::new(false), [const { AtomicU64::new(0) }; 4], Mutex::new(Duration::ZERO));
    let clients: Vec<_> = fleet.addresses[..4].to_vec();
    let contents = fleet.contents.clone();
    thread::scope(|scope| {
        for (n, address) in clients.iter().enumerate() {
            let (stop, reads, longest, contents) = (&stop, &reads, &longest, &contents);
            scope.spawn(move || {
                let mut rng = SmallRng::seed_from_u64(n as u64);
                let mut client = FrameClient::connect(&address.parse().unwrap()).unwrap();
                let handle = client.open("world", None).unwrap().handle;
                let mut client = Client { client, handle, batch: Batch::new(), contents };
                while !stop.load(SeqCst) {
                    let began = Instant::now();
                    client.read(rng.random_range(0..contents.len() as u64));
                    let mut longest = longest.lock().unwrap();
                    *longest = longest.max(began.elapsed());
                    reads[n].fetch_add(1, SeqCst);
                }
            });
        }
        let read_on = || {
            let goals: Vec<_> = reads.iter().map(|reads| reads.load(SeqCst) + 200).collect();
            wait_for("the others to go on reading", || {
                reads.iter().zip(&goals).all(|(reads, goal)| reads.load(SeqCst) >= *goal)
            });
        };
        for _ in 0..KILLS {
            read_on();
            // Killed when dropped.
            fleet.nodes[4] = None;
            read_on();
            fleet.start(4);
            fleet.agree();
        }
        read_on();
        stop.store(true, SeqCst);
    });
    let fetched = fleet.server.bytes_sent() - before;
    println!("longest read {:?}; {fetched} bytes left the origin over {KILLS} deaths", longest.lock().unwrap());
    assert!(fetched < KILLS * fleet.bytes() / 2, "{fetched} of {} bytes left the origin again", fleet.bytes());
}

#[test]
fn all_nodes_are_restarted_one_after_the_other_under_load_and_no_read_fails() {
    let objects = 120;
    let mut fleet = Fleet::new(3, objects, objects * BYTES * 2 / 3);
    fleet.epoch(0);
    let before = fleet.server.bytes_sent();
    let (addresses, contents) = (fleet.addresses.clone(), fleet.contents.clone());
    let (stop, reads) = (AtomicBool::new(false), [const { AtomicU64::new(0) }; 3]);
    // Which node may be away: only its own readers may lose their connection, and connect again.
    let away = AtomicU64::new(u64::MAX);
    thread::scope(|scope| {
        for (n, address) in addresses.iter().enumerate() {
            let (stop, reads, away, contents) = (&stop, &reads, &away, &contents);
            scope.spawn(move || {
                let mut rng = SmallRng::seed_from_u64(n as u64);
                while !stop.load(SeqCst) {
                    let lost = read_until_lost(address, contents, &mut rng, stop, &reads[n]);
                    let Err(error) = lost else { return };
                    assert_eq!(away.load(SeqCst), n as u64, "node {n} was not away: {error}");
                    thread::sleep(Duration::from_millis(10));
                }
            });
        }
        let read_on = |who: &[usize]| {
            let goals: Vec<_> = who.iter().map(|n| reads[*n].load(SeqCst) + 100).collect();
            wait_for("readers to go on", || who.iter().zip(&goals).all(|(n, goal)| reads[*n].load(SeqCst) >= *goal));
        };
        for n in 0..3 {
            read_on(&[0, 1, 2]);
            away.store(n as u64, SeqCst);
            assert_eq!(fleet.nodes[n].take().unwrap().stop(), 0);
            read_on(&[(n + 1) % 3, (n + 2) % 3]);
            fleet.start(n);
            fleet.agree();
            read_on(&[0, 1, 2]);
            away.store(u64::MAX, SeqCst);
        }
        stop.store(true, SeqCst);
    });
    let fetched = fleet.server.bytes_sent() - before;
    println!("{fetched} of {} bytes left the origin again over three restarts", fleet.bytes());
    assert!(fetched < fleet.bytes() * 2, "{fetched} of {} bytes left the origin again", fleet.bytes());
}

/// Reads at random; what comes must be right. An error is one of the connection.
fn read_until_lost(
    address: &str,
    contents: &[Vec<u8>],
    rng: &mut SmallRng,
    stop: &AtomicBool,
    reads: &AtomicU64,
) -> Result<(), fodder_api::Error> {
    let mut client = FrameClient::connect(&address.parse().unwrap())?;
    let handle = client.open("world", None)?.handle;
    let mut batch = Batch::new();
    while !stop.load(SeqCst) {
        let id = rng.random_range(0..contents.len() as u64);
        client.get_items(handle, &[id], &mut batch)?;
        let data = batch.iter().next().unwrap().data;
        match data {
            Ok(bytes) => assert!(bytes == contents[id as usize], "item {id} has the wrong bytes"),
            // A node that ends says so of what it could not answer any more.
            Err(error @ fodder_api::Error::Closed(_)) => return Err(error),
            Err(error) => panic!("item {id}: {error}"),
        }
        reads.fetch_add(1, SeqCst);
    }
    Ok(())
}
