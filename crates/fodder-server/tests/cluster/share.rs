//! The caches add up: each byte leaves the origin once.

use crate::world::{One, World, until};
use fodder_core::engine::Source;
use futures::future::join_all;

const BYTES: usize = 256 << 10;

/// So many nodes whose caches together are a ninth larger than the dataset; all of them read all of it, three times.
async fn three_epochs(count: usize) {
    let world = World::new(200, BYTES).await;
    // A tier also pays for directories and names: a page or two an object.
    let quota_bytes = (world.bytes() + 200 * 8192) * 10 / 9 / count as u64;
    let nodes = world.nodes(count, quota_bytes).await;
    world.fetched();

    join_all(nodes.iter().map(|one| world.read_all(one))).await;
    let fetched = world.fetched();
    assert_eq!(fetched.len(), 200);
    assert!(fetched.values().all(|times| *times == 1), "one read of each object at the origin: {fetched:?}");

    // What was read is written behind the readers.
    until("every object is held somewhere", || held_somewhere(&world, &nodes) == 200).await;
    let before = world.server.bytes_sent();
    for _ in 0..2 {
        let sources = join_all(nodes.iter().map(|one| world.read_all(one))).await;
        assert!(sources.iter().all(|sources| sources.get(&Source::Peer).is_some_and(|count| *count > 50)));
    }
    let again = world.server.bytes_sent() - before;
    assert!(again * 100 <= world.bytes(), "{again} of {} bytes left the origin again", world.bytes());
    let given: u64 = nodes.iter().map(|one| one.dataset.stats().bytes_to_peers).sum();
    let taken: u64 = nodes.iter().map(|one| one.dataset.stats().bytes_from_peers).sum();
    assert_eq!(given, taken);
    join_all(nodes.into_iter().map(One::end)).await;
}

fn held_somewhere(world: &World, nodes: &[One]) -> usize {
    let is_held = |path: &&String| {
        nodes.iter().any(|one| {
            let object = one.dataset.snapshot().lookup(path).unwrap();
            one.dataset.residence(object).whole.is_some()
        })
    };
    world.objects.keys().filter(is_held).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn three_nodes_fetch_each_object_once_and_keep_it_between_them() {
    three_epochs(3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn five_nodes_fetch_each_object_once_and_keep_it_between_them() {
    three_epochs(5).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_has_room_for_all_comes_to_hold_all_of_it_from_its_peers() {
    let world = World::new(40, BYTES).await;
    let nodes = world.nodes(3, 1 << 30).await;
    world.fetched();
    for one in &nodes {
        world.read_all(one).await;
        until("it holds everything", || one.held() == 40).await;
    }
    assert!(world.fetched().values().all(|times| *times == 1));
    assert_eq!(world.read_all(&nodes[2]).await[&Source::Tier(fodder_core::config::Medium::Ssd)], 40);
    join_all(nodes.into_iter().map(One::end)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_object_comes_in_parallel_from_the_owners_of_its_parcels() {
    let world = World::new(1, 70 << 20).await;
    let nodes = world.nodes(2, 1 << 30).await;
    world.fetched();
    for one in &nodes {
        let object = one.dataset.snapshot().lookup("0000.jpg").unwrap();
        let mut stream = one.dataset.read_stream(object, 0..70 << 20);
        let mut at = 0;
        while let Some(reply) = futures::TryStreamExt::try_next(&mut stream).await.unwrap() {
            for segment in reply.segments {
                assert!(segment == world.objects["0000.jpg"][at..at + segment.len()]);
                at += segment.len();
            }
        }
        assert_eq!(at, 70 << 20);
    }
    assert_eq!(world.server.bytes_sent(), 70 << 20, "each byte once");
    join_all(nodes.into_iter().map(One::end)).await;
}
