//! Batches of what another node has at hand: asked for together, and right whatever becomes of a part of them.

use crate::{
    liar::{BYTES, SHORT, acts, alone_with, part, peer, send},
    world::{NAME, One, PATIENT, World, content, until},
};
use fodder_api::frames::{Batch, FrameClient, PartHead};
use fodder_server::cluster::Neighbour;
use std::{
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    thread,
    time::{Duration, Instant},
};

/// Reads all items at a node as one batch, and compares them.
async fn read_batch(world: &World, one: &One) {
    let address = one.me.address.parse().unwrap();
    let count = world.objects.len() as u64;
    let read = move || {
        let mut client = FrameClient::connect(&address).unwrap();
        let (handle, mut batch) = (client.open(NAME, None).unwrap().handle, Batch::new());
        client.get_items(handle, &(0..count).collect::<Vec<_>>(), &mut batch).unwrap();
        batch.iter().map(|item| item.data.unwrap().to_vec()).collect::<Vec<_>>()
    };
    let items = tokio::task::spawn_blocking(read).await.unwrap();
    assert!(items.iter().eq(world.objects.values()), "an item has the wrong bytes");
}

/// A node that keeps nothing, and one that owns everything.
async fn pair(world: &World) -> [One; 2] {
    let nodes = [world.node(1, 16 << 10).await, world.node(2, 1 << 30).await];
    let members = [Neighbour { owns: false, ..nodes[0].me.clone() }, nodes[1].me.clone()];
    for one in &nodes {
        one.meet(&members).await;
    }
    nodes
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_owner_has_at_hand_takes_few_questions_and_what_it_has_not_it_fetches_once() {
    let world = World::new(60, 100 << 10).await;
    let [reads, owns] = pair(&world).await;
    world.fetched();
    read_batch(&world, &reads).await;
    let fetched = world.fetched();
    assert_eq!((fetched.len(), fetched.values().max()), (60, Some(&1)), "each by the owner, and once");
    until("the owner holds everything", || owns.held() == 60).await;
    let before = reads.peering.status()[0].clone();
    for _ in 0..3 {
        read_batch(&world, &reads).await;
    }
    let after = reads.peering.status()[0].clone();
    assert!(after.answered - before.answered <= 3 * 4, "{before:?} {after:?}");
    assert_eq!(after.bytes - before.bytes, 3 * world.bytes());
    assert_eq!((after.refused, after.failed, after.breaker), (before.refused, 0, "closed"));
    assert!(world.fetched().is_empty());
    let stats = reads.dataset.stats();
    assert_eq!((stats.bytes_from_peers, stats.bytes_from_origin), (4 * world.bytes(), 0), "{stats:?}");
    for one in [reads, owns] {
        one.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_batch_only_what_the_owner_has_not_at_hand_is_asked_for_by_itself() {
    let world = World::new(40, 100 << 10).await;
    let [reads, owns] = pair(&world).await;
    for path in world.objects.keys().step_by(3) {
        world.read(&owns, path).await;
    }
    until("the owner holds a third", || owns.held() == 14).await;
    let before = reads.peering.status()[0].answered;
    read_batch(&world, &reads).await;
    let asked = reads.peering.status()[0].answered - before;
    assert!((26..26 + 14).contains(&asked), "{asked}");
    assert_eq!(reads.dataset.stats().bytes_from_peers, world.bytes());
    for one in [reads, owns] {
        one.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_batch_is_right_whatever_the_owner_does() {
    let world = World::new(6, BYTES).await;
    for (what, act) in acts() {
        let one = alone_with(&world, peer(7, act), SHORT).await;
        let began = Instant::now();
        read_batch(&world, &one).await;
        assert!(began.elapsed() < Duration::from_secs(50), "a peer that {what} costs bounded time");
        let status = &one.peering.status()[0];
        assert_ne!(status.breaker, "closed", "a peer that {what}: {status:?}");
        assert_eq!(one.dataset.stats().bytes_from_peers, 0, "nothing of a peer that {what} was believed");
        one.end().await;
    }
}

/// Six objects with the same bytes, which a peer can send without knowing which of them is meant.
async fn six_alike() -> World {
    let mut world = World::new(6, BYTES).await;
    for (path, bytes) in &mut world.objects {
        *bytes = content(0, BYTES);
        world.server.put(path, bytes.clone());
    }
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_match_in_a_batch_is_asked_for_again_by_itself() {
    static SENT: AtomicUsize = AtomicUsize::new(0);
    let world = six_alike().await;
    let drops_one = peer(7, |stream, request, start, end| {
        let bytes = &content(0, BYTES)[start as usize..end as usize];
        let right = part(start, end, bytes);
        let is_third = SENT.fetch_add(1, SeqCst) == 2;
        send(stream, request, PartHead { crc: right.crc ^ u32::from(is_third), ..right }, bytes);
    });
    let one = alone_with(&world, drops_one, PATIENT).await;
    read_batch(&world, &one).await;
    let (stats, status) = (one.dataset.stats(), &one.peering.status()[0]);
    assert_eq!((stats.bytes_from_peers, stats.bytes_from_origin), (world.bytes(), 0), "{stats:?}");
    assert_eq!((SENT.load(SeqCst), status.answered, status.failed), (7, 2, 0), "{status:?}");
    one.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_stops_in_the_middle_of_a_batch_is_left_alone_and_the_origin_sends_the_rest() {
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    let world = six_alike().await;
    let stops = peer(7, |stream, request, start, end| {
        if ASKED.fetch_add(1, SeqCst) >= 2 {
            thread::sleep(Duration::from_secs(120));
        }
        let bytes = &content(0, BYTES)[start as usize..end as usize];
        send(stream, request, part(start, end, bytes), bytes);
    });
    let one = alone_with(&world, stops, SHORT).await;
    read_batch(&world, &one).await;
    let (stats, status) = (one.dataset.stats(), &one.peering.status()[0]);
    assert_eq!((stats.bytes_from_peers, stats.origin_requests), (2 * BYTES as u64, 4), "{stats:?}");
    assert_eq!((ASKED.load(SeqCst), status.failed, status.breaker), (3, 1, "open"), "{status:?}");
    one.end().await;
}
