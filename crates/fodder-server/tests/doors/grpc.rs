//! gRPC: reads, items, and the management of datasets.

use crate::setup::{Bench, NAME, dataset};
use fodder_api::{Client, Error, Source, Target, v1};

#[tokio::test(flavor = "multi_thread")]
async fn every_item_arrives_byte_for_byte_cold_and_warm() {
    let mut bench = Bench::start().await;
    let ids: Vec<u64> = (0..bench.items()).rev().collect();
    for address in bench.addresses() {
        let client = Client::connect(&address).await.unwrap();
        for _ in 0..2 {
            let mut items = client.get_items(NAME, None, ids.clone()).await.unwrap();
            for id in &ids {
                let item = items.next().await.unwrap().unwrap();
                assert_eq!((item.asked, item.served, item.label), (*id, *id, bench.label(*id)));
                assert_ne!(item.source, Source::Unspecified);
                assert!(item.data.unwrap() == bench.expected(*id), "item {id}");
            }
            assert!(items.next().await.unwrap().is_none());
            assert_eq!(items.snapshot(), bench.engine.dataset(NAME).unwrap().snapshot().id().to_string());
        }
    }
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ranges_of_objects_and_items_are_read_exactly() {
    let mut bench = Bench::start().await;
    let client = Client::connect(&bench.unix()).await.unwrap();
    for (path, content) in &bench.files {
        let length = content.len() as u64;
        for (offset, take) in [(0, 0), (length / 3, 0), (length / 3, length / 2), (length, 0)] {
            let read = client.read(NAME, Target::Path(path.clone()), offset, take).await.unwrap();
            let end = if take == 0 { length } else { offset + take };
            assert_eq!((read.head().length, read.head().size_bytes), (end - offset, length));
            assert_eq!(&read.head().path, path);
            assert!(read.bytes().await.unwrap() == content[offset as usize..end as usize], "{path} {offset}+{take}");
        }
    }
    let read = client.read(NAME, Target::Item(3), 1, 2).await.unwrap();
    assert_eq!((read.head().asked, read.head().served, read.head().label), (Some(3), Some(3), bench.label(3)));
    assert_eq!(read.bytes().await.unwrap(), bench.expected(3)[1..3]);
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_exist_is_refused_and_the_rest_is_served() {
    let mut bench = Bench::start().await;
    let client = Client::connect(&bench.tcp()).await.unwrap();
    let read = async |target, offset, length| match client.read(NAME, target, offset, length).await {
        Err(error) => error,
        Ok(read) => read.bytes().await.unwrap_err(),
    };
    let size = bench.expected(3).len() as u64;
    assert!(matches!(read(Target::Item(3), size + 1, 0).await, Error::Invalid(_)));
    assert!(matches!(read(Target::Item(3), 0, size + 1).await, Error::Invalid(_)));
    assert!(matches!(read(Target::Item(3), u64::MAX, 2).await, Error::Invalid(_)));
    assert!(matches!(read(Target::Item(bench.items()), 0, 0).await, Error::NotFound(_)));
    for path in ["../secret", "/etc/passwd", "ant/../ant/001.jpg", "", "ant/001.jpg\n", &"x".repeat(1024)] {
        let error = read(Target::Path(path.into()), 0, 0).await;
        assert!(matches!(error, Error::NotFound(_)), "{path:?}: {error:?}");
    }
    assert!(matches!(read(Target::Path("x".repeat(5000)), 0, 0).await, Error::Invalid(_)));
    assert!(matches!(client.stat("nothing", None, Target::Item(0)).await, Err(Error::NotFound(_))));
    let unknown = "00000000000000000000000000000001";
    assert!(matches!(client.get_items(NAME, Some(unknown), vec![0]).await, Err(Error::NotFound(_))));
    assert!(matches!(client.get_items(NAME, Some("latest"), vec![0]).await, Err(Error::Invalid(_))));
    assert!(matches!(client.get_items(NAME, None, vec![0; 65_537]).await, Err(Error::Invalid(_))));

    let mut items = client.get_items(NAME, None, vec![4, u64::MAX, 3]).await.unwrap();
    assert!(items.next().await.unwrap().unwrap().data.unwrap() == bench.expected(4));
    assert!(matches!(items.next().await.unwrap().unwrap().data, Err(Error::NotFound(_))));
    assert!(items.next().await.unwrap().unwrap().data.unwrap() == bench.expected(3));
    assert!(items.next().await.unwrap().is_none());
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_listed_and_described() {
    let mut bench = Bench::start().await;
    let client = Client::connect(&bench.tcp()).await.unwrap();
    let mut listed = Vec::new();
    let mut objects = client.list(NAME, "bee/").await.unwrap();
    while let Some(object) = objects.next().await.unwrap() {
        assert_eq!(object.size_bytes, bench.files[&object.path].len() as u64);
        listed.push(object.path);
    }
    let expected: Vec<_> = bench.files.keys().filter(|path| path.starts_with("bee/")).cloned().collect();
    assert_eq!(listed, expected);
    let request = v1::ListRequest { dataset: NAME.into(), after: expected[1].clone(), limit: 2, ..Default::default() };
    let mut objects = client.list_with(request).await.unwrap();
    assert_eq!(objects.next().await.unwrap().unwrap().path, expected[2]);
    assert_eq!(objects.next().await.unwrap().unwrap().path, expected[3]);
    assert!(objects.next().await.unwrap().is_none());

    let stat = client.stat(NAME, None, Target::Path("bee/003.jpg".into())).await.unwrap();
    assert!(stat.item.is_none());
    let object = stat.object.unwrap();
    assert_eq!((object.path.as_str(), object.items), ("bee/003.jpg", 1));
    let stat = client.stat(NAME, Some(&stat.snapshot), Target::Item(object.first_item)).await.unwrap();
    let item = stat.item.unwrap();
    assert_eq!((item.label, item.class.as_str(), item.size_bytes), (Some(1), "bee", 100 << 10));
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn datasets_come_and_go_on_a_running_node() {
    let mut bench = Bench::start().await;
    let client = Client::connect(&bench.unix()).await.unwrap();
    let other = bench.dir.path().join("other");
    std::fs::create_dir_all(other.join("x")).unwrap();
    std::fs::write(other.join("x/1.jpg"), "one").unwrap();
    let config = v1::DatasetConfig {
        name: "other".into(),
        origin: dataset("other", &other).origin,
        policy: "lru".into(),
        ..Default::default()
    };
    let added = client.add_dataset(config.clone()).await.unwrap();
    assert_eq!((added.items, added.objects, added.total_bytes), (1, 1, 3));
    assert_eq!(added.config.unwrap().policy, "lru");
    let elsewhere = v1::DatasetConfig { origin: bench.dir.path().display().to_string(), ..config };
    assert!(matches!(client.add_dataset(elsewhere).await, Err(Error::Conflict(_))));

    std::fs::write(other.join("x/2.jpg"), "two").unwrap();
    let refreshed = client.refresh("other").await.unwrap();
    assert_eq!((refreshed.added, refreshed.items), (1, 2));
    assert_ne!(refreshed.snapshot, added.snapshot);
    let read = client.read("other", Target::Path("x/2.jpg".into()), 0, 0).await.unwrap();
    assert_eq!(read.bytes().await.unwrap(), "two");

    let names: Vec<_> =
        client.list_datasets().await.unwrap().into_iter().map(|status| status.config.unwrap().name).collect();
    assert_eq!(names, ["other", NAME]);
    let status = client.status().await.unwrap();
    assert_eq!((status.datasets.len(), status.tiers.len(), status.pid), (2, 1, std::process::id()));
    assert_eq!(status.addresses.unwrap().socket, bench.socket().display().to_string());

    assert_eq!(client.verify(None).await.unwrap().corrupt, 0);
    client.evict("other", "").await.unwrap();
    client.remove_dataset("other").await.unwrap();
    assert!(matches!(client.refresh("other").await, Err(Error::NotFound(_))));
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_known_of_items_is_told_in_bulk() {
    let mut bench = Bench::start().await;
    let client = Client::connect(&bench.tcp()).await.unwrap();
    let all = v1::ListItemsRequest { dataset: NAME.into(), names: true, ..Default::default() };
    let page = client.list_items(all.clone()).await.unwrap().next().await.unwrap().unwrap();
    let paths: Vec<_> = bench.files.keys().cloned().collect();
    assert_eq!((page.first, &page.names), (0, &paths));
    assert_eq!(page.sizes, bench.files.values().map(|bytes| bytes.len() as u64).collect::<Vec<_>>());
    for (label, path) in page.labels.iter().zip(&paths) {
        assert_eq!(page.classes[*label as usize - 1], path.split('/').next().unwrap());
    }
    let some = v1::ListItemsRequest { first: 2, limit: 3, names: false, ..all.clone() };
    let mut pages = client.list_items(some).await.unwrap();
    let page = pages.next().await.unwrap().unwrap();
    assert_eq!((page.first, page.labels.len(), page.names.len()), (2, 3, 0));
    assert!(pages.next().await.unwrap().is_none());
    // Classes are told also where no item is asked for.
    let none = v1::ListItemsRequest { first: u64::MAX, ..all };
    let page = client.list_items(none).await.unwrap().next().await.unwrap().unwrap();
    assert!(page.labels.is_empty() && !page.classes.is_empty());
    bench.stop().await;
}
