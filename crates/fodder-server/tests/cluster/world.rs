//! An origin that counts, and nodes over it, each at an address of its own.

use fodder_core::{
    Dataset, Engine,
    config::{DatasetConfig, EngineConfig, Medium, TierConfig},
    engine::{
        Source,
        peer::{Peers, Role},
    },
};
use fodder_policy::Policy;
use fodder_s3_server::Server;
use fodder_server::{
    Node, NodeConfig,
    cluster::{Neighbour, Patience, Peering, Token, Trust},
};
use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tempfile::TempDir;

pub(crate) const NAME: &str = "photos";

/// Long enough that a busy machine is never taken for a dead peer.
pub(crate) const PATIENT: Patience = Patience {
    connect: Duration::from_secs(30),
    hedge: Duration::from_secs(30),
    first_word: Duration::from_secs(60),
    progress: Duration::from_secs(60),
    coming: Duration::from_secs(60),
    hand_over: Duration::from_secs(60),
};

/// An origin.
pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) objects: BTreeMap<String, Vec<u8>>,
    /// How many nodes keep each object.
    pub(crate) replicas: usize,
    pub(crate) policy: Policy,
}

/// A node.
pub(crate) struct One {
    pub(crate) engine: Arc<Engine>,
    pub(crate) dataset: Arc<Dataset>,
    pub(crate) peering: Arc<Peering>,
    pub(crate) me: Neighbour,
    node: Option<Node>,
    dir: TempDir,
}

impl World {
    /// An origin with so many objects of so many bytes.
    pub(crate) async fn new(count: usize, bytes: usize) -> Self {
        let server = Server::start("127.0.0.1:0").await.unwrap();
        let mut objects = BTreeMap::new();
        for number in 0..count {
            let (path, content) = (format!("{number:04}.jpg"), content(number as u64, bytes));
            server.put(&path, content.clone());
            objects.insert(path, content);
        }
        Self { server, objects, replicas: 1, policy: Policy::default() }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.objects.values().map(|bytes| bytes.len() as u64).sum()
    }

    /// A node with a cache of so many bytes, which knows nobody yet.
    pub(crate) async fn node(&self, id: u128, quota_bytes: u64) -> One {
        self.node_with(id, quota_bytes, None, PATIENT).await
    }

    pub(crate) async fn node_with(&self, id: u128, quota_bytes: u64, token: Option<&str>, patience: Patience) -> One {
        let trust = Trust::from(token.map(|token| Token::new(token).unwrap()));
        self.node_trusting(id, quota_bytes, trust, patience).await
    }

    pub(crate) async fn node_trusting(&self, id: u128, quota_bytes: u64, trust: Trust, patience: Patience) -> One {
        let one = self.starting(id, quota_bytes, trust, patience).await;
        one.share();
        one
    }

    /// A node that listens and has not joined yet.
    pub(crate) async fn starting(&self, id: u128, quota_bytes: u64, trust: Trust, patience: Patience) -> One {
        let dir = tempfile::tempdir().unwrap();
        let tier = TierConfig { path: dir.path().join("tier"), medium: Medium::Ssd, quota_bytes };
        let config = EngineConfig { cache_dir: dir.path().to_owned(), tiers: vec![tier], ..EngineConfig::default() };
        let engine = Engine::open(config).await.unwrap();
        let origin = format!("s3://bucket?endpoint={}&region=us-east-1", self.server.endpoint());
        let config = DatasetConfig { anonymous: true, policy: self.policy, ..DatasetConfig::new(NAME, origin) };
        let dataset = engine.add_dataset(config).await.unwrap();
        let any = "127.0.0.1:0".parse().unwrap();
        let doors = NodeConfig { rest: any, grpc: any, ..NodeConfig::default() };
        let node = Node::start_secure(doors, Arc::clone(&engine), trust.clone()).await.unwrap();
        let peering = Peering::new(id, self.replicas, trust, patience);
        engine.join(Arc::clone(&peering) as _);
        tokio::spawn(Arc::clone(&peering).spread_jobs(Arc::downgrade(&engine)));
        tokio::spawn(Arc::clone(&peering).spread_reports(Arc::downgrade(&engine)));
        tokio::spawn(Arc::clone(&peering).pull_what_lacks(Arc::downgrade(&engine)));
        let me = Neighbour {
            id,
            address: node.addresses().grpc.to_string(),
            zone: String::new(),
            capacity_bytes: quota_bytes,
            owns: true,
            answers: true,
        };
        One { engine, dataset, peering, me, node: Some(node), dir }
    }

