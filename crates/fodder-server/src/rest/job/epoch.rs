//! A job's way through an epoch: beginning it, batches and what was consumed of them, going on from a checkpoint.

use super::{AuditView, Named, consulted, named};
use crate::rest::{App, aside, problem::Problem};
use axum::{
    Json,
    body::Bytes,
    extract::{
        Query, State,
        rejection::{JsonRejection, QueryRejection},
    },
    http::StatusCode,
    response::{IntoResponse, Response},
};
use base64::{Engine as _, prelude::BASE64_STANDARD as BASE64};
use fodder_core::{
    Error,
    job::{BatchRequest, Kind, Order, Resume, Shown, Start},
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::{IntoParams, ToSchema};

/// An epoch that a rank begins. Either a seed or ids.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::rest) struct NewEpoch {
    /// Which, counted from 0.
    epoch: u64,
    /// The rank that begins it; every rank does.
    #[serde(default)]
    rank: u32,
    /// Every item once, permuted by this seed and the number of the epoch.
    seed: Option<u64>,
    /// These items in this order, each at most once.
    ids: Option<Vec<u32>>,
    /// For a rank that was at another node: the last receipt that it was given there.
    #[serde(default)]
    receipt: String,
    /// The items (those that were asked) that it has consumed since that receipt; at most 65,536.
    #[serde(default)]
    consumed: Vec<u32>,
}

/// An epoch that has begun for a rank.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::rest) struct BegunView {
    /// How many items the rank will be given.
    items: u32,
    /// The snapshot whose items are planned.
    snapshot: String,
    /// How the epoch before went, if this was the last rank to leave it.
    audit: Option<AuditView>,
    /// What the rank can show to another node when this one is gone, in base64.
    receipt: String,
}

/// Items that a rank asks for.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::rest) struct Ask {
    /// Of which epoch.
    epoch: u64,
    /// For which rank.
    #[serde(default)]
    rank: u32,
    /// The number of the batch, counted from 0; the same number again is the same batch.
    number: u64,
    /// How many items; at most 65,536.
    count: u32,
    /// Batches of this rank and epoch that were consumed meanwhile; at most 1,024.
    #[serde(default)]
    acknowledged: Vec<u64>,
}

/// Items for a rank. Their bytes are read as items of the snapshot, by the id that was served.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::rest) struct BatchView {
    /// The snapshot whose ids they are.
    snapshot: String,
    /// What to read, in this order; fewer than asked for only at the end of the epoch, and none after it.
    items: Vec<GivenView>,
}

/// One item of a batch.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::rest) struct GivenView {
    /// The item whose turn it was.
    asked: u32,
    /// The item that answers.
    served: u32,
    /// The label of that, where the layout has one.
    label: Option<u32>,
    /// One of planned, reordered, substituted, pad.
    kind: &'static str,
}

/// Batches that a rank has consumed.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::rest) struct Acknowledged {
    /// Of which epoch.
    epoch: u64,
    /// By which rank.
    #[serde(default)]
    rank: u32,
    /// Their numbers; at most 1,024.
    numbers: Vec<u64>,
    /// Whether to answer with a receipt.
    #[serde(default)]
    receipt: bool,
}

/// What a rank can show to another node when this one is gone.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::rest) struct ReceiptView {
    /// Of all that it has acknowledged, in base64.
    receipt: String,
}

/// Items that were consumed without asking for batches.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::rest) struct Consumed {
    /// In which epoch.
    epoch: u64,
    /// Which; at most 65,536.
    ids: Vec<u32>,
}

/// Who goes on from a checkpoint.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(in crate::rest) struct Ranks {
    /// How many ranks there are now.
    #[serde(default = "super::one_rank")]
    world: u32,
    /// The rank that says so; the others join the first. None: one says it for all.
    rank: Option<u32>,
    /// A number that all ranks of this start share, and those of no other start have; 0 where they know none.
    #[serde(default)]
    attempt: u64,
    /// A number that the rank draws when it starts: the same again is not another start. 0: it is.
    #[serde(default)]
    nonce: u64,
}

/// A job that goes on.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::rest) struct ResumedView {
    /// Its number from now on.
    job: String,
    /// The snapshot it is on.
    snapshot: String,
    /// The epoch it goes on in.
    epoch: u64,
    /// How many items are left for all ranks together.
    left: u32,
}

