//! What peers can do wrong: every read is right all the same, and a liar is left alone.

use crate::world::{One, PATIENT, World};
use fodder_api::frames::{Give, Hello, HelloReply, Kind, PartHead, ReplyHead, Request, RequestHead, checksum};
use fodder_server::cluster::{Neighbour, Patience};
use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    thread,
    time::Duration,
};

pub(crate) const BYTES: usize = 300 << 10;

/// Short, since these peers never answer.
pub(crate) const SHORT: Patience = Patience {
    connect: Duration::from_millis(300),
    hedge: Duration::from_millis(100),
    first_word: Duration::from_millis(300),
    progress: Duration::from_millis(300),
    coming: Duration::from_millis(600),
    hand_over: Duration::from_secs(1),
};

/// What a peer does on each connection, after it was asked; where a GIVE begins and ends, and its number.
pub(crate) type Act = fn(&mut TcpStream, u32, u64, u64);

/// A peer that owns everything and behaves like this. It lives until the test's process ends.
pub(crate) fn peer(version: u16, act: Act) -> Neighbour {
    peer_told(version, move |stream, request, give| act(stream, request, give.offset, give.offset + give.length))
}

/// The same, for one that looks at what it is asked.
pub(crate) fn peer_told(
    version: u16,
    act: impl Fn(&mut TcpStream, u32, &Give<'_>) + Clone + Send + 'static,
) -> Neighbour {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, act) = (stream.unwrap(), act.clone());
            thread::spawn(move || talk(&mut stream, version, act));
        }
    });
    Neighbour { id: 9, address, zone: String::new(), capacity_bytes: 1 << 60, owns: true, answers: true }
}

fn talk(stream: &mut TcpStream, version: u16, act: impl Fn(&mut TcpStream, u32, &Give<'_>)) -> Option<()> {
    let mut hello = [0; Hello::BYTES];
    stream.read_exact(&mut hello).ok()?;
    stream.write_all(&HelloReply { version, newest: version }.encode()).ok()?;
    loop {
        let mut head = [0; RequestHead::BYTES];
        stream.read_exact(&mut head).ok()?;
        let head = RequestHead::decode(&head).unwrap();
        let mut body = vec![0; head.body_bytes as usize];
        stream.read_exact(&mut body).ok()?;
        match Request::decode(head.op, &body).unwrap() {
            Request::Give(give) if give.at_hand && version < 7 => panic!("asked for what is at hand"),
            Request::Give(give) => act(stream, head.request, &give),
            Request::Tell { .. } => act(stream, head.request, &NOTHING),
            _ => panic!("asked something else"),
        }
    }
}

/// Stands for what is asked in words.
const NOTHING: Give<'_> = Give {
    dataset: "",
    path: "",
    key: [0; 16],
    offset: 0,
    length: 0,
    only_held: false,
    stand_in: false,
    at_hand: false,
    again: false,
};

pub(crate) fn send(stream: &mut TcpStream, request: u32, part: PartHead, bytes: &[u8]) {
    let head = ReplyHead::new(Kind::Part, request, PartHead::BYTES + bytes.len());
    let _ = stream.write_all(&[&head.encode()[..], &part.encode(), bytes].concat());
}

pub(crate) fn part(offset: u64, end: u64, bytes: &[u8]) -> PartHead {
    PartHead { crc: checksum(bytes), offset, end, object_bytes: BYTES as u64 }
}

pub(crate) fn say(stream: &mut TcpStream, request: u32, kind: Kind) {
    let _ = stream.write_all(&ReplyHead::new(kind, request, 0).encode());
}

pub(crate) async fn alone_with(world: &World, other: Neighbour, patience: Patience) -> One {
    let one = world.node_with(1, 1 << 30, None, patience).await;
    one.peering.set(&[Neighbour { capacity_bytes: 1, ..one.me.clone() }, other]);
    one
}

/// What owners do wrong.
pub(crate) fn acts() -> [(&'static str, Act); 11] {
    [
        ("sends bytes that do not match their checksum", |stream, request, start, end| {
            send(stream, request, PartHead { crc: 7, ..part(start, end, &[1; 1000]) }, &[1; 1000]);
        }),
        ("sends another range", |stream, request, start, end| {
            send(stream, request, part(start + 1, end, &[1; 1000]), &[1; 1000]);
        }),
        ("says that the object is larger", |stream, request, start, end| {
            let bytes = [1; 1000];
            send(stream, request, PartHead { object_bytes: 1 << 40, ..part(start, end, &bytes) }, &bytes);
        }),
        ("says that the answer ends elsewhere", |stream, request, start, _| {
            send(stream, request, part(start, start + 1000, &[1; 1000]), &[1; 1000]);
        }),
        ("sends more than was asked for", |stream, request, start, end| {
            let bytes = vec![1; (end - start) as usize + 1];
            send(stream, request, part(start, end, &bytes), &bytes);
        }),
        ("sends empty parts", |stream, request, start, end| send(stream, request, part(start, end, &[]), &[])),
        ("answers something else", |stream, request, _, _| say(stream, request, Kind::Done)),
        ("sends what is no frame", |stream, _, _, _| {
            let _ = stream.write_all(&[0xff; 64]);
        }),
        ("hangs", |_, _, _, _| thread::sleep(Duration::from_secs(120))),
        ("hangs up", |stream, _, _, _| stream.shutdown(std::net::Shutdown::Both).unwrap()),
        ("promises for ever", |stream, request, _, _| {
            for _ in 0..1000 {
                say(stream, request, Kind::Coming);
                thread::sleep(Duration::from_millis(50));
            }
        }),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_read_is_right_whatever_the_owner_does() {
    let world = World::new(6, BYTES).await;
    for (what, act) in acts() {
        let one = alone_with(&world, peer(4, act), SHORT).await;
        let began = std::time::Instant::now();
        world.read_all(&one).await;
        assert!(began.elapsed() < Duration::from_secs(50), "a peer that {what} costs bounded time");
        let status = &one.peering.status()[0];
        assert_ne!(status.breaker, "closed", "a peer that {what}: {status:?}");
        assert_eq!(one.dataset.stats().bytes_from_peers, 0, "nothing of a peer that {what} was believed");
        one.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_of_an_older_version_is_not_asked_and_is_no_fault() {
    let world = World::new(6, BYTES).await;
    let one = alone_with(&world, peer(3, |_, _, _, _| panic!("it was asked")), PATIENT).await;
    world.read_all(&one).await;
    let status = &one.peering.status()[0];
    assert_eq!((status.breaker, status.failed), ("closed", 0), "{status:?}");
    assert!(status.refused >= 6);
    one.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_at_the_owners_address_costs_one_try_after_the_other_and_then_none() {
    let world = World::new(12, BYTES).await;
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let gone = Neighbour { address: nobody, ..peer(4, |_, _, _, _| {}) };
    let one = alone_with(&world, gone, PATIENT).await;
    world.read_all(&one).await;
    let status = &one.peering.status()[0];
    assert!(status.failed >= 3 && status.breaker != "closed", "{status:?}");
    one.end().await;
}
