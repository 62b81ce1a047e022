//! `fodder warm` at one node of a cluster: all nodes bring it in, and a death on the way does not leave a hole.

use super::{BYTES, Fleet};
use crate::program::fodder;
use serde_json::Value;
use std::{
    io::{BufRead, BufReader},
    process::Stdio,
};

fn last(text: &str) -> Value {
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

#[test]
fn one_command_warms_all_nodes_and_each_object_leaves_the_origin_once() {
    let objects = 120;
    let fleet = Fleet::new(3, objects, objects * BYTES * 2 / 3);
    fleet.fetched();
    let node = fleet.nodes[1].as_ref().unwrap();
    let done = last(&node.client(&["warm", "world", "--json"]).good().text());
    assert_eq!((&done["complete"], &done["files_there"]), (&true.into(), &objects.into()), "{done}");
    let nodes = done["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), 3, "{done}");
    assert!(nodes.iter().all(|node| node["files"].as_u64().unwrap() > 0 && node["files"] == node["files_there"]));
    assert!(fleet.fetched().iter().all(|count| *count == 1), "one read of each object at the origin");
    let text = fleet.nodes[0].as_ref().unwrap().client(&["warm", "world"]).good().text();
    assert!(text.contains("complete: 120 files") && text.contains("on 3 nodes"), "{text}");
    fleet.epoch(1);
    assert!(fleet.fetched().iter().all(|count| *count == 0), "everything is with the nodes");
}

#[test]
fn a_node_that_is_killed_while_all_warm_is_made_up_for_by_the_others() {
    let objects = 120;
    let mut fleet = Fleet::new(3, objects, objects * BYTES * 2 / 3);
    let node = fleet.nodes[0].as_ref().unwrap();
    let mut warm = fodder();
    // Slow enough that the kill comes before the end.
    warm.args(["warm", "world", "--json", "--bandwidth", "4MiB/s", "--addr", node.line("grpc")]);
    let mut child = warm.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(|line| line.unwrap());
    let begun = |line: &String| last(line)["files_there"].as_u64().unwrap() >= 9;
    lines.find(begun).expect("it has begun");
    // Killed when dropped.
    fleet.nodes[2] = None;
    let done = last(&lines.last().unwrap());
    assert_eq!(child.wait().unwrap().code(), Some(0), "{done}");
    assert_eq!((&done["complete"], &done["files_there"]), (&true.into(), &objects.into()), "{done}");
    assert_eq!(done["nodes"].as_array().unwrap().len(), 2, "{done}");
    fleet.fetched();
    fleet.epoch(1);
    assert!(fleet.fetched().iter().all(|count| *count == 0), "everything is with the two that are left");
}

#[test]
fn all_of_it_is_brought_to_one_node_if_that_is_wanted() {
    let objects = 80;
    let fleet = Fleet::new(2, objects, objects * (BYTES + 16384));
    fleet.fetched();
    let node = fleet.nodes[0].as_ref().unwrap();
    let done = last(&node.client(&["warm", "world", "--json", "--this-node"]).good().text());
    assert_eq!((&done["complete"], &done["files_there"]), (&true.into(), &objects.into()), "{done}");
    assert!(done["nodes"].as_array().unwrap().is_empty(), "{done}");
    assert!(node.status()["datasets"][0]["cached_bytes"].as_u64().unwrap() >= fleet.bytes());
    assert!(fleet.fetched().iter().all(|count| *count == 1), "one read of each object at the origin");
}
