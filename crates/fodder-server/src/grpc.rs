//! The gRPC door: `fodder.v1.Node`, and `fodder.v1.Jobs` in `job`. It converts, calls the engine and replies. The services of
//! members and of iCache are beside it, and strangers are turned away before all of them.

mod bytes;
mod convert;
mod job;
mod listing;
mod objects;
mod stall;
mod tuning;
mod upload;
mod warm;

pub use convert::config_message;
pub(crate) use convert::{refuse, stats_message};

use crate::{
    NodeInfo, cluster, icache,
    items::{Items, Wanted},
    place::Place,
};
use axum::{
    Router, extract,
    middleware::{self, Next},
};
use convert::{add, dataset_status, place_of, snapshot_id};
use fodder_api::{
    MAX_IDS, MAX_PATH_BYTES,
    v1::{self, jobs_server::JobsServer, node_server, node_server::NodeServer},
};
use fodder_core::{Dataset, Engine, Error, catalog::Snapshot};
use futures::stream::BoxStream;
use std::{
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};
use tokio::sync::Semaphore;
use tonic::{Request, Response, Status, Streaming, service::Routes};
use upload::Uploads;

/// The largest request: as many ids as are allowed, at ten bytes each.
const MAX_REQUEST_BYTES: usize = 1 << 20;

/// Streams of bytes that are answered at a time, over all connections; more wait. Each holds a buffer or two.
const MAX_STREAMS: usize = 256;

type Answer<T> = Result<Response<T>, Status>;
type StreamOf<T> = BoxStream<'static, Result<T, Status>>;

/// The call by which nodes greet each other, which asks for its proof itself.
const HELLO: &str = "/fodder.v1.Cluster/Hello";

/// The service.
pub(crate) struct Door {
    engine: Arc<Engine>,
    info: Arc<NodeInfo>,
    streams: Arc<Semaphore>,
    /// How long a client may leave a stream unread.
    stall: Duration,
    /// Long lists that clients send.
    uploads: Uploads,
}

/// Every call that is answered.
pub(crate) fn router(engine: Arc<Engine>, info: Arc<NodeInfo>, stall: Duration) -> Router {
    let members = cluster::membership::service(Arc::clone(&engine), Arc::clone(&info));
    let icache = icache::service(Arc::clone(&engine), Arc::clone(&info));
    let guard = middleware::from_fn_with_state(Arc::clone(&info), guarded);
    let streams = Arc::new(Semaphore::new(MAX_STREAMS));
    let door = Arc::new(Door { engine, info, streams, stall, uploads: Uploads::new(stall) });
    Routes::new(NodeServer::from_arc(Arc::clone(&door)).max_decoding_message_size(MAX_REQUEST_BYTES))
        .add_service(JobsServer::from_arc(door).max_decoding_message_size(MAX_REQUEST_BYTES))
        .add_service(members)
        .add_service(icache)
        .into_axum_router()
        .layer(guard)
}

/// Turns strangers away from every service, but for nodes who are about to prove who they are.
async fn guarded(
    extract::State(info): extract::State<Arc<NodeInfo>>,
    request: extract::Request,
    next: Next,
) -> axum::response::Response {
    match info.state.admit(request.extensions().get()) {
        Err(denied) if request.uri().path() != HELLO => refuse(denied).into_http(),
        _ => next.run(request).await,
    }
}

impl Door {
    fn dataset(&self, name: &str) -> Result<Arc<Dataset>, Status> {
        self.engine.dataset(name).map_err(refuse)
    }

    /// A dataset and a snapshot of it; an empty id means the newest.
    async fn open(&self, name: &str, snapshot: &str) -> Result<(Arc<Dataset>, Arc<Snapshot>), Status> {
        let dataset = self.dataset(name)?;
        let snapshot = self.info.state.snapshot(&dataset, snapshot_id(snapshot)?).await.map_err(refuse)?;
        Ok((dataset, snapshot))
    }

