//! Warming over HTTP: one line of JSON about twice a second until it is over. Ending the request ends the work.

use super::{App, problem::Problem};
use crate::warm::{self, Unknown, WORKERS, Wanted, Wish};
use axum::{
    body::Body,
    extract::{
        Path, Query, State,
        rejection::{PathRejection, QueryRejection},
    },
    http::header,
    response::{IntoResponse, Response},
};
use fodder_api::{MAX_PATH_BYTES, v1};
use fodder_core::{Error, Result as CoreResult, engine::warm::MAX_WORKERS};
use futures::StreamExt;
use serde::Deserialize;
use std::convert::Infallible;
use utoipa::IntoParams;

/// What to bring in, and how.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct WarmQuery {
    /// A directory, an object, or how paths begin; everything, if it is empty.
    #[serde(default)]
    path: String,
    /// The bytes that may be there of it at the end; no bound, if it is not given.
    max_bytes: Option<u64>,
    /// The most bytes a second to take from the origin; no bound, if it is not given.
    bytes_per_second: Option<u64>,
    /// Requests under way at a time, 1 to 256; 32, if it is not given.
    workers: Option<usize>,
    /// All of it on this node. Else each node of a cluster brings in what it owns, and bounds are for all together.
    #[serde(default)]
    this_node: bool,
}

/// Brings objects in, and tells how far it is: a line of JSON about twice a second. The last one has the event `finished`
/// (and says whether it is `complete`) or an `error`. Ending the request ends the work; what has arrived stays.
#[utoipa::path(post, path = "/api/v1/datasets/{name}/warm", tag = "datasets",
    params(("name" = String, Path, description = "The dataset"), WarmQuery),
    responses((status = 200, body = super::describe::WarmLine, content_type = "application/x-ndjson"),
        (status = 400, body = super::ProblemBody), (status = 404, body = super::ProblemBody)))]
pub(super) async fn warm(
    State(app): State<App>,
    name: Result<Path<String>, PathRejection>,
    query: Result<Query<WarmQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let dataset = app.engine.dataset(&name?)?;
    let Query(WarmQuery { path, max_bytes, bytes_per_second, workers, this_node }) = query?;
    let workers = workers.unwrap_or(WORKERS);
    if path.len() > MAX_PATH_BYTES || !(1..=MAX_WORKERS).contains(&workers) {
        let message =
            format!("path must have at most {MAX_PATH_BYTES} bytes, and workers must be from 1 to {MAX_WORKERS}");
        return Err(Problem::invalid(message));
    }
    let bytes_per_second = bytes_per_second.filter(|rate| *rate > 0);
    let (selection, unknown) = (Wanted::Below { path, shown: false }, Unknown::default());
    let wish = Wish { selection, unknown, max_bytes, bytes_per_second, workers, this_node };
    let progress = warm::begin(&app.info, &dataset, wish)?;
    let lines = progress.map(|progress| Ok::<_, Infallible>(line(progress)));
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(lines)).into_response())
}

fn line(progress: CoreResult<v1::WarmProgress>) -> String {
    let line = progress.and_then(|progress| {
        let mut line = serde_json::to_value(&progress).map_err(|error| Error::Internal(error.to_string()))?;
        line["event"] = if progress.finished { "finished" } else { "progress" }.into();
        Ok(line)
    });
    format!("{}\n", line.unwrap_or_else(|error| Problem::from(error).into_value()))
}
