//! Nodes come and go: what moves, where from, and what the origin sees of it.

use super::{Fleet, PATIENT, Shape};
use crate::program::{Data, Node, wait_for};

fn patient(shape: Shape) -> Fleet {
    Fleet::with(Shape { patience: PATIENT, ..shape })
}

/// Bytes that a node has taken from others.
fn taken(fleet: &Fleet, n: usize) -> u64 {
    let status = fleet.nodes[n].as_ref().unwrap().status();
    status["datasets"][0]["stats"]["bytes_from_peers"].as_u64().unwrap()
}

#[test]
fn a_fourth_process_takes_about_a_quarter_from_the_others() {
    let (objects, bytes) = (800, 64 << 10);
    // Not enough for all of it on one node: only owners keep it.
    let mut fleet = patient(Shape { objects, bytes, cache_bytes: 36 << 20, ..Shape::default() });
    fleet.nodes[0].as_ref().unwrap().client(&["warm", "world"]).good();
    let before = fleet.server.bytes_sent();
    fleet.fetched();
    fleet.add();
    fleet.agree();
    // It is handed over once the members have been the same for a while, and then no more comes.
    let mut last = 0;
    wait_for("its share to come", || {
        let now = taken(&fleet, 3);
        std::thread::sleep(std::time::Duration::from_secs(1));
        now > 0 && std::mem::replace(&mut last, now) == now
    });
    let moved = taken(&fleet, 3) as f64 / fleet.bytes() as f64;
    println!("the fourth node took {moved:.3} of the dataset from its peers");
    assert!((0.15..=0.35).contains(&moved), "{moved} of the dataset moved");
    fleet.epoch(1);
    assert_eq!(fleet.server.bytes_sent() - before, 0, "nothing was fetched from the origin again");
}

#[test]
fn with_two_copies_a_death_costs_the_origin_nothing() {
    let (objects, bytes) = (400, 128 << 10);
    let mut fleet = patient(Shape { objects, bytes, cache_bytes: 48 << 20, replicas: 2, ..Shape::default() });
    fleet.nodes[0].as_ref().unwrap().client(&["warm", "world"]).good();
    let before = fleet.server.bytes_sent();
    // Killed when dropped.
    fleet.nodes[2] = None;
    fleet.epoch(1);
    assert_eq!(fleet.server.bytes_sent() - before, 0, "the copies are with the others");
}

#[test]
fn a_node_that_drains_says_what_the_others_have_no_room_for() {
    let (objects, bytes) = (400, 128 << 10);
    // Enough for all of it on three nodes, and not on two.
    let fleet = patient(Shape { objects, bytes, cache_bytes: 20 << 20, ..Shape::default() });
    fleet.nodes[0].as_ref().unwrap().client(&["warm", "world"]).good();
    let run = fleet.nodes[2].as_ref().unwrap().client(&["drain"]);
    assert_eq!(run.code, 1, "{}", run.text());
    let why = "not taken; if this node is stopped";
    assert!(run.stderr.contains(why), "{}", run.stderr);
}

#[test]
fn a_node_that_drains_and_reaches_nobody_says_so_and_ends_with_1() {
    let (data, dir) = (Data::new(), tempfile::tempdir().unwrap());
    // Nobody listens there.
    let node = Node::start(dir.path(), &[data.path(), "--name", "pets", "--join", "127.0.0.1:9"]);
    node.client(&["warm", "pets"]).good();
    let run = node.client(&["drain"]);
    assert_eq!(run.code, 1, "{}", run.text());
    let mut unread = crate::program::fodder();
    unread.args(["drain", "--addr", node.line("grpc")]).stdout(crate::cli_output::nobody_reads());
    assert_eq!(crate::program::run(&mut unread).code, 1, "a reader that has seen enough changes nothing");
    assert!(run.stderr.contains("no other node is there to take what it holds: 8 ranges not taken"), "{}", run.stderr);
}

#[test]
fn a_node_that_drains_leaves_everything_with_the_others() {
    for replicas in [1, 2] {
        let (objects, bytes) = (400, 128 << 10);
        let cache_bytes = if replicas == 1 { 36 << 20 } else { 56 << 20 };
        let mut fleet = patient(Shape { objects, bytes, cache_bytes, replicas, ..Shape::default() });
        fleet.nodes[0].as_ref().unwrap().client(&["warm", "world"]).good();
        let before = fleet.server.bytes_sent();
        let began = std::time::Instant::now();
        let text = fleet.nodes[2].as_ref().unwrap().client(&["drain"]).good().text();
        println!("{replicas} replicas: drained in {:?}: {text}", began.elapsed());
        assert_eq!(fleet.nodes[2].take().unwrap().stop(), 0);
        fleet.epoch(1);
        assert_eq!(fleet.server.bytes_sent() - before, 0, "with {replicas} replicas: nothing was fetched again");
    }
}
