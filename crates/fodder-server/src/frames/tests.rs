//! Who is answered at all, on connections that say where they come from.

#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::{
    cluster::{Patience, Peering, Side, Token, Trust},
    testing::Fixture,
};
use fodder_api::{
    error::NODES_ONLY,
    frames::{Arriving, Hello, Kind, MAGIC, MetHead, ObjectId, ReplyHead, Request, TargetRef},
    v1::ErrorCode,
};
use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
};
use tokio::sync::Semaphore;

const NONCE: [u8; 16] = [7; 16];

/// A greeted client of a door that takes it to be on this machine, or on another.
struct Client(UnixStream);

impl Client {
    fn new(door: &Arc<Door>, is_here: bool) -> Self {
        let (mut client, server) = UnixStream::pair().unwrap();
        let permit = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        door.serve(Line::Plain(Socket::Unix(server)), Caller::plain(is_here), permit).unwrap();
        // Whoever sorts connections has read the magic.
        client.write_all(&Hello::OURS.encode()[MAGIC.len()..]).unwrap();
        client.read_exact(&mut [0; Hello::BYTES]).unwrap();
        Self(client)
    }

    fn ask(&mut self, request: Request<'_>) -> (Kind, ErrorCode, Vec<u8>) {
        let mut frame = Vec::new();
        request.encode(1, 1, &mut frame);
        self.0.write_all(&frame).unwrap();
        let mut head = [0; ReplyHead::BYTES];
        self.0.read_exact(&mut head).unwrap();
        let head = ReplyHead::decode(&head).unwrap();
        let mut body = vec![0; head.body_bytes as usize];
        self.0.read_exact(&mut body).unwrap();
        (head.kind, head.status, body)
    }
}

const OPEN: Request<'static> = Request::Open { dataset: "pets", snapshot: None };
const READ: Request<'static> = Request::Read { target: TargetRef::Path("cat/0.jpg"), offset: 0, length: 10, reader: 0 };

/// What clients ask.
fn questions() -> Vec<Request<'static>> {
    let object = ObjectId { slot: 0, key: [0; 16] };
    vec![
        OPEN,
        READ,
        Request::Close,
        Request::Ping,
        Request::LeasePath { path: "cat/0.jpg" },
        Request::Lookup { path: "cat" },
        Request::LeaseObject { object, arriving: Arriving::Await },
        Request::OpenObject { object, reader: 0, arriving: Arriving::Await },
        Request::View { object, offset: 0, length: 1, reader: 0, arriving: Arriving::Await },
        Request::Viewed,
        Request::Describe { object },
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_connection_from_another_machine_only_who_has_proven_the_token_is_answered() {
    let fixture = Fixture::new().await;
    let token = Token::new("a word that all of them know").unwrap();
    let trust = Trust::from(Some(token.clone()));
    let state = &fixture.info.state;
    let door = Door::new(Arc::clone(&fixture.engine), Arc::clone(&fixture.info), Duration::from_secs(30));
    let client = |is_here| Client::new(&door, is_here);

    assert_eq!(client(false).ask(OPEN).0, Kind::Opened, "without a token whoever connects is a client");
    state.secure(trust.clone());
    // Before the node is in its cluster nobody can prove anything.
    assert_eq!(client(false).ask(OPEN).1, ErrorCode::Denied);
    state.share(Peering::new(1, 1, trust, Patience::default()));
    for question in questions() {
        let (kind, status, text) = client(false).ask(question);
        assert_eq!((kind, status), (Kind::Error, ErrorCode::Denied), "{question:?}");
        assert_eq!(String::from_utf8(text).unwrap(), NODES_ONLY);
    }
    let mut here = client(true);
    assert_eq!((here.ask(OPEN).0, here.ask(READ).1), (Kind::Opened, ErrorCode::Unspecified));

    let mut liar = client(false);
    assert_eq!(liar.ask(Request::Meet { nonce: NONCE }).0, Kind::Met);
    assert_eq!(liar.ask(Request::Prove { proof: [0; 32] }).1, ErrorCode::Denied);
    assert_eq!(liar.ask(OPEN).1, ErrorCode::Denied);

    let mut node = client(false);
    let met = node.ask(Request::Meet { nonce: NONCE }).2;
    let met = MetHead::decode(met.first_chunk().unwrap());
    assert_eq!(node.ask(OPEN).1, ErrorCode::Denied, "it has proven nothing yet");
    let proof = *token.proof(Side::Peer, &NONCE, &met.nonce).as_bytes();
    assert_eq!(node.ask(Request::Prove { proof }).0, Kind::Done);
    assert_eq!(node.ask(OPEN).0, Kind::Opened);
    door.close();
    door.ended().await;
}
