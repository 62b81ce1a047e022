//! Nodes come and go: their share moves, from peers, and nothing else does.

use crate::world::{One, World, introduce, until};
use fodder_server::cluster::{Neighbour, Offer};
use futures::future::join_all;

const BYTES: usize = 128 << 10;

/// Reads everything on all nodes, and waits until the owners hold what they own.
async fn fill(world: &World, nodes: &[&One]) {
    for one in nodes {
        world.read_all(one).await;
    }
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
