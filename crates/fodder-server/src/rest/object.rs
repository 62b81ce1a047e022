//! Objects and items: listing them, and their bytes.

use super::{
    App,
    content::{self, Content},
    problem::Problem,
};
use axum::{
    Json,
    extract::{
        Path, Query, State,
        rejection::{PathRejection, QueryRejection},
    },
    http::{HeaderMap, HeaderName, HeaderValue, Method},
    response::Response,
};
use fodder_core::{Dataset, catalog::Snapshot, id::ObjectSlot};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::{IntoParams, ToSchema};

/// The most objects one answer lists.
const MAX_LIST: usize = 10_000;

/// Which objects to list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListQuery {
    /// Only paths that begin so.
    #[serde(default)]
    prefix: String,
    /// Only paths that sort behind this one: `next` of the page before.
    after: Option<String>,
    /// At most so many, from 1 to 10,000.
    #[serde(default = "default_limit")]
    #[param(default = 1000, minimum = 1, maximum = 10000)]
    limit: usize,
    /// The snapshot to list; the newest, if none is named.
    snapshot: Option<String>,
}

fn default_limit() -> usize {
    1000
}

/// A page of a listing.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ObjectPage {
    /// The snapshot that is listed.
    snapshot: String,
    /// The objects, in path order.
    objects: Vec<ObjectEntry>,
    /// What to give as `after` for the next page; null at the end.
    next: Option<String>,
}

/// An object of a listing.
#[derive(Debug, Serialize, ToSchema)]
struct ObjectEntry {
    /// Its path.
    path: String,
    /// Its size.
    size_bytes: u64,
    /// Which bytes it has.
    version: String,
    /// The first of the items that lie in it.
    first_item: u64,
    /// How many items lie in it.
    items: u64,
}

/// Which snapshot is meant.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct SnapshotQuery {
    /// The snapshot; the newest, if none is named.
    snapshot: Option<String>,
}

/// Lists the objects of a dataset.
#[utoipa::path(get, path = "/api/v1/datasets/{name}/objects", tag = "data",
    params(("name" = String, Path, description = "The dataset"), ListQuery),
    responses((status = 200, body = ObjectPage), (status = 400, body = super::ProblemBody), (status = 404, body = super::ProblemBody)))]
pub(super) async fn list(
    State(app): State<App>,
    name: Result<Path<String>, PathRejection>,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Result<Json<ObjectPage>, Problem> {
    let Path(name) = name?;
    let Query(query) = query?;
    if !(1..=MAX_LIST).contains(&query.limit) {
        return Err(Problem::invalid(format!("limit must be from 1 to {MAX_LIST}, not {}", query.limit)));
    }
    let dataset = app.engine.dataset(&name)?;
    let snapshot = snapshot(&app, &dataset, query.snapshot.as_deref()).await?;
    let objects = dataset.objects();
    let slots = snapshot.list(&query.prefix, query.after.as_deref(), query.limit);
    let is_full = slots.len() == query.limit;
    let entry = |slot: ObjectSlot| {
        let items = snapshot.items_of(slot);
        ObjectEntry {
            path: objects.path(slot),
            size_bytes: objects.size(slot),
            version: objects.version(slot).to_string(),
            first_item: items.start,
            items: items.end - items.start,
        }
    };
    let objects: Vec<_> = slots.into_iter().map(entry).collect();
    let next = objects.last().filter(|_| is_full).map(|last| last.path.clone());
    Ok(Json(ObjectPage { snapshot: snapshot.id().to_string(), objects, next }))
}

/// The bytes of an object, or a range of them.
#[utoipa::path(get, path = "/api/v1/datasets/{name}/objects/{path}", tag = "data",
    params(("name" = String, Path, description = "The dataset"),
        ("path" = String, Path, description = "The object's path; slashes are part of it"), SnapshotQuery,
        ("Range" = Option<String>, Header, description = "bytes=first-last"),
        ("If-None-Match" = Option<String>, Header, description = "An ETag that is known already"),
        ("If-Match" = Option<String>, Header, description = "The ETag that the object must have")),
    responses(
        (status = 200, description = "The bytes", content_type = "application/octet-stream",
            headers(("ETag" = String, description = "The object's version"),
                ("X-Fodder-Source" = String, description = "tier_mem, tier_ssd, tier_hdd, prefetched, substituted, joined, peer, origin or bypass"),
                ("X-Fodder-Snapshot" = String, description = "The snapshot that was read"))),
        (status = 206, description = "The range"), (status = 304, description = "Not modified"),
        (status = 404, body = super::ProblemBody), (status = 412, body = super::ProblemBody),
        (status = 416, body = super::ProblemBody), (status = 503, body = super::ProblemBody)))]
