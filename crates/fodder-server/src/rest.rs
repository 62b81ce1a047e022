//! The REST door: `/api/v1`, health, metrics, the page at `/`, and the paths of iCache's server.
//!
//! Each handler converts, calls the engine and replies. What must not be here: decisions about the cache, and sockets;
//! whoever listens gives connections to the router.

mod cluster;
mod condition;
mod content;
mod dataset;
mod describe;
mod job;
mod node;
mod object;
pub(crate) mod problem;
mod warm;

use crate::{NodeInfo, icache, metrics::Metrics};
use axum::{
    Router,
    body::{Body, HttpBody},
    extract::{DefaultBodyLimit, Request, State},
    http::{Method, StatusCode},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{self, MethodRouter},
};
use fodder_core::{Engine, Error, Result};
use problem::{Problem, ProblemBody};
use std::{sync::Arc, time::Duration};
use tokio::sync::Semaphore;

/// The longest body a request may have.
const MAX_BODY_BYTES: usize = 64 << 10;

/// The longest body of a job's request that carries a list.
const MAX_LIST_BYTES: usize = 16 << 20;

/// The longest form of iCache's that describes a job: its command line, percent-encoded.
const MAX_JOB_FORM_BYTES: usize = 4 << 20;

/// How many lists arrive at a time; others wait.
static LISTS: Semaphore = Semaphore::const_new(4);

/// How long a request's body may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a GET may take until its answer begins. What is asked for by other methods takes as long as it takes.
const GET_TIMEOUT: Duration = Duration::from_secs(300);

/// What every handler is given.
#[derive(Debug, Clone)]
pub(crate) struct App {
    pub(crate) engine: Arc<Engine>,
    pub(crate) info: Arc<NodeInfo>,
    metrics: Arc<Metrics>,
}

/// Every path that is answered over HTTP.
pub(crate) fn router(engine: Arc<Engine>, info: Arc<NodeInfo>) -> Router {
    let metrics = Arc::new(Metrics::new(Arc::clone(&engine), Arc::clone(&info)));
    let mut router = Router::new();
    for (path, methods) in routes() {
        router = router.route(path, methods);
    }
    router
        .fallback(no_route)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::disable())
        .layer(middleware::from_fn(bounded))
        .layer(middleware::from_fn_with_state(Arc::clone(&info), guarded))
        .with_state(App { engine, info, metrics })
}

/// The paths and what answers them; a list, so that a test can hold it against the description.
fn routes() -> Vec<(&'static str, MethodRouter<App>)> {
    use routing::{get, post};
    vec![
        ("/", get(node::index)),
        ("/healthz", get(node::healthz)),
        ("/readyz", get(node::readyz)),
        ("/metrics", get(node::metrics)),
        ("/api/v1/openapi.json", get(node::openapi)),
        ("/api/v1/status", get(node::status)),
        ("/api/v1/cluster", get(cluster::cluster)),
        ("/api/v1/reload", post(cluster::reload)),
        ("/api/v1/datasets", get(dataset::list).post(dataset::add)),
        ("/api/v1/datasets/{name}", get(dataset::get).delete(dataset::remove)),
        ("/api/v1/datasets/{name}/refresh", post(dataset::refresh)),
        ("/api/v1/datasets/{name}/evict", post(dataset::evict)),
        ("/api/v1/datasets/{name}/verify", post(dataset::verify)),
        ("/api/v1/datasets/{name}/warm", post(warm::warm)),
        ("/api/v1/datasets/{name}/advice", get(dataset::advice)),
        ("/api/v1/datasets/{name}/objects", get(object::list)),
        ("/api/v1/datasets/{name}/objects/{*path}", get(object::object)),
        ("/api/v1/datasets/{name}/items/{id}", get(object::item)),
        ("/api/v1/datasets/{name}/jobs", get(job::list).post(job::introduce)),
        ("/api/v1/datasets/{name}/jobs/{job}", get(job::get).delete(job::leave)),
        ("/api/v1/datasets/{name}/jobs/{job}/checkpoint", get(job::checkpoint)),
        ("/api/v1/datasets/{name}/jobs/{job}/epochs", post(job::epoch::begin)),
        ("/api/v1/datasets/{name}/jobs/{job}/batches", post(job::epoch::next)),
        ("/api/v1/datasets/{name}/jobs/{job}/acknowledge", post(job::epoch::acknowledge)),
        ("/api/v1/datasets/{name}/jobs/{job}/consumed", post(job::epoch::consumed)),
        ("/api/v1/datasets/{name}/jobs/{job}/resume", post(job::epoch::resume)),
        ("/api/v1/datasets/{name}/jobs/{job}/renew", post(job::epoch::renew)),
        ("/api/v1/datasets/{name}/jobs/{job}/scores", post(job::report::scores)),
        ("/api/v1/datasets/{name}/jobs/{job}/embeddings", post(job::report::embeddings)),
        ("/statistic", get(icache::rest::statistic)),
        ("/cache", get(icache::rest::cache)),
        ("/node", get(icache::rest::node)),
        ("/cluster", get(icache::rest::cluster).post(icache::rest::post_cluster)),
        (
            "/mjob",
            get(icache::rest::jobs)
                .post(icache::rest::post_job)
                .put(icache::rest::put_job)
                .delete(icache::rest::delete_job),
        ),
    ]
}

