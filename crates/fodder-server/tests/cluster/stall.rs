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
    assert!(all.longest() < Duration::from_millis(1750), "{all:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_late_with_every_part_is_waited_for_as_long_as_one_that_is_late_once() {
    let world = World::new(1, BYTES).await;
    let dribbles = peer(5, |stream, request, start, end| {
        let all = content(0, BYTES);
        for at in (start..end).step_by(1000) {
            thread::sleep(Duration::from_millis(100));
            let bytes = &all[at as usize..end.min(at + 1000) as usize];
            send(stream, request, part(at, end, bytes), bytes);
        }
    });
    let one = alone_with(&world, dribbles, SHORT).await;
    world.read(&one, "0000.jpg").await;
    let stats = one.dataset.stats();
    assert!(stats.bytes_from_peers <= 5000, "each part was in time, and all of them were not: {stats:?}");
    assert_eq!(stats.bytes_from_peers + stats.bytes_from_origin, BYTES as u64, "the origin has sent the rest");
    assert_eq!(one.peering.status()[0].breaker, "open");
    one.end().await;
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
async fn nobody_waits_for_a_node_that_has_become_unreachable() {
    let world = World::new(1, BYTES).await;
    let hangs = peer(5, |_, _, _, _| {
        HUNG.fetch_add(1, SeqCst);
        thread::sleep(Duration::from_secs(600));
    });
    let one = alone_with(&world, hangs.clone(), Patience { first_word: Duration::from_secs(300), ..PATIENT }).await;
    let unreachable = async {
        until("it to be asked", || HUNG.load(SeqCst) > 0).await;
        one.peering.set(&[one.me.clone(), Neighbour { owns: false, answers: false, ..hangs.clone() }]);
    };
    let read = tokio::time::timeout(Duration::from_secs(60), world.read(&one, "0000.jpg"));
    let (source, ()) = tokio::join!(read, unreachable);
    assert_eq!(source.expect("it is waited for no longer"), Source::Origin);
    one.end().await;
}

static HUNG: AtomicUsize = AtomicUsize::new(0);

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_another_was_faster_than_is_found_out_all_the_same() {
    let world = World::new(4, BYTES).await;
    let hangs = peer(5, |_, _, _, _| thread::sleep(Duration::from_secs(120)));
    let while_busy = Duration::from_secs(3);
    let patience = Patience { first_word: while_busy, connect: while_busy, progress: PATIENT.progress, ..SHORT };
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
