//! This node among others: who is there, who owns what, and asking them for bytes.
//!
//! - [`ClusterConfig`]: what a user says about it.
//! - [`membership`]: who is there.
//! - `view` says whom to ask for a parcel: the owner, who stands in for it, who had it before.
//! - `peer` is one other node: a few connections, deadlines, a breaker; `race` asks several of them for the same.
//! - `peering` is what the engine sees of all that; `follow` tells it of every change of the members, and
//!   `handover` offers what other nodes own now.
//! - `answer` is what other nodes are told when they ask in words, and `status` how this node stands.
//! - `snapshot` gets listings that jobs are on elsewhere and that this node has not.
//! - `warm` brings a dataset in on all nodes together; `operate` does what else one command does on all of them.
//! - `trust` is what makes a node believe another: a `token` that both know, certificates ([`tls`]), or both.
//!
//! What must not be here: how bytes are kept.

mod answer;
mod config;
mod follow;
mod handover;
mod job;
pub mod membership;
mod operate;
mod peer;
mod peering;
mod race;
mod snapshot;
mod status;
mod stranger;
pub mod tls;
mod token;
mod trust;
mod view;
pub(crate) mod warm;

pub(crate) use answer::answer;
pub use config::{ClusterConfig, Way};
pub use handover::{Handover, Offer};
pub(crate) use operate::{evict, reload};
pub use peer::{Failure, PeerStatus};
pub use peering::{Patience, Peering, Told};
pub(crate) use status::{cluster_status, standing_of};
pub(crate) use stranger::Strangers;
pub use tls::{Tls, TlsConfig};
pub(crate) use token::Side;
pub use token::Token;
pub use trust::Trust;
pub use view::Neighbour;
