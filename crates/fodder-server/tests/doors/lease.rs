//! Leases: cache files in the hands of a client.

use crate::setup::{Bench, NAME, blocking, until};
use fodder_api::{
    Client, Error, Source,
    frames::{FrameClient, LeaseCache, Leased, NO_ITEM},
};

#[tokio::test(flavor = "multi_thread")]
async fn leases_outlive_eviction_and_the_node() {
    let mut bench = Bench::start().await;
    let (address, count) = (bench.unix(), bench.items());
    let leases: Vec<Leased> = blocking(move || {
        let mut client = FrameClient::connect(&address).unwrap();
        let open = client.open(NAME, None).unwrap();
        let ids: Vec<u64> = (0..count).chain([1]).collect();
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
    let (address, count) = (bench.unix(), bench.items());
    let (mut client, mut cache) = blocking(move || {
        let mut client = FrameClient::connect(&address).unwrap();
        let open = client.open(NAME, None).unwrap();
        let mut small = LeaseCache::new(open.handle, 3);
        let all: Vec<u64> = (0..count).collect();
        for _ in 0..2 {
            assert!(small.get(&mut client, &all).unwrap().iter().all(|lease| lease.is_ok()));
            assert_eq!(small.len(), 3);
        }
        let mut cache = LeaseCache::new(open.handle, 1000);
        cache.get(&mut client, &all).unwrap();
        let errors = cache.get(&mut client, &[0, count, 1]).unwrap();
        assert!(errors[0].is_ok() && matches!(errors[1], Err(Error::NotFound(_))) && errors[2].is_ok());
        (client, cache)
    })
    .await;
    bench.stop().await;
    let all: Vec<u64> = (0..count).rev().collect();
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
        let leases = client.get_leases(handle, &[0, 1, 2]).unwrap();
        (client, leases, handle)
    })
    .await;
    // Dropped and asked for again: the node was told in between, and sends the file anew.
    drop(leases);
    for leased in client.get_leases(handle, &[2, 1, 0, 2]).unwrap() {
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
