//! How long a read waits for nodes that say nothing, and who learns of it.

use crate::{
    liar::{SHORT, alone_with, part, peer, send},
    world::{PATIENT, World, content, introduce, until},
};
use fodder_core::engine::Source;
use fodder_server::cluster::{Neighbour, Patience};
use std::{
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    thread,
    time::{Duration, Instant},
};

const BYTES: usize = 300 << 10;

#[test]
fn all_that_a_read_waits_for_by_default_is_less_than_two_seconds() {
    let all = Patience::default();
    assert!(all.connect < all.first_word && all.hedge < all.first_word);
    // A first word in the last moment, and then nothing more.
    assert!(all.first_word + all.progress < Duration::from_millis(1700), "{all:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_waits_for_a_node_that_hangs_under_two_seconds_and_the_next_read_not_at_all() {
    let world = World::new(6, BYTES).await;
    let hangs = peer(5, |_, _, _, _| thread::sleep(Duration::from_secs(120)));
    let one = alone_with(&world, hangs, Patience::default()).await;
    let mut paths = world.objects.keys();
    let began = Instant::now();
    assert_eq!(world.read(&one, paths.next().unwrap()).await, Source::Origin);
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    let status = &one.peering.status()[0];
    assert_eq!((status.failed, status.breaker), (1, "open"), "one long silence is enough: {status:?}");
    one.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_another_was_faster_than_is_found_out_all_the_same() {
    let world = World::new(4, BYTES).await;
    let hangs = peer(5, |_, _, _, _| thread::sleep(Duration::from_secs(120)));
    let patience = Patience { progress: PATIENT.progress, ..SHORT };
    let (one, two) = (world.node_with(1, 1 << 30, None, patience).await, world.node(2, 1 << 30).await);
    introduce(&[&one, &two]).await;
    // Nearly everything belongs to the one that hangs, and nothing to the one who asks.
    let small = |one: &Neighbour, capacity_bytes: u64| Neighbour { capacity_bytes, ..one.clone() };
    one.peering.set(&[Neighbour { owns: false, ..one.me.clone() }, small(&two.me, 1), hangs]);
    let source = world.read(&one, world.objects.keys().next().unwrap()).await;
    assert_eq!(source, Source::Peer, "the next was asked beside it");
    let hung = || one.peering.status().into_iter().find(|status| status.id.ends_with('9')).unwrap();
    until("it to be left alone", || hung().breaker != "closed").await;
    one.end().await;
    two.end().await;
}

static ASKED: AtomicUsize = AtomicUsize::new(0);

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_do_not_match_once_are_asked_for_again_and_are_no_lie() {
    // A file that is dropped while it is sent arrives with other bytes than its checksum was made of.
    let world = World::new(1, BYTES).await;
    let honest = peer(5, |stream, request, start, end| {
        let right = content(0, BYTES)[start as usize..end as usize].to_vec();
        let is_first = ASKED.fetch_add(1, SeqCst) == 0;
        let sent = if is_first { vec![0; right.len()] } else { right.clone() };
        send(stream, request, part(start, end, &right), &sent);
    });
    let one = alone_with(&world, honest, PATIENT).await;
    assert_eq!(world.read(&one, "0000.jpg").await, Source::Peer);
    let status = &one.peering.status()[0];
    assert_eq!((status.breaker, status.failed), ("closed", 0), "{status:?}");
    assert!(ASKED.load(SeqCst) >= 2 && one.dataset.stats().bytes_from_origin == 0);
    one.end().await;
}
