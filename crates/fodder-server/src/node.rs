//! A running node: its addresses, its start and its end.

use fodder_core::{Engine, Error, Result};
use serde::{Deserialize, Serialize};
use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime},
};

/// What a user may set about a node's doors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NodeConfig {
    /// Where REST and metrics listen; port 0 picks a free one.
    pub rest: SocketAddr,
    /// Where gRPC and frames listen; port 0 picks a free one.
    pub grpc: SocketAddr,
    /// The Unix socket on which gRPC and frames listen too.
    pub socket: Option<PathBuf>,
    /// The most connections at a time, over all doors; more are closed at once.
    pub max_connections: usize,
    /// How long a node that is told to stop waits for what is under way.
    #[serde(with = "human_duration")]
    pub drain: Duration,
    /// How iCache's doors behave.
    pub icache: crate::IcacheConfig,
}

impl Default for NodeConfig {
    fn default() -> Self {
        Self {
            rest: SocketAddr::from(([127, 0, 0, 1], 18283)),
            grpc: SocketAddr::from(([127, 0, 0, 1], 18284)),
            socket: None,
            max_connections: 1024,
            drain: Duration::from_secs(20),
            icache: crate::IcacheConfig::default(),
        }
    }
}

/// Where a node listens: the actual ports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Addresses {
    /// REST and metrics.
    pub rest: SocketAddr,
    /// gRPC and frames.
    pub grpc: SocketAddr,
    /// gRPC and frames on this host.
    pub socket: Option<PathBuf>,
}

/// What a node says about itself.
#[derive(Debug, Clone)]
pub struct NodeInfo {
    /// The version of the program.
    pub version: &'static str,
    /// When it started.
    pub started_at: SystemTime,
    /// Where it listens.
    pub addresses: Addresses,
    /// What its doors share.
    pub state: Arc<crate::NodeState>,
}

/// A running node. Dropped without [`Node::shutdown`], it ends at once.
#[derive(Debug)]
pub struct Node {
    info: Arc<NodeInfo>,
}

impl Node {
    /// Opens the doors of an engine. Needs a tokio runtime around it.
    pub async fn start(config: NodeConfig, engine: Arc<Engine>) -> Result<Self> {
        let _ = (config, engine);
        Err(Error::Internal("not built yet".into()))
    }

    /// Where it listens.
    pub fn addresses(&self) -> &Addresses {
        &self.info.addresses
    }

    /// Takes no more connections, waits for what is under way, then closes the rest. The engine stays open.
    pub async fn shutdown(self) {}
}

/// Durations as people write them: `20s`, `5m`.
mod human_duration {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use std::time::Duration;

    pub(super) fn serialize<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&humantime::format_duration(*value))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        let text = String::deserialize(deserializer)?;
        humantime::parse_duration(&text)
            .map_err(|error| D::Error::custom(format!("{text:?} is not a duration such as 30s or 5m: {error}")))
    }
}
