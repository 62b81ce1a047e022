//! Datasets as a whole.

use super::*;
use fodder_core::engine::DatasetStats;

#[tokio::test]
async fn datasets_are_added_shown_and_removed() {
    let fixture = Fixture::empty(Default::default()).await;
    fixture.put("cat/0.jpg", b"meow");
    assert_eq!(get(&fixture, "/api/v1/datasets").await.json(), json!([]));

    let config = json!({ "name": "pets", "origin": fixture.origin(), "policy": "lru", "quota": "50%" });
    let added = post_json(&fixture, "/api/v1/datasets", &config).await;
    assert_eq!(added.status, StatusCode::CREATED, "{}", added.text());
    assert_eq!((&added.json()["items"], &added.json()["config"]["policy"]), (&json!(1), &json!("lru")));
    assert_eq!(get(&fixture, "/api/v1/datasets/pets").await.json(), added.json());
    assert_eq!(get(&fixture, "/api/v1/datasets").await.json(), json!([added.json()]));

    let removed = ask(&fixture, "DELETE", "/api/v1/datasets/pets", &[], Body::empty()).await;
    assert_eq!((removed.status, removed.body.len()), (StatusCode::NO_CONTENT, 0));
    assert_eq!(get(&fixture, "/api/v1/datasets/pets").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_dataset_that_cannot_be_added_says_why() {
    let fixture = Fixture::new().await;
    let elsewhere = fixture.origin().join("cat");
    for (config, status) in [
        (json!({ "name": "pets", "origin": elsewhere }), StatusCode::CONFLICT),
        (json!({ "name": "a/b", "origin": elsewhere }), StatusCode::BAD_REQUEST),
        (json!({ "name": "", "origin": elsewhere }), StatusCode::BAD_REQUEST),
        (json!({ "name": "x" }), StatusCode::BAD_REQUEST),
        (json!({ "name": "x", "origin": elsewhere, "polcy": "lru" }), StatusCode::BAD_REQUEST),
        (json!({ "name": "x", "origin": elsewhere, "policy": "best" }), StatusCode::BAD_REQUEST),
        (json!({ "name": "x", "origin": elsewhere, "refresh_interval": "often" }), StatusCode::BAD_REQUEST),
        (json!([1, 2]), StatusCode::BAD_REQUEST),
    ] {
        let answer = post_json(&fixture, "/api/v1/datasets", &config).await;
        assert_eq!(answer.status, status, "{config}: {}", answer.text());
        answer.problem();
    }
    let gone = post_json(&fixture, "/api/v1/datasets", &json!({ "name": "x", "origin": "/no/such/place" })).await;
    assert!(gone.status.is_client_error(), "{}", gone.text());
    let json = [("content-type", "application/json")];
    let junk = ask(&fixture, "POST", "/api/v1/datasets", &json, "{\"name\":").await;
    assert_eq!((junk.status, junk.problem().as_str()), (StatusCode::BAD_REQUEST, "invalid"));
    let plain = ask(&fixture, "POST", "/api/v1/datasets", &[], "{}").await;
    assert_eq!(plain.status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    plain.problem();
}

#[tokio::test]
async fn a_refresh_finds_what_is_new() {
    let fixture = Fixture::new().await;
    fixture.put("dog/new.jpg", b"woof");
    let report = ask(&fixture, "POST", "/api/v1/datasets/pets/refresh", &[], Body::empty()).await.json();
    assert_eq!(report, json!({ "added": 1, "changed": 0, "removed": 0, "unchanged": OBJECTS.len() }));
    let answer = get(&fixture, "/api/v1/datasets/pets/objects/dog/new.jpg").await;
    assert_eq!(answer.body, b"woof");
}

#[tokio::test]
async fn what_is_cached_is_verified_and_evicted_by_prefix() {
    let fixture = Fixture::new().await;
    // A write to a tier is not waited for by the reader: read until the tier answers.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while !get(&fixture, "/api/v1/datasets/pets/items/0").await.header("x-fodder-source").starts_with("tier_") {
        assert!(std::time::Instant::now() < deadline, "nothing was cached");
    }
    let report = ask(&fixture, "POST", "/api/v1/datasets/pets/verify", &[], Body::empty()).await.json();
    assert_eq!(report, json!({ "good": 1, "corrupt": 0, "bytes": 1000 }));

    let evict = async |prefix: &str| {
        let uri = format!("/api/v1/datasets/pets/evict?prefix={prefix}");
        ask(&fixture, "POST", &uri, &[], Body::empty()).await.json()["pieces"].clone()
    };
    assert_eq!(evict("dog/").await, 0);
    assert_eq!(evict("cat/").await, 1);
    assert_eq!(evict("").await, 0);
    let DatasetStats { origin_requests, .. } = fixture.engine.dataset("pets").unwrap().stats();
    assert_eq!(get(&fixture, "/api/v1/datasets/pets/items/0").await.header("x-fodder-source"), "origin");
    assert!(fixture.engine.dataset("pets").unwrap().stats().origin_requests > origin_requests);
}

#[tokio::test]
async fn advice_comes_with_what_was_read() {
    let fixture = Fixture::new().await;
    let advice = get(&fixture, "/api/v1/datasets/pets/advice").await.json();
    assert_eq!((&advice["limit"], &advice["rows"]), (&Value::Null, &json!([])));
    assert!(advice["sentences"][1].as_str().unwrap().contains("`fodder advise` again"), "{advice}");
    // As many bytes as the dataset has.
    for item in [0, 1, 2, 3].into_iter().cycle().take(2 * OBJECTS.len()) {
        let status = get(&fixture, &format!("/api/v1/datasets/pets/items/{item}")).await.status;
        assert_eq!(status, StatusCode::OK);
    }
    let advice = get(&fixture, "/api/v1/datasets/pets/advice").await.json();
    assert_eq!((&advice["rows"][0]["what"], &advice["rows"][0]["speed"]), (&json!("now"), &json!(1.0)), "{advice}");
    assert_eq!(get(&fixture, "/api/v1/datasets/cats/advice").await.problem(), "not_found");
}

#[tokio::test]
async fn warming_tells_how_far_it_is_and_whether_everything_is_there() {
    let fixture = Fixture::new().await;
    let warm = async |query: &str| {
        ask(&fixture, "POST", &format!("/api/v1/datasets/pets/warm{query}"), &[], Body::empty()).await
    };
    let last = |answer: &Answer| -> Value { serde_json::from_str(answer.text().lines().last().unwrap()).unwrap() };
    let answer = warm("?path=cat&workers=2&bytes_per_second=100000000").await;
    assert_eq!((answer.status, answer.header("content-type")), (StatusCode::OK, "application/x-ndjson"));
    let told = last(&answer);
    assert_eq!((&told["event"], &told["complete"], &told["files"]), (&json!("finished"), &json!(true), &json!(3)));
    let told = last(&warm("").await);
    assert_eq!((&told["files_there"], &told["files_skipped"]), (&json!(4), &json!(3)), "{told}");
    assert_eq!(told["bytes_fetched"], json!(OBJECTS[3].1), "what is there is not fetched again");
    let told = last(&warm("?path=dog&max_bytes=1000").await);
    assert_eq!((&told["event"], &told["complete"]), (&json!("finished"), &json!(true)), "it is there: {told}");
    for (query, status) in [
        ("?path=cow", StatusCode::NOT_FOUND),
        ("?workers=0", StatusCode::BAD_REQUEST),
        ("?workers=257", StatusCode::BAD_REQUEST),
        ("?max_bytes=lots", StatusCode::BAD_REQUEST),
        ("?speed=1", StatusCode::BAD_REQUEST),
    ] {
        let answer = warm(query).await;
        assert_eq!(answer.status, status, "{query}: {}", answer.text());
        answer.problem();
    }
    assert_eq!(post_json(&fixture, "/api/v1/datasets/pest/warm", &json!({})).await.status, StatusCode::NOT_FOUND);
}
