//! Nodes ask each other in words: within deadlines, only those who know how, and nobody believes nonsense.

use crate::{
    liar::{Act, SHORT, alone_with, peer, peer_told, say},
    world::{PATIENT, World, introduce, until},
};
use fodder_api::{
    frames::{Kind, ReplyHead},
    v1::{PeerMessage, PeerReply, Standing, StandingQuestion, peer_message, peer_reply},
};
use fodder_server::cluster::{Failure, Patience};
use futures::future::join_all;
use prost::Message;
use std::{
    io::Write,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

const BYTES: usize = 64 << 10;
const TOKEN: &str = "the word that all of them know";

/// How another node stands.
pub(crate) fn question() -> PeerMessage {
    PeerMessage { message: Some(peer_message::Message::Standing(StandingQuestion {})) }
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_of_a_cluster_tell_each_other_how_they_stand() {
    for token in [None, Some(TOKEN)] {
        let world = World::new(8, BYTES).await;
        let nodes = join_all((1..=3).map(|id| world.node_with(id, 1 << 30, token, PATIENT))).await;
        introduce(&nodes.iter().collect::<Vec<_>>()).await;
        world.read_all(&nodes[1]).await;
        for _ in 0..3 {
            let told = nodes[0].peering.tell_all(&question()).await;
            assert_eq!(told.iter().map(|told| told.id).collect::<Vec<_>>(), [2, 3]);
            let standing = told.into_iter().map(|told| match told.answer.unwrap().reply {
                Some(peer_reply::Reply::Standing(standing)) => standing,
                other => panic!("it said {other:?}"),
            });
            let reads: Vec<_> = standing.map(|standing| (standing.reads, standing.quota_bytes)).collect();
            assert_eq!(reads[0], (8, 1 << 30));
        }
        let message = nodes[2].peering.tell(1, &question()).await;
        assert!(message.is_ok(), "{message:?}");
        assert!(matches!(nodes[2].peering.tell(77, &question()).await, Err(Failure::Silent(_))));
        join_all(nodes.into_iter().map(crate::world::One::end)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_speaks_the_version_before_is_not_asked_and_is_no_fault() {
    let world = World::new(1, BYTES).await;
    let one = alone_with(&world, peer(4, |_, _, _, _| panic!("it was asked")), PATIENT).await;
    for _ in 0..5 {
        let told = one.peering.tell_all(&question()).await;
        assert!(matches!(&told[0].answer, Err(Failure::Refused(why)) if why.contains("version 4")), "{told:?}");
    }
    let status = &one.peering.status()[0];
    assert_eq!((status.breaker, status.failed, status.refused), ("closed", 0, 5), "{status:?}");
    one.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_of_a_newer_program_is_refused_and_is_no_fault() {
    let world = World::new(1, BYTES).await;
    let nodes = world.nodes(2, 1 << 30).await;
    let told = nodes[0].peering.tell_all(&PeerMessage::default()).await;
    assert!(matches!(&told[0].answer, Err(Failure::Refused(why)) if why.contains("does not know")), "{told:?}");
    assert!(nodes[0].peering.tell_all(&question()).await[0].answer.is_ok());
    assert_eq!(nodes[0].peering.status()[0].failed, 0);
    join_all(nodes.into_iter().map(crate::world::One::end)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_a_node_answers_it_costs_bounded_time() {
    let acts: [(&str, bool, Act); 5] = [
        ("hangs", false, |_, _, _, _| thread::sleep(Duration::from_secs(120))),
        ("hangs up", false, |stream, _, _, _| stream.shutdown(std::net::Shutdown::Both).unwrap()),
        ("answers something else", true, |stream, request, _, _| say(stream, request, Kind::Done)),
        ("sends no message", true, |stream, request, _, _| {
            let head = ReplyHead::new(Kind::Told, request, 3);
            let _ = stream.write_all(&[&head.encode()[..], &[0xff; 3]].concat());
        }),
        ("promises for ever", false, |stream, request, _, _| {
            for _ in 0..1000 {
                say(stream, request, Kind::Coming);
                thread::sleep(Duration::from_millis(50));
            }
        }),
    ];
    let world = World::new(1, BYTES).await;
    for (what, is_lie, act) in acts {
        let one = alone_with(&world, peer(5, act), SHORT).await;
        let began = std::time::Instant::now();
        for tries in 0..4 {
            let answer = one.peering.tell_all(&question()).await.remove(0).answer;
            let expected = match &answer {
                Err(Failure::Lied(_)) => is_lie,
                Err(Failure::Silent(_) | Failure::Late(_)) => !is_lie,
                Err(Failure::LeftAlone) => tries > 0,
                _ => false,
            };
            assert!(expected, "a node that {what}: {answer:?}");
        }
        assert!(began.elapsed() < Duration::from_secs(50), "a node that {what} costs bounded time");
        assert_ne!(one.peering.status()[0].breaker, "closed", "a node that {what}");
        one.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn words_do_not_wait_behind_bytes_whose_owner_waits_for_its_origin() {
    let world = World::new(40, BYTES).await;
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let owner = peer_told(5, move |stream, request, give| {
        if give.dataset.is_empty() {
            let reply = PeerReply { reply: Some(peer_reply::Reply::Standing(Standing::default())) }.encode_to_vec();
            let head = ReplyHead::new(Kind::Told, request, reply.len());
            let _ = stream.write_all(&[&head.encode()[..], &reply].concat());
            return;
        }
        counted.fetch_add(1, SeqCst);
        loop {
            say(stream, request, Kind::Coming);
            thread::sleep(Duration::from_millis(50));
        }
    });
    let one = alone_with(&world, owner, Patience { coming: Duration::from_secs(20), ..PATIENT }).await;
    let reads = join_all(world.objects.keys().map(|path| world.read(&one, path)));
    let told = async {
        until("as many reads as one node may be asked at a time", || asked.load(SeqCst) >= 16).await;
        one.peering.tell_all(&question()).await.remove(0).answer
    };
    let told = tokio::select! {
        told = told => told,
        _ = reads => panic!("they wait for ever"),
    };
    assert!(told.is_ok(), "{told:?}");
    one.end().await;
}
