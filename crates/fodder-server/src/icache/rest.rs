//! iCache's REST paths: `/statistic`, `/cache`, `/node`, `/cluster`, `/mjob`, with the field names its client reads.

use super::{capacity_samples, job::JobTable, place};
use crate::{
    cluster::{membership::Member, standing_of},
    rest::{App, problem::Problem},
};
use axum::{
    Json,
    body::{Body, Bytes},
    extract::{FromRequest, Request, State},
    http::header,
    response::{IntoResponse, Response},
};
use fodder_core::{Dataset, engine::DatasetStatus};
use fodder_policy::Policy;
use futures::{future::join_all, stream};
use serde::Serialize;
use serde_json::{Value, json};
use std::{collections::BTreeMap, fmt::Write, sync::Arc, time::SystemTime};
use url::form_urlencoded;
use utoipa::ToSchema;

/// What iCache's client asks for first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Statistic {
    /// The directory that holds the dataset: the client looks for `train` and `val` in it.
    dcserver_data_path: String,
    /// The share of the samples that fits the cache.
    cache_ratio: f64,
    /// The policy by iCache's name: `lru` or `coordl`.
    cache_type: &'static str,
    /// Several jobs may share the cache.
    mjob_enable: bool,
}

/// What a job writes down about itself. As a form or in the query.
#[derive(Debug, Default, ToSchema)]
#[allow(dead_code, reason = "it describes a form that is read field by field")]
pub(crate) struct JobForm {
    /// INIT or GETBYUUID with POST; UPDATE or FINISH with PUT.
    op: String,
    /// Which job, with GETBYUUID.
    uuid: Option<String>,
    /// Which job, with UPDATE and FINISH.
    job_uuid: Option<String>,
    /// What it is called, with UPDATE.
    job_name: Option<String>,
    /// How it was started, with UPDATE.
    job_args: Option<String>,
}

/// Where the data is, and how much of it the cache holds.
#[utoipa::path(get, path = "/statistic", tag = "icache",
    responses((status = 200, body = Statistic), (status = 404, description = "No dataset of layout files"),
        (status = 409, description = "Several datasets: set node.icache.dataset")))]
pub(crate) async fn statistic(State(app): State<App>) -> Result<Json<Statistic>, Problem> {
    let status = app.info.state.icache.dataset(&app.engine)?.status();
    let path = place::data_path(&status.config.origin);
    Ok(Json(Statistic {
        dcserver_data_path: place::parent(&path).to_owned(),
        cache_ratio: capacity(&app, &status) as f64 / status.items.max(1) as f64,
        cache_type: cache_type(status.config.policy),
        mjob_enable: true,
    }))
}

/// The cache and its samples: `imgidx2imgpath` holds the path of each.
#[utoipa::path(get, path = "/cache", tag = "icache",
    responses((status = 200, description = "uuid, cache_ratio, cache_type, cache_size, data_path, noimg, imgidx2imgpath",
        content_type = "application/json")))]
pub(crate) async fn cache(State(app): State<App>) -> Result<Response, Problem> {
    let dataset = app.info.state.icache.dataset(&app.engine)?;
    let status = dataset.status();
    let path = place::data_path(&status.config.origin);
    let cache_size = capacity(&app, &status);
    let mut head = json!({
        "uuid": status.snapshot,
        "cache_ratio": cache_size as f64 / status.items.max(1) as f64,
        "cache_type": cache_type(status.config.policy),
        "cache_size": cache_size,
        "data_path": path,
        "noimg": status.items,
    })
    .to_string();
    head.pop();
    head.push_str(",\"imgidx2imgpath\":{");
    Ok(([(header::CONTENT_TYPE, "application/json")], paths(head, path, &dataset)).into_response())
}

