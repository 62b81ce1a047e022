//! Nodes that find each other, as real processes.

use crate::{
    icache::python,
    program::{Data, Node, fodder, run, wait_for},
};
use fodder_testing::skip;
use rustix::process::Signal;
use serde_json::Value;
use std::{
    io::{Read, Write},
    path::Path,
    process::{Child, Command, Stdio},
};
use tempfile::TempDir;

/// A node of a cluster whose members share a token.
fn start(dir: &Path, name: &str, token: &str, args: &[&str]) -> Node {
    let file = dir.join(format!("{name}.token"));
    std::fs::write(&file, token).unwrap();
    let zone = format!("zone-{name}");
    let args = [&["--token-file", file.to_str().unwrap(), "--zone", &zone], args].concat();
    Node::start(&dir.join(name), &args)
}

fn members(node: &Node) -> Vec<Value> {
    let status = node.client(&["cluster", "status", "--json"]).good();
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    status["members"].as_array().unwrap().clone()
}

/// The states of the members, by zone.
fn states(node: &Node) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let mut states: Vec<_> =
        members(node).iter().map(|member| format!("{} {}", text(&member["zone"]), text(&member["state"]))).collect();
    states.sort();
    states
}

#[track_caller]
fn all_see(nodes: &[&Node], expected: &[&str]) {
    for node in nodes {
        wait_for(&format!("{expected:?}, last seen {:?}", states(node)), || states(node) == expected);
    }
}