/// Turns strangers away, but for those who ask how the node is doing: probes, and what collects metrics.
async fn guarded(State(info): State<Arc<NodeInfo>>, request: Request, next: Next) -> Response {
    let is_open = matches!(request.uri().path(), "/healthz" | "/readyz" | "/metrics");
    match info.state.admit(request.extensions().get()) {
        Err(denied) if !is_open => Problem::from(denied).into_response(),
        _ => next.run(request).await,
    }
}

async fn no_route(request: Request) -> Problem {
    Problem::not_found(format!("there is nothing at {}: see /api/v1/openapi.json", request.uri().path()))
}

async fn wrong_method(request: Request) -> Problem {
    let message = format!("{} does not take {}: see /api/v1/openapi.json", request.uri().path(), request.method());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
}

/// Takes the body first, within its bounds, so that no handler waits for a slow or endless one.
async fn bounded(request: Request, next: Next) -> Response {
    let (head, body) = request.into_parts();
    let is_job = head.method == Method::PUT && head.uri.path() == "/mjob";
    let brings_list = is_job || head.method == Method::POST && head.uri.path().contains("/jobs/");
    let is_long = body.size_hint().upper().is_none_or(|bytes| bytes > MAX_BODY_BYTES as u64);
    // Whoever brings a long list waits for a turn, and has it until it is answered: so much memory and no more.
    let turn = if brings_list && is_long { LISTS.acquire().await.ok() } else { None };
    let most = match turn {
        Some(_) if is_job => MAX_JOB_FORM_BYTES,
        Some(_) => MAX_LIST_BYTES,
        None => MAX_BODY_BYTES,
    };
    let body = match tokio::time::timeout(BODY_TIMEOUT, axum::body::to_bytes(body, most)).await {
        Ok(Ok(body)) => body,
        Ok(Err(_)) => {
            let message = format!("the body is incomplete, or longer than {most} bytes");
            return Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message).into_response();
        }
        Err(_) => {
            let message = format!("the body did not arrive within {BODY_TIMEOUT:?}");
            return Problem::new(StatusCode::REQUEST_TIMEOUT, "timeout", message).into_response();
        }
    };
    let is_get = matches!(head.method, Method::GET | Method::HEAD);
    let answer = next.run(Request::from_parts(head, Body::from(body)));
    if !is_get {
        return answer.await;
    }
    tokio::time::timeout(GET_TIMEOUT, answer).await.unwrap_or_else(|_| {
        let message = format!("the origin did not answer within {GET_TIMEOUT:?}: try again later");
        Problem::new(StatusCode::GATEWAY_TIMEOUT, "timeout", message).into_response()
    })
}

/// Work in proportion to a list's length, which no other request should wait for.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(Error::Internal(error.to_string())))
}

#[cfg(test)]
mod tests;
