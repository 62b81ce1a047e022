//! What one node that gossips says and makes of what it hears, without its loop.

#![allow(clippy::unwrap_used)]

use super::{super::tests::member, *};
use fodder_testing::skip;
use std::net::UdpSocket as Mailbox;

const TOKEN: &str = "token";

/// The node with the number 1.
async fn talk() -> Talk {
    talk_at("127.0.0.1:0").await.unwrap()
}

/// That node, where it listens there.
async fn talk_at(listen: &str) -> std::io::Result<Talk> {
    Ok(Talk {
        socket: UdpSocket::bind(listen).await?,
        board: Board::new(member(1), super::super::Patience::default()),
        seal: Seal::new(TOKEN),
        places: BTreeMap::new(),
        echoes: BTreeSet::new(),
        strangers: 0,
        sent_bytes: Arc::default(),
    })
}

/// Somewhere datagrams come to.
fn mailbox() -> (Mailbox, SocketAddr) {
    let mailbox = Mailbox::bind("127.0.0.1:0").unwrap();
    mailbox.set_nonblocking(true).unwrap();
    let place = mailbox.local_addr().unwrap();
    (mailbox, place)
}

/// What has come there, a datagram at a time.
fn received(mailbox: &Mailbox) -> Option<Vec<Member>> {
    let mut buffer = vec![0; MAX_BYTES];
    let length = mailbox.recv(&mut buffer).ok()?;
    Some(word::opened(&v1::HelloMessage::decode(&buffer[..length]).unwrap(), &Seal::new(TOKEN)).unwrap())
}

/// What a member says in its so many-th word, and where it has heard of others.
fn said(id: u128, revision: u64, others: &[(u128, &str)]) -> Vec<u8> {
    let others = others.iter().map(|(id, place)| (member(*id), place.parse().ok()));
    let (words, places) = [(Member { revision, ..member(id) }, None)].into_iter().chain(others).unzip();
    word::sealed_told(&Told { words, places, answer: false }, &Seal::new(TOKEN)).encode_to_vec()
}

#[tokio::test]
async fn what_is_told_goes_in_datagrams_that_every_network_carries_whole() {
    for (members, name) in
        [(1, ""), (30, ""), (300, "gpu-with-a-name-of-some-length.cluster."), (300, &"long-".repeat(45))]
    {
        let mut talk = talk().await;
        for id in 2..=members {
            let address = format!("{name}{id}:18284");
            talk.board.gossiped(vec![Member { address, ..member(id) }]);
            talk.places.insert(NodeId(id), "10.0.0.1:18282".parse().unwrap());
        }
        let mut told = BTreeSet::new();
        for (number, datagram) in talk.datagrams(false).enumerate() {
            assert!(datagram.len() <= DATAGRAM_BYTES, "{} bytes", datagram.len());
            let part = word::opened_told(&v1::HelloMessage::decode(&datagram[..]).unwrap(), &talk.seal).unwrap();
            assert_eq!((part.words[0].id, part.answer), (NodeId(1), number > 0), "one answer is enough");
            assert_eq!(part.words.len() > 1, members > 1, "each tells something");
            told.extend(part.words.iter().map(|word| word.id));
        }
        assert_eq!(
            told.len(),
            members.min(others_told(members as usize - 1) as u128 + 1) as usize,
            "nobody is left out"
        );
    }
}

#[tokio::test]
async fn gossip_that_is_played_again_moves_nobody_and_is_not_answered() {
    let (mut talk, (there, place), (stranger, elsewhere)) = (talk().await, mailbox(), mailbox());
    let old = said(2, 5, &[(3, "10.0.0.3:1")]);
    talk.hear(&old, place).await;
    assert!(received(&there).is_some_and(|words| words[0].id == NodeId(1)), "who speaks is answered");
    talk.board.miss(NodeId(3), member(3).incarnation);
    talk.places.insert(NodeId(3), "10.0.0.33:1".parse().unwrap());
    let places = talk.places.clone();
    for _ in 0..3 {
        talk.hear(&old, elsewhere).await;
        assert!(received(&stranger).is_none(), "a stranger is told who is there");
        assert_eq!(talk.places, places);
    }
    talk.hear(&said(2, 4, &[]), elsewhere).await;
    let reminded: Vec<_> = received(&stranger).unwrap().iter().map(|word| word.id.0).collect();
    assert_eq!((reminded, &talk.places), (vec![1, 2], &places), "it learns nothing that it did not know");
    // Who is back in its next life, somewhere else, is heard there.
    let back = Member { incarnation: super::super::Incarnation(2), revision: 1, ..member(2) };
    talk.hear(&word::sealed(vec![back], &Seal::new(TOKEN)).encode_to_vec(), elsewhere).await;
    assert!(received(&stranger).is_some());
    assert_eq!(talk.places[&NodeId(2)], elsewhere);
}

#[tokio::test]
async fn who_listens_at_all_addresses_tells_of_others_as_those_can_reach_them_who_do_not() {
    let Ok(mut talk) = talk_at("[::]:0").await else {
        skip!("this machine has no IPv6");
    };
    let here = SocketAddr::from(([127, 0, 0, 1], talk.socket.local_addr().unwrap().port()));
    let (there, place) = mailbox();
    let mut buffer = vec![0; MAX_BYTES];
    there.send_to(&said(2, 1, &[(3, "[::ffff:10.0.0.3]:1")]), here).unwrap();
    let (length, from) = talk.socket.recv_from(&mut buffer).await.unwrap();
    talk.hear(&buffer[..length], from).await;
    assert!(received(&there).is_some(), "it is answered where it is");
    assert_eq!(talk.places, BTreeMap::from([(NodeId(2), place), (NodeId(3), "10.0.0.3:1".parse().unwrap())]));
    // It is among those that it looks for, and hears itself there.
    talk.say(here, false).await;
    let (length, from) = talk.socket.recv_from(&mut buffer).await.unwrap();
    talk.hear(&buffer[..length], from).await;
    assert_eq!(talk.echoes, BTreeSet::from([here]));
}
