//! The node itself: how it stands, whether it lives, what it counted, what is where.

use super::{
    App,
    describe::{self, Description},
};
use crate::node::Addresses;
use axum::{
    Json,
    extract::State,
    http::{StatusCode, header},
    response::{Html, IntoResponse},
};
use fodder_core::engine::EngineStatus;
use serde::Serialize;
use std::time::UNIX_EPOCH;
use utoipa::OpenApi;

/// How the node stands: itself, and its engine.
#[derive(Debug, Serialize)]
pub(super) struct NodeStatus {
    version: &'static str,
    pid: u32,
    started_at_ms: u64,
    addresses: Addresses,
    ready: bool,
    #[serde(flatten)]
    engine: EngineStatus,
}

/// How the node stands: version, addresses, tiers, datasets, counts.
#[utoipa::path(get, path = "/api/v1/status", tag = "node", responses((status = 200, body = describe::NodeStatus)))]
pub(super) async fn status(State(app): State<App>) -> Json<NodeStatus> {
    let started = app.info.started_at.duration_since(UNIX_EPOCH).unwrap_or_default();
    Json(NodeStatus {
        version: app.info.version,
        pid: std::process::id(),
        started_at_ms: u64::try_from(started.as_millis()).unwrap_or(u64::MAX),
        addresses: app.info.addresses.clone(),
        ready: app.info.state.is_ready(),
        engine: app.engine.status(),
    })
}

/// Whether the process lives.
#[utoipa::path(get, path = "/healthz", tag = "node",
    responses((status = 200, description = "It lives", body = String, content_type = "text/plain")))]
pub(super) async fn healthz() -> &'static str {
    "ok\n"
}

/// Whether the datasets that were configured are open.
#[utoipa::path(get, path = "/readyz", tag = "node",
    responses((status = 200, description = "They are", body = String, content_type = "text/plain"),
        (status = 503, description = "Not yet", body = String, content_type = "text/plain")))]
pub(super) async fn readyz(State(app): State<App>) -> (StatusCode, &'static str) {
    if app.info.state.is_ready() {
        (StatusCode::OK, "ready\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not ready: datasets are being opened\n")
    }
}

/// What was counted, in OpenMetrics text; docs/METRICS.md says what each means.
#[utoipa::path(get, path = "/metrics", tag = "node",
    responses((status = 200, description = "OpenMetrics text", body = String, content_type = "application/openmetrics-text")))]
pub(super) async fn metrics(State(app): State<App>) -> impl IntoResponse {
    const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, OPENMETRICS)], app.metrics.text())
}

/// This description.
#[utoipa::path(get, path = "/api/v1/openapi.json", tag = "node",
    responses((status = 200, description = "OpenAPI 3.1", content_type = "application/json")))]
pub(super) async fn openapi() -> impl IntoResponse {
    Json(Description::openapi())
}

/// A page that says what is where.
#[utoipa::path(get, path = "/", tag = "node",
    responses((status = 200, description = "A page for people", body = String, content_type = "text/html")))]
pub(super) async fn index(State(app): State<App>) -> Html<String> {
    let Addresses { grpc, socket, .. } = &app.info.addresses;
    let socket = socket.as_ref().map_or_else(|| "off".to_owned(), |path| escape(&path.display().to_string()));
    Html(
        include_str!("index.html")
            .replace("{version}", app.info.version)
            .replace("{grpc}", &grpc.to_string())
            .replace("{socket}", &socket),
    )
}

/// Text as it may stand in a page.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
