//! The REST door over a real engine: what is asked, and what is answered.

#![allow(clippy::unwrap_used, reason = "tests")]

mod bytes;
mod datasets;
mod described;
mod jobs;

use super::*;
use crate::{
    cluster::{Token, Trust},
    listener::Caller,
    testing::{Fixture, OBJECTS, content},
};
use axum::http::{HeaderMap, header};
use serde_json::{Value, json};
use tower::ServiceExt;

/// An answer, whole.
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Answer {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The kind of a problem, which must be told in full.
    fn problem(&self) -> String {
        let body = self.json();
        let message = body["error"]["message"].as_str().unwrap();
        assert!(
            message.starts_with(|first: char| !first.is_uppercase()),
            "in Fodder's words, not the framework's: {body}"
        );
        body["error"]["kind"].as_str().unwrap().to_owned()
    }
}

async fn send(fixture: &Fixture, request: Request) -> Answer {
    let router = router(Arc::clone(&fixture.engine), Arc::clone(&fixture.info));
    let (head, body) = router.oneshot(request).await.unwrap().into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap().to_vec();
    Answer { status: head.status, headers: head.headers, body }
}

async fn ask(fixture: &Fixture, method: &str, uri: &str, headers: &[(&str, &str)], body: impl Into<Body>) -> Answer {
    let mut request = Request::builder().method(method).uri(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    send(fixture, request.body(body.into()).unwrap()).await
}

async fn get(fixture: &Fixture, uri: &str) -> Answer {
    ask(fixture, "GET", uri, &[], Body::empty()).await
}

async fn post_json(fixture: &Fixture, uri: &str, body: &Value) -> Answer {
    ask(fixture, "POST", uri, &[("content-type", "application/json")], body.to_string()).await
}

#[tokio::test]
async fn a_node_says_that_it_lives_and_when_it_is_ready() {
    let fixture = Fixture::new().await;
    assert_eq!(get(&fixture, "/healthz").await.status, StatusCode::OK);
    assert_eq!(get(&fixture, "/readyz").await.status, StatusCode::SERVICE_UNAVAILABLE);
    fixture.info.state.set_ready();
    assert_eq!(get(&fixture, "/readyz").await.status, StatusCode::OK);
    let page = get(&fixture, "/").await;
    assert!(page.header("content-type").starts_with("text/html") && page.text().contains("127.0.0.1:18284"));
}

#[tokio::test]
async fn the_status_shows_the_node_its_tiers_and_its_datasets() {
    let fixture = Fixture::new().await;
    let status = get(&fixture, "/api/v1/status").await.json();
    assert_eq!(status["addresses"]["rest"], "127.0.0.1:18283");
    assert_eq!(status["pid"], std::process::id());
    assert_eq!(status["tiers"][0]["health"], "ok");
    assert_eq!(status["datasets"][0]["config"]["name"], "pets");
    assert_eq!(status["datasets"][0]["items"], OBJECTS.len());
}

#[tokio::test]
async fn metrics_follow_what_is_read() {
    let fixture = Fixture::new().await;
    assert!(get(&fixture, "/metrics").await.text().contains("fodder_served_bytes_total{dataset=\"pets\"} 0\n"));
    get(&fixture, "/api/v1/datasets/pets/items/0").await;
    let metrics = get(&fixture, "/metrics").await;
    assert!(metrics.header("content-type").starts_with("application/openmetrics-text"));
    assert!(metrics.text().contains("fodder_served_bytes_total{dataset=\"pets\"} 1000\n"), "{}", metrics.text());
}

#[tokio::test]
async fn junk_is_answered_with_a_reason_and_never_with_a_panic() {
    let fixture = Fixture::new().await;
    let long = format!("/api/v1/datasets/pets/objects/{}", "x".repeat(8000));
    for (method, uri, status) in [
        ("GET", "/nowhere", 404),
        ("GET", "/api/v1", 404),
        ("GET", "/api/v1/datasets/", 404),
        ("POST", "/api/v1/status", 405),
        ("DELETE", "/", 405),
        ("PATCH", "/api/v1/datasets/pets", 405),
        ("GET", "/api/v1/datasets/cats", 404),
        ("GET", "/api/v1/datasets/%ff%fe", 400),
        ("GET", "/api/v1/datasets/pets%2F..%2F..", 404),
        ("DELETE", "/api/v1/datasets/cats", 404),
        ("POST", "/api/v1/datasets/cats/refresh", 404),
        ("POST", "/api/v1/datasets/cats/verify", 404),
        ("POST", "/api/v1/datasets/cats/evict", 404),
        ("POST", "/api/v1/datasets/pets/evict?prefx=a", 400),
        ("GET", "/api/v1/datasets/cats/items/0", 404),
        ("GET", "/api/v1/datasets/pets/items/4", 404),
        ("GET", "/api/v1/datasets/pets/items/-1", 400),
        ("GET", "/api/v1/datasets/pets/items/one", 400),
        ("GET", "/api/v1/datasets/pets/items/18446744073709551615", 404),
        ("GET", "/api/v1/datasets/pets/items/18446744073709551616", 400),
        ("GET", "/api/v1/datasets/pets/items/0?snapshot=latest", 400),
        ("GET", "/api/v1/datasets/pets/items/0?snapshot=00000000000000000000000000000000", 404),
        ("GET", "/api/v1/datasets/pets/items/0?snap=1", 400),
        ("GET", "/api/v1/datasets/pets/objects?limit=0", 400),
        ("GET", "/api/v1/datasets/pets/objects?limit=10001", 400),
        ("GET", "/api/v1/datasets/pets/objects?limit=many", 400),
        ("GET", "/api/v1/datasets/pets/objects?max=1", 400),
        ("GET", "/api/v1/datasets/cats/objects", 404),
        ("GET", "/api/v1/datasets/pets/objects/", 404),
        ("GET", "/api/v1/datasets/pets/objects/cat", 404),
        ("GET", "/api/v1/datasets/pets/objects/../../../etc/passwd", 404),
        ("GET", "/api/v1/datasets/pets/objects/cat/%2e%2e/cat/0.jpg", 404),
        ("GET", "/api/v1/datasets/pets/objects//cat/0.jpg", 404),
        ("GET", "/api/v1/datasets/pets/objects/%0a%00", 404),
        ("GET", "/api/v1/datasets/pets/objects/%ff", 400),
        ("GET", &long, 404),
    ] {
        let answer = ask(&fixture, method, uri, &[], Body::empty()).await;
        assert_eq!(answer.status.as_u16(), status, "{method} {uri}: {}", answer.text());
        answer.problem();
    }
}

#[tokio::test]
async fn a_body_that_is_too_long_is_refused() {
    let fixture = Fixture::empty(Default::default()).await;
    let json = [("content-type", "application/json")];
    let answer = ask(&fixture, "POST", "/api/v1/datasets", &json, "x".repeat(MAX_BODY_BYTES + 1)).await;
    assert_eq!((answer.status, answer.problem().as_str()), (StatusCode::PAYLOAD_TOO_LARGE, "too_large"));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_arrive_is_not_waited_for() {
    // The bounds are a layer of their own, so that they are tested without an engine.
    let router: Router = Router::new().route("/", routing::post(async || "")).layer(middleware::from_fn(bounded));
    let endless = Body::from_stream(futures::stream::pending::<Result<::bytes::Bytes, std::io::Error>>());
    let request = Request::builder().method("POST").uri("/").body(endless).unwrap();
    assert_eq!(router.oneshot(request).await.unwrap().status(), StatusCode::REQUEST_TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn a_get_that_never_begins_is_given_up_and_other_methods_are_not() {
    let slow = async || tokio::time::sleep(GET_TIMEOUT * 2).await;
    let router: Router = Router::new().route("/", routing::get(slow).post(slow)).layer(middleware::from_fn(bounded));
    let ask = |method: &str| Request::builder().method(method).uri("/").body(Body::empty()).unwrap();
    assert_eq!(router.clone().oneshot(ask("GET")).await.unwrap().status(), StatusCode::GATEWAY_TIMEOUT);
    assert_eq!(router.oneshot(ask("POST")).await.unwrap().status(), StatusCode::OK);
}

#[test]
fn every_error_has_its_status() {
    use fodder_core::Error;
    let text = || "why".to_owned();
    for (error, status) in [
        (Error::NotFound(text()), 404),
        (Error::Invalid(text()), 400),
        (Error::Conflict(text()), 409),
        (Error::Stale(text()), 409),
        (Error::Denied(text()), 403),
        (Error::Unavailable(text()), 503),
        (Error::Full(text()), 507),
        (Error::Corrupt(text()), 502),
        (Error::Closed, 503),
        (Error::Internal(text()), 500),
    ] {
        let response = Problem::from(error).into_response();
        assert_eq!(response.status().as_u16(), status);
        assert_eq!(response.headers().contains_key(header::RETRY_AFTER), status == 503);
    }
}

#[tokio::test]
async fn a_stranger_is_told_how_the_node_is_doing_and_nothing_else() {
    let fixture = Fixture::new().await;
    let ask = async |method: &str, path: &str, caller: Option<Caller>| {
        let mut request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
        // Whatever a request says about where it comes from does not count.
        let headers = request.headers_mut();
        headers.insert("x-forwarded-for", "127.0.0.1".parse().unwrap());
        headers.insert("host", "127.0.0.1:18283".parse().unwrap());
        if let Some(caller) = caller {
            request.extensions_mut().insert(caller);
        }
        send(&fixture, request).await
    };
    let elsewhere = || Some(Caller::plain(false));
    assert_eq!(ask("GET", "/api/v1/status", elsewhere()).await.status, StatusCode::OK, "of a node without a token");

    let token = Token::new("a word that all of them know").unwrap();
    fixture.info.state.secure(Trust::from(Some(token)));
    fixture.info.state.set_ready();
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(ask("GET", path, elsewhere()).await.status, StatusCode::OK, "{path}");
    }
    let paths = routes().into_iter().map(|(path, _)| path.replace("{name}", "pets").replace("{id}", "0"));
    let others = paths.filter(|path| !matches!(&path[..], "/healthz" | "/readyz" | "/metrics"));
    for path in others.chain(["/no/such/path".into(), "//metrics".into(), "/metrics/".into()]) {
        for method in ["GET", "POST", "PUT", "DELETE"] {
            for stranger in [elsewhere(), None] {
                let answer = ask(method, &path, stranger).await;
                assert_eq!(
                    (answer.status, answer.problem()),
                    (StatusCode::FORBIDDEN, "denied".into()),
                    "{method} {path}"
                );
            }
        }
    }
    assert_eq!(ask("GET", "/api/v1/status", Some(Caller::plain(true))).await.status, StatusCode::OK);
    assert_eq!(ask("GET", "/statistic", Some(Caller::plain(true))).await.status, StatusCode::OK);
    assert_eq!(fixture.engine.datasets().len(), 1);
}
