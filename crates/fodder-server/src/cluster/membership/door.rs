//! The gRPC service `fodder.v1.Cluster`: answers members who ask who this node is, and people who ask who is there.

use super::State;
use super::word::{OTHERS_TOLD, Unbelieved, opened, sealed};
use crate::{
    NodeInfo,
    cluster::{cluster_status, tls::Vouched},
    grpc::refuse,
    listener::Caller,
};
use fodder_api::v1::{self, cluster_server};
use fodder_core::{Engine, Error};
use std::sync::Arc;
use tonic::{Request, Response, Status};

/// The largest word taken.
const MAX_BYTES: usize = 64 << 10;

/// The service.
pub(crate) struct Door {
    engine: Arc<Engine>,
    info: Arc<NodeInfo>,
}

/// The service to add to the gRPC server.
pub(crate) fn service(engine: Arc<Engine>, info: Arc<NodeInfo>) -> cluster_server::ClusterServer<Door> {
    cluster_server::ClusterServer::new(Door { engine, info }).max_decoding_message_size(MAX_BYTES)
}

fn alone() -> Status {
    refuse(Error::Unavailable("this node is not in a cluster".into()))
}

#[tonic::async_trait]
impl cluster_server::Cluster for Door {
    async fn hello(&self, request: Request<v1::HelloMessage>) -> Result<Response<v1::HelloMessage>, Status> {
        let caller = request.extensions().get::<Caller>();
        let turn_away = |why: &str| {
            let from = caller.and_then(|caller| caller.from);
            self.info.state.strangers.turned_away(from, why);
        };
        if self.info.state.tls().is_some() && !caller.and_then(Caller::vouched).is_some_and(Vouched::holds) {
            turn_away("not over TLS");
            return Err(refuse(Error::Denied("this node answers other nodes over TLS only".into())));
        }
        let joined = self.info.state.cluster().ok_or_else(alone)?;
        let words = opened(request.get_ref(), &joined.seal).map_err(|error| {
            turn_away(&error.to_string());
            refuse(match error {
                Unbelieved::Stranger => Error::Denied(error.to_string()),
                Unbelieved::Nonsense(why) => Error::Invalid(why),
            })
        })?;
        Ok(Response::new(sealed(joined.board.asked(words, OTHERS_TOLD), &joined.seal)))
    }

    async fn drain(&self, _: Request<v1::DrainRequest>) -> Result<Response<v1::DrainReply>, Status> {
        let joined = self.info.state.cluster().ok_or_else(alone)?;
        let peering = self.info.state.peering().ok_or_else(alone)?;
        joined.membership.announce(State::Draining).await;
        let handed = peering.hand_over_all(&self.engine).await;
        Ok(Response::new(v1::DrainReply { taken: handed.taken, taken_bytes: handed.bytes, left: handed.left }))
    }

    async fn members(&self, _: Request<v1::MembersRequest>) -> Result<Response<v1::MembersReply>, Status> {
        Ok(Response::new(cluster_status(&self.engine, &self.info).await.into()))
    }
}
