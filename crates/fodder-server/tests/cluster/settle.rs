//! Members have changed, and not all nodes have heard of it: until they have, nothing is fetched twice.

use crate::world::{NAME, One, PATIENT, World, introduce};
use fodder_core::engine::{
    Source,
    peer::{Peers, Role},
};
use fodder_server::cluster::{Neighbour, Peering, Token, Trust};
use futures::future::join_all;

const BYTES: usize = 64 << 10;

/// Three nodes, of which the third knows that it owns a share; the two others have not heard of that.
async fn third_comes(world: &World) -> Vec<One> {
    let mut nodes = world.nodes(2, world.bytes()).await;
    nodes.push(world.node(u128::MAX, world.bytes()).await);
    let two: Vec<Neighbour> = nodes[..2].iter().map(|one| one.me.clone()).collect();
    nodes[2].meet(&two).await;
    let three: Vec<Neighbour> = nodes.iter().map(|one| one.me.clone()).collect();
    nodes[2].meet(&three).await;
    nodes
}

/// Who owns an object once all have heard: its place among the nodes.
fn owner(nodes: &[One], path: &str) -> usize {
    let members: Vec<Neighbour> = nodes.iter().map(|one| one.me.clone()).collect();
    let dataset = &nodes[0].dataset;
    let key = dataset.objects().key(dataset.snapshot().lookup(path).unwrap());
    let owns = |one: &One| {
        let peering = Peering::new(one.me.id, 1, Trust::default(), PATIENT);
        peering.consists(dataset);
        peering.set(&members);
        peering.role(NAME, key, 0) == Role::Owner
    };
    nodes.iter().position(owns).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_nodes_that_read_everything_at_once_do_not_wait_for_each_other() {
    let world = World::new(300, 4 << 10).await;
    let nodes = world.nodes(2, 1 << 30).await;
    let reads = nodes.iter().flat_map(|one| world.objects.keys().map(|path| world.read(one, path)));
    // Who waits for a place among the requests to the other waits longer than that.
    let done = tokio::time::timeout(PATIENT.hedge * 2 / 3, join_all(reads)).await;
    assert!(done.is_ok(), "each waits for the other to fetch what it owns");
    join_all(nodes.into_iter().map(One::end)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_has_not_heard_of_a_new_owner_and_the_new_owner_fetch_each_object_once() {
    for order in [[2, 0, 1], [0, 1, 2], [1, 2, 0]] {
        let world = World::new(60, BYTES).await;
        let nodes = third_comes(&world).await;
        let before = [nodes[0].owned(&world), nodes[1].owned(&world)];
        // Some move between the other two as well: of these nobody can know before all have heard.
        let is_known = |path: &&String| {
            let owner = owner(&nodes, path);
            owner == 2 || before[owner].contains(&path.as_str())
        };
        let paths: Vec<_> = world.objects.keys().filter(is_known).collect();
        let moved = nodes[2].owned(&world).len();
        assert!((5..55).contains(&moved) && paths.len() > 40, "{moved} of 60 belong to the third");
        let members: Vec<Neighbour> = nodes.iter().map(|one| one.me.clone()).collect();
        for n in order {
            for path in &paths {
                // However slow this machine is, it is a moment ago.
                nodes[2].peering.set(&members[..2]);
                nodes[2].peering.set(&members);
                world.read(&nodes[n], path).await;
            }
        }
        let fetched = world.fetched();
        assert!(paths.iter().all(|path| fetched[*path] == 1), "before they have heard: {fetched:?}");
        introduce(&nodes.iter().collect::<Vec<_>>()).await;
        for (one, path) in nodes.iter().flat_map(|one| paths.iter().map(move |path| (one, path))) {
            world.read(one, path).await;
        }
        assert!(world.fetched().is_empty(), "nothing is fetched again once all have heard");
        join_all(nodes.into_iter().map(One::end)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_does_not_know_yet_that_it_is_one_is_asked_again() {
    let world = World::new(60, BYTES).await;
    let mut nodes = world.nodes(2, world.bytes()).await;
    nodes.push(world.node(u128::MAX, world.bytes()).await);
    let two: Vec<Neighbour> = nodes[..2].iter().map(|one| one.me.clone()).collect();
    let three: Vec<Neighbour> = nodes.iter().map(|one| one.me.clone()).collect();
    for one in &nodes[..2] {
        one.meet(&three).await;
    }
    nodes[2].meet(&three).await;
    let owned: Vec<_> = nodes[2].owned(&world).into_iter().map(str::to_owned).collect();
    let third = three[2].id;
    let refused =
        || nodes[0].peering.status().iter().any(|peer| peer.id == format!("{third:032x}") && peer.refused > 0);
    // On a busy machine the word may come too late for one of them, and then does not for the next.
    for path in &owned {
        nodes[2].meet(&two).await;
        // A new view, in which nobody was asked in vain.
        nodes[0].meet(&three).await;
        let hears = async {
            while !refused() {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
            nodes[2].meet(&three).await;
        };
        let (source, ()) = tokio::join!(world.read(&nodes[0], path), hears);
        if source == Source::Peer {
            let fetched = nodes[2].dataset.stats().origin_requests;
            assert_eq!((fetched, world.fetched()[path]), (1, 1), "the owner has fetched it, and nobody else");
            return join_all(nodes.into_iter().map(One::end)).await.into_iter().collect();
        }
        world.fetched();
    }
    panic!("the owner was never asked again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_listens_and_has_not_joined_yet_is_no_liar_and_is_asked_again_soon() {
    for token in [None, Some("the word that all of them know")] {
        let trust = || Trust::from(token.map(|token| Token::new(token).unwrap()));
        let world = World::new(20, BYTES).await;
        let one = world.node_trusting(1, 1 << 30, trust(), PATIENT).await;
        let starts = world.starting(2, 1 << 30, trust(), PATIENT).await;
        // It was there a moment ago, with all that it owns.
        let members = [Neighbour { owns: false, ..one.me.clone() }, starts.me.clone()];
        one.meet(&members).await;
        starts.meet(&members).await;
        assert_eq!(world.read(&one, "0000.jpg").await, Source::Origin);
        let status = &one.peering.status()[0];
        assert_eq!((status.breaker, status.failed), ("closed", 0), "{status:?}");
        assert!(status.refused > 0, "it was asked");
        starts.share();
        assert_eq!(world.read(&one, "0001.jpg").await, Source::Peer);
        join_all([one, starts].map(One::end)).await;
    }
}