/// A rank begins an epoch, and thereby ends the one before.
#[utoipa::path(post, path = "/api/v1/datasets/{name}/jobs/{job}/epochs", tag = "jobs", request_body = NewEpoch,
    params(("name" = String, Path, description = "The dataset"), ("job" = String, Path, description = "The job's number")),
    responses((status = 200, body = BegunView), (status = 400, body = crate::rest::ProblemBody),
        (status = 404, body = crate::rest::ProblemBody), (status = 409, body = crate::rest::ProblemBody),
        (status = 507, body = crate::rest::ProblemBody)))]
pub(in crate::rest) async fn begin(
    State(app): State<App>,
    path: Named,
    epoch: Result<Json<NewEpoch>, JsonRejection>,
) -> Result<Json<BegunView>, Problem> {
    let (dataset, job) = consulted(&app, path).await?;
    let Json(NewEpoch { epoch, rank, seed, ids, receipt, consumed }) = epoch?;
    at_most(consumed.len(), fodder_api::MAX_IDS, "ids")?;
    let receipt =
        BASE64.decode(receipt).map_err(|error| Problem::invalid(format!("the receipt is not base64: {error}")))?;
    let order = match (seed, ids) {
        (Some(seed), None) => Order::Seed(seed),
        (None, Some(ids)) => Order::Ids(ids.into()),
        _ => return Err(Problem::invalid("an epoch needs a `seed` or `ids`: give one of them")),
    };
    let of = Arc::clone(&dataset);
    let begun = aside(move || {
        let shown = (!receipt.is_empty()).then_some(Shown { receipt: &receipt, consumed: &consumed });
        of.jobs().begin_showing(job, rank, epoch, order, shown)
    })
    .await?;
    app.info.state.consult_of(&dataset, job).await;
    let (items, snapshot, receipt) = (begun.items, begun.snapshot.to_string(), BASE64.encode(begun.receipt));
    Ok(Json(BegunView { items, snapshot, audit: begun.audit.map(Into::into), receipt }))
}

/// A rank asks for a batch: which items answer, without their bytes.
#[utoipa::path(post, path = "/api/v1/datasets/{name}/jobs/{job}/batches", tag = "jobs", request_body = Ask,
    params(("name" = String, Path, description = "The dataset"), ("job" = String, Path, description = "The job's number")),
    responses((status = 200, body = BatchView), (status = 400, body = crate::rest::ProblemBody),
        (status = 404, body = crate::rest::ProblemBody), (status = 409, body = crate::rest::ProblemBody),
        (status = 503, body = crate::rest::ProblemBody), (status = 507, body = crate::rest::ProblemBody)))]
pub(in crate::rest) async fn next(
    State(app): State<App>,
    path: Named,
    asked: Result<Json<Ask>, JsonRejection>,
) -> Result<Json<BatchView>, Problem> {
    let (dataset, job) = named(&app, path)?;
    let Json(Ask { epoch, rank, number, count, acknowledged }) = asked?;
    at_most(count as usize, fodder_api::MAX_IDS, "items")?;
    at_most(acknowledged.len(), fodder_api::MAX_ACKNOWLEDGED, "batches")?;
    crate::wire::acknowledge(&dataset, (job, epoch, rank), acknowledged.into_iter())?;
    let batch = dataset.jobs().next_batch(BatchRequest { job, epoch, rank, number, count }).await?;
    let snapshot = dataset.snapshot_by_id(batch.snapshot)?;
    let label = |id: u32| snapshot.item(u64::from(id)).ok().and_then(|item| item.label);
    let items = batch.items.iter().map(|item| GivenView {
        asked: item.asked,
        served: item.served,
        label: label(item.served),
        kind: match item.kind {
            Kind::Planned => "planned",
            Kind::Reordered => "reordered",
            Kind::Substituted => "substituted",
            Kind::Pad => "pad",
        },
    });
    Ok(Json(BatchView { snapshot: batch.snapshot.to_string(), items: items.collect() }))
}

/// A rank has consumed batches. Saying it again is no error. Answers with a receipt where one is asked for.
#[utoipa::path(post, path = "/api/v1/datasets/{name}/jobs/{job}/acknowledge", tag = "jobs", request_body = Acknowledged,
    params(("name" = String, Path, description = "The dataset"), ("job" = String, Path, description = "The job's number")),
    responses((status = 200, body = ReceiptView), (status = 204), (status = 400, body = crate::rest::ProblemBody),
        (status = 404, body = crate::rest::ProblemBody), (status = 409, body = crate::rest::ProblemBody)))]
