//! Nodes that start at the same moment, and are read from as soon as each is ready.

use super::{Client, Fleet, PATIENT, Shape};
use crate::{cluster_member::etcd, program::Node};
use fodder_api::frames::{Batch, FrameClient};
use fodder_testing::skip;
use rand::{SeedableRng, rngs::SmallRng, seq::SliceRandom};
use std::thread;

const NODES: u8 = 3;

/// An address of this machine that only this test has; `number` tells tests of one process apart.
fn ip(number: u8, last: u8) -> String {
    let [low, high, ..] = std::process::id().to_le_bytes();
    format!("127.{}.{high}.{}", low.max(1), number * 16 + last)
}

/// Starts nodes at once, each told the same, and reads everything from each of them as soon as it is ready.
fn read_from_the_start(number: u8, way: &[&str]) {
    let (objects, bytes) = (600, 64 << 10);
    // Less than all of it: what others own is asked for.
    let shape = Shape { nodes: 0, objects, bytes, cache_bytes: 24 << 20, patience: PATIENT, ..Shape::default() };
    let fleet = Fleet::with(shape);
    let (origin, config, token) =
        (fleet.origin(), fleet.dir.path().join("fodder.yaml"), fleet.dir.path().join("token"));
    let nodes: Vec<Node> = thread::scope(|scope| {
        let read = |n: u8| {
            let (grpc, gossip) = (format!("{}:18284", ip(number, n)), format!("{}:18282", ip(number, n)));
            let told =
                ["--name", "world", "--anonymous", "--cache-size", "24MiB", "--grpc", &grpc, "--gossip", &gossip];
            let files = ["--config", config.to_str().unwrap(), "--token-file", token.to_str().unwrap()];
            let args = [&[&origin[..]], &told[..], &files[..], way].concat();
            let node = Node::start(&fleet.dir.path().join(format!("cache-{n}")), &args);
            let mut client = FrameClient::connect(&grpc.parse().unwrap()).unwrap();
            let handle = client.open("world", None).unwrap().handle;
            let mut client = Client { client, handle, batch: Batch::new(), contents: &fleet.contents };
            let mut order: Vec<u64> = (0..objects as u64).collect();
            order.shuffle(&mut SmallRng::seed_from_u64(n.into()));
            order.into_iter().for_each(|id| client.read(id));
            node
        };
        let nodes: Vec<_> = (1..=NODES).map(|n| scope.spawn(move || read(n))).collect();
        nodes.into_iter().map(|node| node.join().unwrap()).collect()
    });
    let again: Vec<_> = fleet.fetched().into_iter().enumerate().filter(|(_, count)| *count != 1).collect();
    if !again.is_empty() {
        nodes.iter().for_each(|node| println!("{}\n", node.log()));
    }
    assert!(again.is_empty(), "{} of {objects} objects left the origin more than once: {again:?}", again.len());
}

#[test]
fn nodes_that_start_together_with_their_etcd_fetch_each_object_once() {
    let dir = tempfile::tempdir().unwrap();
    let Some(_etcd) = etcd(dir.path(), &ip(1, 9)) else {
        skip!("etcd is not installed");
    };
    read_from_the_start(1, &["--membership", "etcd", "--join", &ip(1, 9)]);
}

#[test]
fn nodes_that_gossip_and_start_together_fetch_each_object_once() {
    let all: Vec<_> = (1..=NODES).map(|n| ip(2, n)).collect();
    read_from_the_start(2, &["--membership", "gossip", "--join", &all.join(",")]);
}

#[test]
fn nodes_that_ask_each_other_and_start_together_fetch_each_object_once() {
    let all: Vec<_> = (1..=NODES).map(|n| ip(3, n)).collect();
    read_from_the_start(3, &["--join", &all.join(",")]);
}
