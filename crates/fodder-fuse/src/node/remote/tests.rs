//! The mount's side of frames, with a node that speaks an older version of them.
#![allow(clippy::unwrap_used)]

use super::*;
use fodder_api::{
    Delivery, Source,
    frames::{
        Arriving, Flags, Hello, HelloReply, ItemHead, Kind, LeaseHead, NO_ITEM, OPENS_SINCE, OpenedHead, ReplyHead,
        Request, RequestHead,
    },
    v1::ErrorCode,
};
use std::{
    io::{Read, Write},
    os::unix::net::{UnixListener, UnixStream},
    sync::{Arc, mpsc},
};

const BYTES: &[u8] = b"what a small object holds";

/// Answers one connection as a node of the version before would, and tells which requests came.
fn older_node(mut socket: UnixStream) -> Vec<u8> {
    let mut asked = Vec::new();
    socket.read_exact(&mut [0; Hello::BYTES]).unwrap();
    let (version, newest) = (OPENS_SINCE - 1, OPENS_SINCE - 1);
    socket.write_all(&HelloReply { version, newest }.encode()).unwrap();
    let mut head = [0; RequestHead::BYTES];
    while socket.read_exact(&mut head).is_ok() {
        let head = RequestHead::decode(&head).unwrap();
        let mut body = vec![0; head.body_bytes as usize];
        socket.read_exact(&mut body).unwrap();
        asked.push(head.op);
        let (kind, status, body) = match Request::decode(head.op, &body).unwrap() {
            Request::Open { .. } => {
                let opened = OpenedHead { handle: 1, objects: 1, snapshot: [0; 16], items: 1, bytes: 1 };
                (Kind::Opened, ErrorCode::Unspecified, opened.encode().to_vec())
            }
            Request::LeaseObject { .. } => {
                let (asked, served) = (NO_ITEM, NO_ITEM);
                let lease = LeaseHead { label: 0, asked, served, lease: 0, object_bytes: 0, offset: 0, length: 0 };
                (Kind::Lease, ErrorCode::Full, lease.encode().to_vec())
            }
            Request::Read { .. } => {
                let (asked, served, size) = (NO_ITEM, NO_ITEM, BYTES.len() as u64);
                let item = ItemHead { label: 0, delivery: Delivery::Planned, asked, served, size };
                (Kind::Item, ErrorCode::Unspecified, [&item.encode()[..], BYTES].concat())
            }
            other => panic!("a node of version {version} does not know {other:?}"),
        };
        let (request, body_bytes, source, flags) = (head.request, body.len() as u32, Source::Origin, Flags::default());
        let reply = ReplyHead { body_bytes, request, kind, source, status, flags, index: 0 };
        socket.write_all(&[&reply.encode()[..], &body].concat()).unwrap();
    }
    asked
}

#[test]
fn a_node_of_the_version_before_is_asked_for_the_file_and_then_for_the_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let node = thread::spawn(move || older_node(listener.accept().unwrap().0));
    let remote = Remote::new(Address::Unix(path), "set".into(), Duration::from_secs(30), Box::new(|| {}));
    let object = ObjectId { slot: 0, key: [1; 16] };
    let (mut taken, part) = (Vec::new(), Part { offset: 0, length: BYTES.len() as u64, reader: 3 });
    let file = remote.open(object, part, Arriving::Await, &mut |bytes| taken.extend_from_slice(bytes)).unwrap();
    assert!(file.is_none());
    assert_eq!(taken, BYTES);
    drop(remote);
    // OPEN, LEASE_OBJECT, READ.
    assert_eq!(node.join().unwrap(), [1, 12, 4]);
}

#[test]
fn only_the_connections_that_are_taken_first_keep_their_memory() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let nodes = thread::spawn(move || {
        let serve = |_| {
            thread::spawn({
                let socket = listener.accept().unwrap().0;
                move || older_node(socket)
            })
        };
        (0..MAX_READY + 4).map(serve).collect::<Vec<_>>()
    });
    let remote = Remote::new(Address::Unix(path), "set".into(), Duration::from_secs(30), Box::new(|| {}));
    let links: Vec<_> = (0..MAX_READY + 4).map(|_| remote.link(Instant::now()).unwrap().0).collect();
    for mut link in links {
        link.shown.resize(1000, 0);
        remote.keep(link);
    }
    let kept: Vec<bool> = remote.idle.lock().iter().map(|link| link.shown.capacity() > 0).collect();
    assert_eq!(kept, [[false; 4].as_slice(), &[true; MAX_READY]].concat());
    drop(remote);
    nodes.join().unwrap().into_iter().for_each(|node| drop(node.join().unwrap()));
}