/// A JSON object of all samples' paths behind `head`, made while it is sent: it is never in memory as a whole.
fn paths(head: String, data_path: String, dataset: &Arc<Dataset>) -> Body {
    const CHUNK_BYTES: usize = 64 << 10;
    let snapshot = dataset.snapshot();
    let state = (Some(head), 0);
    Body::from_stream(stream::unfold(state, move |(text, mut id)| {
        let step = text.map(|mut text| {
            while id < snapshot.len() && text.len() < CHUNK_BYTES {
                let name = snapshot.item_name(id).unwrap_or_default();
                let comma = if id == 0 { "" } else { "," };
                let path = Value::from(format!("{data_path}/{name}"));
                write!(text, "{comma}\"{id}\":{path}").expect("a string takes any text");
                id += 1;
            }
            let is_over = id == snapshot.len();
            text.push_str(if is_over { "}}" } else { "" });
            (Ok::<_, std::convert::Infallible>(Bytes::from(text)), ((!is_over).then(String::new), id))
        });
        std::future::ready(step)
    }))
}

/// This node, in the keys of iCache's configuration.
#[utoipa::path(get, path = "/node", tag = "icache",
    responses((status = 200, description = "name, node, uuid and the ports", content_type = "application/json")))]
pub(crate) async fn node(State(app): State<App>) -> Json<Value> {
    Json(node_info(&app).1)
}

/// The nodes of the cluster that answer; where there is none, this one.
#[utoipa::path(get, path = "/cluster", tag = "icache",
    responses((status = 200, description = "nodes, and infomap from node to its information", content_type = "application/json")))]
pub(crate) async fn cluster(State(app): State<App>) -> Json<Value> {
    let (node, info) = node_info(&app);
    let mut infos = BTreeMap::from([(node, info)]);
    let members = app.info.state.cluster().map(|joined| joined.membership.members().borrow().clone());
    let others = members.iter().flat_map(|members| members.others()).filter(|seen| !seen.unreachable);
    let told = others.map(|seen| async {
        let Some(peering) = app.info.state.peering() else { return (&seen.member, 0) };
        let standing = standing_of(peering, seen.member.id.0).await;
        (&seen.member, standing.map_or(0, |standing| standing.rest_port))
    });
    for (member, rest_port) in join_all(told).await {
        let (host, other) = member_info(member, rest_port);
        // iCache knows a node by its host; two on one host are told apart by the port.
        let name = if infos.contains_key(&host) { member.address.clone() } else { host };
        infos.insert(name, other);
    }
    let nodes: Vec<_> = infos.keys().collect();
    Json(json!({ "nodes": nodes, "infomap": infos }))
}

/// The same for the command `info`, which is the whole body.
#[utoipa::path(post, path = "/cluster", tag = "icache",
    request_body(content = String, content_type = "text/plain", description = "info"),
    responses((status = 200, description = "nodes, and infomap from node to its information", content_type = "application/json"),
        (status = 400, description = "No such command")))]
pub(crate) async fn post_cluster(app: State<App>, body: Bytes) -> Result<Json<Value>, Problem> {
    match body.trim_ascii() {
        b"info" => Ok(cluster(app).await),
        other => {
            let command = String::from_utf8_lossy(&other[..other.len().min(64)]).into_owned();
            Err(Problem::invalid(format!("POST /cluster takes the body `info`, not {command:?}")))
        }
    }
}

/// This node: as the others of its cluster know it, or by where its doors are.
fn node_info(app: &App) -> (String, Value) {
    let addresses = &app.info.addresses;
    if let Some(joined) = app.info.state.cluster() {
        let members = joined.membership.members().borrow().clone();
        return member_info(members.me(), addresses.rest.port().into());
    }
    let node = addresses.rest.ip().to_string();
    let info = info(&node, "", addresses.rest.port().into(), addresses.grpc.port());
    (node, info)
}

/// A member of the cluster by its host. Port 0 of its REST: it did not say.
fn member_info(member: &Member, rest_port: u32) -> (String, Value) {
    let (host, port) = member.address.rsplit_once(':').unwrap_or_default();
    let info = info(host, &member.id.to_string(), rest_port, port.parse().unwrap_or_default());
    (host.to_owned(), info)
}

