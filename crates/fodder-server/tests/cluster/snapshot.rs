//! A snapshot that a node has never seen, and cannot list any more: it comes from another node, and from no liar.

use crate::{
    job::{BYTES, ITEMS, Rank, each_once, exact_everywhere},
    liar::SHORT,
    world::{NAME, One, World, introduce, until},
};
use fodder_api::{
    Address,
    client::{Client, Target},
    frames::{self, Hello, HelloReply, Kind, ReplyHead, Request, RequestHead},
    v1::{self, ErrorCode, PeerMessage, PeerReply, SnapshotPage, SnapshotQuestion, peer_message, peer_reply},
};
use fodder_core::job::Start;
use fodder_server::cluster::Neighbour;
use prost::Message;
use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    thread,
    time::Duration,
};

/// A node that listed the origin, and one that did so when there was one object more. They do not know each other yet.
async fn two(world: &World) -> (One, One) {
    let first = world.node(1, 1 << 30).await;
    world.server.put("new.jpg", vec![7; BYTES]);
    let second = world.node(2, 1 << 30).await;
    assert_ne!(first.dataset.snapshot().id(), second.dataset.snapshot().id());
    (first, second)
}

async fn client(one: &One) -> Client {
    Client::connect(&one.me.address.parse::<Address>().unwrap()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn ranks_go_on_at_a_node_that_cannot_list_what_their_epoch_is_about() {
    let world = World::new(ITEMS, BYTES).await;
    let (first, second) = two(&world).await;
    let mut ranks = vec![Rank::new(&first, 0, 2).await];
    ranks[0].begin(0).await;
    introduce(&[&first, &second]).await;
    ranks.push(Rank::new(&second, 1, 2).await);
    ranks[1].begin(0).await;
    let (old, new) = (first.dataset.snapshot().id(), second.dataset.snapshot().id());
    assert_eq!(second.dataset.snapshot_by_id(old).unwrap().len(), ITEMS as u64);
    for rank in &mut ranks {
        rank.take_all().await;
    }
    each_once(&ranks, 1);
    exact_everywhere(&[&first, &second], 0).await;
    assert_eq!(second.dataset.snapshot().id(), new, "an old listing does not become the newest");
    first.end().await;
    second.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_a_rank_gets_it_too_and_so_knows_how_far_the_others_were_when_they_die() {
    let world = World::new(ITEMS, BYTES).await;
    let (mut first, second) = two(&world).await;
    introduce(&[&first, &second]).await;
    let mut rank = Rank::new(&first, 0, 1).await;
    rank.begin(0).await;
    rank.take_all().await;
    exact_everywhere(&[&first, &second], 0).await;
    first.die();
    let checkpoint = second.dataset.jobs().checkpoint(second.dataset.jobs().find("train").unwrap());
    assert!(checkpoint.is_ok(), "{checkpoint:?}");
    second.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_resumes_on_the_snapshot_of_its_checkpoint_wherever_that_is() {
    let world = World::new(ITEMS, BYTES).await;
    let (first, second) = two(&world).await;
    let mut rank = Rank::new(&first, 0, 1).await;
    rank.begin(0).await;
    let checkpoint = rank.job.checkpoint().await.unwrap();
    rank.job.leave().await.unwrap();
    introduce(&[&first, &second]).await;
    // Nobody knows of the job any more; only the listing is still at the other node.
    let anew = Rank::new(&second, 0, 1).await;
    assert!(second.dataset.jobs().lacks_for(&checkpoint).is_some());
    let (_, resumed) = anew.job.resume(checkpoint, 1, Some(0), None, Start::default()).await.unwrap();
    assert_eq!((resumed.snapshot, resumed.left), (first.dataset.snapshot().id().to_string(), ITEMS as u32));
    first.end().await;
    second.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_may_name_a_snapshot_that_only_another_node_has() {
    let world = World::new(ITEMS, BYTES).await;
    let (first, second) = two(&world).await;
    introduce(&[&first, &second]).await;
    let (asked, address) = (client(&second).await, second.me.address.clone());
    let nobody = "00112233445566778899aabbccddeeff";
    let target = || Target::Path("0003.jpg".into());
    let error = asked.stat(NAME, Some(nobody), target()).await.unwrap_err();
    assert!(error.to_string().contains("no longer has snapshot"), "{error}");
    let old = first.dataset.snapshot().id().to_string();
    let opened = tokio::task::spawn_blocking(move || {
        let mut frames = frames::FrameClient::connect(&address.parse().unwrap()).unwrap();
        frames.open(NAME, Some(&old)).unwrap()
    });
    let opened = opened.await.unwrap();
    assert_eq!((opened.items, &opened.snapshot), (ITEMS as u64, &first.dataset.snapshot().id().to_string()));
    let found = asked.stat(NAME, Some(&opened.snapshot), target()).await.unwrap();
    assert_eq!((found.snapshot, found.object.unwrap().size_bytes), (opened.snapshot, BYTES as u64));
    first.end().await;
    second.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_changed_at_the_origin_comes_as_it_was_from_a_node_that_still_holds_it() {
    let world = World::new(ITEMS, BYTES).await;
    let first = world.node(1, 1 << 30).await;
    world.read_all(&first).await;
    until("all to be kept", || first.held() == ITEMS).await;
    world.server.put("0003.jpg", vec![7; BYTES]);
    let second = world.node(2, 1 << 30).await;
    introduce(&[&first, &second]).await;
    let old = first.dataset.snapshot().id().to_string();
    let mut items = client(&second).await.get_items(NAME, Some(&old), vec![3]).await.unwrap();
    let item = items.next().await.unwrap().unwrap();
    assert!(item.data.unwrap() == world.objects["0003.jpg"], "the listing says which version it is");
    first.end().await;
    second.end().await;
}

/// What a peer answers to a question for a snapshot; None: an error, as a node says that does not know the question.
type Tale = fn(&SnapshotQuestion) -> Option<SnapshotPage>;

/// A peer that tells such tales, and nothing else. It lives until the test's process ends.
fn teller(tale: Tale) -> Neighbour {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(move || talk(&mut stream.unwrap(), tale));
        }
    });
    Neighbour { id: 9, address, zone: String::new(), capacity_bytes: 1, owns: false, answers: true }
}

fn talk(stream: &mut TcpStream, tale: Tale) -> Option<()> {
    stream.read_exact(&mut [0; Hello::BYTES]).ok()?;
    stream.write_all(&HelloReply { version: 5, newest: 5 }.encode()).ok()?;
    loop {
        let mut head = [0; RequestHead::BYTES];
        stream.read_exact(&mut head).ok()?;
        let head = RequestHead::decode(&head).unwrap();
        let mut body = vec![0; head.body_bytes as usize];
        stream.read_exact(&mut body).ok()?;
        let Ok(Request::Tell { message }) = Request::decode(head.op, &body) else { return None };
        let page = match PeerMessage::decode(message).unwrap().message {
            Some(peer_message::Message::SnapshotFrom(asked)) => tale(&asked),
            _ => None,
        };
        let (reply, body) = match page {
            Some(page) => {
                let reply = PeerReply { reply: Some(peer_reply::Reply::SnapshotPage(page)) }.encode_to_vec();
                (ReplyHead::new(Kind::Told, head.request, reply.len()), reply)
            }
            None => {
                let text = b"the version of this node does not know that message".to_vec();
                let head = ReplyHead::new(Kind::Error, head.request, text.len());
                (ReplyHead { status: ErrorCode::Invalid, ..head }, text)
            }
        };
        stream.write_all(&[&reply.encode()[..], &body].concat()).ok()?;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_others_tell_a_snapshot_is_what_its_name_says_or_it_is_not_taken() {
    let tales: [(&str, bool, Tale); 6] = [
        ("tells something else", true, |asked| {
            let (snapshot, next) = (asked.snapshot.clone(), (asked.most_bytes == 0).then_some(0));
            Some(SnapshotPage { snapshot, told: b"\x05files\x01a\x01\x01v\x01".as_slice().into(), next })
        }),
        ("tells the same again and again", false, |asked| {
            Some(SnapshotPage { snapshot: asked.snapshot.clone(), told: vec![1].into(), next: Some(asked.from) })
        }),
        ("tells of another", false, |asked| {
            let snapshot = if asked.most_bytes == 0 { asked.snapshot.clone() } else { vec![1; 16].into() };
            Some(SnapshotPage { snapshot, ..SnapshotPage::default() })
        }),
        ("has a short name for it", false, |asked| {
            Some(SnapshotPage { snapshot: asked.snapshot.slice(..4), ..SnapshotPage::default() })
        }),
        ("has it no more", false, |asked| {
            let snapshot = if asked.most_bytes == 0 { asked.snapshot.clone() } else { Default::default() };
            Some(SnapshotPage { snapshot, ..SnapshotPage::default() })
        }),
        ("does not know the question", false, |_| None),
    ];
    let world = World::new(5, BYTES).await;
    for (what, is_lie, tale) in tales {
        let one = world.node_with(1, 1 << 30, None, SHORT).await;
        one.meet(&[one.me.clone(), teller(tale)]).await;
        let asked = client(&one).await;
        let stat = asked.stat(NAME, Some("abababababababababababababababab"), Target::Item(0));
        let error = tokio::time::timeout(Duration::from_secs(50), stat).await.expect(what).unwrap_err();
        assert!(error.to_string().contains("no longer has snapshot"), "a peer that {what}: {error}");
        assert_eq!(one.dataset.snapshots().len(), 1, "a peer that {what}");
        let status = one.peering.status().remove(0);
        assert_eq!(status.failed > 0, is_lie, "a peer that {what}: {status:?}");
        one.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_answers_only_for_the_same_dataset() {
    let world = World::new(5, BYTES).await;
    let nodes = world.nodes(2, 1 << 30).await;
    let ask = async |identity: Vec<u8>, snapshot: &[u8]| {
        let question = SnapshotQuestion {
            dataset: NAME.into(),
            identity: identity.into(),
            snapshot: snapshot.to_vec().into(),
            from: 0,
            most_bytes: 1 << 30,
        };
        let message = PeerMessage { message: Some(peer_message::Message::SnapshotFrom(question)) };
        match nodes[0].peering.tell_all(&message).await.remove(0).answer.unwrap().reply {
            Some(peer_reply::Reply::SnapshotPage(page)) => page,
            other => panic!("{other:?}"),
        }
    };
    let (identity, id) = (nodes[0].dataset.identity().to_vec(), nodes[0].dataset.snapshot().id().0);
    for name in [&id[..], &id[..8]] {
        let page = ask(identity.clone(), name).await;
        assert_eq!((&page.snapshot[..], page.next), (&id[..], None));
        assert!(page.told.len() > 5 * "0000.jpg".len());
    }
    for (identity, name) in [(vec![0; 32], &id[..]), (identity.clone(), &id[..7]), (identity, &[])] {
        assert_eq!(ask(identity, name).await, v1::SnapshotPage::default());
    }
    futures::future::join_all(nodes.into_iter().map(One::end)).await;
}
