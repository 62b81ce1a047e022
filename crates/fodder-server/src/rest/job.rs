//! The jobs of a dataset: who they are and how their epochs went; introducing one, its checkpoint, its end.

pub(super) mod epoch;
pub(super) mod report;

use super::{App, problem::Problem};
use axum::{
    Json,
    extract::{
        Path, State,
        rejection::{JsonRejection, PathRejection},
    },
    http::{StatusCode, header},
    response::IntoResponse,
};
use fodder_core::{
    Dataset, Error,
    job::{Audit, Introduction, JobId, Mode, Status, Uneven},
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::ToSchema;

/// What a job says of itself.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewJob {
    /// How people call it; one name is one job. At most 256 bytes.
    name: String,
    /// How it wants to be answered: `"strict"`, `{"reorder": {"window": 1000}}` or
    /// `{"approx": {"max_fraction": 0.1, "same_class": true, "max_repeats": 2}}`.
    #[serde(default)]
    #[schema(value_type = super::describe::Mode, required = false)]
    mode: Mode,
    /// How many ranks it has.
    #[serde(default = "one_rank")]
    #[schema(default = 1)]
    world: u32,
    /// What ranks do when a plan does not divide by their number.
    #[serde(default)]
    #[schema(value_type = super::describe::Uneven, required = false)]
    uneven: Uneven,
    /// How much its scores count beside those of other jobs.
    #[serde(default = "usual_weight")]
    #[schema(default = 1.0)]
    weight: f32,
    /// How long it may be silent before it is forgotten, such as `10m`.
    #[serde(default)]
    lease: Option<String>,
    /// Jobs that name the same group run in step.
    #[serde(default)]
    in_step: Option<String>,
}

fn one_rank() -> u32 {
    1
}

fn usual_weight() -> f32 {
    1.0
}

/// A job and how it stands.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct JobView {
    /// Its number, as 16 hexadecimal digits.
    job: String,
    /// How people call it.
    name: String,
    /// How it is answered.
    #[schema(value_type = super::describe::Mode)]
    mode: Mode,
    /// How many ranks it has.
    world: u32,
    /// What its ranks do when a plan does not divide by their number.
    #[schema(value_type = super::describe::Uneven)]
    uneven: Uneven,
    /// How much its scores count.
    weight: f32,
    /// The group it runs in step with.
    in_step: Option<String>,
    /// The epoch it is in.
    epoch: Option<u64>,
    /// How many items that epoch has.
    planned: u32,
    /// How many of them were given out.
    delivered: u32,
    /// How many of them it has acknowledged.
    consumed: u32,
    /// Items a second.
    rate: f64,
    /// How long ago it was last heard of.
    silent_ms: u64,
    /// How its last whole epoch went.
    last: Option<AuditView>,
}

/// What the end of an epoch showed.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AuditView {
    /// Whether every planned item was consumed exactly once.
    exact: bool,
    /// Items of the plan.
    planned: u64,
    /// Planned items that were acknowledged, themselves or by a substitute.
    consumed: u64,
    /// Acknowledgements of an item that had been consumed already.
    duplicates: u64,
    /// Planned items that were never acknowledged and were not meant to be left out.
    omissions: u64,
    /// Items that were given once more, so that every rank got equally many.
    pads: u64,
    /// Items that an uneven world of ranks left out on purpose.
    dropped: u64,
    /// Items that were answered by another.
    substitutions: u64,
    /// The furthest that an item was delivered from its place.
    displacement_max: u64,
    /// The mean distance from their places of all planned deliveries.
    displacement_mean: f64,
}

impl From<Audit> for AuditView {
    fn from(audit: Audit) -> Self {
        Self {
            exact: audit.is_exact(),
            planned: audit.planned,
            consumed: audit.consumed,
            duplicates: audit.duplicates,
            omissions: audit.omissions,
            pads: audit.pads,
            dropped: audit.dropped,
            substitutions: audit.substitutions,
            displacement_max: audit.displacement_max,
            displacement_mean: audit.displacement_mean,
        }
    }
}

impl From<Status> for JobView {
    fn from(status: Status) -> Self {
        let Introduction { name, mode, world, uneven, weight, in_step, .. } = status.introduction;
        Self {
            job: status.job.to_string(),
            name,
            mode,
            world,
            uneven,
            weight,
            in_step,
            epoch: status.epoch,
            planned: status.planned,
            delivered: status.delivered,
            consumed: status.consumed,
            rate: status.rate,
            silent_ms: u64::try_from(status.silent.as_millis()).unwrap_or(u64::MAX),
            last: status.last.map(Into::into),
        }
    }
}

type Named = Result<Path<(String, String)>, PathRejection>;

