//! Nodes whose links are cut: both sides go on with the right bytes, and after healing all agree and nobody is lost. Real
//! processes in network namespaces of their own. Needs root and `ip`.

mod fleet;
mod load;
pub(crate) mod network;
mod schedule;
mod training;

use crate::lateness::Lateness;
use fleet::{Fleet, Way};
use fodder_testing::skip;
use load::Load;
use network::{Cuts, Host, Network};
use rustix::process::Signal;
use std::time::{Duration, Instant};
use training::Epoch;

const NODES: usize = 4;

/// A number from the environment.
fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

/// So many schedules out of a hundred of those that are asked for: `FODDER_SCHEDULES`, 50 unless given, beginning with
/// `FODDER_SEED`, which is random unless given.
fn schedules(way: Way, percent: u64) {
    let Some(mut fleet) = Fleet::new(way, NODES) else { return };
    let count = (variable("FODDER_SCHEDULES").unwrap_or(50) * percent).div_ceil(100);
    let first = variable("FODDER_SEED").unwrap_or_else(|| rand::random::<u32>().into());
    println!("{count} schedules, FODDER_SEED={first}");
    let mut load = Load::start(&fleet);
    load.read_on(&[0, 1, 2, 3], 20);
    for (number, seed) in (first..first + count).enumerate() {
        let (steps, began) = (schedule::steps(seed, NODES, way), Instant::now());
        println!("seed {seed}: {steps:?}");
        let epoch = Epoch::begin(&fleet, number as u64);
        schedule::run(&mut fleet, &mut load, epoch, &steps, 3 + seed % 30);
        println!("  healed after {:.1?}, longest read {:.1?}", began.elapsed(), load.longest());
    }
    // What nodes say of an epoch they say when the next has begun.
    Epoch::begin(&fleet, count).end(&fleet);
    let reads = load.end();
    println!("{reads} reads, {} bytes left the origin", fleet.server.bytes_sent());
}

#[test]
fn nodes_that_gossip_lose_no_member_and_read_no_wrong_byte_whatever_happens_to_their_links() {
    schedules(Way::Gossip, 40);
}

#[test]
fn nodes_that_ask_each_other_lose_no_member_and_read_no_wrong_byte_whatever_happens_to_their_links() {
    schedules(Way::Fixed, 40);
}

#[test]
fn nodes_at_etcd_lose_no_member_and_read_no_wrong_byte_whatever_happens_to_their_links() {
    schedules(Way::Etcd, 20);
}

/// The nodes of a half.
fn half(nodes: &[usize]) -> Vec<Host> {
    nodes.iter().copied().map(Host::Node).collect()
}

#[test]
fn two_halves_of_a_partition_go_on_reading_and_agree_after_healing() {
    for way in [Way::Fixed, Way::Gossip] {
        let Some(mut fleet) = Fleet::new(way, NODES) else { return };
        let before = fleet.identities();
        let mut load = Load::start(&fleet);
        load.read_on(&[0, 1, 2, 3], 50);
        fleet.network.cut(Network::between(&half(&[0, 1]), &half(&[2, 3])));
        // Each half sees itself, and shares what it caches.
        (0..NODES).for_each(|n| fleet.sees(n, 2));
        load.read_on(&[0, 1, 2, 3], 100);
        assert!((0..NODES).all(|n| fleet.seen(n).len() == NODES), "the others are unreachable, not forgotten");
        fleet.network.cut(Cuts::new());
        fleet.agree();
        assert_eq!(fleet.identities(), before);
        load.read_on(&[0, 1, 2, 3], 100);
        load.end();
    }
}

#[test]
fn a_node_that_is_cut_off_without_a_word_stalls_no_read_of_the_others_for_two_seconds() {
    let Some(mut fleet) = Fleet::new(Way::Fixed, NODES) else { return };
    let mut load = Load::start(&fleet);
    load.read_on(&[0, 1, 2, 3], 100);
    let lateness = Lateness::watch();
    load.longest();
    for cut_off in 0..NODES {
        let others: Vec<_> = (0..NODES).filter(|n| *n != cut_off).collect();
        fleet.network.cut(Network::between(&half(&[cut_off]), &half(&others)));
        others.iter().for_each(|n| fleet.sees(*n, NODES - 1));
        load.read_on(&[0, 1, 2, 3], 50);
        fleet.network.cut(Cuts::new());
        fleet.agree();
    }
    lateness.check(load.longest(), Duration::from_secs(2));
    load.end();
}

#[test]
fn a_link_that_is_cut_in_one_direction_costs_nobody_a_member_by_gossip_and_nobody_a_read() {
    for way in [Way::Fixed, Way::Gossip] {
        let Some(mut fleet) = Fleet::new(way, NODES) else { return };
        let mut load = Load::start(&fleet);
        // What 0 sends does not reach 1; 0 hears 1, and everybody else hears both.
        fleet.network.cut([(Host::Node(0), Host::Node(1))].into());
        match way {
            // Those who ask each other must be answered.
            Way::Fixed => [0, 1].into_iter().for_each(|n| fleet.sees(n, NODES - 1)),
            _ => {
                load.read_on(&[0, 1, 2, 3], 300);
                fleet.agree();
            }
        }
        [2, 3].into_iter().for_each(|n| fleet.sees(n, NODES));
        load.read_on(&[0, 1, 2, 3], 100);
        fleet.network.cut(Cuts::new());
        fleet.agree();
        load.end();
    }
}

#[test]
fn etcd_that_is_cut_off_stops_nothing_and_heals_when_it_is_reached_again() {
    let Some(mut fleet) = Fleet::new(Way::Etcd, NODES) else { return };
    let mut load = Load::start(&fleet);
    load.read_on(&[0, 1, 2, 3], 50);
    // Nobody reaches etcd: the members ask each other.
    let from_etcd = |nodes: &[usize]| half(nodes).into_iter().map(|node| (node, Host::Etcd)).collect();
    fleet.network.cut(from_etcd(&[0, 1, 2, 3]));
    load.read_on(&[0, 1, 2, 3], 100);
    fleet.nodes[3].as_ref().unwrap().signal(Signal::STOP);
    (0..3).for_each(|n| fleet.sees(n, 3));
    fleet.nodes[3].as_ref().unwrap().signal(Signal::CONT);
    fleet.agree();
    // Some reach it again, and some do not.
    fleet.network.cut(from_etcd(&[0, 1]));
    let began = Instant::now();
    // Longer than leases last.
    while began.elapsed() < Duration::from_secs(4) {
        load.read_on(&[0, 1, 2, 3], 10);
    }
    fleet.agree();
    fleet.network.cut(Cuts::new());
    fleet.agree();
    load.read_on(&[0, 1, 2, 3], 50);
    load.end();
}

#[test]
fn a_node_that_sends_slowly_costs_time_and_no_read() {
    let Some(mut fleet) = Fleet::new(Way::Gossip, NODES) else { return };
    let mut load = Load::start(&fleet);
    if !fleet.network.slow([1].into()) {
        skip!("this kernel cannot slow down a link");
    }
    load.read_on(&[0, 1, 2, 3], 150);
    println!("longest read {:?}", load.longest());
    assert!(fleet.network.slow([].into()));
    fleet.agree();
    load.end();
}
