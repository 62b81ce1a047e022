//! Datasets: listing, adding, removing, and what may be done to one as a whole.

use super::{App, cluster::by_all, describe, problem::Problem};
use crate::cluster;
use axum::{
    Json,
    extract::{
        Path, Query, State,
        rejection::{JsonRejection, PathRejection, QueryRejection},
    },
    http::StatusCode,
};
use fodder_api::v1;
use fodder_core::{
    catalog::RefreshReport,
    config::DatasetConfig,
    engine::{Advice, DatasetStatus, VerifyReport},
};
use serde::Deserialize;
use utoipa::IntoParams;

/// How to refresh.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct RefreshQuery {
    /// Accept a listing that removes everything, more than the configured share, or is of another file system.
    #[serde(default)]
    confirm_removals: bool,
}

/// What to evict.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct EvictQuery {
    /// Only objects whose path begins so; everything, if it is empty.
    #[serde(default)]
    prefix: String,
    /// Only on this node. Else on all nodes of its cluster.
    #[serde(default)]
    this_node: bool,
}

/// The datasets of the node, by name.
#[utoipa::path(get, path = "/api/v1/datasets", tag = "datasets",
    responses((status = 200, body = Vec<describe::DatasetStatus>)))]
pub(super) async fn list(State(app): State<App>) -> Json<Vec<DatasetStatus>> {
    Json(app.engine.status().datasets)
}

/// Adds a dataset: reopens its catalog, or lists the origin, and answers when that is done.
#[utoipa::path(post, path = "/api/v1/datasets", tag = "datasets", request_body = describe::DatasetConfig,
    responses((status = 201, body = describe::DatasetStatus), (status = 400, body = super::ProblemBody),
        (status = 403, body = super::ProblemBody), (status = 409, body = super::ProblemBody),
        (status = 413, body = super::ProblemBody), (status = 415, body = super::ProblemBody),
        (status = 503, body = super::ProblemBody)))]
pub(super) async fn add(
    State(app): State<App>,
    config: Result<Json<DatasetConfig>, JsonRejection>,
) -> Result<(StatusCode, Json<DatasetStatus>), Problem> {
    let Json(config) = config?;
    let dataset = app.engine.add_dataset(config).await?;
    Ok((StatusCode::CREATED, Json(dataset.status())))
}

/// How one dataset stands.
#[utoipa::path(get, path = "/api/v1/datasets/{name}", tag = "datasets",
    params(("name" = String, Path, description = "The dataset")),
    responses((status = 200, body = describe::DatasetStatus), (status = 404, body = super::ProblemBody)))]
pub(super) async fn get(
    State(app): State<App>,
    name: Result<Path<String>, PathRejection>,
) -> Result<Json<DatasetStatus>, Problem> {
    Ok(Json(app.engine.dataset(&name?)?.status()))
}

/// Forgets a dataset and drops what is cached of it. The origin is not touched.
#[utoipa::path(delete, path = "/api/v1/datasets/{name}", tag = "datasets",
    params(("name" = String, Path, description = "The dataset")),
    responses((status = 204, description = "It is gone"), (status = 404, body = super::ProblemBody)))]
pub(super) async fn remove(
    State(app): State<App>,
    name: Result<Path<String>, PathRejection>,
) -> Result<StatusCode, Problem> {
    app.engine.remove_dataset(&name?).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Looks for new, changed and removed objects, and answers when that is done.
#[utoipa::path(post, path = "/api/v1/datasets/{name}/refresh", tag = "datasets",
    params(("name" = String, Path, description = "The dataset"), RefreshQuery),
    responses((status = 200, body = describe::RefreshReport), (status = 400, body = super::ProblemBody),
        (status = 404, body = super::ProblemBody),
        (status = 409, body = super::ProblemBody, description = "Too many objects are missing, and that is not confirmed"),
        (status = 503, body = super::ProblemBody)))]
pub(super) async fn refresh(
    State(app): State<App>,
    name: Result<Path<String>, PathRejection>,
    query: Result<Query<RefreshQuery>, QueryRejection>,
) -> Result<Json<RefreshReport>, Problem> {
    let Query(RefreshQuery { confirm_removals }) = query?;
    Ok(Json(app.engine.dataset(&name?)?.refresh_with(confirm_removals).await?))
}

/// Drops what is cached of the objects under a prefix, on all nodes of the cluster if there is one.
#[utoipa::path(post, path = "/api/v1/datasets/{name}/evict", tag = "datasets",
    params(("name" = String, Path, description = "The dataset"), EvictQuery),
    responses((status = 200, body = describe::EvictReport), (status = 400, body = super::ProblemBody),
        (status = 404, body = super::ProblemBody),
        (status = 502, body = describe::EvictReport, description = "Some node did not: it is there with its error")))]
pub(super) async fn evict(
    State(app): State<App>,
    name: Result<Path<String>, PathRejection>,
    query: Result<Query<EvictQuery>, QueryRejection>,
) -> Result<(StatusCode, Json<v1::EvictReply>), Problem> {
    let (Query(EvictQuery { prefix, this_node }), Path(dataset)) = (query?, name?);
    let request = v1::EvictRequest { dataset, prefix, this_node, exact: false };
    let reply = cluster::evict(&app.engine, &app.info, request).await?;
    Ok((by_all(reply.nodes.iter().map(|node| &node.error)), Json(reply)))
}

/// Reads everything that is cached, compares it with its checksums, and answers when that is done.
#[utoipa::path(post, path = "/api/v1/datasets/{name}/verify", tag = "datasets",
    params(("name" = String, Path, description = "The dataset")),
    responses((status = 200, body = describe::VerifyReport), (status = 404, body = super::ProblemBody)))]
pub(super) async fn verify(
    State(app): State<App>,
    name: Result<Path<String>, PathRejection>,
) -> Result<Json<VerifyReport>, Problem> {
    Ok(Json(app.engine.dataset(&name?)?.verify().await?))
}

/// What the readers of a dataset wait for, and what more cache, more bandwidth or another policy would do about it.
#[utoipa::path(get, path = "/api/v1/datasets/{name}/advice", tag = "datasets",
    params(("name" = String, Path, description = "The dataset")),
    responses((status = 200, body = describe::Advice), (status = 404, body = super::ProblemBody)))]
pub(super) async fn advice(
    State(app): State<App>,
    name: Result<Path<String>, PathRejection>,
) -> Result<Json<Advice>, Problem> {
    Ok(Json(app.engine.dataset(&name?)?.advise().await?))
}
