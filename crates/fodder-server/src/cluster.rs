//! This node among others: who is there, who owns what, and asking them for bytes.
//!
//! - [`ClusterConfig`]: what a user says about it.
//! - [`membership`]: who is there.
//! - `view` says whom to ask for a parcel: the owner, who stands in for it, who had it before.
//! - `peer` is one other node: a few connections, deadlines, a breaker.
//! - `peering` is what the engine sees of all that; `follow` tells it of every change of the members, and
//!   `handover` offers what other nodes own now.
//! - `token` is how two nodes prove to each other that they belong together.
//!
//! What must not be here: how bytes are kept.

mod config;
mod follow;
mod handover;
pub mod membership;
mod peer;
mod peering;
mod token;
mod view;

pub use config::{ClusterConfig, Way};
pub use handover::{Handover, Offer};
pub use peer::PeerStatus;
pub use peering::{Patience, Peering};
pub(crate) use token::Side;
pub use token::Token;
pub use view::Neighbour;
