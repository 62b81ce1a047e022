//! The gRPC service `fodder.v1.Cluster`: answers members who ask who this node is, and people who ask who is there.

use super::word::{OTHERS_TOLD, Unbelieved, opened, sealed};
use crate::{NodeInfo, grpc::refuse};
use fodder_api::v1::{self, cluster_server};
use fodder_core::Error;
use std::sync::Arc;
use tonic::{Request, Response, Status};

/// The largest word taken.
const MAX_BYTES: usize = 64 << 10;

/// The service.
pub(crate) struct Door {
    info: Arc<NodeInfo>,
}

/// The service to add to the gRPC server.
pub(crate) fn service(info: Arc<NodeInfo>) -> cluster_server::ClusterServer<Door> {
    cluster_server::ClusterServer::new(Door { info }).max_decoding_message_size(MAX_BYTES)
}

#[tonic::async_trait]
impl cluster_server::Cluster for Door {
    async fn hello(&self, request: Request<v1::HelloMessage>) -> Result<Response<v1::HelloMessage>, Status> {
        let alone = || refuse(Error::Unavailable("this node is in no cluster".into()));
        let joined = self.info.state.cluster().ok_or_else(alone)?;
        let words = opened(request.get_ref(), &joined.seal).map_err(|error| {
            tracing::debug!(%error, "a stranger said hello");
            refuse(match error {
                Unbelieved::Stranger => Error::Denied(error.to_string()),
                Unbelieved::Nonsense(why) => Error::Invalid(why),
            })
        })?;
        joined.board.told(words);
        Ok(Response::new(sealed(joined.board.tell(OTHERS_TOLD), &joined.seal)))
    }

    async fn members(&self, _: Request<v1::MembersRequest>) -> Result<Response<v1::MembersReply>, Status> {
        let status = self.info.state.cluster().map(|joined| joined.status()).unwrap_or_default();
        Ok(Response::new(status.into()))
    }
}
