//! S3 as an origin, against a real server over loopback: names, versions, bounds.
#![allow(clippy::unwrap_used)]

use fodder_core::{
    Error,
    config::ListingConfig,
    origin::{ObjectEntry, Origin, OriginOptions, Patience},
};
use fodder_s3_server::{Fault, Server, synthetic};
use futures::{StreamExt, TryStreamExt};
use std::{ops::Range, time::Duration};

fn quick() -> Patience {
    Patience {
        first_pause: Duration::from_millis(5),
        longest_pause: Duration::from_millis(20),
        no_progress: Duration::from_millis(300),
        deadline: Duration::from_secs(5),
        ..Patience::default()
    }
}

async fn open(server: &Server, place: &str, concurrency: usize) -> Origin {
    let uri = format!("s3://{place}?endpoint={}&region=us-east-1", server.endpoint());
    let options = OriginOptions { anonymous: true, concurrency, ..OriginOptions::default() };
    Origin::open_with(&uri, &options, quick()).await.unwrap()
}

async fn start() -> (Server, Origin) {
    let server = Server::start("127.0.0.1:0").await.unwrap();
    let origin = open(&server, "bucket", 16).await;
    (server, origin)
}

async fn read(origin: &Origin, entry: &ObjectEntry, range: Range<u64>) -> Result<Vec<u8>, Error> {
    let chunks: Vec<_> = origin.get(&entry.path, &entry.version, range).await?.try_collect().await?;
    Ok(chunks.concat())
}

async fn names(origin: &Origin) -> Vec<String> {
    let mut names: Vec<_> = origin.list().map_ok(|entry| entry.path).try_collect().await.unwrap();
    names.sort();
    names
}

#[tokio::test]
async fn every_name_that_can_be_read_is_listed_and_the_others_are_counted() {
    let (server, origin) = start().await;
    let long = format!("{}/{}", "d".repeat(500), "n".repeat(523));
    let good = [
        "plain",
        "dir/in it",
        "100%",
        "%2e%2e/x",
        "a+b",
        "q?x=1&y=2",
        "h#1",
        "ünï/日本",
        "a\\b",
        "~t",
        "[x]{y}^|`",
        "<&>\"'",
        "semi;colon:eq=,@$!*()",
        "...",
        "..a/b..",
        "\u{F8FA}0a",
        "\u{a0}nbsp",
        "tail.",
        " lead",
        "trail ",
        " ",
        &long,
    ];
    let bad = [
        "../up",
        "a/../b",
        "a/./b",
        "a//b",
        "/lead",
        "new\nline",
        "tab\there",
        "bell\u{7}",
        "del\u{7f}",
        "full/",
        "..",
        ".",
    ];
    for key in good.iter().chain(&bad) {
        server.put(key, *key);
    }
    server.put("marker/", "");
    server.set_page(4);

    let mut expected: Vec<_> = good.map(String::from).to_vec();
    expected.sort();
    assert_eq!(names(&origin).await, expected);
    assert_eq!(origin.skipped(), bad.len() as u64);
    assert_eq!(long.len(), 1024);
    let entries: Vec<_> = origin.list().try_collect().await.unwrap();
    for entry in &entries {
        assert_eq!(read(&origin, entry, 0..entry.size).await.unwrap(), entry.path.as_bytes());
        assert_eq!(&origin.head(&entry.path).await.unwrap(), entry);
    }
    for key in bad {
        assert!(matches!(origin.head(key).await, Err(Error::NotFound(_))), "{key:?}");
    }
}

#[tokio::test]
async fn markers_of_directories_are_directories_and_are_bounded() {
    let (server, _) = start().await;
    for key in ["set/", "set/valid/", "set/a/b/", "set/full/", "set/full/file", "set2/", "valid/", "set/odd//"] {
        server.put(key, "");
    }
    server.put("set/file", "f");
    server.put("set/not a marker/", "bytes");
    server.set_page(2);
    let origin = open(&server, "bucket/set", 4).await;
    for _ in 0..2 {
        assert_eq!(names(&origin).await, ["file", "full/file"]);
        let mut directories = origin.take_details().empty_directories;
        directories.sort();
        assert_eq!((directories, origin.skipped()), (["a/b/", "full/", "valid/"].map(String::from).into(), 2));
    }
    let listing = ListingConfig { max_entries: 4, ..ListingConfig::default() };
    let uri = format!("s3://bucket/set?endpoint={}&region=us-east-1", server.endpoint());
    let options = OriginOptions { anonymous: true, listing, ..OriginOptions::default() };
    let origin = Origin::open_with(&uri, &options, quick()).await.unwrap();
    let error = origin.list().try_collect::<Vec<_>>().await.unwrap_err();
    assert!(error.to_string().contains("--max-entries"), "{error}");
}

#[tokio::test]
async fn only_what_is_below_the_prefix_belongs_to_the_origin() {
    let (server, _) = start().await;
    for key in ["set/a", "set/b/c", "set2/d", "set", "other"] {
        server.put(key, key);
    }
    let origin = open(&server, "bucket/set/", 4).await;
    assert_eq!(names(&origin).await, ["a", "b/c"]);
    let entry = origin.head("b/c").await.unwrap();
    assert_eq!(read(&origin, &entry, 0..7).await.unwrap(), b"set/b/c");
    assert!(matches!(origin.head("../other").await, Err(Error::NotFound(_))));
    assert_eq!(origin.identity(), format!("s3://bucket/set?endpoint={}", server.endpoint()));
    assert!(names(&open(&server, "bucket/none", 4).await).await.is_empty());
}

