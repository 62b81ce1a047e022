//! Who is answered at all.

#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::{
    IcacheConfig,
    cluster::{Token, Trust},
    listener::Caller,
    testing::Fixture,
};
use axum::body::Body;
use tower::ServiceExt;

/// Every call of every service, as its path.
fn calls() -> Vec<String> {
    let files = [
        ("fodder.v1", include_str!("../../../../proto/fodder/v1/node.proto")),
        ("fodder.v1", include_str!("../../../../proto/fodder/v1/job.proto")),
        ("fodder.v1", include_str!("../../../../proto/fodder/v1/cluster.proto")),
        ("rpc", include_str!("../../../../proto/deepcache.proto")),
    ];
    let of = |(package, text): (&str, &str)| {
        let service = text.lines().find_map(|line| line.strip_prefix("service ")?.strip_suffix(" {")).unwrap();
        let calls = text.lines().filter_map(|line| line.trim().strip_prefix("rpc ")?.split_once('('));
        calls.map(|(call, _)| format!("/{package}.{service}/{call}")).collect::<Vec<_>>()
    };
    files.into_iter().flat_map(of).collect()
}

/// The gRPC status of a call without a message.
async fn call(fixture: &Fixture, path: &str, caller: Option<Caller>) -> String {
    let router = router(Arc::clone(&fixture.engine), Arc::clone(&fixture.info), Duration::from_secs(30));
    let mut request =
        extract::Request::post(path).header("content-type", "application/grpc").body(Body::empty()).unwrap();
    if let Some(caller) = caller {
        request.extensions_mut().insert(caller);
    }
    let headers = router.oneshot(request).await.unwrap().headers().clone();
    headers.get("grpc-status").map_or("", |status| status.to_str().unwrap()).to_owned()
}

#[tokio::test]
async fn no_call_but_the_greeting_of_nodes_is_answered_to_a_stranger() {
    let denied = (tonic::Code::PermissionDenied as i32).to_string();
    let fixture = Fixture::empty(IcacheConfig::default()).await;
    for path in calls() {
        assert_ne!(call(&fixture, &path, Some(Caller::plain(false))).await, denied, "{path} of a node without a token");
    }
    let token = Token::new("a word that all of them know").unwrap();
    fixture.info.state.secure(Trust::from(Some(token)));
    let calls = calls();
    assert!(calls.len() > 30 && calls.iter().any(|path| path == HELLO), "{calls:?}");
    for path in calls {
        assert_ne!(call(&fixture, &path, Some(Caller::plain(true))).await, denied, "{path} on its machine");
        for stranger in [Some(Caller::plain(false)), None] {
            let is_denied = call(&fixture, &path, stranger.clone()).await == denied;
            assert_eq!(is_denied, path != HELLO, "{path} for {stranger:?}");
        }
    }
    assert_eq!(call(&fixture, "/fodder.v1.Later/Call", Some(Caller::plain(false))).await, denied);
}
