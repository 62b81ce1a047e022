//! Leases: cache files in the hands of a client.

use crate::setup::{Bench, NAME, blocking, until};
use fodder_api::{
    Address, Client, Error, Source,
    frames::{
        FrameClient, Hello, Kind, LeaseCache, LeaseStatus, Leased, NO_ITEM, ObjectId, OpenedHead, RenewStatus, Renewed,
        ReplyHead, Request, Socket,
    },
    v1::ErrorCode,
};
use std::{
    io::{Read, Write},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
    time::Duration,
};

#[tokio::test(flavor = "multi_thread")]
async fn leases_outlive_eviction_and_the_node() {
    let mut bench = Bench::start().await;
    let (address, mut ids) = (bench.unix(), bench.leasable());
    ids.push(ids[1]);
    let leases: Vec<Leased> = blocking(move || {
        let mut client = FrameClient::connect(&address).unwrap();
        let open = client.open(NAME, None).unwrap();
        let leases: Vec<_> = client.get_leases(open.handle, &ids).unwrap().into_iter().map(|l| l.unwrap()).collect();
        let by_path = client.lease_path(open.handle, "bee/003.jpg").unwrap();
        assert_eq!(by_path.asked, NO_ITEM);
        assert_eq!(by_path.read().unwrap().len(), 100 << 10);
        leases
    })
    .await;
    let check = |bench: &Bench, when: &str| {
        for leased in &leases {
            assert_eq!(leased.label, bench.label(leased.asked));
            assert_ne!(leased.source, Source::Unspecified);
            assert!(leased.read().unwrap() == bench.expected(leased.asked), "item {} {when}", leased.asked);
            assert!(std::os::unix::fs::FileExt::write_at(leased.lease.file(), b"x", 0).is_err());
        }
    };
    check(&bench, "at first");
    Client::connect(&bench.unix()).await.unwrap().evict(NAME, "").await.unwrap();
    check(&bench, "after eviction");
    bench.stop().await;
    check(&bench, "after the node is gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn kept_leases_need_no_node_and_are_bounded() {
    let mut bench = Bench::start().await;
    let (address, count, all) = (bench.unix(), bench.items(), bench.leasable());
    let asked = all.clone();
    let (mut client, mut cache) = blocking(move || {
        let mut client = FrameClient::connect(&address).unwrap();
        let open = client.open(NAME, None).unwrap();
        let mut small = LeaseCache::new(open.handle, 3);
        let all = asked;
        for _ in 0..2 {
            assert!(small.get(&mut client, &all).unwrap().iter().all(|lease| lease.is_ok()));
            assert_eq!(small.len(), 3);
        }
        let mut cache = LeaseCache::new(open.handle, 1000);
        cache.get(&mut client, &all).unwrap();
        let errors = cache.get(&mut client, &[all[0], count, all[1]]).unwrap();
        assert!(errors[0].is_ok() && matches!(errors[1], Err(Error::NotFound(_))) && errors[2].is_ok());
        (client, cache)
    })
    .await;
    bench.stop().await;
    let all: Vec<u64> = all.into_iter().rev().collect();
    for leased in cache.get(&mut client, &all).unwrap() {
        let leased = leased.unwrap();
        assert!(leased.read().unwrap() == bench.expected(leased.asked));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_are_given_back_with_their_connection() {
    let mut bench = Bench::start().await;
    let address = bench.unix();
    let (mut client, leases, handle) = blocking(move || {
        let mut client = FrameClient::connect(&address).unwrap();
        let handle = client.open(NAME, None).unwrap().handle;
        let leases = client.get_leases(handle, &[0, 3, 4]).unwrap();
        (client, leases, handle)
    })
    .await;
    // Dropped and asked for again: the node was told in between, and sends the file anew.
    drop(leases);
    for leased in client.get_leases(handle, &[4, 3, 0, 4]).unwrap() {
        let leased = leased.unwrap();
        assert!(leased.read().unwrap() == bench.expected(leased.asked));
    }
    drop(client);
    let info = bench.node.as_ref().unwrap().info().clone();
    until("the connection's end", || info.state.connections.frames.load(std::sync::atomic::Ordering::Relaxed) == 0)
        .await;
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_over_tcp_are_refused_with_the_way_to_get_them() {
    let mut bench = Bench::start().await;
    let (address, socket) = (bench.tcp(), bench.socket().display().to_string());
    blocking(move || {
        let mut client = FrameClient::connect(&address).unwrap();
        let handle = client.open(NAME, None).unwrap().handle;
        let Err(Error::Invalid(text)) = client.get_leases(handle, &[0]) else { panic!("a lease over TCP") };
        assert!(text.contains(&socket), "{text}");
        client.ping().unwrap();
    })
    .await;
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_of_a_lost_connection_are_reported_on_another_and_count_again() {
    let mut bench = Bench::start().await;
    let address = bench.unix();
    let renewed = blocking(move || {
        let mut first = FrameClient::connect(&address).unwrap();
        let handle = first.open(NAME, None).unwrap().handle;
        let object = first.lookup(handle, "bee/003.jpg").unwrap().iter().next().unwrap().object.unwrap().id;
        let lease = first.lease_object(handle, object).map(|leased| leased.lease);
        let lease = lease.or_else(|_| first.lease_path(handle, "bee/003.jpg").map(|leased| leased.lease)).unwrap();
        assert_eq!((lease.is_registered(), lease.status()), (true, LeaseStatus::Verified));
        drop(first);
        assert_eq!((lease.is_registered(), lease.status()), (false, LeaseStatus::Unverified));
        let mut second = FrameClient::connect(&address).unwrap();
        let handle = second.open(NAME, None).unwrap().handle;
        second.renew_leases(handle, &[(object, lease.clone())], false).unwrap();
        assert_eq!((lease.is_registered(), lease.status()), (true, LeaseStatus::Unverified));
        second.renew_leases(handle, &[(object, lease.clone())], true).unwrap();
        assert_eq!((lease.is_registered(), lease.status()), (true, LeaseStatus::Verified));
        // A lease that is asked for beside it is one of its own.
        let beside = second.lease_object(handle, object).unwrap().lease;
        assert!(!std::sync::Arc::ptr_eq(&beside, &lease));
        second.ping().unwrap();
        (second, lease, beside)
    })
    .await;
    let evicting = Client::connect(&bench.unix()).await.unwrap();
    evicting.evict(NAME, "").await.unwrap();
    let cached = |bench: &Bench| bench.engine.status().datasets[0].cached_bytes;
    assert!(cached(&bench) >= 100 << 10, "what is evicted and open is charged");
    let (mut second, lease, beside) = renewed;
    drop((lease, beside));
    blocking(move || second.ping().unwrap()).await;
    until("what was given back is free", || cached(&bench) < 100 << 10).await;
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_are_no_leases_are_not_counted_and_harm_nobody() {
    let mut bench = Bench::start().await;
    let address = bench.unix();
    blocking(move || {
        let Address::Unix(path) = &address else { panic!("a Unix socket") };
        let mut socket = Socket::Unix(UnixStream::connect(path).unwrap());
        let (limit, mut hello) = (Duration::from_secs(20), [0; Hello::BYTES]);
        socket.write_all(&Hello::OURS.encode()).unwrap();
        socket.read_exact(&mut hello).unwrap();
        let mut ask = |request: Request<'_>, handle: u32, files: &[BorrowedFd<'_>]| {
            let (mut frame, mut head) = (Vec::new(), [0; ReplyHead::BYTES]);
            request.encode(7, handle, &mut frame);
            socket.send_with(&frame, files, limit).unwrap();
            socket.read_exact(&mut head).unwrap();
            let head = ReplyHead::decode(&head).unwrap();
            let mut body = vec![0; head.body_bytes as usize];
            socket.read_exact(&mut body).unwrap();
            (head, body)
        };
        let (_, opened) = ask(Request::Open { dataset: NAME, snapshot: None }, 0, &[]);
        let handle = OpenedHead::decode(opened[..].try_into().unwrap()).handle;
        // The bytes of two objects that no dataset has.
        let objects = [9; 2 * ObjectId::BYTES];
        let file = tempfile::tempfile().unwrap();
        let body = [&[1][..], &objects].concat();
        let Ok(renew @ Request::Renew { .. }) = Request::decode(23, &body) else { panic!("a renewal") };
        let (head, body) = ask(renew, handle, &[file.as_fd(), file.as_fd()]);
        assert_eq!(head.kind, Kind::Renewed);
        let refused = Renewed { lease: 0, status: RenewStatus::Evicted };
        assert_eq!(body, [refused.encode(), refused.encode()].concat());
        let (head, _) = ask(renew, handle, &[file.as_fd()]);
        assert_eq!((head.kind, head.status), (Kind::Error, ErrorCode::Full));
        let (head, _) = ask(Request::Ping, 0, &[]);
        assert_eq!(head.kind, Kind::Done);
        // What a request brings that is refused, or that takes no files, is closed before it is answered.
        for (request, handle) in [(renew, handle + 1), (Request::Ping, 0)] {
            let (mut ours, theirs) = UnixStream::pair().unwrap();
            let (head, _) = ask(request, handle, &[theirs.as_fd(), theirs.as_fd()]);
            assert!(matches!(head.kind, Kind::Error | Kind::Done));
            drop(theirs);
            ours.set_read_timeout(Some(limit)).unwrap();
            assert_eq!(ours.read(&mut [0]).unwrap(), 0, "the node has it open");
        }
        // More files than any request may bring end the connection.
        let many = vec![file.as_fd(); 100];
        let mut frame = Vec::new();
        Request::Ping.encode(8, 0, &mut frame);
        socket.send_with(&frame, &many, limit).unwrap();
        assert!(matches!(socket.read(&mut [0; 64]), Ok(0) | Err(_)));
    })
    .await;
    bench.stop().await;
}
