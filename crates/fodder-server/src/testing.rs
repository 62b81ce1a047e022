//! What the tests of the doors share: an engine over a small dataset of images in a temporary directory.

#![allow(clippy::unwrap_used, reason = "only tests use this")]

use crate::{
    IcacheConfig, NodeState,
    node::{Addresses, NodeInfo},
};
use fodder_core::{
    Engine,
    config::{DatasetConfig, EngineConfig},
};
use std::{path::PathBuf, sync::Arc, time::SystemTime};
use tempfile::TempDir;

/// The objects of the dataset in the order of their ids: path, and how many bytes.
pub(crate) const OBJECTS: [(&str, usize); 4] =
    [("cat/0.jpg", 1000), ("cat/1.png", 0), ("cat/sp ace%?#.jpg", 10), ("dog/big.jpg", (9 << 20) + 7)];

/// An engine with the dataset `pets`, and what goes with it.
pub(crate) struct Fixture {
    pub(crate) engine: Arc<Engine>,
    pub(crate) info: Arc<NodeInfo>,
    dir: TempDir,
}

impl Fixture {
    pub(crate) async fn new() -> Self {
        Self::with(IcacheConfig::default()).await
    }

    pub(crate) async fn with(icache: IcacheConfig) -> Self {
        let fixture = Self::empty(icache).await;
        for (number, (path, bytes)) in OBJECTS.iter().enumerate() {
            fixture.put(path, &content(number, *bytes));
        }
        fixture.add("pets").await;
        fixture
    }

    /// An engine without a dataset.
    pub(crate) async fn empty(icache: IcacheConfig) -> Self {
        let dir = TempDir::new().unwrap();
        let config = EngineConfig { cache_dir: dir.path().join("cache"), ..EngineConfig::default() };
        let engine = Engine::open(config).await.unwrap();
        let loopback = |port| ([127, 0, 0, 1], port).into();
        let addresses = Addresses { rest: loopback(18283), grpc: loopback(18284), socket: None };
        let state = Arc::new(NodeState::new(icache));
        let info = NodeInfo { version: "0.0.0", started_at: SystemTime::now(), addresses, state };
        Self { engine, info: Arc::new(info), dir }
    }

    /// Where the dataset lies.
    pub(crate) fn origin(&self) -> PathBuf {
        self.dir.path().join("train")
    }

    /// Puts an object at the origin.
    pub(crate) fn put(&self, path: &str, bytes: &[u8]) {
        let path = self.origin().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    /// Adds the origin as a dataset.
    pub(crate) async fn add(&self, name: &str) {
        self.add_with(name, fodder_policy::Policy::default()).await;
    }

    /// Adds the origin as a dataset with a policy.
    pub(crate) async fn add_with(&self, name: &str, policy: fodder_policy::Policy) {
        std::fs::create_dir_all(self.origin()).unwrap();
        let config = serde_json::json!({ "name": name, "origin": self.origin(), "policy": policy });
        let config: DatasetConfig = serde_json::from_value(config).unwrap();
        self.engine.add_dataset(config).await.unwrap();
    }
}

/// The bytes of an object of [`OBJECTS`]: a pattern whose length is prime, so that no two pieces are alike.
pub(crate) fn content(number: usize, bytes: usize) -> Vec<u8> {
    let pattern: Vec<u8> = (0..65_521).map(|at| (at * 31 + at / 251 + number) as u8).collect();
    let mut content = pattern.repeat(bytes.div_ceil(pattern.len()));
    content.truncate(bytes);
    content
}