#[tokio::test]
async fn a_listing_survives_pages_that_fail() {
    let (server, origin) = start().await;
    server.set_page(10);
    for number in 0..95 {
        server.put(&format!("{number:03}"), "x");
    }
    server.faults(
        "",
        [Fault::None, Fault::Status(503, "SlowDown"), Fault::Reset, Fault::None, Fault::Status(500, "InternalError")],
    );
    assert_eq!(names(&origin).await.len(), 95);
    server.faults("", [Fault::Status(403, "AccessDenied")]);
    let error = origin.list().try_collect::<Vec<_>>().await.unwrap_err();
    assert!(
        matches!(&error, Error::Denied(text) if text.contains("--anonymous") && text.contains("AccessDenied")),
        "{error}"
    );
}

#[tokio::test]
async fn reads_are_conditional_and_a_changed_object_is_stale() {
    let (server, origin) = start().await;
    server.put("o", vec![1; 1000]);
    let old = origin.head("o").await.unwrap();
    assert_eq!(read(&origin, &old, 0..500).await.unwrap(), vec![1; 500]);
    server.put("o", vec![2; 1000]);
    let error = read(&origin, &old, 500..1000).await.unwrap_err();
    assert!(matches!(&error, Error::Stale(text) if text.contains("refresh")), "{error}");
    let new = origin.head("o").await.unwrap();
    assert_ne!(new.version, old.version);
    assert_eq!(read(&origin, &new, 500..1000).await.unwrap(), vec![2; 500]);
    let seen = server.take_seen();
    assert!(seen.iter().filter(|seen| seen.method == "GET").all(|seen| seen.if_match.is_some()), "{seen:?}");

    server.put("o", vec![3; 10]);
    assert!(matches!(read(&origin, &new, 500..1000).await, Err(Error::Stale(_))));
    server.remove("o");
    assert!(matches!(read(&origin, &new, 500..1000).await, Err(Error::NotFound(_))));
}

#[tokio::test]
async fn objects_of_no_bytes_and_of_five_terabytes_are_read() {
    let (server, origin) = start().await;
    server.put("empty", "");
    let huge = synthetic(7, 5 << 40);
    server.put("huge", huge.clone());
    let empty = origin.head("empty").await.unwrap();
    assert_eq!((empty.size, read(&origin, &empty, 0..0).await.unwrap().len()), (0, 0));
    let entry = origin.head("huge").await.unwrap();
    assert_eq!(entry.size, 5 << 40);
    let range = (5 << 40) - 2_500_000..5 << 40;
    assert_eq!(read(&origin, &entry, range.clone()).await.unwrap(), huge.bytes(range).unwrap());
}

#[tokio::test]
async fn no_more_requests_are_under_way_than_allowed() {
    let (server, _) = start().await;
    server.put("o", synthetic(1, 8 << 20));
    server.set_latency(Duration::from_millis(5));
    let origin = open(&server, "bucket", 3).await;
    let entry = origin.head("o").await.unwrap();
    let reads = (0..24_u64).map(|n| read(&origin, &entry, n << 18..(n + 1) << 18));
    futures::future::try_join_all(reads).await.unwrap();
    assert!(server.peak() <= 3, "{}", server.peak());

    // A body that is dropped halfway gives its place back.
    for _ in 0..10 {
        let mut body = origin.get("o", &entry.version, 0..8 << 20).await.unwrap();
        body.next().await.unwrap().unwrap();
    }
    assert_eq!(read(&origin, &entry, 0..100).await.unwrap().len(), 100);
}

#[tokio::test]
async fn a_server_that_is_gone_or_refuses_is_an_error_in_bounded_time() {
    let (server, origin) = start().await;
    server.put("o", "x");
    let entry = origin.head("o").await.unwrap();
    for code in ["AccessDenied", "InvalidAccessKeyId"] {
        server.faults("o", [Fault::Status(403, code)]);
        let error = read(&origin, &entry, 0..1).await.unwrap_err();
        assert!(matches!(&error, Error::Denied(text) if text.contains(code)), "{error}");
    }
    server.faults("o", [Fault::Status(400, "InvalidRequest")]);
    assert!(matches!(read(&origin, &entry, 0..1).await, Err(Error::Unavailable(_))));
    server.faults("o", [Fault::Status(301, "PermanentRedirect")]);
    let error = read(&origin, &entry, 0..1).await.unwrap_err();
    assert!(error.to_string().contains("region"), "{error}");
    drop(server);
    let error = tokio::time::timeout(Duration::from_secs(10), read(&origin, &entry, 0..1)).await.unwrap().unwrap_err();
    assert!(matches!(&error, Error::Unavailable(text) if text.contains("8 attempts")), "{error}");
}

#[tokio::test]
async fn a_continuation_token_that_repeats_ends_the_listing_with_an_error() {
    const PAGE: &str = "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>again</NextContinuationToken>\
        <Contents><Key>KEY</Key><LastModified>2026-11-15T10:00:00.000Z</LastModified><ETag>e</ETag><Size>1</Size></Contents>\
        </ListBucketResult>";
    for (first, second) in [
        // The same token, whatever comes with it.
        (PAGE.replace("KEY", "a"), PAGE.replace("KEY", "b")),
        // A server that ignores the token, and makes up another one.
        (PAGE.replace("KEY", "a"), PAGE.replace("KEY", "a").replace("again", "other")),
    ] {
        let (server, origin) = start().await;
        let pages = [first, second].map(|page| Fault::Body(200, page.leak()));
        server.faults("", pages);
        let listed: Result<Vec<_>, _> = origin.list().try_collect().await;
        let error = listed.unwrap_err();
        assert!(matches!(&error, Error::Unavailable(text) if text.contains("same page again")), "{error}");
    }
}
