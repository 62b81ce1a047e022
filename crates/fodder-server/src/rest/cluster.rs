//! The cluster, as this node sees it.

use super::App;
use crate::cluster::membership::ClusterStatus;
use axum::{Json, extract::State};

/// The members of the cluster; nobody, if the node is in none.
#[utoipa::path(get, path = "/api/v1/cluster", tag = "node", responses((status = 200, body = ClusterStatus)))]
pub(super) async fn cluster(State(app): State<App>) -> Json<ClusterStatus> {
    Json(app.info.state.cluster().map(|joined| joined.status()).unwrap_or_default())
}