    /// The right to answer with a stream of bytes, and what ends it when nobody reads.
    async fn stream<T: Send + 'static>(&self, stream: StreamOf<T>) -> StreamOf<T> {
        let permit = Arc::clone(&self.streams).acquire_owned().await.expect("the semaphore is never closed");
        Box::pin(stall::Watched::new(stream, permit, self.stall))
    }
}

fn check_path(path: &str) -> Result<(), Status> {
    if path.len() > MAX_PATH_BYTES {
        return Err(refuse(Error::Invalid(format!("the path has more than {MAX_PATH_BYTES} bytes"))));
    }
    Ok(())
}

#[tonic::async_trait]
impl node_server::Node for Door {
    type ListStream = StreamOf<v1::ListPage>;
    type ListItemsStream = StreamOf<v1::ItemsPage>;
    type ReadStream = StreamOf<v1::ReadChunk>;
    type GetItemsStream = StreamOf<v1::ItemBatch>;
    type WarmStream = StreamOf<v1::WarmProgress>;

    async fn status(&self, _: Request<v1::StatusRequest>) -> Answer<v1::StatusReply> {
        let status = self.engine.status();
        let started = self.info.started_at.duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Response::new(v1::StatusReply {
            version: self.info.version.into(),
            pid: std::process::id(),
            started_at_ms: started.as_millis() as u64,
            addresses: Some(convert::addresses(&self.info.addresses)),
            tiers: status.tiers.into_iter().map(convert::tier_status).collect(),
            datasets: status.datasets.into_iter().map(dataset_status).collect(),
            budget_bytes: status.budget_bytes,
            budget_used_bytes: status.budget_used_bytes,
        }))
    }

    async fn list_datasets(&self, _: Request<v1::ListDatasetsRequest>) -> Answer<v1::ListDatasetsReply> {
        let datasets = self.engine.datasets().iter().map(|dataset| dataset_status(dataset.status())).collect();
        Ok(Response::new(v1::ListDatasetsReply { datasets }))
    }

    async fn add_dataset(&self, request: Request<v1::AddDatasetRequest>) -> Answer<v1::AddDatasetReply> {
        let config = request.into_inner().config.unwrap_or_default();
        let dataset = self.engine.add_dataset(convert::dataset_config(config)?).await.map_err(refuse)?;
        Ok(Response::new(v1::AddDatasetReply { dataset: Some(dataset_status(dataset.status())) }))
    }

    async fn remove_dataset(&self, request: Request<v1::RemoveDatasetRequest>) -> Answer<v1::RemoveDatasetReply> {
        self.engine.remove_dataset(&request.into_inner().dataset).await.map_err(refuse)?;
        Ok(Response::new(v1::RemoveDatasetReply {}))
    }

    async fn refresh(&self, request: Request<v1::RefreshRequest>) -> Answer<v1::RefreshReply> {
        let v1::RefreshRequest { dataset, confirm_removals } = request.into_inner();
        let dataset = self.dataset(&dataset)?;
        let report = dataset.refresh_with(confirm_removals).await.map_err(refuse)?;
        let snapshot = dataset.snapshot();
        Ok(Response::new(v1::RefreshReply {
            snapshot: snapshot.id().to_string(),
            items: snapshot.len(),
            added: report.added,
            changed: report.changed,
            removed: report.removed,
            unchanged: report.unchanged,
        }))
    }

    async fn stat(&self, request: Request<v1::StatRequest>) -> Answer<v1::StatReply> {
        let v1::StatRequest { dataset, snapshot, target } = request.into_inner();
        let (dataset, snapshot) = self.open(&dataset, &snapshot).await?;
        let place = match target {
            Some(v1::stat_request::Target::Path(path)) => {
                check_path(&path)?;
                Place::of_path(&dataset, &snapshot, &path)
            }
            Some(v1::stat_request::Target::Item(item)) => Place::of_item(&snapshot, item),
            None => Err(convert::no_target()),
        };
        let place = place.map_err(refuse)?;
        Ok(Response::new(objects::stat(&dataset, &snapshot, &place).map_err(refuse)?))
    }

    async fn list(&self, request: Request<v1::ListRequest>) -> Answer<Self::ListStream> {
        let request = request.into_inner();
        check_path(&request.prefix)?;
        check_path(&request.after)?;
        let (dataset, snapshot) = self.open(&request.dataset, &request.snapshot).await?;
        Ok(Response::new(Box::pin(objects::pages(dataset, snapshot, request))))
    }

    async fn list_items(&self, request: Request<v1::ListItemsRequest>) -> Answer<Self::ListItemsStream> {
        let request = request.into_inner();
        let (_, snapshot) = self.open(&request.dataset, &request.snapshot).await?;
        Ok(Response::new(Box::pin(objects::item_pages(snapshot, request))))
    }

    async fn read(&self, request: Request<v1::ReadRequest>) -> Answer<Self::ReadStream> {
        let v1::ReadRequest { dataset, snapshot, target, offset, length } = request.into_inner();
        let (dataset, snapshot) = self.open(&dataset, &snapshot).await?;
        let place = place_of(&dataset, &snapshot, target)?;
        let range = place.cut(offset, length).map_err(refuse)?;
        let head = bytes::head(&dataset, &snapshot, &place, &range);
        let chunks = bytes::chunks(dataset, &place, range, head);
        Ok(Response::new(self.stream(Box::pin(chunks)).await))
    }

    async fn get_items(&self, request: Request<v1::GetItemsRequest>) -> Answer<Self::GetItemsStream> {
        let v1::GetItemsRequest { dataset, snapshot, ids } = request.into_inner();
        if ids.len() > MAX_IDS {
            let count = ids.len();
            return Err(refuse(Error::Invalid(format!("{count} ids in one request, and {MAX_IDS} are allowed"))));
        }
        let (dataset, snapshot) = self.open(&dataset, &snapshot).await?;
        let id = snapshot.id().to_string();
        let list = ids.into_iter().map(Wanted::from).collect();
        let items = Items::new(dataset, snapshot, list, bytes::PART_BYTES);
        Ok(Response::new(self.stream(Box::pin(bytes::batches(items, id))).await))
    }

    async fn warm(&self, request: Request<Streaming<v1::WarmRequest>>) -> Answer<Self::WarmStream> {
        let progress = self.begin_warming(request.into_inner()).await?;
        Ok(Response::new(self.stream(Box::pin(progress)).await))
    }

    async fn evict(&self, request: Request<v1::EvictRequest>) -> Answer<v1::EvictReply> {
        let request = request.into_inner();
        check_path(&request.prefix)?;
        cluster::evict(&self.engine, &self.info, request).await.map(Response::new).map_err(refuse)
    }

    async fn reload(&self, request: Request<v1::ReloadRequest>) -> Answer<v1::ReloadReply> {
        Ok(Response::new(cluster::reload(&self.info, request.into_inner().cluster).await))
    }

    async fn advise(&self, request: Request<v1::AdviseRequest>) -> Answer<v1::AdviseReply> {
        let advice = self.dataset(&request.into_inner().dataset)?.advise().await.map_err(refuse)?;
        Ok(Response::new(advice.into()))
    }

    async fn verify(&self, request: Request<v1::VerifyRequest>) -> Answer<v1::VerifyReply> {
        let name = request.into_inner().dataset;
        let datasets = if name.is_empty() { self.engine.datasets() } else { vec![self.dataset(&name)?] };
        let mut total = v1::VerifyReply::default();
        for dataset in datasets {
            add(&mut total, dataset.verify().await.map_err(refuse)?);
        }
        Ok(Response::new(total))
    }
}

#[cfg(test)]
mod tests;
