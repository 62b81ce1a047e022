//! A node in a process of its own, for scenarios that measure one from outside.

use crate::{
    fixture,
    process::{self, Process},
};
use anyhow::{Context, Result};
use clap::Args;
use fodder_core::{Engine, layout::Layout};
use fodder_policy::Policy;
use fodder_server::{Node, NodeConfig};
use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

/// What a node is started with.
#[derive(Debug, Clone, Args)]
pub(crate) struct NodeArguments {
    /// Its cache directory, which also holds its socket.
    #[arg(long)]
    pub(crate) cache_dir: PathBuf,
    /// Bytes its tier may hold.
    #[arg(long)]
    pub(crate) cache_bytes: u64,
    /// Bytes of its memory budget.
    #[arg(long)]
    pub(crate) budget_bytes: u64,
    /// What stays.
    #[arg(long)]
    pub(crate) policy: Policy,
    /// The dataset's origin.
    #[arg(long)]
    pub(crate) origin: String,
}

/// A running node, and where it listens.
#[derive(Debug)]
pub(crate) struct RunningNode {
    /// Its process.
    pub(crate) process: Process,
    /// Its Unix socket.
    pub(crate) socket: PathBuf,
    /// Its TCP port for gRPC and frames.
    pub(crate) grpc: SocketAddr,
}

impl NodeArguments {
    /// Starts it in a process of its own.
    pub(crate) fn start(&self) -> Result<RunningNode> {
        let Self { cache_dir, cache_bytes, budget_bytes, policy, origin } = self;
        let mut process = Process::start(&[
            "node",
            "--cache-dir",
            cache_dir.to_str().context("the directory's name is text")?,
            "--cache-bytes",
            &cache_bytes.to_string(),
            "--budget-bytes",
            &budget_bytes.to_string(),
            "--policy",
            policy.name(),
            "--origin",
            origin,
        ])?;
        let grpc = process.answer()?.parse()?;
        Ok(RunningNode { process, socket: socket(cache_dir), grpc })
    }

    /// The child's side: lives until its parent says that it is enough.
    pub(crate) fn run(self) -> Result<()> {
        fodder_core::allocator::share_arenas();
        fixture::raise_open_files()?;
        std::fs::create_dir_all(&self.cache_dir)?;
        let runtime = tokio::runtime::Runtime::new()?;
        let mut config = fixture::engine_config(&self.cache_dir, self.cache_bytes);
        config.memory_budget_bytes = self.budget_bytes;
        let (engine, node) = runtime.block_on(async {
            let engine = Engine::open(config).await?;
            engine.add_dataset(fixture::dataset_config(self.origin, Layout::Files, self.policy)).await?;
            let port0 = SocketAddr::from(([127, 0, 0, 1], 0));
            let doors =
                NodeConfig { rest: port0, grpc: port0, socket: Some(socket(&self.cache_dir)), ..NodeConfig::default() };
            let node = Node::start(doors, engine.clone()).await?;
            anyhow::Ok((engine, node))
        })?;
        process::say(&node.addresses().grpc.to_string())?;
        process::obey(|_| Ok(serde_json::to_string(&engine.status())?))?;
        runtime.block_on(async {
            node.shutdown().await;
            engine.shutdown().await;
        });
        Ok(())
    }
}

fn socket(cache_dir: &Path) -> PathBuf {
    cache_dir.join("fodder.sock")
}