pub(super) async fn object(
    State(app): State<App>,
    path: Result<Path<(String, String)>, PathRejection>,
    query: Result<Query<SnapshotQuery>, QueryRejection>,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let Path((name, path)) = path?;
    let dataset = app.engine.dataset(&name)?;
    let snapshot = snapshot(&app, &dataset, query?.0.snapshot.as_deref()).await?;
    let Some(object) = snapshot.lookup(&path) else {
        return Err(Problem::not_found(format!("dataset {name:?} has no object {path:?} in this snapshot")));
    };
    let range = 0..dataset.objects().size(object);
    let content = Content { dataset, object, range, is_whole: true };
    let mut response = content::answer(content, &method, &headers).await?;
    insert(&mut response, "x-fodder-snapshot", &snapshot.id().to_string());
    Ok(response)
}

/// The bytes of an item, or a range of them.
#[utoipa::path(get, path = "/api/v1/datasets/{name}/items/{id}", tag = "data",
    params(("name" = String, Path, description = "The dataset"), ("id" = u64, Path, description = "The item"), SnapshotQuery,
        ("Range" = Option<String>, Header, description = "bytes=first-last")),
    responses(
        (status = 200, description = "The bytes", content_type = "application/octet-stream",
            headers(("X-Fodder-Asked" = u64, description = "The item that was asked for"),
                ("X-Fodder-Served" = u64, description = "The item that is served"),
                ("X-Fodder-Label" = u32, description = "Its class, where the layout has classes"),
                ("X-Fodder-Source" = String, description = "tier_mem, tier_ssd, tier_hdd, prefetched, substituted, joined, peer, origin or bypass"),
                ("X-Fodder-Snapshot" = String, description = "The snapshot that was read"))),
        (status = 206, description = "The range"), (status = 304, description = "Not modified"),
        (status = 400, body = super::ProblemBody), (status = 404, body = super::ProblemBody),
        (status = 416, body = super::ProblemBody), (status = 503, body = super::ProblemBody)))]
pub(super) async fn item(
    State(app): State<App>,
    path: Result<Path<(String, u64)>, PathRejection>,
    query: Result<Query<SnapshotQuery>, QueryRejection>,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let Path((name, id)) = path?;
    let dataset = app.engine.dataset(&name)?;
    let snapshot = snapshot(&app, &dataset, query?.0.snapshot.as_deref()).await?;
    let item = snapshot.item(id)?;
    let is_whole = item.range == (0..dataset.objects().size(item.object));
    let content = Content { dataset, object: item.object, range: item.range, is_whole };
    let mut response = content::answer(content, &method, &headers).await?;
    insert(&mut response, "x-fodder-asked", &id.to_string());
    insert(&mut response, "x-fodder-served", &id.to_string());
    if let Some(label) = item.label {
        insert(&mut response, "x-fodder-label", &label.to_string());
    }
    insert(&mut response, "x-fodder-snapshot", &snapshot.id().to_string());
    Ok(response)
}

async fn snapshot(app: &App, dataset: &Arc<Dataset>, id: Option<&str>) -> Result<Arc<Snapshot>, Problem> {
    let id = id.map(str::parse).transpose()?;
    Ok(app.info.state.snapshot(dataset, id).await?)
}

fn insert(response: &mut Response, name: &'static str, value: &str) {
    let value = HeaderValue::from_str(value).expect("numbers and hexadecimal digits are valid in a header");
    response.headers_mut().insert(HeaderName::from_static(name), value);
}