fn info(node: &str, uuid: &str, rest_port: u32, rpc_port: u16) -> Value {
    json!({
        "name": "fodder",
        "node": node,
        "uuid": uuid,
        "restport": rest_port,
        "rpcport": rpc_port,
        "gossipport": 0,
        "restadminport": 0,
        "multijob_support": true,
        "etcd_nodes": "",
    })
}

/// The jobs that introduced themselves, by uuid.
#[utoipa::path(get, path = "/mjob", tag = "icache",
    responses((status = 200, description = "The jobs by uuid", content_type = "application/json")))]
pub(crate) async fn jobs(State(app): State<App>) -> impl IntoResponse {
    Json(app.info.state.icache.jobs.lock().all(SystemTime::now()))
}

/// A new job (INIT), or one by uuid (GETBYUUID).
#[utoipa::path(post, path = "/mjob", tag = "icache",
    request_body(content = JobForm, content_type = "application/x-www-form-urlencoded"),
    responses((status = 200, description = "The job", content_type = "application/json"),
        (status = 400, description = "No such op"), (status = 404, description = "No such job, or no dataset"),
        (status = 409, description = "Several datasets: set node.icache.dataset"),
        (status = 507, description = "Too many jobs")))]
pub(crate) async fn post_job(State(app): State<App>, form: Fields) -> Result<Response, Problem> {
    let icache = &app.info.state.icache;
    let now = SystemTime::now();
    match form.op()? {
        "INIT" => {
            let uuid = uuid(rand::random());
            icache.introduce(&app.engine, &uuid)?;
            let (job, forgotten) = icache.jobs.lock().init(uuid, now);
            icache.leave(&app.engine, forgotten);
            Ok(Json(job).into_response())
        }
        "GETBYUUID" => {
            let uuid = form.get("uuid")?;
            let mut jobs = icache.jobs.lock();
            let job = jobs.get(uuid, now).ok_or_else(|| no_job(uuid))?;
            Ok(Json(job).into_response())
        }
        other => Err(Problem::invalid(format!("POST /mjob takes op=INIT and op=GETBYUUID, not {other:?}"))),
    }
}

/// What a job is called and how it was started (UPDATE, which creates an unknown job), or that it is over (FINISH). The node
/// goes on.
#[utoipa::path(put, path = "/mjob", tag = "icache",
    request_body(content = JobForm, content_type = "application/x-www-form-urlencoded"),
    responses((status = 200, description = "Nothing, or the time of the end", body = String, content_type = "text/plain"),
        (status = 400, description = "No such op, or too long"), (status = 404, description = "No such job")))]
pub(crate) async fn put_job(State(app): State<App>, form: Fields) -> Result<String, Problem> {
    let op = form.op()?;
    if !matches!(op, "UPDATE" | "FINISH") {
        return Err(Problem::invalid(format!("PUT /mjob takes op=UPDATE and op=FINISH, not {op:?}")));
    }
    let uuid = form.get("job_uuid")?;
    let (icache, now) = (&app.info.state.icache, SystemTime::now());
    if op == "FINISH" {
        let end = icache.jobs.lock().finish(uuid, now).ok_or_else(|| no_job(uuid))?;
        icache.leave(&app.engine, Some(uuid.to_owned()));
        return Ok(end);
    }
    let (name, args) = (form.get("job_name")?, form.get("job_args")?);
    if name.len() > JobTable::MAX_NAME_BYTES || args.len() > JobTable::MAX_ARGS_BYTES {
        let (name, args) = (JobTable::MAX_NAME_BYTES, JobTable::MAX_ARGS_BYTES);
        return Err(Problem::invalid(format!("job_name may have {name} bytes and job_args {args}")));
    }
    if icache.jobs.lock().update(uuid, name.to_owned(), args.to_owned(), now) {
        icache.renew(&app.engine, uuid)?;
        return Ok(String::new());
    }
    // A client that outlived the node it was known to. A job of another kind that has this name is not touched.
    if uuid.is_empty() || uuid.len() > JobTable::MAX_UUID_BYTES {
        return Err(Problem::invalid(format!("job_uuid has 1 to {} bytes", JobTable::MAX_UUID_BYTES)));
    }
    icache.introduce(&app.engine, uuid)?;
    let forgotten = {
        let mut jobs = icache.jobs.lock();
        let (_, forgotten) = jobs.init(uuid.to_owned(), now);
        jobs.update(uuid, name.to_owned(), args.to_owned(), now);
        forgotten
    };
    icache.leave(&app.engine, forgotten);
    Ok(String::new())
}

