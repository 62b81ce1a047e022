//! What a job says of items: how important they are, which are alike.

use super::{Named, named};
use crate::rest::{App, aside, problem::Problem};
use axum::{
    Json,
    extract::{State, rejection::JsonRejection},
};
use fodder_core::job::{Embeddings, Scores};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Scores of items.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::rest) struct NewScores {
    /// Whose scores these are. None: `scores` has one for every item of the snapshot, in order.
    ids: Option<Vec<u32>>,
    /// The scores: finite numbers.
    scores: Vec<f32>,
}

/// Embeddings of items.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::rest) struct NewEmbeddings {
    /// How many numbers an embedding has: the same in all reports to a dataset.
    dimension: u32,
    /// Whose embeddings these are.
    ids: Vec<u32>,
    /// The embeddings, one behind the other: finite numbers.
    values: Vec<f32>,
}

/// What was taken.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::rest) struct TakenView {
    /// How many items were reported on.
    taken: usize,
}

/// Reports scores: all are taken, or none. They take effect when the epoch ends.
#[utoipa::path(post, path = "/api/v1/datasets/{name}/jobs/{job}/scores", tag = "jobs", request_body = NewScores,
    params(("name" = String, Path, description = "The dataset"), ("job" = String, Path, description = "The job's number")),
    responses((status = 200, body = TakenView), (status = 400, body = crate::rest::ProblemBody),
        (status = 404, body = crate::rest::ProblemBody), (status = 409, body = crate::rest::ProblemBody),
        (status = 507, body = crate::rest::ProblemBody)))]
pub(in crate::rest) async fn scores(
    State(app): State<App>,
    path: Named,
    scores: Result<Json<NewScores>, JsonRejection>,
) -> Result<Json<TakenView>, Problem> {
    let (dataset, job) = named(&app, path)?;
    let Json(NewScores { ids, scores }) = scores?;
    let taken = scores.len();
    aside(move || {
        let report = match &ids {
            None => Scores::Dense(&scores),
            Some(ids) => Scores::Sparse { ids, values: &scores },
        };
        dataset.jobs().report_scores(job, report)
    })
    .await?;
    Ok(Json(TakenView { taken }))
}

/// Reports embeddings: all are taken, or none. Neighbours are looked for when the epoch ends.
#[utoipa::path(post, path = "/api/v1/datasets/{name}/jobs/{job}/embeddings", tag = "jobs", request_body = NewEmbeddings,
    params(("name" = String, Path, description = "The dataset"), ("job" = String, Path, description = "The job's number")),
    responses((status = 200, body = TakenView), (status = 400, body = crate::rest::ProblemBody),
        (status = 404, body = crate::rest::ProblemBody), (status = 409, body = crate::rest::ProblemBody),
        (status = 507, body = crate::rest::ProblemBody)))]
pub(in crate::rest) async fn embeddings(
    State(app): State<App>,
    path: Named,
    embeddings: Result<Json<NewEmbeddings>, JsonRejection>,
) -> Result<Json<TakenView>, Problem> {
    let (dataset, job) = named(&app, path)?;
    let Json(NewEmbeddings { dimension, ids, values }) = embeddings?;
    let taken = ids.len();
    let report = move || dataset.jobs().report_embeddings(job, Embeddings { ids: &ids, dimension, values: &values });
    aside(report).await?;
    Ok(Json(TakenView { taken }))
}
