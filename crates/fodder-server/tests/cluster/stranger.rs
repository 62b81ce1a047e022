//! Who does not know the cluster's token gets nothing out of it and nothing into it.

use crate::world::{NAME, World, introduce};
use fodder_api::{
    frames::{Give, Hello, Kind, ReplyHead, Request},
    v1::ErrorCode,
};
use fodder_server::cluster::Patience;
use prost::Message;
use std::{
    io::{Read, Write},
    net::TcpStream,
};

const BYTES: usize = 64 << 10;
const TOKEN: &str = "the word that all of them know";

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_know_the_token_share_and_one_that_does_not_is_left_out() {
    let world = World::new(30, BYTES).await;
    let patience = Patience { hedge: std::time::Duration::from_secs(20), ..crate::world::PATIENT };
    let [a, b] = [1, 2].map(|id| world.node_with(id, 1 << 30, Some(TOKEN), patience));
    let stranger = world.node_with(3, 1 << 30, Some("a word that nobody else knows"), patience);
    let (a, b, stranger) = tokio::join!(a, b, stranger);
    introduce(&[&a, &b, &stranger]).await;
    let all = [&a, &b, &stranger];
    world.fetched();
    for one in all {
        world.read_all(one).await;
    }
    assert!(a.dataset.stats().bytes_from_peers > 0 && b.dataset.stats().bytes_from_peers > 0);
    assert_eq!(stranger.dataset.stats().bytes_from_peers, 0, "it got nothing");
    assert_eq!(stranger.dataset.stats().bytes_to_peers, 0, "and nothing of it was taken");
    let seen = b.peering.status();
    assert_eq!(seen.iter().filter(|peer| peer.breaker == "open").count(), 1, "{seen:?}");
    for one in [a, b, stranger] {
        one.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_without_the_token_is_denied() {
    let world = World::new(2, BYTES).await;
    let one = world.node_with(1, 1 << 30, Some(TOKEN), crate::world::PATIENT).await;
    let object = one.dataset.snapshot().lookup("0000.jpg").unwrap();
    let key = one.dataset.objects().key(object).0;
    let (only_held, stand_in, at_hand, again) = (false, true, false, false);
    let give =
        Give { dataset: NAME, path: "0000.jpg", key, offset: 0, length: 100, only_held, stand_in, at_hand, again };
    let address = one.me.address.clone();
    tokio::task::spawn_blocking(move || {
        let proof = [0; 32];
        let message = crate::tell::question().encode_to_vec();
        for requests in [
            &[Request::Give(give)][..],
            &[Request::Take(give)],
            &[Request::Tell { message: &message }],
            &[Request::Prove { proof }, Request::Give(give)],
            &[Request::Meet { nonce: [0; 16] }, Request::Prove { proof }, Request::Give(give)],
        ] {
            let mut stream = TcpStream::connect(&address).unwrap();
            stream.write_all(&Hello::OURS.encode()).unwrap();
            stream.read_exact(&mut [0; Hello::BYTES]).unwrap();
            let mut last = None;
            for (number, request) in requests.iter().enumerate() {
                let mut frame = Vec::new();
                request.encode(number as u32 + 1, 0, &mut frame);
                stream.write_all(&frame).unwrap();
                let mut head = [0; ReplyHead::BYTES];
                stream.read_exact(&mut head).unwrap();
                let head = ReplyHead::decode(&head).unwrap();
                stream.read_exact(&mut vec![0; head.body_bytes as usize]).unwrap();
                last = Some((head.kind, head.status));
            }
            assert_eq!(last, Some((Kind::Error, ErrorCode::Denied)), "{requests:?}");
        }
    })
    .await
    .unwrap();
    assert_eq!(one.dataset.stats().bytes_to_peers, 0);
    one.end().await;
}
