//! What one command does on all nodes of a cluster, and what is said of those that cannot be told.

use super::Fleet;
use crate::program::{Data, Node, ask_rest, wait_for};
use rustix::process::Signal;
use serde_json::Value;
use std::{fs, path::Path};

const OBJECTS: usize = 80;
const CACHE_BYTES: usize = 32 << 20;

fn members(node: &Node) -> Vec<Value> {
    let status: Value = serde_json::from_str(&node.client(&["cluster", "status", "--json"]).good().text()).unwrap();
    status["members"].as_array().unwrap().clone()
}

fn cached(node: &Node) -> u64 {
    node.status()["datasets"][0]["cached_bytes"].as_u64().unwrap()
}

/// Asks a node's REST, and takes the body of the answer.
fn rest(node: &Node, method: &str, path: &str) -> Value {
    rest_with_status(node, method, path).1
}

/// The status and the body.
fn rest_with_status(node: &Node, method: &str, path: &str) -> (u16, Value) {
    let address = node.line("rest").trim_start_matches("http://");
    let (status, answer) = ask_rest(address, method, path);
    let body = answer.split_once("\r\n\r\n").unwrap().1;
    (status, serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}")))
}

#[test]
fn every_member_is_shown_with_what_it_holds_and_one_that_hangs_as_unknown() {
    let fleet = Fleet::new(3, OBJECTS, CACHE_BYTES);
    let nodes: Vec<_> = fleet.nodes.iter().flatten().collect();
    nodes[0].client(&["warm", "world"]).good();
    fleet.epoch(1);
    for members in [members(nodes[0]), rest(nodes[1], "GET", "/api/v1/cluster")["members"].as_array().unwrap().clone()]
    {
        assert_eq!(members.len(), 3);
        for member in &members {
            assert!(member["held_bytes"].as_u64().unwrap() > 0, "{member}");
            assert!((0.0..=1.0).contains(&member["hit_ratio"].as_f64().unwrap()), "{member}");
            assert!((0.3..0.4).contains(&member["share"].as_f64().unwrap()), "{member}");
        }
        assert_eq!(members.iter().filter(|member| member["latency_us"].is_u64()).count(), 2, "{members:?}");
    }
    // Each says of itself what the cluster says of it.
    for (node, address) in nodes.iter().zip(&fleet.addresses) {
        let listed = members(nodes[0]).into_iter().find(|member| member["address"] == address.as_str()).unwrap();
        let hits = format!("{:.1} % hits", listed["hit_ratio"].as_f64().unwrap() * 100.0);
        let text = node.client(&["status"]).good().text();
        assert!(text.contains(&hits), "{hits} in {text}");
    }
    // It hangs: those who ask do not, and say what they do not know.
    nodes[2].signal(Signal::STOP);
    let hung = |members: &[Value]| {
        let hung = members.iter().find(|member| member["address"] == fleet.addresses[2].as_str()).unwrap().clone();
        hung["state"] == "unreachable" && hung["held_bytes"].is_null() && hung["latency_us"].is_null()
    };
    assert!(members(nodes[0]).iter().filter(|member| member["held_bytes"].is_u64()).count() >= 2);
    wait_for("what hangs to be called unreachable", || hung(&members(nodes[0])));
    let text = nodes[0].client(&["cluster", "status"]).good().text();
    let line = text.lines().find(|line| line.contains(&fleet.addresses[2])).unwrap();
    assert!(line.contains("unreachable") && line.contains(" - "), "{text}");
    nodes[2].signal(Signal::CONT);
    wait_for("it to be back", || members(nodes[0]).iter().all(|member| member["held_bytes"].is_u64()));
}