#[test]
fn patience_begins_when_a_request_comes_and_not_when_there_is_a_thread_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let patience = Duration::from_secs(1);
    let nobody = Address::Unix(dir.path().join("socket"));
    let remote = Arc::new(Remote::new(nobody, "set".into(), patience, Box::new(|| {})));
    let (workers, began) = (crate::worker::Workers::new("test", 64), Instant::now());
    let (tell, told) = mpsc::channel();
    // Six times as many as there are threads.
    for _ in 0..6 * 64 {
        let (remote, tell) = (Arc::clone(&remote), tell.clone());
        workers.run(move || tell.send(remote.lookup("a").is_err()).unwrap());
    }
    assert!((0..6 * 64).all(|_| told.recv_timeout(6 * patience).unwrap()));
    assert!(began.elapsed() < 4 * patience, "{:?}", began.elapsed());
}

/// A node that takes connections and says nothing, as one that is stopped.
fn hung_node(dir: &std::path::Path) -> (Address, UnixListener) {
    let path = dir.join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    (Address::Unix(path), listener)
}

#[test]
fn a_node_that_hangs_is_given_up_when_patience_is_over() {
    let dir = tempfile::tempdir().unwrap();
    let (address, _listener) = hung_node(dir.path());
    let patience = Duration::from_secs(2);
    let remote = Remote::new(address, "set".into(), patience, Box::new(|| {}));
    let began = Instant::now();
    assert!(remote.lookup("a").is_err());
    assert!(began.elapsed() >= patience, "given up after {:?}", began.elapsed());
    assert!(began.elapsed() < Duration::from_secs(30), "given up after {:?}", began.elapsed());
}

#[test]
fn a_connection_that_hangs_after_it_was_used_is_given_up_once_and_not_twice() {
    let dir = tempfile::tempdir().unwrap();
    let (address, listener) = hung_node(dir.path());
    let node = thread::spawn(move || {
        // One connection answers until it is asked for bytes; every other one hangs.
        let mut socket = listener.accept().unwrap().0;
        socket.read_exact(&mut [0; Hello::BYTES]).unwrap();
        let (_, newest) = fodder_api::frames::VERSIONS;
        socket.write_all(&HelloReply { version: newest, newest }.encode()).unwrap();
        let mut head = [0; RequestHead::BYTES];
        socket.read_exact(&mut head).unwrap();
        let head = RequestHead::decode(&head).unwrap();
        socket.read_exact(&mut vec![0; head.body_bytes as usize]).unwrap();
        let body = OpenedHead { handle: 1, objects: 1, snapshot: [0; 16], items: 1, bytes: 1 }.encode();
        let (status, source, flags) = (ErrorCode::Unspecified, Source::Origin, Flags::default());
        let (request, body_bytes) = (head.request, body.len() as u32);
        let reply = ReplyHead { body_bytes, request, kind: Kind::Opened, source, status, flags, index: 0 };
        socket.write_all(&[&reply.encode()[..], &body].concat()).unwrap();
        (listener, socket)
    });
    let remote = Remote::new(address, "set".into(), Duration::from_secs(2), Box::new(|| {}));
    let (link, _) = remote.link(Instant::now() + Duration::from_secs(30)).unwrap();
    remote.keep(link);
    let hung = node.join().unwrap();
    let began = Instant::now();
    assert!(remote.lookup("a").is_err());
    assert!(began.elapsed() < Duration::from_secs(30), "given up after {:?}", began.elapsed());
    drop(hung);
}

#[test]
fn an_attempt_to_start_the_node_again_delays_no_request() {
    let dir = tempfile::tempdir().unwrap();
    let (release, released) = mpsc::channel::<()>();
    let released = Mutex::new(released);
    let revive: Revive = Box::new(move || {
        let _ = released.lock().recv();
    });
    let nobody = Address::Unix(dir.path().join("socket"));
    let remote = Remote::new(nobody, "set".into(), Duration::from_secs(1), revive);
    let began = Instant::now();
    assert!(remote.lookup("a").is_err());
    assert!(began.elapsed() < Duration::from_secs(30));
    drop(release);
}
