//! Directories and versions of objects, as a mount asks for them.

use crate::setup::{Bench, NAME, blocking, bytes, dataset};
use fodder_api::{
    Error, Source,
    frames::{Arriving, Batch, FrameClient, ObjectId},
};

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_is_listed_in_pages_and_goes_on_after_its_snapshot_is_gone() {
    let mut bench = Bench::start().await;
    let address = bench.unix();
    let (mut client, handle, first) = blocking(move || {
        let mut client = FrameClient::connect(&address).unwrap();
        let handle = client.open(NAME, None).unwrap().handle;
        let root = client.list(handle, "", None, (0, ""), 100).unwrap();
        let names: Vec<_> = root.iter().map(|entry| (entry.name.to_owned(), entry.object.is_none())).collect();
        assert_eq!(names, [("ant".into(), true), ("bee".into(), true), ("cat".into(), true)]);
        assert!(root.end);
        let first = client.list(handle, "bee", None, (0, ""), 3).unwrap();
        assert!(!first.end && first.len() == 3);
        assert!(matches!(client.list(handle, "bee/nothing", None, (0, ""), 3), Err(Error::NotFound(_))));
        (client, handle, first)
    })
    .await;
    // More refreshes than snapshots are kept.
    let dataset = bench.engine.dataset(NAME).unwrap();
    for number in 0..5 {
        std::fs::write(bench.dir.path().join(format!("origin/new-{number}")), b"new").unwrap();
        dataset.refresh().await.unwrap();
    }
    blocking(move || {
        let mut names: Vec<String> = first.iter().map(|entry| entry.name.to_owned()).collect();
        let last = first.iter().last().unwrap();
        let rest = client.list(handle, "bee", Some(first.snapshot), (last.next, last.name), 100).unwrap();
        assert_ne!(rest.snapshot, first.snapshot);
        names.extend(rest.iter().map(|entry| entry.name.to_owned()));
        assert_eq!(names, (0..8).map(|number| format!("{number:03}.jpg")).collect::<Vec<_>>());
        let new = client.lookup(handle, "new-4").unwrap();
        assert_eq!(new.iter().next().unwrap().object.unwrap().size, 3);
        assert!(client.lookup(handle, "cat").unwrap().iter().next().unwrap().object.is_none());
        assert!(matches!(client.lookup(handle, "dog"), Err(Error::NotFound(_))));
    })
    .await;
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_of_long_names_is_listed_in_pages_as_large_as_a_frame() {
    let mut bench = Bench::start().await;
    let long = bench.dir.path().join("origin/long");
    std::fs::create_dir(&long).unwrap();
    let mut names: Vec<String> = (0..5000).map(|number| format!("{number:04}-{}", "part".repeat(50))).collect();
    names.iter().for_each(|name| drop(std::fs::File::create(long.join(name)).unwrap()));
    bench.engine.dataset(NAME).unwrap().refresh().await.unwrap();
    let address = bench.unix();
    blocking(move || {
        let mut client = FrameClient::connect(&address).unwrap();
        let handle = client.open(NAME, None).unwrap().handle;
        let (mut place, mut pages) = ((0, String::new()), 0);
        loop {
            let page = client.list(handle, "long", None, (place.0, &place.1), 4096).unwrap();
            pages += 1;
            for entry in page.iter() {
                assert_eq!(names.remove(0), entry.name);
                place = (entry.next, entry.name.to_owned());
            }
            if page.end {
                break;
            }
        }
        assert!(names.is_empty() && pages == 2, "{} names are missing after {pages} pages", names.len());
    })
    .await;
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_is_leased_once_it_is_whole_and_is_stale_when_it_changed() {
    let mut bench = Bench::start().await;
    let (address, expected) = (bench.unix(), bench.files["bee/005.jpg"].clone());
    let (mut client, handle, object) = blocking(move || {
        let mut client = FrameClient::connect(&address).unwrap();
        let handle = client.open(NAME, None).unwrap().handle;
        let found = client.lookup(handle, "bee/005.jpg").unwrap();
        let object = found.iter().next().unwrap().object.unwrap();
        assert_eq!(object.size, expected.len() as u64);
        assert!(object.modified_ns.is_some());
        for arriving in [Arriving::Await, Arriving::Ignore] {
            assert!(matches!(client.lease_object_as(handle, object.id, arriving), Err(Error::Full(_))));
        }
        assert_eq!(client.describe(handle, object.id).unwrap().0, 0);
        let mut batch = Batch::new();
        client.read_object(handle, object.id, (10, 100), 0, &mut batch).unwrap();
        assert_eq!(batch.get(0).unwrap().data.unwrap(), &expected[10..110]);
        client.read_object(handle, object.id, (0, 0), 7, &mut batch).unwrap();
        assert!(batch.get(0).unwrap().data.unwrap() == expected);
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        let leased = loop {
            match client.lease_object(handle, object.id) {
                Err(Error::Full(_)) if std::time::Instant::now() < deadline => std::thread::yield_now(),
                leased => break leased.unwrap(),
            }
        };
        assert!(leased.read().unwrap() == expected);
        assert!(client.lease_object_as(handle, object.id, Arriving::Ignore).unwrap().read().unwrap() == expected);
        client.touch(handle, &[object.id, ObjectId { key: [1; 16], ..object.id }, object.id]).unwrap();
        client.ping().unwrap();
        let (cached, tier, version) = client.describe(handle, object.id).unwrap();
        assert_eq!((cached, tier), (object.size, Some(Source::TierSsd)));
        assert!(version.starts_with('"'), "{version}");
        for wrong in [ObjectId { slot: u32::MAX, ..object.id }, ObjectId { key: [1; 16], ..object.id }] {
            assert!(matches!(client.lease_object(handle, wrong), Err(Error::Stale(_))));
            assert!(matches!(client.read_object(handle, wrong, (0, 0), 0, &mut batch), Err(Error::Stale(_))));
        }
        (client, handle, object.id)
    })
    .await;
    let path = bench.dir.path().join("origin/bee/005.jpg");
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, bytes(77, 5000)).unwrap();
    let dataset = bench.engine.dataset(NAME).unwrap();
    // The file was opened once, and twice more by those who had it; what was read before it was whole may be hits too.
    assert!(dataset.stats().hits_ssd >= 3, "{:?}", dataset.stats());
    dataset.refresh().await.unwrap();
    dataset.evict("").await.unwrap();
    blocking(move || {
        let now = client.lookup(handle, "bee/005.jpg").unwrap().iter().next().unwrap().object.unwrap();
        assert_ne!(now.id, object);
        assert_eq!(now.size, 5000);
        let mut batch = Batch::new();
        client.read_object(handle, now.id, (0, 0), 0, &mut batch).unwrap();
        assert!(batch.get(0).unwrap().data.unwrap() == bytes(77, 5000));
    })
    .await;
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_is_given_by_its_bytes_and_by_its_file_once_it_is_whole() {
    let mut bench = Bench::start().await;
    let (unix, tcp, expected) = (bench.unix(), bench.tcp(), bench.files["bee/005.jpg"].clone());
    blocking(move || {
        let mut client = FrameClient::connect(&unix).unwrap();
        let handle = client.open(NAME, None).unwrap().handle;
        let object = client.lookup(handle, "bee/005.jpg").unwrap().iter().next().unwrap().object.unwrap().id;
        let mut batch = Batch::new();
        assert!(client.opens_objects());
        assert!(
            client.open_object(handle, object, (7, Arriving::Await), &mut batch).unwrap().is_none(),
            "it is not cached"
        );
        assert!(batch.get(0).unwrap().data.unwrap() == expected);
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        let leased = loop {
            match client.open_object(handle, object, (7, Arriving::Await), &mut batch).unwrap() {
                Some(leased) => break leased,
                None => assert!(batch.get(0).unwrap().data.unwrap() == expected),
            }
            assert!(std::time::Instant::now() < deadline, "what was read is never leased");
        };
        assert!(leased.read().unwrap() == expected);
        // The file is here already, and is named; once it was given back it is sent anew.
        let again = client.open_object(handle, object, (7, Arriving::Await), &mut batch).unwrap().unwrap();
        assert!(std::sync::Arc::ptr_eq(&again.lease, &leased.lease));
        drop((again, leased));
        assert!(
            client.open_object(handle, object, (7, Arriving::Await), &mut batch).unwrap().unwrap().read().unwrap()
                == expected
        );
        let stale = client.open_object(handle, ObjectId { key: [1; 16], ..object }, (7, Arriving::Await), &mut batch);
        assert!(matches!(stale, Err(Error::Stale(_))), "{stale:?}");
        client.ping().unwrap();
        let mut remote = FrameClient::connect(&tcp).unwrap();
        assert!(!remote.opens_objects());
        let handle = remote.open(NAME, None).unwrap().handle;
        let refused = remote.open_object(handle, object, (7, Arriving::Await), &mut batch);
        assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
        remote.ping().unwrap();
    })
    .await;
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_range_is_read_from_a_file_that_is_shown_unless_it_changed_meanwhile() {
    let mut bench = Bench::start().await;
    let (unix, tcp, expected) = (bench.unix(), bench.tcp(), bench.files["bee/005.jpg"].clone());
    let wanted = expected.clone();
    let (mut client, handle, object) = blocking(move || {
        let mut client = FrameClient::connect(&unix).unwrap();
        let handle = client.open(NAME, None).unwrap().handle;
        let object = client.lookup(handle, "bee/005.jpg").unwrap().iter().next().unwrap().object.unwrap().id;
        let mut buffer = vec![0; 1000];
        assert!(client.shows_files());
        assert!(!client.read_shown(handle, object, (10, Arriving::Await), 7, &mut buffer).unwrap(), "it is not cached");
        let mut batch = Batch::new();
        client.read_object(handle, object, (0, 0), 7, &mut batch).unwrap();
        // The node waits until it is on its shelf, though not for long: a busy disk may need several times that.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while !client.read_shown(handle, object, (10, Arriving::Await), 7, &mut buffer).unwrap() {
            assert!(std::time::Instant::now() < deadline, "it never comes to its shelf");
        }
        assert!(buffer == wanted[10..1010]);
        assert!(client.read_shown(handle, object, (20, Arriving::Ignore), 7, &mut buffer).unwrap());
        assert!(buffer == wanted[20..1020]);
        let past = client.read_shown(handle, object, (wanted.len() as u64 - 1, Arriving::Await), 7, &mut buffer);
        assert!(matches!(past, Err(Error::Invalid(_))), "{past:?}");
        let stale =
            client.read_shown(handle, ObjectId { key: [1; 16], ..object }, (0, Arriving::Await), 7, &mut buffer);
        assert!(matches!(stale, Err(Error::Stale(_))), "{stale:?}");
        (client, handle, object)
    })
    .await;
    let dataset = bench.engine.dataset(NAME).unwrap();
    let hits = dataset.stats().hits_ssd;
    assert!(hits >= 1, "{:?}", dataset.stats());
    blocking(move || {
        let mut buffer = vec![0; 100];
        assert!(client.read_shown(handle, object, (0, Arriving::Await), 7, &mut buffer).unwrap());
        let mut remote = FrameClient::connect(&tcp).unwrap();
        assert!(!remote.shows_files());
        let handle = remote.open(NAME, None).unwrap().handle;
        let refused = remote.read_shown(handle, object, (0, Arriving::Await), 7, &mut buffer);
        assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
        remote.ping().unwrap();
    })
    .await;
    assert_eq!(dataset.stats().hits_ssd, hits + 1);
    // An eviction between looking and asking.
    let slot = fodder_core::id::ObjectSlot(object.slot);
    let view = dataset.try_view(slot, &(0..100)).unwrap();
    assert!(dataset.viewed(&view));
    dataset.evict("bee").await.unwrap();
    assert!(!dataset.viewed(&view));
    assert!(dataset.view(slot, &(0..100)).await.is_none());
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dataset_that_was_removed_and_added_again_is_opened_anew() {
    let mut bench = Bench::start().await;
    let address = bench.unix();
    let (mut client, old) = blocking(move || {
        let mut client = FrameClient::connect(&address).unwrap();
        let old = client.open(NAME, None).unwrap().handle;
        client.lookup(old, "bee").unwrap();
        (client, old)
    })
    .await;
    bench.engine.remove_dataset(NAME).await.unwrap();
    bench.engine.add_dataset(dataset(NAME, &bench.dir.path().join("origin"))).await.unwrap();
    blocking(move || {
        for _ in 0..2 {
            assert!(matches!(client.lookup(old, "bee"), Err(Error::Closed(_))));
        }
        let new = client.open(NAME, None).unwrap().handle;
        client.lookup(new, "bee").unwrap();
        client.close(old).unwrap();
        assert!(matches!(client.lookup(old, "bee"), Err(Error::NotFound(_))));
    })
    .await;
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_object_is_never_leased_and_given_by_its_bytes_without_the_origin_once_it_is_cached() {
    let mut bench = Bench::start().await;
    let (unix, expected) = (bench.unix(), bench.files["bee/002.jpg"].clone());
    let origin = bench.dir.path().join("origin");
    blocking(move || {
        let mut client = FrameClient::connect(&unix).unwrap();
        let handle = client.open(NAME, None).unwrap().handle;
        let object = client.lookup(handle, "bee/002.jpg").unwrap().iter().next().unwrap().object.unwrap().id;
        let mut batch = Batch::new();
        let refused = client.open_object(handle, object, (7, Arriving::Ignore), &mut batch);
        assert!(matches!(refused, Err(Error::Full(_))), "it is not cached: {refused:?}");
        assert!(client.open_object(handle, object, (7, Arriving::Await), &mut batch).unwrap().is_none());
        assert!(batch.get(0).unwrap().data.unwrap() == expected);
        // It is on its way to the disk.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while matches!(client.open_object(handle, object, (7, Arriving::Ignore), &mut batch), Err(Error::Full(_))) {
            assert!(std::time::Instant::now() < deadline, "what was read is never cached");
        }
        std::fs::remove_dir_all(origin).unwrap();
        assert!(client.open_object(handle, object, (7, Arriving::Ignore), &mut batch).unwrap().is_none());
        assert!(batch.get(0).unwrap().data.unwrap() == expected);
        let Err(Error::Invalid(text)) = client.lease_path(handle, "bee/002.jpg") else {
            panic!("a lease of a small object")
        };
        assert!(text.contains("too small for a cache file"), "{text}");
    })
    .await;
    bench.stop().await;
}
