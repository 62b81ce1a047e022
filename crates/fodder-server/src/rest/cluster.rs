//! The cluster, as this node sees it, and what is done to all its nodes.

use super::{App, describe, problem::Problem};
use crate::cluster::{self, membership::ClusterStatus};
use axum::{
    Json,
    extract::{Query, State, rejection::QueryRejection},
    http::StatusCode,
};
use fodder_api::v1;
use serde::Deserialize;
use utoipa::IntoParams;

/// Which nodes.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ReloadQuery {
    /// All nodes of the cluster, each with its own configuration.
    #[serde(default)]
    cluster: bool,
}

/// The members of the cluster, and how each says it stands; nobody, if the node is in none.
#[utoipa::path(get, path = "/api/v1/cluster", tag = "node", responses((status = 200, body = ClusterStatus)))]
pub(super) async fn cluster(State(app): State<App>) -> Json<ClusterStatus> {
    Json(cluster::cluster_status(&app.engine, &app.info).await)
}

/// Reads the configuration again: adds and removes datasets as it says, and tells what a restart is needed for.
#[utoipa::path(post, path = "/api/v1/reload", tag = "node", params(ReloadQuery),
    responses((status = 200, body = describe::ReloadReply), (status = 400, body = super::ProblemBody),
        (status = 502, body = describe::ReloadReply, description = "Some node did not: it is there with its error")))]
pub(super) async fn reload(
    State(app): State<App>,
    query: Result<Query<ReloadQuery>, QueryRejection>,
) -> Result<(StatusCode, Json<v1::ReloadReply>), Problem> {
    let Query(ReloadQuery { cluster }) = query?;
    let reply = cluster::reload(&app.info, cluster).await;
    Ok((by_all(reply.nodes.iter().map(|node| &node.error)), Json(reply)))
}

/// How to answer for several nodes, by what went wrong at each.
pub(super) fn by_all<'a>(mut errors: impl Iterator<Item = &'a String>) -> StatusCode {
    if errors.all(String::is_empty) { StatusCode::OK } else { StatusCode::BAD_GATEWAY }
}