    /// So many nodes that know each other, called at random.
    pub(crate) async fn nodes(&self, count: usize, quota_bytes: u64) -> Vec<One> {
        let seed: u32 = std::env::var("FODDER_SEED").map_or_else(|_| rand::random(), |text| text.parse().unwrap());
        println!("names of nodes: FODDER_SEED={seed}");
        let name = |n: usize| content(u64::from(seed) * 1000 + n as u64 + 1, 16);
        let mut names: Vec<_> = (0..count).map(|n| u128::from_le_bytes(name(n).try_into().unwrap())).collect();
        names.sort_unstable();
        let mut nodes = Vec::new();
        for name in names {
            nodes.push(self.node(name, quota_bytes).await);
        }
        introduce(&nodes.iter().collect::<Vec<_>>()).await;
        nodes
    }

    /// Reads every object at a node, and says how often each source was named.
    pub(crate) async fn read_all(&self, one: &One) -> HashMap<Source, usize> {
        let mut sources = HashMap::new();
        for path in self.objects.keys() {
            *sources.entry(self.read(one, path).await).or_default() += 1;
        }
        sources
    }

    /// Reads an object at a node, and compares it.
    pub(crate) async fn read(&self, one: &One, path: &str) -> Source {
        let object = one.dataset.snapshot().lookup(path).unwrap();
        let reply = one.dataset.read(object, 0..one.dataset.objects().size(object)).await.unwrap();
        assert!(reply.segments.concat() == self.objects[path], "{path} has the wrong bytes");
        reply.source
    }

    /// How often each object was fetched since this was last asked.
    pub(crate) fn fetched(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for seen in self.server.take_seen().into_iter().filter(|seen| seen.method == "GET" && !seen.key.is_empty()) {
            *counts.entry(seen.key).or_default() += 1;
        }
        counts
    }
}

impl One {
    /// From now on others are answered as nodes are.
    pub(crate) fn share(&self) {
        let node = self.node.as_ref().expect("it lives");
        node.info().state.share(Arc::clone(&self.peering));
    }

    /// Paths that this node owns among the members it was told of.
    pub(crate) fn owned<'a>(&self, world: &'a World) -> Vec<&'a str> {
        let (snapshot, objects) = (self.dataset.snapshot(), self.dataset.objects());
        let key = |path: &str| objects.key(snapshot.lookup(path).unwrap());
        let owns = |path: &&str| self.peering.role(NAME, key(path), 0) == Role::Owner;
        world.objects.keys().map(String::as_str).filter(owns).collect()
    }

    /// Whether an object is whole here.
    pub(crate) fn holds(&self, path: &str) -> bool {
        self.dataset.residence(self.dataset.snapshot().lookup(path).unwrap()).whole.is_some()
    }

    /// Tells it of these members.
    pub(crate) async fn meet(&self, members: &[Neighbour]) {
        self.peering.set(members);
        self.engine.peers_changed().await.unwrap();
    }

    /// How many objects are whole here.
    pub(crate) fn held(&self) -> usize {
        let snapshot = self.dataset.snapshot();
        snapshot.objects().filter(|object| self.dataset.residence(*object).whole.is_some()).count()
    }

    /// Its cache files, whatever they are called.
    pub(crate) fn cache_files(&self) -> Vec<PathBuf> {
        files_below(&self.dir.path().join("tier/data"))
    }

    /// Ends without a word to anybody.
    pub(crate) fn die(&mut self) {
        self.node = None;
    }

    pub(crate) async fn end(mut self) {
        if let Some(node) = self.node.take() {
            node.shutdown().await;
        }
        self.engine.shutdown().await;
    }
}

fn files_below(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

/// Tells each node of all.
pub(crate) async fn introduce(nodes: &[&One]) {
    let members: Vec<_> = nodes.iter().map(|one| one.me.clone()).collect();
    for one in nodes {
        one.meet(&members).await;
    }
}

/// Bytes that differ from object to object and from place to place.
pub(crate) fn content(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// Waits for a condition, but not for ever.
pub(crate) async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(tokio::time::Instant::now() < deadline, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
