//! Somebody on another machine who does not know the cluster's token, against real nodes on machines of their own.

use crate::{
    links::network::{Host, Network, can_cut_links},
    program::{Data, Ended, Node, ask_rest, fodder, run, wait_for},
};
use fodder_api::{
    Address, Rank, Timeouts,
    error::NODES_ONLY,
    frames::{Batch, FrameClient},
    v1,
};
use fodder_policy::{
    plan::{Order, Uneven},
    serving::Mode,
};
use serde_json::Value;
use std::time::Duration;
use tempfile::TempDir;

const STRANGER: Host = Host::Node(2);

/// The first two hosts are nodes of a cluster with a token, whose REST is open to other machines too.
struct Cluster {
    network: Network,
    nodes: Vec<Node>,
    data: Data,
    /// Something beside the data that is nobody's business.
    secret: TempDir,
    _dir: TempDir,
}

impl Cluster {
    /// None where the test cannot run here; it is then reported as skipped.
    fn new() -> Option<Self> {
        if !can_cut_links() {
            return None;
        }
        let (network, dir, data, secret) =
            (Network::new(3), TempDir::new().unwrap(), Data::new(), TempDir::new().unwrap());
        std::fs::write(secret.path().join("password"), "hunter2").unwrap();
        let token = dir.path().join("token");
        std::fs::write(&token, "a word that all nodes of this cluster know").unwrap();
        let join = format!("{},{}", address(0, 18284), address(1, 18284));
        let start = |n: usize| {
            let (grpc, rest) = (address(n, 18284), address(n, 18283));
            let flags = ["--grpc", &grpc, "--rest", &rest, "--join", &join, "--token-file", token.to_str().unwrap()];
            let args = [&[data.path(), "--name", "pets"], &flags[..]].concat();
            network.on(Host::Node(n), || Node::start(&dir.path().join(format!("cache-{n}")), &args))
        };
        let nodes = vec![start(0), start(1)];
        let cluster = Self { network, nodes, data, secret, _dir: dir };
        wait_for("two nodes that serve", || cluster.serving() == 2);
        Some(cluster)
    }

    /// A client command on its machine.
    fn here(&self, args: &[&str]) -> Ended {
        self.network.on(Host::Node(0), || self.nodes[0].client(args))
    }

    /// How many members serve, as the first node sees them.
    fn serving(&self) -> usize {
        let status: Value = serde_json::from_str(&self.here(&["cluster", "status", "--json"]).good().text()).unwrap();
        status["members"].as_array().unwrap().iter().filter(|member| member["state"] == "serving").count()
    }

    /// Reads everything at a node, on its machine.
    fn read_all(&self, n: usize) {
        self.network.on(Host::Node(n), || {
            let mut client = FrameClient::connect(&address(n, 18284).parse().unwrap()).unwrap();
            let (handle, mut batch) = (client.open("pets", None).unwrap().handle, Batch::new());
            for (id, (path, bytes)) in self.data.files.iter().enumerate() {
                client.get_items(handle, &[id as u64], &mut batch).unwrap();
                assert!(batch.iter().next().unwrap().data.unwrap() == bytes, "{path} has the wrong bytes");
            }
        });
    }
}

fn address(n: usize, port: u16) -> String {
    format!("{}:{port}", Host::Node(n).ip())
}

