//! What a disk has damaged at one node: it is fetched again, once, and nobody takes that node for a liar.

use crate::{
    liar::{alone_with, part, peer_told, send},
    world::{One, PATIENT, World, content, until},
};
use fodder_core::engine::Source;
use fodder_server::cluster::Neighbour;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

const BYTES: usize = 300 << 10;

/// Flips a bit of one file that a node has cached; which object it is of.
fn damage(world: &World, one: &One) -> String {
    let file = one.cache_files().swap_remove(0);
    let mut bytes = std::fs::read(&file).unwrap();
    let path = world.objects.iter().find(|(_, object)| **object == bytes).unwrap().0.clone();
    bytes[BYTES / 2] ^= 4;
    std::fs::write(&file, bytes).unwrap();
    path
}

#[tokio::test(flavor = "multi_thread")]
async fn one_damaged_byte_at_an_owner_costs_one_request_and_no_trust() {
    let world = World::new(30, BYTES).await;
    // Two that keep nothing, and one that owns everything.
    let nodes = [world.node(1, 16 << 10).await, world.node(2, 16 << 10).await, world.node(3, 1 << 30).await];
    let [first, second, owner] = nodes;
    let [a, b] = [&first, &second].map(|one| Neighbour { owns: false, ..one.me.clone() });
    for one in [&first, &second, &owner] {
        one.meet(&[a.clone(), b.clone(), owner.me.clone()]).await;
    }
    world.read_all(&owner).await;
    until("the owner to hold everything", || owner.held() == 30).await;
    let damaged = damage(&world, &owner);
    world.fetched();
    for one in [&first, &second] {
        let sources = world.read_all(one).await;
        assert_eq!(sources.into_iter().collect::<Vec<_>>(), [(Source::Peer, 30)]);
        let to_owner = one.peering.status().into_iter().find(|peer| peer.address == owner.me.address).unwrap();
        assert_eq!((to_owner.breaker, to_owner.failed), ("closed", 0), "{to_owner:?}");
    }
    assert_eq!(world.fetched().into_iter().collect::<Vec<_>>(), [(damaged, 1)], "what left the origin again");
    assert_eq!(owner.dataset.stats().corrupt_pieces, 1);
    for one in [first, second, owner] {
        one.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_asked_again_is_told_so_unless_it_would_not_understand() {
    for (version, told) in [(7, 0), (8, 1)] {
        let world = World::new(1, BYTES).await;
        let counts = Arc::new([const { AtomicUsize::new(0) }; 2]);
        let counted = Arc::clone(&counts);
        // It sends zeros at first.
        let peer = peer_told(version, move |stream, request, give| {
            let range = give.offset as usize..(give.offset + give.length) as usize;
            let right = content(0, BYTES)[range].to_vec();
            let is_first = counted[0].fetch_add(1, SeqCst) == 0;
            counted[1].fetch_add(usize::from(give.again), SeqCst);
            let sent = if is_first { vec![0; right.len()] } else { right.clone() };
            send(stream, request, part(give.offset, give.offset + give.length, &right), &sent);
        });
        let one = alone_with(&world, peer, PATIENT).await;
        assert_eq!(world.read(&one, "0000.jpg").await, Source::Peer);
        let [asked, again] = counts.each_ref().map(|count| count.load(SeqCst));
        assert_eq!((asked, again), (2, told), "version {version}");
        assert_eq!(one.peering.status()[0].breaker, "closed");
        one.end().await;
    }
}
