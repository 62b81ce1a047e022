//! Members have changed, and not all nodes have heard of it: until they have, nothing is fetched twice.

use crate::world::{One, World, introduce};
use fodder_core::engine::Source;
use fodder_server::cluster::Neighbour;
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

fn assert_once(world: &World, when: &str) {
    let fetched = world.fetched();
    assert_eq!(fetched.len(), world.objects.len(), "{when}");
    assert!(fetched.values().all(|count| *count == 1), "{when}: {fetched:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_has_not_heard_of_a_new_owner_and_the_new_owner_fetch_each_object_once() {
    for order in [[2, 0, 1], [0, 1, 2], [1, 2, 0]] {
        let world = World::new(60, BYTES).await;
        let nodes = third_comes(&world).await;
        let moved = nodes[2].owned(&world).len();
        assert!((5..55).contains(&moved), "{moved} of 60 belong to the third");
        for n in order {
            world.read_all(&nodes[n]).await;
        }
        assert_once(&world, "before they have heard");
        introduce(&nodes.iter().collect::<Vec<_>>()).await;
        for one in &nodes {
            world.read_all(one).await;
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
