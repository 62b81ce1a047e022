//! A node of this version beside one of a former: what only this one knows to ask costs nobody a read or a connection.

use crate::world::{One, PATIENT, World};
use fodder_api::{
    frames::{Give, Hello, HelloReply, Kind, PartHead, ReplyHead, Request, RequestHead, VERSIONS},
    v1::ErrorCode,
};
use fodder_core::engine::Source;
use fodder_server::cluster::Neighbour;
use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
};

const BYTES: usize = 64 << 10;

/// What a former node was asked.
#[derive(Debug, Default)]
struct Counts {
    connections: AtomicUsize,
    /// For what it holds, and nothing else.
    held: AtomicUsize,
    /// As one that may still take itself for the owner: by both flags at once, which it takes for the question before.
    former: AtomicUsize,
}

/// A node that speaks a former version, and holds nothing. It lives until the test's process ends.
fn former(version: u16) -> (Neighbour, Arc<Counts>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let counts = Arc::<Counts>::default();
    let counted = Arc::clone(&counts);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let counts = Arc::clone(&counted);
            counts.connections.fetch_add(1, Relaxed);
            thread::spawn(move || talk(&mut stream.unwrap(), version, &counts));
        }
    });
    (Neighbour { id: 9, address, zone: String::new(), capacity_bytes: 1 << 60, owns: true, answers: true }, counts)
}

fn talk(stream: &mut TcpStream, version: u16, counts: &Counts) -> Option<()> {
    let mut hello = [0; Hello::BYTES];
    stream.read_exact(&mut hello).ok()?;
    assert!(Hello::decode(&hello).unwrap().oldest <= version, "the former version is still spoken");
    stream.write_all(&HelloReply { version, newest: version }.encode()).ok()?;
    loop {
        let mut head = [0; RequestHead::BYTES];
        stream.read_exact(&mut head).ok()?;
        let head = RequestHead::decode(&head).unwrap();
        let mut body = vec![0; head.body_bytes as usize];
        stream.read_exact(&mut body).ok()?;
        let status = match Request::decode(head.op, &body).unwrap() {
            Request::Give(Give { only_held: true, stand_in, .. }) => {
                let count = if stand_in { &counts.former } else { &counts.held };
                count.fetch_add(1, Relaxed);
                ErrorCode::NotFound
            }
            Request::Tell { .. } if version >= 5 => ErrorCode::Invalid,
            other => panic!("a node of version {version} was asked {other:?}"),
        };
        let text = b"this node neither holds nor owns those bytes: ask their owner";
        let reply = ReplyHead { status, ..ReplyHead::new(Kind::Error, head.request, text.len()) };
        stream.write_all(&[&reply.encode()[..], text].concat()).ok()?;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_owner_beside_a_former_node_reads_everything_and_keeps_its_connections() {
    for version in [4, 5] {
        let world = World::new(40, BYTES).await;
        let (other, counts) = former(version);
        let one = world.node_with(1, 1 << 30, None, PATIENT).await;
        // The other owned everything until a moment ago.
        one.meet(&[Neighbour { owns: false, ..one.me.clone() }, other.clone()]).await;
        one.meet(&[one.me.clone(), Neighbour { owns: false, ..other }]).await;
        let sources = world.read_all(&one).await;
        assert_eq!(sources.into_iter().collect::<Vec<_>>(), [(Source::Origin, 40)]);
        assert!(world.fetched().values().all(|times| *times == 1), "each left the origin once");
        let (held, former) = (counts.held.load(Relaxed), counts.former.load(Relaxed));
        assert!(held > 0 && former > 0, "version {version} was asked {held} and {former} times");
        let connections = counts.connections.load(Relaxed);
        assert!(connections < 20, "{connections} connections for {} questions", held + former);
        let status = one.peering.status().remove(0);
        assert_eq!((status.breaker, status.failed), ("closed", 0), "version {version}: {status:?}");
        one.end().await;
    }
}

/// Sends a request and receives the head of its answer, and what is behind it.
fn ask(stream: &mut TcpStream, number: u32, request: Request<'_>) -> (ReplyHead, Vec<u8>) {
    let mut bytes = Vec::new();
    request.encode(number, 0, &mut bytes);
    stream.write_all(&bytes).unwrap();
    let mut head = [0; ReplyHead::BYTES];
    stream.read_exact(&mut head).unwrap();
    let head = ReplyHead::decode(&head).unwrap();
    let mut body = vec![0; head.body_bytes as usize];
    stream.read_exact(&mut body).unwrap();
    (head, body)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_former_node_is_answered_as_it_asks_on_one_connection() {
    let world = World::new(3, BYTES).await;
    let one: One = world.node(1, 1 << 30).await;
    one.meet(&[one.me.clone(), former(5).0]).await;
    world.read(&one, "0001.jpg").await;
    let key = |path: &str| one.dataset.objects().key(one.dataset.snapshot().lookup(path).unwrap()).0;
    let (cached, cold) = (key("0001.jpg"), key("0002.jpg"));
    crate::world::until("the object to be kept", || one.holds("0001.jpg")).await;
    let address = one.me.address.clone();
    let asked = tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        let newest = VERSIONS.1 - 1;
        stream.write_all(&Hello { oldest: VERSIONS.0, newest }.encode()).unwrap();
        let mut hello = [0; Hello::BYTES];
        stream.read_exact(&mut hello).unwrap();
        assert_eq!(HelloReply::decode(&hello).unwrap().version, newest);
        let give = |path, key, stand_in| Give {
            dataset: crate::world::NAME,
            path,
            key,
            offset: 0,
            length: BYTES as u64,
            only_held: true,
            stand_in,
            at_hand: false,
            again: false,
        };
        let mut got = Vec::new();
        for number in 1..4 {
            let (head, _) = ask(&mut stream, number * 4, Request::Give(give("0002.jpg", cold, false)));
            assert_eq!((head.kind, head.status), (Kind::Error, ErrorCode::NotFound));
            let (head, body) = ask(&mut stream, number * 4 + 1, Request::Give(give("0001.jpg", cached, number == 3)));
            assert_eq!((head.kind, head.request), (Kind::Part, number * 4 + 1));
            got.push(body[PartHead::BYTES..].to_vec());
        }
        got
    });
    assert!(asked.await.unwrap().iter().all(|bytes| *bytes == world.objects["0001.jpg"]));
    one.end().await;
}
