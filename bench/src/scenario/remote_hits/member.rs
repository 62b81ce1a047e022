//! A node of a cluster of two, in a process of its own: the second owns everything, the first keeps next to nothing.

use crate::{fixture, fixture::Cache, process};
use anyhow::{Context, Result, bail};
use clap::Args;
use fodder_server::{
    Node, NodeConfig,
    cluster::{Neighbour, Patience, Peering, Tls, TlsConfig, Trust},
};
use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    sync::Arc,
};

/// Bytes that the first node may keep, and the second.
const CACHE_BYTES: [u64; 2] = [16 << 20, 4 << 30];

/// What a member is started with.
#[derive(Debug, Args)]
pub(crate) struct MemberArguments {
    /// 0 reads, 1 owns.
    #[arg(long)]
    side: usize,
    /// Where it listens.
    #[arg(long)]
    address: IpAddr,
    /// Its cache directory, which also holds its socket.
    #[arg(long)]
    cache_dir: PathBuf,
    /// The dataset's origin.
    #[arg(long)]
    origin: String,
}

impl MemberArguments {
    /// The certificates in its cache directory, if there are any.
    fn trust(&self) -> Result<Trust> {
        let dir = self.cache_dir.join("tls");
        if !dir.is_dir() {
            return Ok(Trust::default());
        }
        let [cert, key, ca] = ["node.pem", "node.key", "ca.pem"].map(|name| dir.join(name));
        Ok(Trust { token: None, tls: Some(Tls::read(&TlsConfig { cert, key, ca })?) })
    }

    /// Says where it listens; then obeys `warm` (reads everything), `meet ADDRESS ADDRESS` (of the two) and `status`.
    pub(crate) fn run(self) -> Result<()> {
        fixture::raise_open_files()?;
        let runtime = tokio::runtime::Runtime::new()?;
        let (cache, node, trust) = runtime.block_on(async {
            let cache = Cache::open(&self.cache_dir, CACHE_BYTES[self.side.min(1)], self.origin.clone()).await?;
            let any = SocketAddr::new(self.address, 0);
            let socket = Some(self.cache_dir.join("fodder.sock"));
            let doors = NodeConfig { rest: any, grpc: any, socket, ..NodeConfig::default() };
            let trust = self.trust()?;
            let node = Node::start_secure(doors, Arc::clone(&cache.engine), trust.clone()).await?;
            anyhow::Ok((cache, node, trust))
        })?;
        let peering = Peering::new(self.side as u128, 1, trust, Patience::default());
        process::say(&node.addresses().grpc.to_string())?;
        process::obey(|line| {
            let mut words = line.split(' ');
            match words.next() {
                Some("warm") => {
                    runtime.block_on(cache.warm())?;
                    Ok("warm".into())
                }
                Some("meet") => {
                    let mut member = |id: u128| -> Result<Neighbour> {
                        let address = words.next().context("meet ADDRESS ADDRESS")?.to_owned();
                        let (zone, owns) = (String::new(), id == 1);
                        Ok(Neighbour { id, address, zone, capacity_bytes: 1 << 30, owns, answers: true })
                    };
                    peering.set(&[member(0)?, member(1)?]);
                    cache.engine.join(Arc::clone(&peering) as _);
                    node.info().state.share(Arc::clone(&peering));
                    Ok("met".into())
                }
                Some("status") => Ok(serde_json::to_string(&cache.engine.status())?),
                _ => bail!("a member does not know {line:?}"),
            }
        })?;
        runtime.block_on(async {
            node.shutdown().await;
            cache.engine.shutdown().await;
        });
        Ok(())
    }
}
