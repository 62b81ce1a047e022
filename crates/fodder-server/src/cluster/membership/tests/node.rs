//! A node as far as membership goes: a port, the door for members, and a way of knowing others.

use super::*;
use crate::{
    Addresses, IcacheConfig, NodeInfo, NodeState,
    cluster::membership::{
        etcd::{Etcd, EtcdConfig},
        fixed::Fixed,
        gossip::Gossip,
    },
};
use fodder_core::{Engine, config::EngineConfig};
use std::{
    net::SocketAddr,
    time::{Instant, SystemTime},
};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tokio_util::sync::{CancellationToken, DropGuard};

/// How long anything may take on a slow machine.
const LONG: Duration = Duration::from_secs(60);

/// A way of knowing the members.
#[derive(Debug, Clone)]
pub(super) enum Way {
    Fixed,
    Gossip,
    Etcd(SocketAddr, EtcdConfig),
}

/// A node; dropped, it is dead.
#[derive(Debug)]
pub(super) struct TestNode {
    pub(super) joined: Joined,
    pub(super) address: SocketAddr,
    /// Where others look for it.
    pub(super) seed: SocketAddr,
    _server: DropGuard,
    _dir: TempDir,
}

/// Who starts, and what it is told.
#[derive(Clone)]
pub(super) struct Start {
    pub(super) way: Way,
    pub(super) id: u128,
    pub(super) incarnation: u64,
    pub(super) token: &'static str,
    pub(super) address: SocketAddr,
    pub(super) seeds: Vec<SocketAddr>,
    /// Names that are looked up like this, beside the seeds.
    pub(super) names: Option<(&'static str, LookUp)>,
}

impl Start {
    pub(super) fn new(way: &Way, id: u128, seeds: &[SocketAddr]) -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        Self { way: way.clone(), id, incarnation: 1, token: "token", address, seeds: seeds.to_vec(), names: None }
    }

    pub(super) async fn run(self) -> TestNode {
        let listener = bind(self.address).await;
        let address = listener.local_addr().unwrap();
        let me = Member {
            id: NodeId(self.id),
            incarnation: Incarnation(self.incarnation),
            address: address.to_string(),
            zone: format!("zone-{}", self.id),
            capacity_bytes: self.id as u64 * 1000,
            state: State::Joining,
            ..member(0)
        };
        let mut terms = Terms {
            patience: Patience { unreachable_after: Duration::from_secs(2), ..Patience::default() },
            interval: Duration::from_millis(50),
            seal: Seal::new(self.token),
            ..Terms::default()
        };
        let mut seeds: Vec<_> =
            self.seeds.iter().flat_map(|seed| Seed::parse(&seed.to_string(), None).unwrap()).collect();
        if let Some((names, look_up)) = self.names {
            seeds.extend(Seed::parse(names, None).unwrap());
            terms.look_up = look_up;
        }
        let joined = match self.way {
            Way::Fixed => Fixed::start(me, seeds, terms),
            Way::Etcd(server, access) => {
                let servers = Seed::parse(&server.to_string(), None).unwrap();
                Etcd::start(me, servers, "/test/members/", access, terms)
            }
            Way::Gossip => Gossip::start(me, seeds, ([127, 0, 0, 1], 0).into(), terms).await.unwrap(),
        };
        let state = Arc::new(NodeState::new(IcacheConfig::default()));
        state.join(joined.clone());
        let dir = tempfile::tempdir().unwrap();
        let config = EngineConfig { cache_dir: dir.path().join("cache"), ..EngineConfig::default() };
        let engine = Engine::open(config).await.unwrap();
        let addresses = Addresses { rest: address, grpc: address, socket: None };
        let info = NodeInfo { version: "0.0.0", started_at: SystemTime::now(), addresses, state };
        let stop = CancellationToken::new();
        let server = tonic::transport::Server::builder()
            .add_service(service(engine, Arc::new(info)))
            .serve_with_incoming_shutdown(TcpListenerStream::new(listener), stop.clone().cancelled_owned());
        tokio::spawn(server);
        let seed = joined.gossip.unwrap_or(address);
        TestNode { joined, address, seed, _server: stop.drop_guard(), _dir: dir }
    }
}

impl TestNode {
    /// What it sees: `id state`, by id.
    pub(super) fn sees(&self) -> Vec<String> {
        let members = self.joined.membership.members().borrow().clone();
        members.all().iter().map(|seen| format!("{} {}", seen.member.id.0, seen.state())).collect()
    }

    pub(super) fn member(&self, id: u128) -> Option<Member> {
        self.joined.membership.members().borrow().get(NodeId(id)).map(|seen| seen.member.clone())
    }

    pub(super) async fn announce(&self, state: State) {
        self.joined.membership.announce(state).await;
    }
}

/// The port of one that has just died may still be taken.
async fn bind(address: SocketAddr) -> TcpListener {
    let deadline = Instant::now() + LONG;
    loop {
        match TcpListener::bind(address).await {
            Ok(listener) => return listener,
            Err(error) => assert!(Instant::now() < deadline, "{address}: {error}"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Waits until all of these see the same.
pub(super) async fn all_see(nodes: &[&TestNode], expected: &[&str]) {
    let deadline = Instant::now() + LONG;
    for node in nodes {
        while node.sees() != expected {
            assert!(Instant::now() < deadline, "{} sees {:?}, not {expected:?}", node.address, node.sees());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
