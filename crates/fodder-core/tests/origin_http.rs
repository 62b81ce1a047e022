//! Web servers and Google Cloud Storage as origins, against the test server, which speaks enough of both.
#![allow(clippy::unwrap_used)]

use fodder_core::{
    Error,
    origin::{Origin, OriginOptions, Patience},
};
use fodder_s3_server::{Fault, Server, synthetic};
use futures::TryStreamExt;
use std::time::Duration;

async fn open(uri: &str) -> Origin {
    let patience = Patience {
        first_pause: Duration::from_millis(5),
        longest_pause: Duration::from_millis(20),
        ..Patience::default()
    };
    let options = OriginOptions { anonymous: true, ..OriginOptions::default() };
    Origin::open_with(uri, &options, patience).await.unwrap()
}

#[tokio::test]
async fn the_url_of_a_file_is_an_origin_of_one_object() {
    let server = Server::start("127.0.0.1:0").await.unwrap();
    let object = synthetic(1, 2_000_000);
    server.put("dir/a b%.tar", object.clone());
    let origin = open(&format!("{}/files/dir/a%20b%25.tar?versionId=3", server.endpoint())).await;
    let entries: Vec<_> = origin.list().try_collect().await.unwrap();
    assert_eq!(entries.len(), 1);
    assert_eq!((&*entries[0].path, entries[0].size), ("a b%.tar", 2_000_000));
    server.faults("dir/a b%.tar", [Fault::Status(503, "x"), Fault::Cut(500_000)]);
    let body = origin.get("a b%.tar", &entries[0].version, 10..1_999_999).await.unwrap();
    let bytes: Vec<_> = body.try_collect().await.unwrap();
    assert!(bytes.concat() == object.bytes(10..1_999_999).unwrap());
    assert!(matches!(origin.head("other").await, Err(Error::NotFound(_))));
    server.put("dir/a b%.tar", "changed");
    assert!(matches!(origin.get("a b%.tar", &entries[0].version, 0..5).await.err(), Some(Error::Stale(_))));
    assert!(origin.uri().ends_with("a%20b%25.tar?versionId=3"), "{}", origin.uri());
    server.remove("dir/a b%.tar");
    assert!(matches!(origin.list().try_collect::<Vec<_>>().await, Err(Error::NotFound(_))));
}

#[tokio::test]
async fn a_server_that_cannot_list_says_what_to_give_instead() {
    let server = Server::start("127.0.0.1:0").await.unwrap();
    let origin = open(&format!("{}/files/", server.endpoint())).await;
    let error = origin.list().try_collect::<Vec<_>>().await.unwrap_err();
    assert!(matches!(&error, Error::Invalid(text) if text.contains("WebDAV") && text.contains("one file")), "{error}");
}

#[tokio::test]
async fn a_signed_url_is_the_same_origin_whatever_its_signature() {
    let server = Server::start("127.0.0.1:0").await.unwrap();
    server.put("o", "x");
    let url = |query: &str| format!("{}/files/o{query}", server.endpoint());
    let first = open(&url("?X-Amz-Signature=hunter2&X-Amz-Date=1")).await;
    let second = open(&url("?X-Amz-Signature=hunter3&X-Amz-Date=2")).await;
    assert_eq!(first.identity(), second.identity());
    assert_eq!(first.identity(), url(""));
    assert_ne!(open(&url("?versionId=1")).await.identity(), open(&url("?versionId=2")).await.identity());
    assert_eq!(first.head("o").await.unwrap().size, 1);
}

#[tokio::test]
async fn a_user_in_the_url_is_sent_and_not_shown() {
    let server = Server::start("127.0.0.1:0").await.unwrap();
    server.put("o", "x");
    let origin = open(&format!("http://me:hunter2@{}/files/o", server.address())).await;
    origin.head("o").await.unwrap();
    assert!(server.take_seen()[0].signed);
    assert!(!format!("{origin:?} {} {}", origin.uri(), origin.identity()).contains("hunter2"));
}

#[tokio::test]
async fn google_buckets_are_listed_and_read() {
    let server = Server::start("127.0.0.1:0").await.unwrap();
    server.set_page(2);
    for key in ["p/a", "p/b c", "p/d//e", "p/f", "q"] {
        server.put(key, key);
    }
    let origin = open(&format!("gcs://bucket/p?endpoint={}", server.endpoint())).await;
    let mut entries: Vec<_> = origin.list().try_collect().await.unwrap();
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    assert_eq!(entries.iter().map(|entry| &*entry.path).collect::<Vec<_>>(), ["a", "b c", "f"]);
    assert_eq!(origin.skipped(), 1);
    let body = origin.get("b c", &entries[1].version, 0..5).await.unwrap();
    assert_eq!(body.try_collect::<Vec<_>>().await.unwrap().concat(), b"p/b c");
    assert!(origin.identity().starts_with("gs://bucket/p?endpoint="));
}

/// A server that answers every GET with the whole object, whatever range is asked for.
async fn serve_whole(object: Vec<u8>) -> (String, std::sync::Arc<std::sync::atomic::AtomicUsize>) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/o", listener.local_addr().unwrap());
    let requests = std::sync::Arc::<std::sync::atomic::AtomicUsize>::default();
    let counted = requests.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                match stream.read_u8().await {
                    Ok(byte) => head.push(byte),
                    Err(_) => break,
                }
            }
            let is_get = head.starts_with(b"GET");
            counted.fetch_add(usize::from(is_get), std::sync::atomic::Ordering::Relaxed);
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\netag: \"x\"\r\nlast-modified: Mon, 01 Jan 2024 00:00:00 GMT\r\nconnection: close\r\n\r\n",
                object.len()
            );
            let _ = stream.write_all(answer.as_bytes()).await;
            if is_get {
                let _ = stream.write_all(&object).await;
            }
            let _ = stream.shutdown().await;
        }
    });
    (url, requests)
}

#[tokio::test]
async fn small_objects_of_a_server_that_ignores_range_are_read_and_large_ones_fail_at_once() {
    let object: Vec<u8> = (0..100_000u32).map(|n| (n % 251) as u8).collect();
    let (url, _) = serve_whole(object.clone()).await;
    let origin = open(&url).await;
    let entry = origin.head("o").await.unwrap();
    for range in [0..100_000, 5..17, 99_999..100_000] {
        let body = origin.get("o", &entry.version, range.clone()).await.unwrap();
        let bytes: Vec<_> = body.try_collect().await.unwrap();
        assert!(bytes.concat() == object[range.start as usize..range.end as usize]);
    }
    let (url, requests) = serve_whole(vec![0; 9 << 20]).await;
    let origin = open(&url).await;
    let entry = origin.head("o").await.unwrap();
    let error = origin.get("o", &entry.version, 0..5).await.err().unwrap();
    assert!(error.to_string().contains("ignores Range requests"), "{error}");
    assert_eq!(requests.load(std::sync::atomic::Ordering::Relaxed), 1, "it is not tried again");
}