/// Forgets one job (`job_uuid`), or all of them.
#[utoipa::path(delete, path = "/mjob", tag = "icache", params(("job_uuid" = Option<String>, Query, description = "Which job")),
    responses((status = 200, description = "How many were forgotten", body = String, content_type = "text/plain")))]
pub(crate) async fn delete_job(State(app): State<App>, form: Fields) -> String {
    let icache = &app.info.state.icache;
    let forgotten = icache.jobs.lock().remove(form.0.get("job_uuid").map(String::as_str));
    let count = forgotten.len();
    icache.leave(&app.engine, forgotten);
    format!("clear {count} job meta data")
}

/// The fields of a form and of the query together; the form's win.
pub(crate) struct Fields(BTreeMap<String, String>);

impl FromRequest<App> for Fields {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let query = request.uri().query().unwrap_or_default().to_owned();
        let body = Bytes::from_request(request, app).await.map_err(|error| Problem::invalid(error.body_text()))?;
        Ok(Self::new(&query, &body))
    }
}

impl Fields {
    fn new(query: &str, body: &[u8]) -> Self {
        let query = form_urlencoded::parse(query.as_bytes());
        Self(query.into_owned().chain(form_urlencoded::parse(body).into_owned()).collect())
    }

    fn op(&self) -> Result<&str, Problem> {
        self.get("op")
    }

    fn get(&self, field: &str) -> Result<&str, Problem> {
        let value = self.0.get(field).map(String::as_str);
        value.ok_or_else(|| {
            Problem::invalid(format!("the field {field:?} is missing: send it as a form or in the query"))
        })
    }
}

fn no_job(uuid: &str) -> Problem {
    Problem::not_found(format!("there is no job {uuid:?}: it was never initialised, or forgotten after its end"))
}

/// A random (version 4) uuid.
fn uuid(random: u128) -> String {
    let bits = (random & !(0xf << 76 | 0x3 << 62)) | 0x4 << 76 | 0x2 << 62;
    let hex = format!("{bits:032x}");
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

fn capacity(app: &App, dataset: &DatasetStatus) -> u64 {
    let status = app.engine.status();
    capacity_samples(dataset, &status.tiers, status.datasets.len())
}

/// A policy by iCache's name for it, if it has one: CoorDL's cache is minio, ISA is importance.
fn cache_type(policy: Policy) -> &'static str {
    match policy {
        Policy::Minio => "coordl",
        Policy::Importance => "isa",
        other => other.name(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_has_its_version_and_variant() {
        assert_eq!(uuid(0), "00000000-0000-4000-8000-000000000000");
        assert_eq!(uuid(u128::MAX), "ffffffff-ffff-4fff-bfff-ffffffffffff");
    }

    #[test]
    fn the_form_and_the_query_are_read_together() {
        let form = Fields::new("op=INIT&x=%20a", b"op=FINISH&y=b+c");
        assert_eq!(form.op().ok(), Some("FINISH"));
        assert_eq!((form.get("x").ok(), form.get("y").ok()), (Some(" a"), Some("b c")));
        assert!(form.get("z").is_err());
        assert!(Fields::new("", b"\xff\xfe=%zz&&&=").op().is_err());
    }
}
