//! Bytes of objects and items.

use super::*;
use std::time::{Duration, Instant};

const BIG: usize = 3;

fn expected(number: usize) -> Vec<u8> {
    content(number, OBJECTS[number].1)
}

#[tokio::test]
async fn an_item_comes_with_what_was_asked_and_what_is_served() {
    let fixture = Fixture::new().await;
    let answer = get(&fixture, "/api/v1/datasets/pets/items/0").await;
    assert_eq!((answer.status, answer.body.as_slice()), (StatusCode::OK, expected(0).as_slice()));
    assert_eq!(answer.header("content-type"), "image/jpeg");
    assert_eq!(answer.header("content-length"), "1000");
    assert_eq!((answer.header("x-fodder-asked"), answer.header("x-fodder-served")), ("0", "0"));
    assert_eq!(answer.header("x-fodder-label"), "0");
    assert_eq!(answer.header("x-fodder-source"), "origin");
    let snapshot = fixture.engine.dataset("pets").unwrap().snapshot().id().to_string();
    assert_eq!(answer.header("x-fodder-snapshot"), snapshot);
    let again = get(&fixture, &format!("/api/v1/datasets/pets/items/0?snapshot={snapshot}")).await;
    assert_eq!(again.body, expected(0));
}

#[tokio::test]
async fn what_was_read_once_comes_from_a_tier() {
    let fixture = Fixture::new().await;
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let answer = get(&fixture, "/api/v1/datasets/pets/objects/cat/0.jpg").await;
        assert_eq!(answer.body, expected(0));
        if answer.header("x-fodder-source").starts_with("tier_") {
            break;
        }
        assert!(Instant::now() < deadline, "still from {}", answer.header("x-fodder-source"));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn an_object_longer_than_one_read_is_streamed_whole() {
    let fixture = Fixture::new().await;
    for uri in ["/api/v1/datasets/pets/objects/dog/big.jpg", "/api/v1/datasets/pets/items/3"] {
        let answer = get(&fixture, uri).await;
        assert_eq!(answer.header("content-length"), OBJECTS[BIG].1.to_string());
        assert!(answer.body == expected(BIG), "{uri} gave other bytes");
    }
}

#[tokio::test]
async fn a_range_of_an_object_is_partial_content() {
    let fixture = Fixture::new().await;
    let (small, big) = (expected(0), expected(BIG));
    let end = big.len();
    for (path, whole, range, part) in [
        ("cat/0.jpg", &small, "bytes=0-0", 0..1),
        ("cat/0.jpg", &small, "bytes=10-19", 10..20),
        ("cat/0.jpg", &small, "bytes=990-2000", 990..1000),
        ("cat/0.jpg", &small, "bytes=-1", 999..1000),
        ("dog/big.jpg", &big, "bytes=1048570-1048580", 1_048_570..1_048_581),
        ("dog/big.jpg", &big, "bytes=3-", 3..end),
        ("dog/big.jpg", &big, "bytes=-20", end - 20..end),
    ] {
        let uri = format!("/api/v1/datasets/pets/objects/{path}");
        let answer = ask(&fixture, "GET", &uri, &[("range", range)], Body::empty()).await;
        assert_eq!(answer.status, StatusCode::PARTIAL_CONTENT, "{range}");
        let content_range = format!("bytes {}-{}/{}", part.start, part.end - 1, whole.len());
        assert_eq!(answer.header("content-range"), content_range);
        assert!(answer.body == whole[part], "{path} {range} gave other bytes");
    }
}

#[tokio::test]
async fn a_range_behind_the_end_is_not_satisfiable() {
    let fixture = Fixture::new().await;
    for (path, size) in [("cat/0.jpg", 1000), ("cat/1.png", 0)] {
        let uri = format!("/api/v1/datasets/pets/objects/{path}");
        let range = format!("bytes={size}-");
        let answer = ask(&fixture, "GET", &uri, &[("range", &range)], Body::empty()).await;
        assert_eq!(answer.status, StatusCode::RANGE_NOT_SATISFIABLE);
        assert_eq!(answer.header("content-range"), format!("bytes */{size}"));
        assert_eq!(answer.problem(), "invalid");
    }
}

#[tokio::test]
async fn bytes_that_are_known_are_not_sent_again() {
    let fixture = Fixture::new().await;
    let uri = "/api/v1/datasets/pets/objects/cat/0.jpg";
    let etag = get(&fixture, uri).await.header("etag").to_owned();
    assert!(etag.len() > 2, "{etag}");
    let known = ask(&fixture, "GET", uri, &[("if-none-match", &etag)], Body::empty()).await;
    assert_eq!((known.status, known.body.len(), known.header("etag")), (StatusCode::NOT_MODIFIED, 0, etag.as_str()));
    let other = ask(&fixture, "GET", uri, &[("if-none-match", "\"other\"")], Body::empty()).await;
    assert_eq!(other.status, StatusCode::OK);
    let refused = ask(&fixture, "GET", uri, &[("if-match", "\"other\"")], Body::empty()).await;
    assert_eq!((refused.status, refused.problem().as_str()), (StatusCode::PRECONDITION_FAILED, "stale"));
}

#[tokio::test]
async fn an_empty_object_and_a_strange_name_are_served() {
    let fixture = Fixture::new().await;
    let empty = get(&fixture, "/api/v1/datasets/pets/objects/cat/1.png").await;
    assert_eq!((empty.status, empty.header("content-length"), empty.body.len()), (StatusCode::OK, "0", 0));
    assert_eq!(empty.header("content-type"), "image/png");
    let strange = get(&fixture, "/api/v1/datasets/pets/objects/cat/sp%20ace%25%3F%23.jpg").await;
    assert_eq!((strange.status, strange.body), (StatusCode::OK, expected(2)));
}

#[tokio::test]
async fn a_head_says_what_a_get_would_and_reads_nothing() {
    let fixture = Fixture::new().await;
    for uri in ["/api/v1/datasets/pets/objects/dog/big.jpg", "/api/v1/datasets/pets/items/3"] {
        let answer = ask(&fixture, "HEAD", uri, &[], Body::empty()).await;
        assert_eq!((answer.status, answer.body.len()), (StatusCode::OK, 0));
        assert_eq!(answer.header("content-length"), OBJECTS[BIG].1.to_string());
        assert_eq!(answer.header("accept-ranges"), "bytes");
    }
    assert_eq!(fixture.engine.dataset("pets").unwrap().stats().origin_requests, 0);
}

#[tokio::test]
async fn objects_are_listed_in_pages() {
    let fixture = Fixture::new().await;
    let mut paths = Vec::new();
    let mut uri = "/api/v1/datasets/pets/objects?limit=3".to_owned();
    loop {
        let page = get(&fixture, &uri).await.json();
        for object in page["objects"].as_array().unwrap() {
            paths.push((object["path"].as_str().unwrap().to_owned(), object["size_bytes"].as_u64().unwrap() as usize));
            assert_eq!(object["items"], 1);
        }
        let Some(next) = page["next"].as_str() else { break };
        let after: String = url::form_urlencoded::byte_serialize(next.as_bytes()).collect();
        uri = format!("/api/v1/datasets/pets/objects?limit=3&after={after}");
    }
    assert_eq!(paths, OBJECTS.map(|(path, bytes)| (path.to_owned(), bytes)));

    let dogs = get(&fixture, "/api/v1/datasets/pets/objects?prefix=dog/").await.json();
    assert_eq!(dogs["objects"][0]["path"], "dog/big.jpg");
    assert_eq!((dogs["objects"].as_array().unwrap().len(), &dogs["next"]), (1, &Value::Null));
    let none = get(&fixture, "/api/v1/datasets/pets/objects?prefix=fish").await.json();
    assert_eq!(none["objects"], json!([]));
}
