//! Nodes come and go: their share moves, from peers, and nothing else does.

use crate::world::{One, World, introduce, until};
use fodder_policy::Policy;
use fodder_server::cluster::{Handover, Neighbour, Offer};
use futures::future::join_all;

const BYTES: usize = 128 << 10;

/// Reads everything on all nodes, and waits until the owners hold what they own.
async fn fill(world: &World, nodes: &[&One]) {
    for one in nodes {
        world.read_all(one).await;
    }
    owners_hold_theirs(world, nodes).await;
}

async fn owners_hold_theirs(world: &World, nodes: &[&One]) {
    for one in nodes {
        let owned = one.owned(world);
        let holds = |path: &&str| {
            let object = one.dataset.snapshot().lookup(path).unwrap();
            one.dataset.residence(object).whole.is_some()
        };
        until("owners hold what they own", || owned.iter().all(holds)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fourth_node_takes_about_a_quarter_from_the_others_and_the_origin_sees_nothing() {
    let world = World::new(120, BYTES).await;
    // Not enough for all of it on one node: only owners keep it.
    let quota_bytes = world.bytes() * 2 / 3;
    let nodes = world.nodes(3, quota_bytes).await;
    let three: Vec<_> = nodes.iter().collect();
    fill(&world, &three).await;
    world.fetched();

    let fourth = world.node(77, quota_bytes).await;
    let mut four = three.clone();
    // It sees the others before it owns anything, as one that joins does.
    fourth.meet(&three.iter().map(|one| one.me.clone()).collect::<Vec<_>>()).await;
    four.push(&fourth);
    introduce(&four).await;
    let share = fourth.owned(&world).len();
    assert!((15..50).contains(&share), "{share} of 120 now belong to the fourth");

    let handed = join_all(three.iter().map(|one| one.peering.hand_over(&one.engine, Offer::OwnedBefore))).await;
    assert!(fourth.held() >= share, "it holds {} of its {share}; handed over: {handed:?}", fourth.held());
    assert_eq!(fourth.dataset.stats().bytes_from_origin, 0);
    for one in &four {
        world.read_all(one).await;
    }
    assert_eq!(world.fetched().len(), 0, "nothing was fetched from the origin again");
    fourth.end().await;
    join_all(nodes.into_iter().map(One::end)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_any_handing_over_a_new_owner_asks_the_one_before() {
    let world = World::new(60, BYTES).await;
    let quota_bytes = world.bytes() * 2 / 3;
    let nodes = world.nodes(2, quota_bytes).await;
    let two: Vec<_> = nodes.iter().collect();
    fill(&world, &two).await;
    world.fetched();
    let third = world.node(77, quota_bytes).await;
    third.meet(&two.iter().map(|one| one.me.clone()).collect::<Vec<_>>()).await;
    introduce(&[two[0], two[1], &third]).await;
    for one in [two[0], &third, two[1]] {
        world.read_all(one).await;
    }
    assert_eq!(world.fetched().len(), 0, "nothing was fetched from the origin again");
    third.end().await;
    join_all(nodes.into_iter().map(One::end)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_drains_hands_over_what_it_alone_holds_and_may_go() {
    let world = World::new(90, BYTES).await;
    let nodes = world.nodes(3, world.bytes() * 3 / 4).await;
    let all: Vec<_> = nodes.iter().collect();
    fill(&world, &all).await;
    world.fetched();

    let mut members: Vec<Neighbour> = nodes.iter().map(|one| one.me.clone()).collect();
    members[2].owns = false;
    for one in &nodes {
        one.meet(&members).await;
    }
    let handed = nodes[2].peering.hand_over(&nodes[2].engine, Offer::All).await;
    assert_eq!(handed.left, 0, "{handed:?}");
    assert!(handed.taken >= 15, "{handed:?}");

    members.pop();
    let mut nodes = nodes;
    nodes.pop().unwrap().end().await;
    for one in &nodes {
        one.peering.set(&members);
        world.read_all(one).await;
    }
    assert_eq!(world.fetched().len(), 0, "nothing was fetched from the origin again");
    join_all(nodes.into_iter().map(One::end)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_drains_counts_what_others_have_no_room_for_and_sends_none_of_it() {
    let world = World::new(90, BYTES).await;
    let nodes = [world.node(1, world.bytes() * 3 / 4).await, world.node(2, world.bytes() * 3 / 8).await];
    introduce(&[&nodes[0], &nodes[1]]).await;
    // Each reads only what it owns: none has a copy.
    for one in &nodes {
        for path in one.owned(&world) {
            world.read(one, path).await;
        }
    }
    owners_hold_theirs(&world, &[&nodes[0], &nodes[1]]).await;
    world.fetched();

    let mut members: Vec<Neighbour> = nodes.iter().map(|one| one.me.clone()).collect();
    members[0].owns = false;
    for one in &nodes {
        one.meet(&members).await;
    }
    let (held, came) = (nodes[1].held(), nodes[1].dataset.stats().bytes_from_peers);
    let handed = nodes[0].peering.hand_over_all(&nodes[0].engine).await;
    let (more, came) = (nodes[1].held() - held, nodes[1].dataset.stats().bytes_from_peers - came);
    assert_eq!((handed.taken, came), (more as u64, (more * BYTES) as u64), "{handed:?}");
    assert!(handed.left >= 30, "{handed:?}");
    assert_eq!(handed.without_room, handed.left, "{handed:?}");
    assert_eq!(world.fetched().len(), 0, "nothing was fetched from the origin");
    join_all(nodes.into_iter().map(One::end)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_drains_and_reaches_nobody_counts_all_that_it_holds() {
    let world = World::new(30, BYTES).await;
    let one = world.node(1, 1 << 30).await;
    let other = Neighbour { id: 2, owns: false, answers: false, ..one.me.clone() };
    one.meet(&[one.me.clone(), other.clone()]).await;
    world.read_all(&one).await;
    until("all of it to be kept", || one.held() == 30).await;
    one.meet(&[Neighbour { owns: false, ..one.me.clone() }, other]).await;
    let handed = one.peering.hand_over_all(&one.engine).await;
    assert_eq!(handed, Handover { left: 30, ..Handover::default() });
    one.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_drains_counts_what_others_have_kept_and_not_what_they_have_evicted_meanwhile() {
    let world = World { policy: Policy::Lru, ..World::new(90, BYTES).await };
    let nodes = [world.node(1, world.bytes() * 3 / 4).await, world.node(2, world.bytes() * 3 / 8).await];
    introduce(&[&nodes[0], &nodes[1]]).await;
    for path in nodes[0].owned(&world) {
        world.read(&nodes[0], path).await;
    }
    owners_hold_theirs(&world, &[&nodes[0]]).await;
    let mut members: Vec<Neighbour> = nodes.iter().map(|one| one.me.clone()).collect();
    members[0].owns = false;
    for one in &nodes {
        one.meet(&members).await;
    }
    let handed = nodes[0].peering.hand_over_all(&nodes[0].engine).await;
    assert_eq!(handed.taken, nodes[1].held() as u64, "{handed:?}");
    assert!(handed.taken > 0 && handed.left > 0, "{handed:?}");
    join_all(nodes.into_iter().map(One::end)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_dies_costs_its_share_and_nothing_else() {
    let world = World::new(100, BYTES).await;
    let mut nodes = Vec::new();
    for id in 1..=5 {
        nodes.push(world.node(id, world.bytes() / 2).await);
    }
    introduce(&nodes.iter().collect::<Vec<_>>()).await;
    fill(&world, &nodes.iter().collect::<Vec<_>>()).await;
    let lost: Vec<_> = nodes[4].owned(&world).into_iter().map(str::to_owned).collect();
    world.fetched();

    // Nobody is told: the others find out by themselves.
    nodes[4].die();
    join_all(nodes[..4].iter().map(|one| world.read_all(one))).await;
    let fetched = world.fetched();
    assert!(fetched.keys().all(|path| lost.contains(path)), "only what it held is fetched again: {fetched:?}");
    join_all(nodes.into_iter().map(One::end)).await;
}
