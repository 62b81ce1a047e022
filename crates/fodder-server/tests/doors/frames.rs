//! Frames: batches, ranges and handles.

use crate::setup::{Bench, NAME, blocking};
use fodder_api::{
    Error, Source, Target,
    frames::{Batch, FrameClient, NO_ITEM},
};
use std::sync::Arc;

#[tokio::test(flavor = "multi_thread")]
async fn every_item_arrives_byte_for_byte_cold_and_warm() {
    let mut bench = Bench::start().await;
    let ids: Vec<u64> = (0..bench.items()).rev().chain([2, 2, 0]).collect();
    for address in bench.addresses() {
        let asked = ids.clone();
        let batches = blocking(move || {
            let mut client = FrameClient::connect(&address).unwrap();
            client.ping().unwrap();
            let open = client.open(NAME, None).unwrap();
            let mut batches = Vec::new();
            for _ in 0..2 {
                let mut batch = Batch::new();
                client.get_items(open.handle, &asked, &mut batch).unwrap();
                batches.push(batch);
            }
            // The same buffer again, without growing.
            let mut batch = batches.pop().unwrap();
            let capacity = batch.capacity_bytes();
            client.get_items(open.handle, &asked, &mut batch).unwrap();
            assert_eq!(batch.capacity_bytes(), capacity);
            batches.push(batch);
            batches
        })
        .await;
        for batch in &batches {
            assert_eq!(batch.len(), ids.len());
            for (id, item) in ids.iter().zip(batch.iter()) {
                assert_eq!((item.asked, item.served, item.label), (*id, *id, bench.label(*id)));
                assert_ne!(item.source, Source::Unspecified);
                assert!(item.data.unwrap() == bench.expected(*id), "item {id}");
            }
        }
    }
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ranges_are_read_exactly_and_past_the_end_not_at_all() {
    let mut bench = Bench::start().await;
    let files = bench.files.clone();
    for address in bench.addresses() {
        let files = files.clone();
        blocking(move || {
            let mut client = FrameClient::connect(&address).unwrap();
            let handle = client.open(NAME, None).unwrap().handle;
            let mut batch = Batch::new();
            for (path, content) in &files {
                let (length, target) = (content.len() as u64, Target::Path(path.clone()));
                for (offset, take) in [(0, 0), (length / 3, 0), (length / 3, length / 2), (length, 0)] {
                    client.read(handle, &target, offset, take, &mut batch).unwrap();
                    let end = if take == 0 { length } else { offset + take };
                    let item = batch.get(0).unwrap();
                    assert_eq!((item.asked, batch.len()), (NO_ITEM, 1));
                    assert!(item.data.unwrap() == &content[offset as usize..end as usize], "{path} {offset}+{take}");
                }
                let past = client.read(handle, &target, 0, length + 1, &mut batch);
                assert!(matches!(past, Err(Error::Invalid(_))), "{past:?}");
            }
            let missing = client.read(handle, &Target::Path("../x".into()), 0, 0, &mut batch);
            assert!(matches!(missing, Err(Error::NotFound(_))));
            client.read(handle, &Target::Item(4), 5, 10, &mut batch).unwrap();
            assert_eq!(batch.get(0).unwrap().asked, 4);
        })
        .await;
    }
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_is_one_requests_or_one_items_and_not_the_connections() {
    let mut bench = Bench::start().await;
    let (address, expected) = (bench.unix(), bench.expected(3).to_vec());
    blocking(move || {
        let mut client = FrameClient::connect(&address).unwrap();
        assert!(matches!(client.open("nothing", None), Err(Error::NotFound(_))));
        let unknown = "00000000000000000000000000000001";
        assert!(matches!(client.open(NAME, Some(unknown)), Err(Error::NotFound(_))));
        let open = client.open(NAME, None).unwrap();
        let again = client.open(NAME, Some(&open.snapshot)).unwrap();
        assert_eq!((again.items, &again.snapshot), (open.items, &open.snapshot));
        assert_ne!(again.handle, open.handle);

        let mut batch = Batch::new();
        client.get_items(open.handle, &[3, u64::MAX, open.items, 3], &mut batch).unwrap();
        let failed: Vec<bool> = batch.iter().map(|item| item.data.is_err()).collect();
        assert_eq!(failed, [false, true, true, false]);
        assert!(batch.get(3).unwrap().data.unwrap() == expected);
        client.get_items(open.handle, &[], &mut batch).unwrap();
        assert!(batch.is_empty());

        client.close(again.handle).unwrap();
        assert!(matches!(client.get_items(again.handle, &[0], &mut batch), Err(Error::NotFound(_))));
        assert!(matches!(client.close(again.handle), Err(Error::NotFound(_))));
        assert!(!client.is_broken());
        client.get_items(open.handle, &[3], &mut batch).unwrap();
        assert!(batch.get(0).unwrap().data.unwrap() == expected);

        let mut small = Batch::with_limit(1000);
        assert!(matches!(client.get_items(open.handle, &[3], &mut small), Err(Error::Full(_))));
        assert!(client.is_broken());
    })
    .await;
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_clients_read_at_once() {
    let mut bench = Bench::start().await;
    let expected: Arc<Vec<Vec<u8>>> = Arc::new((0..bench.items()).map(|id| bench.expected(id).to_vec()).collect());
    let threads: Vec<_> = (0..8)
        .map(|number| {
            let (address, expected) = (bench.addresses()[number % 2].clone(), Arc::clone(&expected));
            blocking(move || {
                let mut client = FrameClient::connect(&address).unwrap();
                let open = client.open(NAME, None).unwrap();
                let mut batch = Batch::new();
                for round in 0..4 {
                    let ids: Vec<u64> =
                        (0..open.items).map(|id| (id * 7 + round + number as u64) % open.items).collect();
                    client.get_items(open.handle, &ids, &mut batch).unwrap();
                    for (id, item) in ids.iter().zip(batch.iter()) {
                        assert!(item.data.unwrap() == expected[*id as usize]);
                    }
                }
            })
        })
        .collect();
    futures::future::join_all(threads).await;
    bench.stop().await;
}
