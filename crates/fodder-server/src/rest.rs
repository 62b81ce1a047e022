//! REST under `/api/v1`.

use crate::NodeInfo;
use fodder_core::Engine;
use std::sync::Arc;

/// Everything that is answered on the REST port.
pub(crate) fn router(engine: Arc<Engine>, info: Arc<NodeInfo>) -> axum::Router {
    let _ = (engine, info);
    axum::Router::new()
}
