//! A node over a small local origin, and what its bytes should be.

use fodder_api::Address;
use fodder_core::{
    Engine,
    config::{DatasetConfig, EngineConfig, Medium, TierConfig},
};
use fodder_server::{Node, NodeConfig};
use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};
use tempfile::TempDir;

/// The name of the dataset.
pub(crate) const NAME: &str = "photos";

/// Sizes of the files of each class: empty, tiny, usual, above a message's part, above one read's bound.
const SIZES: [usize; 8] = [0, 1, 4096, 100 << 10, 100 << 10, (1 << 20) + 17, 3 << 20, (9 << 20) + 5];

/// A running node with its origin.
pub(crate) struct Bench {
    pub(crate) dir: TempDir,
    pub(crate) engine: Arc<Engine>,
    pub(crate) node: Option<Node>,
    /// The bytes at the origin, by path.
    pub(crate) files: BTreeMap<String, Vec<u8>>,
}

/// Bytes that differ from place to place and from file to file.
pub(crate) fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        bytes.extend_from_slice(&next());
    }
    bytes.truncate(length);
    bytes
}

impl Bench {
    /// Starts a node with the usual settings.
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    /// Starts a node whose settings are changed first.
    pub(crate) async fn start_with(change: impl FnOnce(&mut NodeConfig)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut files = BTreeMap::new();
        for (number, class) in ["ant", "bee", "cat"].into_iter().enumerate() {
            std::fs::create_dir_all(dir.path().join("origin").join(class)).unwrap();
            for (index, size) in SIZES.into_iter().enumerate() {
                let path = format!("{class}/{index:03}.jpg");
                let content = bytes((number * 100 + index) as u64 + 1, size);
                std::fs::write(dir.path().join("origin").join(&path), &content).unwrap();
                files.insert(path, content);
            }
        }
        let tier = TierConfig { path: dir.path().join("tier"), medium: Medium::Ssd, quota_bytes: 1 << 30 };
        let cache_dir = dir.path().join("cache");
        std::fs::create_dir_all(&cache_dir).unwrap();
        let engine = EngineConfig { cache_dir, tiers: vec![tier], ..Default::default() };
        let engine = Engine::open(engine).await.unwrap();
        engine.add_dataset(dataset(NAME, &dir.path().join("origin"))).await.unwrap();
        let any = "127.0.0.1:0".parse().unwrap();
        let socket = Some(dir.path().join("fodder.sock"));
        let mut config = NodeConfig { rest: any, grpc: any, socket, ..Default::default() };
        change(&mut config);
        let node = Node::start(config, Arc::clone(&engine)).await.unwrap();
        Self { dir, engine, node: Some(node), files }
    }

    /// The node's TCP address and its Unix socket.
    pub(crate) fn addresses(&self) -> [Address; 2] {
        [self.tcp(), self.unix()]
    }

    pub(crate) fn tcp(&self) -> Address {
        self.node.as_ref().unwrap().addresses().grpc.to_string().parse().unwrap()
    }

    pub(crate) fn unix(&self) -> Address {
        Address::unix(self.socket()).unwrap()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.node.as_ref().unwrap().addresses().socket.clone().unwrap()
    }

    /// How many items there are.
    pub(crate) fn items(&self) -> u64 {
        self.engine.dataset(NAME).unwrap().snapshot().len()
    }

    /// The items that have a cache file of their own, which small ones have not.
    pub(crate) fn leasable(&self) -> Vec<u64> {
        (0..self.items()).filter(|&id| !(1..=4096).contains(&self.expected(id).len())).collect()
    }

    /// The bytes an item should have.
    pub(crate) fn expected(&self, id: u64) -> &[u8] {
        let dataset = self.engine.dataset(NAME).unwrap();
        let item = dataset.snapshot().item(id).unwrap();
        let path = dataset.objects().path(item.object);
        &self.files[&path][item.range.start as usize..item.range.end as usize]
    }

    /// The label an item should have.
    pub(crate) fn label(&self, id: u64) -> Option<u32> {
        self.engine.dataset(NAME).unwrap().snapshot().item(id).unwrap().label
    }

    /// Stops the node, then the engine.
    pub(crate) async fn stop(&mut self) {
        if let Some(node) = self.node.take() {
            node.shutdown().await;
        }
        self.engine.shutdown().await;
    }
}

/// A dataset of files in a directory.
pub(crate) fn dataset(name: &str, origin: &std::path::Path) -> DatasetConfig {
    DatasetConfig::new(name, origin.display().to_string())
}

/// Waits for a condition, but not for ever.
pub(crate) async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(tokio::time::Instant::now() < deadline, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Runs blocking client code beside the node.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}