#[test]
fn a_stranger_on_another_machine_reads_nothing_and_changes_nothing() {
    let Some(cluster) = Cluster::new() else { return };
    // Nodes are no strangers to each other, and on its machine a node is asked as ever, also by the address for others.
    cluster.read_all(0);
    cluster.read_all(1);
    let given: u64 = cluster
        .nodes
        .iter()
        .enumerate()
        .map(|(n, node)| {
            let status = cluster.network.on(Host::Node(n), || node.status());
            status["datasets"][0]["stats"]["bytes_to_peers"].as_u64().unwrap()
        })
        .sum();
    assert!(given > 0, "the nodes gave each other nothing");
    let before = cluster.here(&["status", "--json"]).good();
    let cached = |status: Ended| {
        let status: Value = serde_json::from_slice(&status.stdout).unwrap();
        (status["datasets"][0]["cached_bytes"].clone(), status["datasets"].as_array().unwrap().len())
    };
    let before = cached(before);

    let (secret, rest) = (cluster.secret.path().to_str().unwrap(), address(0, 18283));
    let frames = || {
        let timeouts = Timeouts { connect: Duration::from_secs(30), progress: Duration::from_secs(30), doubt: None };
        let mut client = FrameClient::connect_with(&address(0, 18284).parse().unwrap(), timeouts)?;
        client.open("pets", None).map(drop)
    };
    cluster.network.on(STRANGER, || {
        assert!(frames().unwrap_err().is_for_nodes_only());
        for args in [
            &["status"][..],
            &["get", "pets", "0"],
            &["get", "pets", "cat/0.png"],
            &["datasets", "list"],
            &["datasets", "add", secret, "--name", "stolen"],
            &["datasets", "remove", "pets"],
            &["index", "pets"],
            &["warm", "pets"],
            &["evict", "pets"],
            &["verify"],
            &["advise", "pets"],
            &["jobs"],
            &["config", "reload", "--cluster"],
            &["cluster", "status"],
            &["drain"],
        ] {
            let said = run(fodder().args(args).args(["--addr", &address(0, 18284)])).bad();
            assert!(said.contains(NODES_ONLY), "{args:?}: {said}");
        }
        for (method, path) in [
            ("GET", "/"),
            ("GET", "/api/v1/status"),
            ("GET", "/api/v1/datasets/pets/items/0"),
            ("POST", "/api/v1/datasets"),
            ("DELETE", "/api/v1/datasets/pets"),
            ("POST", "/api/v1/datasets/pets/evict"),
            ("POST", "/api/v1/reload"),
            ("GET", "/api/v1/cluster"),
            ("GET", "/statistic"),
        ] {
            let (status, said) = ask_rest(&rest, method, path);
            assert!(status == 403 && said.contains(NODES_ONLY), "{method} {path}: {said}");
        }
        for path in ["/healthz", "/readyz", "/metrics"] {
            assert_eq!(ask_rest(&rest, "GET", path).0, 200, "{path}");
        }
    });
    assert_eq!(cached(cluster.here(&["status", "--json"]).good()), before);
    assert_eq!(cluster.serving(), 2);
    assert_eq!(cluster.network.on(Host::Node(0), || ask_rest(&rest, "GET", "/api/v1/datasets/pets/items/0").0), 200);
    let warned = cluster.nodes[0].log();
    assert!(!warned.contains("anyone who can reach this address"), "{warned}");
}

#[test]
fn a_node_with_a_token_answers_its_own_machine_alone_though_it_joins_nobody() {
    if !can_cut_links() {
        return;
    }
    let (network, dir, data) = (Network::new(3), TempDir::new().unwrap(), Data::new());
    let token = dir.path().join("token");
    let (grpc, rest) = (address(0, 18284), address(0, 18283));
    let flags = ["--grpc", &grpc, "--rest", &rest, "--token-file", token.to_str().unwrap()];
    let args = [&[data.path(), "--name", "pets"], &flags[..]].concat();
    let start = || network.on(Host::Node(0), || Node::try_start(&dir.path().join("cache"), &args));
    let said = start().err().expect("a token that is not there is not passed over").stderr;
    assert!(said.contains("cannot read the token file"), "{said}");

    std::fs::write(&token, "a word that nobody else knows").unwrap();
    let node = start().ok().expect("the node starts");
    network.on(STRANGER, || {
        for args in
            [&["status"][..], &["get", "pets", "0"], &["datasets", "add", "/", "--name", "all"], &["evict", "pets"]]
        {
            let said = run(fodder().args(args).args(["--addr", &grpc])).bad();
            assert!(said.contains(NODES_ONLY), "{args:?}: {said}");
        }
        assert_eq!(ask_rest(&rest, "GET", "/api/v1/status").0, 403);
        assert_eq!(ask_rest(&rest, "GET", "/healthz").0, 200);
    });
    network.on(Host::Node(0), || node.client(&["get", "pets", "0"]).good());
    assert!(!node.log().contains("anyone who can reach this address"), "{}", node.log());
}

#[test]
fn a_rank_passes_over_a_node_that_answers_no_clients_on_its_machine() {
    let Some(cluster) = Cluster::new() else {
        return;
    };
    let introduction = v1::IntroduceRequest {
        dataset: "pets".into(),
        name: "job".into(),
        mode: Some(Mode::Strict.into()),
        world: 1,
        uneven: v1::Uneven::from(Uneven::Exact).into(),
        ..Default::default()
    };
    let [other, own] = [1, 0].map(|n| address(n, 18284).parse::<Address>().unwrap());
    let begin = |addresses: &[&Address]| {
        let mut rank =
            Rank::new(addresses.iter().map(|one| (*one).clone()).collect(), introduction.clone(), 0).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let begun = runtime.block_on(rank.begin(0, Order::Seed(1)));
        begun.map(|_| rank.address().clone())
    };
    cluster.network.on(Host::Node(0), || {
        assert_eq!(begin(&[&other, &own]), Ok(own.clone()));
        assert!(begin(&[&other]).unwrap_err().is_for_nodes_only());
    });
}
