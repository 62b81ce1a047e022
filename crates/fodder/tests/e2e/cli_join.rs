//! One node a host and cache directory: joined, or started and ended by its users.

use crate::program::{Data, Node, fodder, run, wait_for};
use std::process::Stdio;

#[test]
fn eight_that_start_at_once_share_one_node() {
    let (data, cache) = (Data::new(), tempfile::tempdir().unwrap());
    let dir = cache.path().join("cache");
    let children: Vec<_> = (0..8)
        .map(|number: usize| {
            let mut get = fodder();
            get.args(["get", data.path(), &number.to_string(), "--cache-dir"]).arg(&dir);
            get.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for (number, child) in children.into_iter().enumerate() {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.stdout, data.files[number].1);
    }
    let status = run(fodder().args(["status", "--json", "--cache-dir"]).arg(&dir)).good();
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    let node = status["pid"].as_i64().unwrap();
    // One node served them all: each object came from the origin once.
    let total: usize = data.files.iter().map(|(_, bytes)| bytes.len()).sum();
    assert_eq!(status["datasets"][0]["stats"]["bytes_from_origin"], total);
    // Nobody uses it any more, so it ends.
    let process = format!("/proc/{node}");
    wait_for("the node to end by itself", || !std::path::Path::new(&process).exists());
    assert!(!dir.join("datasets.json").exists());
}

#[test]
fn a_node_until_idle_stays_while_it_is_used_and_then_ends_with_0() {
    let (data, cache) = (Data::new(), tempfile::tempdir().unwrap());
    let mut node = Node::start(cache.path(), &[data.path(), "--name", "pets", "--until-idle=3s"]);
    assert_eq!(node.client(&["get", "pets", "0"]).good().stdout, data.files[0].1);
    assert_eq!(node.ended(), 0);
}

#[test]
fn a_node_until_idle_that_could_open_nothing_ends_with_its_client() {
    let cache = tempfile::tempdir().unwrap();
    let mut node = Node::start(cache.path(), &["--until-idle=1h"]);
    // It waits for its first client, and while there is one.
    let said = node.client(&["datasets", "add", "throttled:latency=1s:/no/such/origin"]).bad();
    assert!(said.contains("/no/such/origin"), "{said}");
    assert_eq!(node.ended(), 0);
}

#[test]
fn an_origin_that_a_running_node_serves_is_read_through_it() {
    let (data, cache) = (Data::new(), tempfile::tempdir().unwrap());
    let node = Node::start(cache.path(), &[data.path(), "--name", "pets"]);
    let got = run(fodder().args(["get", data.path(), "dog/2.png", "--cache-dir"]).arg(cache.path())).good();
    assert_eq!(got.stdout, data.files[6].1);
    let status = node.status();
    assert_eq!(status["datasets"].as_array().unwrap().len(), 1, "{status}");
}

#[test]
fn a_node_that_cannot_start_says_why() {
    let cache = tempfile::tempdir().unwrap();
    let file = cache.path().join("file");
    std::fs::write(&file, b"").unwrap();
    let said = run(fodder().args(["get", "/no/such/place", "0", "--cache-dir"]).arg(&file)).bad();
    assert!(said.contains(file.to_str().unwrap()), "{said}");
    let dir = cache.path().join("cache");
    let said = run(fodder().args(["get", "/no/such/place", "0", "--cache-dir"]).arg(&dir)).bad();
    assert!(said.contains("/no/such/place"), "{said}");
}

#[test]
fn a_program_that_joins_is_told_where_and_under_which_name() {
    let (data, cache) = (Data::new(), tempfile::tempdir().unwrap());
    let node = Node::start(cache.path(), &[data.path(), "--name", "pets"]);
    let join = |args: &[&str]| {
        let joined = run(fodder().args(["join", data.path(), "--cache-dir"]).arg(cache.path()).args(args)).good();
        let said: serde_json::Value = serde_json::from_slice(&joined.stdout).unwrap();
        assert_eq!(said["address"], format!("unix:{}", node.line("socket")));
        said["dataset"].as_str().unwrap().to_owned()
    };
    assert_eq!(join(&[]), "pets");
    assert_eq!(join(&["--layout", "files"]), "pets");
    // Another layout makes other items: a dataset of its own, and the same one again.
    let blocks = join(&["--layout", "blocks"]);
    assert_ne!(blocks, "pets");
    assert_eq!(join(&["--layout", "blocks"]), blocks);
    assert_eq!(join(&["--name", "mine"]), "mine");
}