/// The dataset and the job that a path names.
fn named(app: &App, path: Named) -> Result<(Arc<Dataset>, JobId), Problem> {
    let Path((dataset, job)) = path?;
    let id = u64::from_str_radix(&job, 16).ok().filter(|_| job.len() == 16);
    let id =
        id.ok_or_else(|| Problem::invalid(format!("{job:?} is not the id of a job, which has 16 hexadecimal digits")))?;
    Ok((app.engine.dataset(&dataset)?, JobId(id)))
}

/// The same, when the other nodes have said what they know of the job.
async fn consulted(app: &App, path: Named) -> Result<(Arc<Dataset>, JobId), Problem> {
    let (dataset, job) = named(app, path)?;
    app.info.state.consult_of(&dataset, job).await;
    Ok((dataset, job))
}

/// The jobs of a dataset.
#[utoipa::path(get, path = "/api/v1/datasets/{name}/jobs", tag = "jobs",
    params(("name" = String, Path, description = "The dataset")),
    responses((status = 200, body = Vec<JobView>), (status = 404, body = super::ProblemBody)))]
pub(super) async fn list(
    State(app): State<App>,
    name: Result<Path<String>, PathRejection>,
) -> Result<Json<Vec<JobView>>, Problem> {
    let dataset = app.engine.dataset(&name?)?;
    app.info.state.hear_all(&dataset).await;
    let jobs = dataset.jobs().status();
    Ok(Json(jobs.into_iter().map(Into::into).collect()))
}

/// Introduces a job. The same introduction again is the same job.
#[utoipa::path(post, path = "/api/v1/datasets/{name}/jobs", tag = "jobs", request_body = NewJob,
    params(("name" = String, Path, description = "The dataset")),
    responses((status = 201, body = JobView), (status = 400, body = super::ProblemBody),
        (status = 404, body = super::ProblemBody), (status = 409, body = super::ProblemBody),
        (status = 507, body = super::ProblemBody)))]
pub(super) async fn introduce(
    State(app): State<App>,
    name: Result<Path<String>, PathRejection>,
    job: Result<Json<NewJob>, JsonRejection>,
) -> Result<(StatusCode, Json<JobView>), Problem> {
    let dataset = app.engine.dataset(&name?)?;
    let Json(NewJob { name, mode, world, uneven, weight, lease, in_step }) = job?;
    let lease = lease.map(|text| {
        let parsed = humantime::parse_duration(&text);
        parsed.map_err(|error| Error::Invalid(format!("{text:?} is not a duration such as 30s or 5m: {error}")))
    });
    let introduction = Introduction { name, mode, world, uneven, weight, lease: lease.transpose()?, in_step };
    app.info.state.consult(&dataset, &introduction.name).await;
    let jobs = dataset.jobs();
    let job = jobs.introduce(introduction)?;
    Ok((StatusCode::CREATED, Json(jobs.status_of(job)?.into())))
}

/// One job, with the audit of its last whole epoch.
#[utoipa::path(get, path = "/api/v1/datasets/{name}/jobs/{job}", tag = "jobs",
    params(("name" = String, Path, description = "The dataset"), ("job" = String, Path, description = "The job's number")),
    responses((status = 200, body = JobView), (status = 400, body = super::ProblemBody),
        (status = 404, body = super::ProblemBody)))]
pub(super) async fn get(State(app): State<App>, path: Named) -> Result<Json<JobView>, Problem> {
    let (dataset, job) = consulted(&app, path).await?;
    Ok(Json(dataset.jobs().status_of(job)?.into()))
}

/// Ends a job. Answers with what its last epoch had come to, if it had begun one.
#[utoipa::path(delete, path = "/api/v1/datasets/{name}/jobs/{job}", tag = "jobs",
    params(("name" = String, Path, description = "The dataset"), ("job" = String, Path, description = "The job's number")),
    responses((status = 200, body = Option<AuditView>), (status = 400, body = super::ProblemBody),
        (status = 404, body = super::ProblemBody)))]
pub(super) async fn leave(State(app): State<App>, path: Named) -> Result<Json<Option<AuditView>>, Problem> {
    let (dataset, job) = consulted(&app, path).await?;
    Ok(Json(dataset.jobs().leave(job)?.audit.map(Into::into)))
}

/// What the job needs to go on from here, to be given back when it resumes.
#[utoipa::path(get, path = "/api/v1/datasets/{name}/jobs/{job}/checkpoint", tag = "jobs",
    params(("name" = String, Path, description = "The dataset"), ("job" = String, Path, description = "The job's number")),
    responses((status = 200, description = "The checkpoint", body = Vec<u8>, content_type = "application/octet-stream"),
        (status = 400, body = super::ProblemBody), (status = 404, body = super::ProblemBody)))]
pub(super) async fn checkpoint(State(app): State<App>, path: Named) -> Result<impl IntoResponse, Problem> {
    let (dataset, job) = consulted(&app, path).await?;
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], dataset.jobs().checkpoint(job)?))
}
