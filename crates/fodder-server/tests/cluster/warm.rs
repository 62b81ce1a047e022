//! All nodes bring a dataset in together: each what it owns, each byte once, and nobody says it is there when it is not.

use crate::{
    liar::{alone_with, peer},
    world::{NAME, One, PATIENT, World, introduce},
};
use fodder_api::{
    Client,
    v1::{WarmProgress, WarmRequest},
};
use futures::future::join_all;

const BYTES: usize = 64 << 10;

fn everything() -> WarmRequest {
    WarmRequest { dataset: NAME.into(), ..Default::default() }
}

async fn client(one: &One) -> Client {
    Client::connect(&one.me.address.parse().unwrap()).await.unwrap()
}

/// Warms at a node, and says how it ended.
async fn warm(one: &One, request: WarmRequest) -> WarmProgress {
    let mut stream = client(one).await.warm(request).await.unwrap();
    let mut last = None;
    while let Some(progress) = stream.next().await.unwrap() {
        last = Some(progress);
    }
    last.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_node_brings_in_what_it_owns_and_each_byte_leaves_the_origin_once() {
    let world = World::new(120, BYTES).await;
    let nodes = world.nodes(3, world.bytes()).await;
    world.fetched();
    let done = warm(&nodes[1], everything()).await;
    assert!(done.complete && done.finished, "{done:?}");
    assert_eq!((done.files, done.files_there, done.bytes), (120, 120, world.bytes()));
    assert_eq!((done.bytes_there, done.bytes_fetched, done.files_skipped), (world.bytes(), world.bytes(), 0));
    let fetched = world.fetched();
    assert!(fetched.len() == 120 && fetched.values().all(|times| *times == 1), "{fetched:?}");
    for (one, told) in nodes.iter().zip(&done.nodes) {
        assert_eq!(told.id, format!("{:032x}", one.me.id));
        assert_eq!(told.files, one.owned(&world).len() as u64);
        assert_eq!((told.files_there, told.bytes_there), (told.files, told.bytes));
        assert_eq!(one.held() as u64, told.files, "it holds what it owns, and nothing else");
    }
    let again = warm(&nodes[0], everything()).await;
    assert!(again.complete, "{again:?}");
    assert_eq!((again.files_skipped, again.bytes_fetched), (120, 0));
    // On one node: all of it, from the others.
    let here = warm(&nodes[2], WarmRequest { this_node: true, path: "000".into(), ..everything() }).await;
    assert!(here.complete && here.nodes.is_empty(), "{here:?}");
    assert_eq!(here.files, 10);
    assert_eq!(world.fetched().len(), 0);
    join_all(nodes.into_iter().map(One::end)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_are_brought_in_from_the_owners() {
    let world = World { replicas: 2, ..World::new(60, BYTES).await };
    let nodes = world.nodes(3, world.bytes()).await;
    world.fetched();
    let done = warm(&nodes[0], everything()).await;
    assert!(done.complete, "{done:?}");
    assert_eq!((done.bytes_copied, done.bytes_copied_there), (world.bytes(), world.bytes()));
    assert!(world.fetched().values().all(|times| *times == 1));
    assert_eq!(nodes.iter().map(One::held).sum::<usize>(), 120);
    join_all(nodes.into_iter().map(One::end)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_object_is_brought_in_by_the_owners_of_its_parcels() {
    let world = World::new(1, 200 << 20).await;
    let nodes = join_all((1..=3).map(|id| world.node(id, 1 << 30))).await;
    introduce(&nodes.iter().collect::<Vec<_>>()).await;
    world.fetched();
    let before = world.server.bytes_sent();
    let done = warm(&nodes[0], everything()).await;
    assert!(done.complete, "{done:?}");
    assert_eq!((done.files, done.files_there, done.bytes_there), (1, 1, 200 << 20));
    assert_eq!(world.server.bytes_sent() - before, 200 << 20, "each byte once");
    assert!(done.nodes.iter().filter(|node| node.bytes > 0).count() > 1, "{done:?}");
    join_all(nodes.into_iter().map(One::end)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_and_a_bound_are_for_all_nodes_together() {
    let world = World::new(90, BYTES).await;
    let nodes = world.nodes(3, world.bytes()).await;
    world.fetched();
    // So many that they take several messages.
    let listed: Vec<String> = (0..30).map(|number| format!("{number:04}.jpg")).collect();
    let junk = (0..20_000).map(|number| format!("no/such/file/{number}"));
    let paths = listed.iter().cloned().chain(junk).collect();
    let mut stream = client(&nodes[0]).await.warm_listed(everything(), paths).await.unwrap();
    let mut last = None;
    while let Some(progress) = stream.next().await.unwrap() {
        last = Some(progress);
    }
    let done = last.unwrap();
    assert_eq!((done.files, done.files_there, done.files_unknown, done.complete), (30, 30, 20_000, false));
    assert_eq!(world.fetched().into_keys().collect::<Vec<_>>(), listed);

    let bound = 60 * BYTES as u64;
    let done = warm(&nodes[0], WarmRequest { max_bytes: Some(bound), ..everything() }).await;
    assert!(!done.complete && done.bytes_there <= bound && done.bytes_there > bound - 4 * BYTES as u64, "{done:?}");
    assert_eq!(done.files_there + done.files_too_large, 90, "{done:?}");
    join_all(nodes.into_iter().map(One::end)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_no_objects_are_a_cluster_says_so_and_an_empty_list_is_done() {
    let world = World::new(0, BYTES).await;
    let nodes = world.nodes(2, 1 << 20).await;
    let refused = client(&nodes[0]).await.warm(everything()).await;
    assert!(matches!(&refused, Err(fodder_api::Error::NotFound(text)) if text.contains("has no files")), "{refused:?}");
    let mut stream = client(&nodes[0]).await.warm_listed(everything(), Vec::new()).await.unwrap();
    let mut last = None;
    while let Some(progress) = stream.next().await.unwrap() {
        last = Some(progress);
    }
    assert!(last.unwrap().complete);
    join_all(nodes.into_iter().map(One::end)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_share_of_a_node_that_goes_meanwhile_is_brought_in_by_the_others() {
    let world = World::new(90, BYTES).await;
    let nodes = world.nodes(3, world.bytes()).await;
    // It takes a while: so many bytes a second.
    let slow = WarmRequest { bytes_per_second: world.bytes() / 4, ..everything() };
    let mut stream = client(&nodes[0]).await.warm(slow).await.unwrap();
    while stream.next().await.unwrap().unwrap().files_there < 9 {}
    let mut nodes = nodes;
    nodes[2].die();
    introduce(&[&nodes[0], &nodes[1]]).await;
    let mut last = None;
    while let Some(progress) = stream.next().await.unwrap() {
        last = Some(progress);
    }
    let done = last.unwrap();
    assert!(done.complete, "{done:?}");
    assert_eq!((done.files, done.files_there, done.nodes.len()), (90, 90, 2));
    // Some have another owner now, and may still be where they were as well.
    for one in &nodes[..2] {
        let owned = one.owned(&world);
        assert!(owned.iter().all(|path| one.holds(path)), "it holds {} and owns {}", one.held(), owned.len());
    }
    join_all(nodes.into_iter().map(One::end)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_does_not_wait_for_the_end_ends_it_on_all_nodes() {
    let world = World::new(90, BYTES).await;
    let nodes = world.nodes(3, world.bytes()).await;
    let slow = WarmRequest { bytes_per_second: 4 * BYTES as u64, ..everything() };
    let mut stream = client(&nodes[0]).await.warm(slow).await.unwrap();
    while stream.next().await.unwrap().unwrap().files_there < 2 {}
    drop(stream);
    // It would take twenty seconds: two looks at the same count, a second apart, mean that it has ended.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let held = || nodes.iter().map(One::held).sum::<usize>();
    loop {
        let before = held();
        tokio::time::sleep(std::time::Duration::from_secs(2)).await;
        if held() == before {
            break;
        }
        assert!(std::time::Instant::now() < deadline, "it goes on");
    }
    assert!(held() < 90, "it has ended before its end");
    join_all(nodes.into_iter().map(One::end)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_will_not_do_its_part_is_named_and_it_is_not_complete() {
    let world = World::new(30, BYTES).await;
    let nodes = world.nodes(3, world.bytes()).await;
    nodes[1].engine.remove_dataset(NAME).await.unwrap();
    let done = warm(&nodes[0], everything()).await;
    assert!(done.finished && !done.complete, "{done:?}");
    assert!(done.nodes[1].error.contains(NAME) && done.nodes[0].error.is_empty(), "{done:?}");
    assert!(done.files_there > 0 && done.files_there < 30);
    join_all(nodes.into_iter().map(One::end)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_of_the_version_before_is_named_and_has_no_part_in_warming() {
    let world = World::new(20, BYTES).await;
    // It owns nearly everything, and does not know what it is to be told.
    let older = peer(4, |_, _, _, _| panic!("it was asked"));
    let one = alone_with(&world, older, PATIENT).await;
    let done = warm(&one, everything()).await;
    assert!(done.finished && !done.complete, "{done:?}");
    let told = done.nodes.iter().find(|node| node.id.ends_with('9')).unwrap();
    assert!(told.error.contains("version 4"), "{done:?}");
    assert_eq!(one.peering.status()[0].failed, 0, "that is no fault of it");
    one.end().await;
}
