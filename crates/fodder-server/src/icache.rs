//! iCache's gRPC door.

use fodder_api::icache::{
    DcReply, DcRequest,
    operator_server::{Operator, OperatorServer},
};
use fodder_core::Engine;
use std::sync::Arc;
use tonic::{Request, Response, Status};

/// Answers iCache's client from a dataset of the engine.
pub(crate) struct Door {
    _engine: Arc<Engine>,
}

/// The service to add to the gRPC server.
pub(crate) fn service(engine: Arc<Engine>) -> OperatorServer<Door> {
    OperatorServer::new(Door { _engine: engine })
}

#[tonic::async_trait]
impl Operator for Door {
    async fn dc_submit(&self, request: Request<DcRequest>) -> Result<Response<DcReply>, Status> {
        let _ = request;
        Err(Status::unimplemented("not built yet"))
    }
}
