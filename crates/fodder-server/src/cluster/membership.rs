//! Who is in the cluster: a seam with one pure machine behind it, and several ways to hear of others.
//!
//! - [`Membership`] is what the rest of a node sees: the members as they are now, and a way to say what this node does.
//! - `board` holds the machine (`fodder_policy::membership`) and tells of changes; every way feeds it.
//! - [`identity`] is who this node is; `seal` and `word` are how words of members travel; `probe` asks members whether
//!   they live; `door` answers those who ask; `search` tells where nobody was found.
//! - [`fixed`] asks a list of addresses; [`gossip`] tells a few what it heard;
//!   [`etcd`] keeps a lease and watches those of others.
//!
//! What must not be here: who owns what, and how bytes travel.

pub(crate) mod board;
mod door;
pub mod etcd;
pub mod fixed;
pub mod gossip;
pub mod identity;
mod probe;
mod seal;
mod search;
mod seed;
mod status;
#[cfg(test)]
mod tests;
mod word;

pub(crate) use door::service;
pub use fodder_policy::membership::{
    Incarnation, Member, Members, NodeId, Patience, Refused, Seen, State, Versions, check_address, check_zone,
};
pub use identity::Identity;
pub use probe::{Dial, plain};
pub use seal::Seal;
pub use seed::{Found, LookUp, Seed};
pub use status::{ClusterStatus, MemberStatus};

use board::Board;
use std::{
    fmt,
    net::SocketAddr,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};
use tokio::sync::watch;

/// The versions of the protocol between nodes that this program speaks.
pub const VERSIONS: Versions = Versions { oldest: 1, newest: 1 };

/// The members of a cluster, as this node sees them, and this node's voice among them.
#[async_trait::async_trait]
pub trait Membership: fmt::Debug + Send + Sync {
    /// The members as they are now. Told anew when somebody comes, goes, or says something else; not at every heartbeat.
    fn members(&self) -> watch::Receiver<Arc<Members>>;

    /// Ready once there has been a first answer to who is there: from etcd, whoever it names; otherwise from another member.
    async fn first_answer(&self) {
        let _ = self.members().wait_for(|members| members.others().next().is_some()).await;
    }

    /// Says in which state this node is.
    async fn announce(&self, state: State);

    /// Says goodbye to whom it reaches within a short time, and stops.
    async fn leave(&self);
}

/// How members talk to each other, whatever way they hear of each other.
#[derive(Clone)]
pub struct Terms {
    /// How patient to be with the silent.
    pub patience: Patience,
    /// How often to ask.
    pub interval: Duration,
    /// What proves that somebody belongs to the cluster.
    pub seal: Seal,
    /// How another node is connected to.
    pub dial: Dial,
    /// How names are looked up.
    pub look_up: LookUp,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            patience: Patience::default(),
            interval: Duration::from_secs(1),
            seal: Seal::new(""),
            dial: Arc::new(plain),
            look_up: Arc::new(seed::resolve),
        }
    }
}

impl fmt::Debug for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Terms").field("patience", &self.patience).field("interval", &self.interval).finish()
    }
}

/// What a node's doors know of its cluster.
#[derive(Debug, Clone)]
pub struct Joined {
    /// Who is there.
    pub membership: Arc<dyn Membership>,
    pub(crate) board: Arc<Board>,
    pub(crate) seal: Seal,
    /// Where it gossips, if it does.
    pub gossip: Option<SocketAddr>,
    /// Bytes of gossip that it has sent.
    pub gossip_bytes: Arc<AtomicU64>,
}
