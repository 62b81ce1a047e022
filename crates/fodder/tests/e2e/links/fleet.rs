//! Nodes as real processes, each on a host of its own, over an origin that all of them reach.

use super::network::{Host, Network};
use crate::program::{Node, wait_for};
use fodder_api::{Address, Client, Timeouts, v1};
use fodder_s3_server::Server;
use fodder_testing::skip;
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use std::{
    collections::BTreeMap,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};
use tempfile::TempDir;

const OBJECTS: usize = 128;
const BYTES: usize = 256 << 10;

/// Enough for about half of the data on each node, so that nearly half of what a node reads comes from others.
const CACHE: &str = "16MiB";

/// How nodes know of each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Fixed,
    Gossip,
    Etcd,
}

/// Nodes, their network and their origin.
pub(crate) struct Fleet {
    pub(crate) network: Network,
    pub(crate) nodes: Vec<Option<Node>>,
    pub(crate) contents: Arc<Vec<Vec<u8>>>,
    pub(crate) server: Server,
    way: Way,
    dir: TempDir,
    /// Asks nodes what they see.
    runtime: tokio::runtime::Runtime,
    _origin: tokio::runtime::Runtime,
    _etcd: Option<Ended>,
}

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Fleet {
    /// So many nodes that see each other and serve. None where the test cannot run here; it is then reported as skipped.
    pub(crate) fn new(way: Way, count: usize) -> Option<Self> {
        if !super::network::can_cut_links() {
            return None;
        }
        let (network, dir) = (Network::new(count), tempfile::tempdir().unwrap());
        let etcd = match way {
            Way::Etcd => match network.on(Host::Etcd, || etcd(&dir)) {
                None => skip!("etcd is not installed"),
                etcd => etcd,
            },
            Way::Fixed | Way::Gossip => None,
        };
        let (origin, server) = network.on(Host::Origin, || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
            let server = runtime.block_on(Server::start(&format!("{}:0", Host::Origin.ip()))).unwrap();
            (runtime, server)
        });
        let mut rng = SmallRng::seed_from_u64(7);
        let contents = (0..OBJECTS).map(|n| {
            let mut bytes = vec![0; BYTES];
            rng.fill(&mut bytes[..]);
            server.put(&format!("{n:04}"), bytes.clone());
            bytes
        });
        let mut fleet = Self {
            network,
            nodes: (0..count).map(|_| None).collect(),
            contents: Arc::new(contents.collect()),
            server,
            way,
            dir,
            runtime: tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap(),
            _origin: origin,
            _etcd: etcd,
        };
        fleet.write_config();
        (0..count).for_each(|n| fleet.start(n));
        fleet.agree();
        Some(fleet)
    }

    fn write_config(&self) {
        let (membership, join) = match self.way {
            Way::Fixed => ("fixed", self.addresses(18284)),
            Way::Gossip => ("gossip", self.addresses(18282)),
            Way::Etcd => ("etcd", format!("{}:2379", Host::Etcd.ip())),
        };
        let token = self.dir.path().join("token");
        std::fs::write(&token, "a word that all nodes of this cluster know").unwrap();
        let text = format!(
            "cluster:\n  membership: {membership}\n  join: [\"{join}\"]\n  heartbeat: 100ms\n  unreachable_after: 1s\n  \
             token_file: {}\n",
            token.display()
        );
        std::fs::write(self.dir.path().join("config.yaml"), text).unwrap();
    }

    fn addresses(&self, port: u16) -> String {
        let all: Vec<_> = (0..self.nodes.len()).map(|n| format!("{}:{port}", Host::Node(n).ip())).collect();
        all.join(",")
    }

    /// Starts a node on its host, with the cache it had if it had one.
    pub(crate) fn start(&mut self, n: usize) {
        let origin = format!("s3://bucket?endpoint={}&region=us-east-1", self.server.endpoint());
        let grpc = format!("{}:18284", Host::Node(n).ip());
        let config = self.dir.path().join("config.yaml").display().to_string();
        let cache = self.cache(n);
        let node = self.network.on(Host::Node(n), || {
            let args = ["--config", &config, &origin, "--name", "world", "--anonymous", "--cache-size", CACHE];
            Node::start(&cache, &[&args[..], &["--grpc", &grpc]].concat())
        });
        self.nodes[n] = Some(node);
    }

    fn cache(&self, n: usize) -> PathBuf {
        self.dir.path().join(format!("cache-{n}"))
    }

    /// A node's Unix socket, which no link is on the way to.
    pub(crate) fn socket(&self, n: usize) -> Address {
        Address::Unix(self.cache(n).join("fodder.sock"))
    }

    /// The identities of the nodes that run, and where each is.
    pub(crate) fn identities(&self) -> BTreeMap<String, String> {
        let of = |node: &Node| node.line("member").split_once(' ').map(|(id, at)| (id.to_owned(), at.to_owned()));
        self.nodes.iter().flatten().filter_map(of).collect()
    }

    /// The members as a node sees them: identity and state.
    pub(crate) fn seen(&self, n: usize) -> BTreeMap<String, String> {
        let seen = self.runtime.block_on(async { self.client(n).members().await.unwrap() });
        seen.members.into_iter().map(|member| (member.id, member.state)).collect()
    }

    /// The jobs that a node knows of.
    pub(crate) fn jobs(&self, n: usize) -> Vec<v1::JobStatus> {
        self.runtime.block_on(async { self.client(n).list_jobs(None).await.unwrap() })
    }

    /// To be called where a runtime is.
    fn client(&self, n: usize) -> Client {
        let timeouts = Timeouts { connect: Duration::from_secs(30), progress: Duration::from_secs(30), doubt: None };
        Client::lazy(&self.socket(n), timeouts).unwrap()
    }

    /// Waits until each node sees exactly those that run, all of them serving.
    #[track_caller]
    pub(crate) fn agree(&self) {
        let all: BTreeMap<_, _> = self.identities().into_keys().map(|id| (id, "serving".to_owned())).collect();
        let running = (0..self.nodes.len()).filter(|n| self.nodes[*n].is_some());
        for n in running {
            wait_for(&format!("node {n} to see all; it sees {:?}", self.seen(n)), || self.seen(n) == all);
        }
    }

    /// Waits until a node sees as many of the others as reachable.
    #[track_caller]
    pub(crate) fn sees(&self, n: usize, serving: usize) {
        let count = || self.seen(n).values().filter(|state| *state == "serving").count();
        wait_for(&format!("node {n} to see {serving} serving; it sees {:?}", self.seen(n)), || count() == serving);
    }
}

/// A real etcd, ended with its test; None, if there is none here.
fn etcd(dir: &TempDir) -> Option<Ended> {
    let [client, peer] = [2379, 2380].map(|port| format!("http://{}:{port}", Host::Etcd.ip()));
    let child = Command::new("etcd")
        .arg("--data-dir")
        .arg(dir.path().join("etcd"))
        .args(["--listen-client-urls", &client, "--advertise-client-urls", &client, "--listen-peer-urls", &peer])
        .args(["--initial-advertise-peer-urls", &peer, "--initial-cluster", &format!("default={peer}")])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    child.ok().map(Ended)
}
