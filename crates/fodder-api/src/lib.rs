//! What crosses the wire between a node of Fodder and its clients.
//!
//! - [`v1`]: the protobuf messages and the gRPC service of a node; [`icache`]: those of iCache, for its own client.
//! - [`Client`]: a node's gRPC service with timeouts, reconnection and one [`Error`]; [`Job`]: a training job at it.
//! - [`frames`]: the framed batch protocol for bytes in bulk, its codec and its blocking client.
//!
//! ```no_run
//! # async fn example() -> fodder_api::Result<()> {
//! let client = fodder_api::Client::connect(&"127.0.0.1:18284".parse()?).await?;
//! for dataset in client.list_datasets().await? {
//!     println!("{} items", dataset.items);
//! }
//! # Ok(()) }
//! ```
//!
//! What must not be here: the engine. A client is built without it.

pub mod address;
mod advice;
pub mod client;
pub mod error;
pub mod frames;
mod job;
mod probe;
mod stats;

pub use address::Address;
pub use client::{
    Client, Introduced, Item, ItemStream, ItemsStream, Job, ObjectStream, Rank, ReadStream, Scores, Target, Timeouts,
    WarmStream,
};
pub use error::{Error, Result};
pub use fodder_policy::spelling;
pub use v1::{Delivery, Source};

/// The messages and the gRPC service of a node, made from `proto/fodder/v1`.
#[allow(missing_docs, clippy::all, reason = "generated code; the comments are in the .proto file")]
pub mod v1 {
    tonic::include_proto!("fodder.v1");
}

/// The messages and the gRPC services of etcd that membership uses, made from `proto/etcd.proto`.
#[allow(missing_docs, clippy::all, reason = "generated code; the comments are in the .proto file")]
pub mod etcd {
    tonic::include_proto!("etcdserverpb");
}

/// The messages and the gRPC service of iCache, made from `proto/deepcache.proto`.
#[allow(missing_docs, clippy::all, reason = "generated code; the comments are in the .proto file")]
pub mod icache {
    tonic::include_proto!("rpc");
}

/// The most ids one request for items may hold, over gRPC and over frames.
pub const MAX_IDS: usize = 65_536;

/// The most batches one request may acknowledge, over gRPC and over frames.
pub const MAX_ACKNOWLEDGED: usize = 1024;

/// The longest path or prefix a request may hold, in bytes.
pub const MAX_PATH_BYTES: usize = 4096;