#[test]
fn what_is_evicted_at_one_node_is_evicted_on_all_and_one_that_is_away_is_named() {
    let mut fleet = Fleet::new(3, OBJECTS, CACHE_BYTES);
    fleet.epoch(1);
    let nodes: Vec<_> = fleet.nodes.iter().flatten().collect();
    let text = nodes[0].client(&["evict", "world", "--this-node"]).good().text();
    assert_eq!(text.lines().count(), 1, "{text}");
    assert_eq!(cached(nodes[0]), 0);
    assert!(cached(nodes[1]) > 0 && cached(nodes[2]) > 0);
    let text = nodes[0].client(&["evict", "world"]).good().text();
    assert!(fleet.addresses.iter().all(|address| text.contains(address)), "{text}");
    // Nodes that started one after the other may be handing over just now.
    wait_for("all nodes to have evicted", || {
        nodes[0].client(&["evict", "world"]).good();
        nodes.iter().all(|node| cached(node) == 0)
    });

    fleet.epoch(2);
    let told = rest(fleet.nodes[1].as_ref().unwrap(), "POST", "/api/v1/datasets/world/evict?prefix=00");
    let evicted: Vec<_> =
        told["nodes"].as_array().unwrap().iter().map(|node| node["pieces"].as_u64().unwrap()).collect();
    assert_eq!(told["pieces"], evicted.iter().sum::<u64>(), "{told}");
    assert!(evicted.iter().sum::<u64>() >= OBJECTS as u64, "{told}");

    fleet.epoch(3);
    // Killed when dropped.
    fleet.nodes[2] = None;
    let one = fleet.nodes[0].as_ref().unwrap();
    let ended = one.client(&["evict", "world"]);
    assert_eq!(ended.code, 1);
    assert!(ended.stderr.contains(&format!("{} evicted nothing", fleet.addresses[2])), "{}", ended.stderr);
    assert!(fleet.nodes.iter().flatten().all(|node| cached(node) == 0), "the others did it all the same");
    wait_for("it to be called unreachable", || members(one).iter().any(|member| member["state"] == "unreachable"));
    assert!(one.client(&["evict", "world"]).bad().contains("it is unreachable"));
    assert_eq!(rest_with_status(one, "POST", "/api/v1/datasets/world/evict").0, 502);
}

fn write(file: &Path, origins: &[(&str, &str)], extra: &str) {
    let mut text = String::from("datasets:\n");
    for (name, origin) in origins {
        text += &format!("  - name: {name}\n    origin: {origin}\n");
    }
    fs::write(file, text + extra).unwrap();
}

fn names(node: &Node) -> Vec<String> {
    let datasets = node.status()["datasets"].as_array().unwrap().clone();
    datasets.iter().map(|dataset| dataset["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn one_command_makes_all_nodes_read_their_configuration_again() {
    let (data, dir) = (Data::new(), tempfile::tempdir().unwrap());
    let cats = format!("{}/cat", data.path());
    let files: Vec<_> = (0..3).map(|n| dir.path().join(format!("{n}.yaml"))).collect();
    let mut nodes: Vec<Node> = Vec::new();
    for (n, file) in files.iter().enumerate() {
        write(file, &[("pets", data.path())], "");
        let join = nodes.first().map_or("127.0.0.1:1".into(), |first| first.line("grpc").to_owned());
        let args = ["--config", file.to_str().unwrap(), "--join", &join];
        nodes.push(Node::start(&dir.path().join(format!("cache-{n}")), &args));
    }
    for node in &nodes {
        wait_for("all nodes to see each other", || {
            members(node).iter().filter(|member| member["state"] == "serving").count() == 3
        });
    }
    // Added by hand: no file names it, and no file takes it away.
    nodes[1].client(&["datasets", "add", &cats, "--name", "mine"]).good();
    assert!(nodes[0].client(&["config", "reload", "--cluster"]).good().text().contains("nothing has changed"));

    for file in &files {
        write(file, &[("cats", &cats)], "engine:\n  origin_concurrency: 3\n");
    }
    let text = nodes[0].client(&["config", "reload"]).good().text();
    assert!(text.contains("added cats; removed pets; needs a restart for engine"), "{text}");
    assert_eq!((names(&nodes[0]), names(&nodes[2])), (vec!["cats".to_owned()], vec!["pets".to_owned()]));
    let text = nodes[0].client(&["config", "reload", "--cluster"]).good().text();
    assert_eq!(text.lines().filter(|line| line.contains("added cats; removed pets")).count(), 2, "{text}");
    assert_eq!((names(&nodes[1]), names(&nodes[2])), (vec!["cats".to_owned(), "mine".into()], vec!["cats".to_owned()]));
    assert_eq!(nodes[2].client(&["get", "cats", "0.png"]).good().stdout, data.files[0].1);

    // A file that is wrong changes nothing on its node, and one that is away is named.
    fs::write(&files[1], "datasets: 7\n").unwrap();
    let gone = nodes.pop().unwrap().line("grpc").to_owned();
    let ended = nodes[0].client(&["config", "reload", "--cluster"]);
    assert_eq!(ended.code, 1);
    assert!(ended.stderr.contains("1.yaml:1") && ended.stderr.contains(&gone), "{}", ended.stderr);
    assert_eq!(names(&nodes[1]), ["cats", "mine"]);
    let text = ended.text();
    assert!(text.lines().any(|line| line.contains(&gone) && line.contains(": failed: ")), "{text}");
    let (status, told) = rest_with_status(&nodes[0], "POST", "/api/v1/reload?cluster=true");
    assert_eq!((status, told["nodes"].as_array().unwrap().len()), (502, 3), "{told}");
    assert_eq!(rest_with_status(&nodes[0], "POST", "/api/v1/reload").0, 200);
}
