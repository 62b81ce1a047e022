//! Several nodes as one cache, as real processes. Here are the processes, their origin that counts, and their readers.

mod change;
mod job;
mod load;
mod mounted;
mod name;
mod operate;
mod share;
mod together;
mod warm;

use crate::program::{Node, wait_for};
use fodder_api::{
    Address,
    frames::{Batch, FrameClient},
};
use fodder_s3_server::Server;
use rand::{RngExt, SeedableRng, rngs::SmallRng, seq::SliceRandom};
use std::thread;
use tempfile::TempDir;

const TOKEN: &str = "a word that all nodes of this cluster know";
const BYTES: usize = 256 << 10;

/// What a fleet is made of.
#[derive(Debug, Clone)]
struct Shape {
    nodes: usize,
    objects: usize,
    /// Of each object.
    bytes: usize,
    /// Of each node's cache.
    cache_bytes: usize,
    replicas: usize,
    /// How long a node waits for another.
    patience: &'static str,
}

impl Default for Shape {
    fn default() -> Self {
        let patience = "800ms";
        Self { nodes: 3, objects: 120, bytes: BYTES, cache_bytes: 20 << 20, replicas: 1, patience }
    }
}

/// Long enough that a busy machine is never taken for a dead node.
const PATIENT: &str = "60s";

/// Nodes over an origin that counts.
struct Fleet {
    dir: TempDir,
    server: Server,
    runtime: tokio::runtime::Runtime,
    contents: Vec<Vec<u8>>,
    shape: Shape,
    nodes: Vec<Option<Node>>,
    addresses: Vec<String>,
}

impl Fleet {
    /// So many nodes, each with so much cache, over so many objects.
    fn new(nodes: usize, objects: usize, cache_bytes: usize) -> Self {
        Self::with(Shape { nodes, objects, cache_bytes, ..Shape::default() })
    }

    fn with(shape: Shape) -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let server = runtime.block_on(Server::start("127.0.0.1:0")).unwrap();
        let mut rng = SmallRng::seed_from_u64(7);
        let contents: Vec<Vec<u8>> = (0..shape.objects)
            .map(|n| {
                let mut bytes = vec![0; shape.bytes];
                rng.fill(&mut bytes[..]);
                server.put(&format!("{n:04}"), bytes.clone());
                bytes
            })
            .collect();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("token"), TOKEN).unwrap();
        let config = format!("cluster:\n  patience: {}\n  replicas: {}\n", shape.patience, shape.replicas);
        std::fs::write(dir.path().join("fodder.yaml"), config).unwrap();
        let (addresses, nodes, count) = (Vec::new(), Vec::new(), shape.nodes);
        let mut fleet = Self { dir, server, runtime, contents, shape, nodes, addresses };
        name::at_random(&fleet);
        (0..count).for_each(|_| fleet.add());
        fleet.agree();
        fleet
    }

    /// One more node.
    fn add(&mut self) {
        self.addresses.push(format!("127.0.0.{}:0", self.nodes.len() + 1));
        self.nodes.push(None);
        self.start(self.nodes.len() - 1);
    }

    /// Where the objects are.
    fn origin(&self) -> String {
        format!("s3://bucket?endpoint={}&region=us-east-1", self.server.endpoint())
    }

    /// How often each object was fetched since this was last asked.
    fn fetched(&self) -> Vec<usize> {
        let mut counts = vec![0; self.contents.len()];
        for seen in self.server.take_seen().into_iter().filter(|seen| seen.method == "GET" && !seen.key.is_empty()) {
            counts[seen.key.parse::<usize>().unwrap()] += 1;
        }
        counts
    }

    fn bytes(&self) -> u64 {
        self.contents.iter().map(|bytes| bytes.len() as u64).sum()
    }

    /// Starts a node, where it was before if it was.
    fn start(&mut self, n: usize) {
        let origin = self.origin();
        let (config, cache_size) =
            (self.dir.path().join("fodder.yaml"), format!("{}KiB", self.shape.cache_bytes >> 10));
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
                &cache_size,
                "--config",
                config.to_str().unwrap(),
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
            for n in (0..self.nodes.len()).filter(|n| self.nodes[*n].is_some()) {
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
