//! The OpenAPI description of the REST door.
//!
//! Paths are described at their handlers. The engine's types know nothing of OpenAPI, so what they look like on the wire
//! is described here, and tests compare the two.
#![allow(dead_code, reason = "these types only describe what the engine's own look like on the wire")]

mod config;
mod report;
mod status;

pub(super) use config::{DatasetConfig, Mode, Uneven};
pub(super) use report::{Advice, EvictReport, RefreshReport, ReloadReply, VerifyReport, WarmLine};
pub(super) use status::{DatasetStatus, NodeStatus};

use super::{ProblemBody, cluster, dataset, job, node, object, warm};
use crate::icache::rest as icache;
use utoipa::OpenApi;

/// Everything the REST door answers.
#[derive(OpenApi)]
#[openapi(
    info(title = "Fodder", description = "A training-data cache: the REST door of one node.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")),
    paths(
        node::index, node::healthz, node::readyz, node::metrics, node::openapi, node::status, cluster::cluster,
        cluster::reload,
        dataset::list, dataset::add, dataset::get, dataset::remove, dataset::refresh, dataset::evict, dataset::verify,
        dataset::advice, warm::warm,
        object::list, object::object, object::item,
        job::list, job::introduce, job::get, job::leave, job::checkpoint,
        job::epoch::begin, job::epoch::next, job::epoch::acknowledge, job::epoch::consumed, job::epoch::resume,
        job::epoch::renew, job::report::scores, job::report::embeddings,
        icache::statistic, icache::cache, icache::node, icache::cluster, icache::post_cluster,
        icache::jobs, icache::post_job, icache::put_job, icache::delete_job,
    ),
    components(schemas(ProblemBody)),
    tags(
        (name = "node", description = "The node itself"),
        (name = "datasets", description = "What the node serves"),
        (name = "data", description = "The bytes"),
        (name = "jobs", description = "Who trains on a dataset"),
        (name = "icache", description = "The paths of iCache's server, for its clients"),
    )
)]
pub(super) struct Description;