/// What iCache's `/cluster` says.
fn icache_cluster(node: &Node) -> Value {
    let rest = node.line("rest").trim_start_matches("http://");
    let mut stream = std::net::TcpStream::connect(rest).unwrap();
    stream.write_all(b"GET /cluster HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

const TOKEN: &str = "a word that all nodes of this cluster know";

#[test]
fn nodes_find_each_other_notice_a_death_and_a_return_and_keep_strangers_out() {
    let dir = TempDir::new().unwrap();
    let a = start(dir.path(), "a", TOKEN, &["--join", "127.0.0.1:1"]);
    let first = a.line("grpc").to_owned();
    let b = start(dir.path(), "b", TOKEN, &["--join", &first]);
    let c = start(dir.path(), "c", TOKEN, &["--join", &first]);
    let stranger = start(dir.path(), "x", "another word, which they do not know", &["--join", &first]);
    all_see(&[&a, &b, &c], &["zone-a serving", "zone-b serving", "zone-c serving"]);
    assert_eq!(states(&stranger), ["zone-x serving"]);
    let said = || a.log().matches("somebody who is not of this cluster was turned away").count();
    wait_for("a line about the stranger", || said() > 0);

    // What they show.
    let shown = a.client(&["cluster", "status"]).good().text();
    assert!(shown.contains("33.3 %") && shown.contains("serving") && shown.contains(&first), "{shown}");
    let of_b = members(&a).into_iter().find(|member| member["zone"] == "zone-b").unwrap();
    assert_eq!((&of_b["incarnation"], &of_b["capacity_bytes"]), (&1.into(), &(64u64 << 20).into()));
    assert!(of_b["held_bytes"].is_u64() && of_b["latency_us"].is_u64(), "{of_b}");

    // One that is stopped is silent; once it goes on, nobody has forgotten it, and it blames nobody.
    b.signal(Signal::STOP);
    all_see(&[&a, &c], &["zone-a serving", "zone-b unreachable", "zone-c serving"]);
    b.signal(Signal::CONT);
    all_see(&[&a, &b, &c], &["zone-a serving", "zone-b serving", "zone-c serving"]);

    // One that drains owns nothing, and has handed over what it had: nothing here.
    assert!(b.client(&["drain"]).good().text().contains("owns nothing now"));
    all_see(&[&a, &b, &c], &["zone-a serving", "zone-b draining", "zone-c serving"]);
    assert_eq!(b.stop(), 0);
    let b = start(dir.path(), "b", TOKEN, &["--join", &first]);
    all_see(&[&a, &b, &c], &["zone-a serving", "zone-b serving", "zone-c serving"]);

    // One dies without a word, comes back in its next life, and leaves with one.
    drop(c);
    all_see(&[&a, &b], &["zone-a serving", "zone-b serving", "zone-c unreachable"]);
    let c = start(dir.path(), "c", TOKEN, &["--join", &first]);
    all_see(&[&a, &b, &c], &["zone-a serving", "zone-b serving", "zone-c serving"]);
    assert!(members(&b).iter().any(|member| member["zone"] == "zone-c" && member["incarnation"] == 2));
    assert_eq!(c.stop(), 0);
    all_see(&[&a, &b], &["zone-a serving", "zone-b serving"]);

    // The first is nothing special.
    assert_eq!(a.stop(), 0);
    all_see(&[&b], &["zone-b serving"]);
}

#[test]
fn nodes_that_gossip_find_each_other_past_junk_and_strangers() {
    let dir = TempDir::new().unwrap();
    let gossip = ["--membership", "gossip", "--gossip", "127.0.0.1:0", "--join"];
    let a = start(dir.path(), "a", TOKEN, &[&gossip[..], &["127.0.0.1:1"]].concat());
    let first = a.line("gossip").to_owned();
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    for length in [0, 1, 16, 17, 1000, 60_000] {
        socket.send_to(&vec![0xa5; length], &first).unwrap();
    }
    let joined = |name, token| start(dir.path(), name, token, &[&gossip[..], &[&first]].concat());
    let (b, c) = (joined("b", TOKEN), joined("c", TOKEN));
    let stranger = joined("x", "another word, which they do not know");
    all_see(&[&a, &b, &c], &["zone-a serving", "zone-b serving", "zone-c serving"]);
    assert_eq!(states(&stranger), ["zone-x serving"]);
    drop(c);
    all_see(&[&a, &b], &["zone-a serving", "zone-b serving", "zone-c unreachable"]);
    assert_eq!(b.stop(), 0);
    all_see(&[&a], &["zone-a serving", "zone-c unreachable"]);
}

/// A real etcd at an address of its own, ended with its test; None, if there is none here.
pub(crate) fn etcd(dir: &Path, ip: &str) -> Option<Ended> {
    let (client, peer) = (format!("http://{ip}:2379"), format!("http://{ip}:2380"));
    let child = Command::new("etcd")
        .arg("--data-dir")
        .arg(dir.join("etcd"))
        .args(["--listen-client-urls", &client, "--advertise-client-urls", &client, "--listen-peer-urls", &peer])
        .args(["--initial-advertise-peer-urls", &peer, "--initial-cluster", &format!("default={peer}")])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    child.ok().map(Ended)
}

pub(crate) struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn icaches_two_nodes_and_one_etcd_become_a_cluster_whose_ranks_share_their_caches() {
    let (dir, data) = (TempDir::new().unwrap(), Data::new());
    let [low, high, ..] = std::process::id().to_le_bytes();
    let ip = |last: u8| format!("127.{}.{high}.{last}", low.max(1));
    let Some(_etcd) = etcd(dir.path(), &ip(9)) else {
        skip!("etcd is not installed");
    };
    let nodes = [1, 2].map(|number| {
        let file = dir.path().join(format!("{number}.yaml"));
        let text = format!(
            "node: {}\ncache_ratio: 0.8\ncache_type: isa\netcd_nodes: {}\n\
             dcserver_data_path: {}\n",
            ip(number),
            ip(9),
            data.path()
        );
        std::fs::write(&file, text).unwrap();
        let address = format!("{}:0", ip(number));
        let args = ["--config", file.to_str().unwrap(), "--rest", &address, "--grpc", &address];
        Node::start(&dir.path().join(number.to_string()), &args)
    });
    for node in &nodes {
        wait_for("two members", || states(node) == [" serving", " serving"]);
        let answer = icache_cluster(node).to_string();
        assert!(answer.contains(&format!("\"nodes\":[\"{}\",\"{}\"]", ip(1), ip(2))), "{answer}");
    }
    let Some(python) = python() else {
        skip!("no grpcio in .venv (tools/setup --venv)");
    };
    let e2e = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e");
    let ranks: Vec<Child> = ["0", "1"]
        .iter()
        .zip(&nodes)
        .map(|(rank, node)| {
            let mut command = Command::new(&python);
            command.arg(e2e.join("icache_rank.py")).arg(e2e.join("../../../../proto"));
            command.args([node.line("grpc"), node.line("rest"), rank, "2"]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let mut served = Vec::new();
    for (rank, node) in ranks.into_iter().zip(&nodes) {
        let output = rank.wait_with_output().unwrap();
        assert!(output.status.success(), "{}\n{}", String::from_utf8_lossy(&output.stderr), node.log());
        served.extend(serde_json::from_slice::<Vec<usize>>(&output.stdout).unwrap());
    }
    served.sort_unstable();
    let twice: Vec<usize> = (0..data.files.len()).flat_map(|number| [number, number]).collect();
    assert_eq!(served, twice, "each sample once an epoch, by one of the ranks");
    let origin = |node: &Node| node.status()["datasets"][0]["stats"]["bytes_from_origin"].as_u64().unwrap();
    let all: usize = data.files.iter().map(|(_, bytes)| bytes.len()).sum();
    assert_eq!(nodes.iter().map(origin).sum::<u64>(), all as u64, "each byte left the origin once for both");
    // Each rank has ended two epochs at its own node. These are the same two, unless one rank began when the other had ended some.
    let epoch = |node: &Node| {
        let jobs: serde_json::Value = serde_json::from_slice(&node.client(&["jobs", "--json"]).good().stdout).unwrap();
        jobs.as_array().unwrap().iter().find(|job| job["name"] == "icache").and_then(|job| job["epoch"].as_u64())
    };
    wait_for("both nodes to be in the same epoch", || {
        let [first, second] = [&nodes[0], &nodes[1]].map(epoch);
        first == second && first.is_some_and(|epoch| (2..=4).contains(&epoch))
    });
}

#[test]
fn nodes_find_each_other_by_etcd_with_flags_alone_and_share_their_caches() {
    let (dir, data) = (TempDir::new().unwrap(), Data::new());
    let [low, high, ..] = std::process::id().to_le_bytes();
    let ip = format!("127.{}.{high}.19", low.max(1));
    let Some(_etcd) = etcd(dir.path(), &ip) else {
        skip!("etcd is not installed");
    };
    let join = |name| {
        let args = [data.path(), "--name", "pets", "--membership", "etcd", "--join", &ip];
        start(dir.path(), name, TOKEN, &args)
    };
    let (a, b, c) = (join("a"), join("b"), join("c"));
    let stranger =
        start(dir.path(), "x", "another word, which they do not know", &["--membership", "etcd", "--join", &ip]);
    all_see(&[&a, &b, &c], &["zone-a serving", "zone-b serving", "zone-c serving"]);
    assert_eq!(states(&stranger), ["zone-x serving"]);
    a.client(&["warm", "pets"]).good();
    for (path, bytes) in &data.files {
        assert_eq!(&b.client(&["get", "pets", path]).good().stdout, bytes);
    }
    let origin = |node: &Node| node.status()["datasets"][0]["stats"]["bytes_from_origin"].as_u64().unwrap();
    let all: usize = data.files.iter().map(|(_, bytes)| bytes.len()).sum();
    assert_eq!([&a, &b, &c].map(origin).iter().sum::<u64>(), all as u64, "each byte once");
    drop(c);
    all_see(&[&a, &b], &["zone-a serving", "zone-b serving", "zone-c unreachable"]);
    let c = join("c");
    all_see(&[&a, &b, &c], &["zone-a serving", "zone-b serving", "zone-c serving"]);
    assert_eq!(c.stop(), 0);
    all_see(&[&a, &b], &["zone-a serving", "zone-b serving"]);
}

#[test]
fn a_node_whose_etcd_is_away_starts_all_the_same_and_says_so() {
    let (dir, data) = (TempDir::new().unwrap(), Data::new());
    // Nobody listens there.
    let args = [data.path(), "--name", "pets", "--membership", "etcd", "--join", "127.0.0.1:1"];
    let node = start(dir.path(), "a", TOKEN, &args);
    let (path, bytes) = &data.files[0];
    assert_eq!(&node.client(&["get", "pets", path]).good().stdout, bytes);
    let log = node.log();
    assert_eq!(log.matches("etcd has not answered within").count(), 1, "{log}");
}

#[test]
fn a_node_that_no_other_could_reach_or_that_is_told_nonsense_does_not_start() {
    let dir = TempDir::new().unwrap();
    let refused = |args: &[&str]| match Node::try_start(&dir.path().join("a"), args) {
        Ok(_) => panic!("it started with {args:?}"),
        Err(ended) => ended.bad(),
    };
    assert!(refused(&["--join", "gpu[01-04]"]).contains("--grpc 0.0.0.0:"));
    assert!(refused(&["--join", "gpu[4-1]"]).contains("gpu[01-04,07]"));
    assert!(refused(&["--join", "127.0.0.1", "--zone", "rack 7"]).contains("is not the name of a zone"));
    assert!(
        refused(&["--join", "127.0.0.1", "--advertise", "0.0.0.0:18284"]).contains("they would connect to themselves")
    );
    assert!(refused(&["--join", "127.0.0.1", "--membership", "magic"]).contains("`etcd`"));
    assert!(refused(&["--join", "127.0.0.1", "--token-file", "/no/such/file"]).contains("/no/such/file"));
}

#[test]
fn icaches_clients_are_told_every_node_as_the_others_know_it() {
    let dir = TempDir::new().unwrap();
    // REST is at loopback; gRPC is where others reach it.
    let a = start(dir.path(), "a", TOKEN, &["--join", "127.0.0.1:1", "--grpc", "127.0.0.3:0"]);
    let b = start(dir.path(), "b", TOKEN, &["--join", a.line("grpc"), "--grpc", "127.0.0.2:0"]);
    all_see(&[&a, &b], &["zone-a serving", "zone-b serving"]);
    for node in [&a, &b] {
        let told = icache_cluster(node);
        assert_eq!(told["nodes"], serde_json::json!(["127.0.0.2", "127.0.0.3"]), "{told}");
        for (host, of) in [("127.0.0.3", &a), ("127.0.0.2", &b)] {
            let port = |line: &str| of.line(line).rsplit_once(':').unwrap().1.parse::<u64>().unwrap();
            let info = &told["infomap"][host];
            assert_eq!((&info["restport"], &info["rpcport"]), (&port("rest").into(), &port("grpc").into()), "{told}");
            assert_eq!(info["uuid"], of.line("member").split_once(' ').unwrap().0, "{told}");
        }
    }
}

#[test]
fn a_node_that_finds_nobody_says_once_where_and_why() {
    let dir = TempDir::new().unwrap();
    let other = start(dir.path(), "a", "another word, which it does not know", &["--join", "127.0.0.1:1"]);
    let there = other.line("grpc").to_owned();
    let list = format!("{there},127.0.0.1:1,127.0.0.1:2,no-such-host.invalid,127.0.0.9:3");
    let args = ["--join", &list, "--advertise", "127.0.0.9:3"];
    let node = start(dir.path(), "b", TOKEN, &args);
    let lines = |node: &Node| -> Vec<String> {
        let log = node.log();
        log.lines().filter(|line| line.contains("found no other node there")).map(str::to_owned).collect()
    };
    wait_for("three causes", || lines(&node).len() >= 3);
    let said = lines(&node);
    for (place, why) in [
        ("127.0.0.1:1, 127.0.0.1:2", "check that nodes run there"),
        ("no-such-host.invalid:18284", "check the names"),
        (&there, "check that all nodes have the same token"),
    ] {
        assert!(said.iter().any(|line| line.contains(place) && line.contains(why)), "{place}: {said:#?}");
    }
    assert!(!said.iter().any(|line| line.contains("127.0.0.9:3")), "it looks for itself: {said:#?}");

    let gossip = ["--membership", "gossip", "--gossip", "127.0.0.1:0", "--join", &there];
    let gossip = start(dir.path(), "c", TOKEN, &gossip);
    wait_for("what gossip finds", || !lines(&gossip).is_empty());
    assert!(lines(&gossip)[0].contains("not `grpc`"), "{}", gossip.log());
    assert_eq!(lines(&node), said, "each is said once");
}

#[test]
fn a_node_alone_says_that_it_is_in_no_cluster() {
    let dir = TempDir::new().unwrap();
    let node = Node::start(&dir.path().join("a"), &[]);
    assert!(node.client(&["cluster", "status"]).good().text().contains("not in a cluster"));
    assert_eq!(members(&node), Vec::<Value>::new());
    assert!(node.client(&["drain"]).bad().contains("not in a cluster"));
    assert!(run(fodder().args(["config", "show"])).good().text().contains("membership: fixed"));
    assert!(!node.log().contains("the settings of the cluster have no effect"), "{}", node.log());
    let gossip = Node::start(&dir.path().join("b"), &["--membership", "gossip"]);
    assert!(gossip.log().contains("the settings of the cluster have no effect"), "{}", gossip.log());
}