pub(in crate::rest) async fn acknowledge(
    State(app): State<App>,
    path: Named,
    acknowledged: Result<Json<Acknowledged>, JsonRejection>,
) -> Result<Response, Problem> {
    let (dataset, job) = named(&app, path)?;
    let Json(Acknowledged { epoch, rank, numbers, receipt }) = acknowledged?;
    at_most(numbers.len(), fodder_api::MAX_ACKNOWLEDGED, "batches")?;
    crate::wire::acknowledge(&dataset, (job, epoch, rank), numbers.into_iter())?;
    if !receipt {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let receipt = BASE64.encode(dataset.jobs().receipt(job, epoch, rank)?);
    Ok(Json(ReceiptView { receipt }).into_response())
}

/// A job has consumed items that it read by id and not in batches.
#[utoipa::path(post, path = "/api/v1/datasets/{name}/jobs/{job}/consumed", tag = "jobs", request_body = Consumed,
    params(("name" = String, Path, description = "The dataset"), ("job" = String, Path, description = "The job's number")),
    responses((status = 204), (status = 400, body = crate::rest::ProblemBody),
        (status = 404, body = crate::rest::ProblemBody), (status = 409, body = crate::rest::ProblemBody)))]
pub(in crate::rest) async fn consumed(
    State(app): State<App>,
    path: Named,
    consumed: Result<Json<Consumed>, JsonRejection>,
) -> Result<StatusCode, Problem> {
    let (dataset, job) = named(&app, path)?;
    let Json(Consumed { epoch, ids }) = consumed?;
    at_most(ids.len(), fodder_api::MAX_IDS, "ids")?;
    dataset.jobs().consumed(job, epoch, &ids)?;
    Ok(StatusCode::NO_CONTENT)
}

/// A job goes on from a checkpoint, which is the body, an older one too, on any number of ranks. Where the plan was a list
/// of ids, the job must have it still; else gRPC takes it with the checkpoint.
#[utoipa::path(post, path = "/api/v1/datasets/{name}/jobs/{job}/resume", tag = "jobs",
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    params(("name" = String, Path, description = "The dataset"), ("job" = String, Path, description = "The job's number"),
        Ranks),
    responses((status = 200, body = ResumedView), (status = 400, body = crate::rest::ProblemBody),
        (status = 404, body = crate::rest::ProblemBody), (status = 409, body = crate::rest::ProblemBody),
        (status = 502, body = crate::rest::ProblemBody), (status = 507, body = crate::rest::ProblemBody)))]
pub(in crate::rest) async fn resume(
    State(app): State<App>,
    path: Named,
    ranks: Result<Query<Ranks>, QueryRejection>,
    checkpoint: Bytes,
) -> Result<Json<ResumedView>, Problem> {
    let (dataset, job) = consulted(&app, path).await?;
    let Query(Ranks { world, rank, attempt, nonce }) = ranks?;
    let start = Start { attempt, nonce };
    app.info.state.prepare_resume(&dataset, &checkpoint).await;
    let resumed =
        aside(move || dataset.jobs().resume(Resume { job, rank, world, start, checkpoint: &checkpoint, ids: None }))
            .await?;
    let (job, snapshot) = (resumed.job.to_string(), resumed.snapshot.to_string());
    Ok(Json(ResumedView { job, snapshot, epoch: resumed.epoch, left: resumed.left }))
}

/// A job is alive though it asks for nothing.
#[utoipa::path(post, path = "/api/v1/datasets/{name}/jobs/{job}/renew", tag = "jobs",
    params(("name" = String, Path, description = "The dataset"), ("job" = String, Path, description = "The job's number")),
    responses((status = 204), (status = 400, body = crate::rest::ProblemBody),
        (status = 404, body = crate::rest::ProblemBody)))]
pub(in crate::rest) async fn renew(State(app): State<App>, path: Named) -> Result<StatusCode, Problem> {
    let (dataset, job) = named(&app, path)?;
    dataset.jobs().renew(job)?;
    Ok(StatusCode::NO_CONTENT)
}

fn at_most(count: usize, most: usize, what: &str) -> Result<(), Problem> {
    match count > most {
        true => Err(Error::Invalid(format!("{count} {what} in one request, and {most} are allowed")).into()),
        false => Ok(()),
    }
}
