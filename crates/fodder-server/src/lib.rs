//! One node: the doors of an [`Engine`](fodder_core::Engine).
//!
//! - [`node`] starts and stops everything here.
//! - `listener` takes connections on one TCP port and one Unix socket, and tells gRPC from frames by the first bytes.
//! - `grpc` and `frames` are the two languages spoken there; `rest`, `metrics` and `icache` the others.
//! - [`cluster`] is this node among others.
//! - `items`, `place` and `wire` are what doors have in common: a walk over items, names to ranges, words of the wire.
//!
//! Each door is a thin adapter: it converts, calls the engine, replies, and decides nothing. What must not be here:
//! anything about how bytes are kept or fetched, and anything about command lines.

pub mod cluster;
mod frames;
mod grpc;
mod icache;
mod items;
mod listener;
mod metrics;
pub mod node;
mod place;
mod rest;
mod state;
#[cfg(test)]
mod testing;
mod warm;
mod wire;

pub use cluster::ClusterConfig;
pub use grpc::config_message;
pub use icache::IcacheConfig;
pub use node::{Addresses, Node, NodeConfig, NodeInfo};
pub use state::{Connections, NodeState, Reloading};
