//! iCache's gRPC service: `rpc.Operator/DCSubmit`.
//!
//! - `get_cache_info`: `nsamples`, and `cache_size`: how many of them fit the cache. `id` is 0: nothing comes from other
//!   nodes.
//! - `readimg_byidx`: the sample `imgidx`. −1 asks for any sample: one that was not given yet in this epoch, a cached one
//!   if there is one.
//! - `readimg_byidx_t`: an important sample is answered with itself, another one perhaps with a cached sample.
//! - `update_ivpersample`: losses are the scores of the job that stands for these clients.
//! - `refresh_server_ivpsample`: that job's epoch ends, and its scores take effect.
//! - A read with `id` 1 is answered with a grey image of 32×32 pixels, class 0, sample 0, not a hit, whatever was asked:
//!   the client measures itself that way, and nothing is read.
//!
//! The reply carries the number and the class (−1: the layout has none) of the sample that is served; `is_hit` is true
//! only if a tier had the sample that was asked for. A sample that does not exist is `imgidx` −1, with the reason in `msg`. The client asks again
//! at once when it sees −1, so what it cannot mend by that (no dataset, an origin that is gone) is a gRPC error.

use super::{Icache, capacity_samples, importance, sample::Samples};
use crate::{NodeInfo, grpc::refuse, place};
use bytes::Bytes;
use fodder_api::icache::{
    DcReply, DcRequest, OpType,
    operator_server::{Operator, OperatorServer},
};
use fodder_core::{
    Dataset, Engine, Error, Result,
    catalog::{Item, Snapshot},
    engine::Source,
    id::{ItemId, SnapshotId},
    job::{Kind, Served},
};
use std::sync::{Arc, atomic::Ordering};
use tonic::{Request, Response, Status};

/// A grey PNG of 32×32 pixels.
const FAKE_IMAGE: &[u8] = &[
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48, 0x44, 0x52, 0x00, 0x00, 0x00,
    0x20, 0x00, 0x00, 0x00, 0x20, 0x08, 0x00, 0x00, 0x00, 0x00, 0x56, 0x11, 0x25, 0x28, 0x00, 0x00, 0x00, 0x16, 0x49,
    0x44, 0x41, 0x54, 0x78, 0xda, 0x63, 0x68, 0x20, 0x00, 0x18, 0x46, 0x15, 0x8c, 0x2a, 0x18, 0x55, 0x30, 0x52, 0x15,
    0x00, 0x00, 0x42, 0x00, 0x00, 0x1f, 0x37, 0x97, 0x36, 0x00, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4e, 0x44, 0xae,
    0x42, 0x60, 0x82,
];

/// Answers iCache's client from one dataset of the engine.
#[derive(Debug)]
pub(crate) struct Door {
    engine: Arc<Engine>,
    info: Arc<NodeInfo>,
    samples: Samples,
}

/// The service to add to the gRPC server.
pub(crate) fn service(engine: Arc<Engine>, info: Arc<NodeInfo>) -> OperatorServer<Door> {
    OperatorServer::new(Door::new(engine, info))
}

#[tonic::async_trait]
impl Operator for Door {
    async fn dc_submit(&self, request: Request<DcRequest>) -> Result<Response<DcReply>, Status> {
        self.submit(request.into_inner()).await.map(Response::new).map_err(refuse)
    }
}

impl Door {
    pub(super) fn new(engine: Arc<Engine>, info: Arc<NodeInfo>) -> Self {
        Self { engine, info, samples: Samples::default() }
    }

    pub(super) async fn submit(&self, request: DcRequest) -> Result<DcReply> {
        let Ok(operation) = OpType::try_from(request.r#type) else {
            return Ok(nothing(format!("operation {} is not known: 0 to 4 are", request.r#type)));
        };
        if request.id == 1 && matches!(operation, OpType::ReadimgByidx | OpType::ReadimgByidxT) {
            return Ok(fake());
        }
        let dataset = self.icache().dataset(&self.engine)?;
        let count = dataset.snapshot().len();
        match operation {
            OpType::GetCacheInfo => Ok(self.cache_info(&dataset)),
            OpType::ReadimgByidx if request.imgidx == -1 => self.any(&dataset).await,
            OpType::ReadimgByidx => match u64::try_from(request.imgidx) {
                Ok(id) if id < count => self.read(&dataset, &dataset.snapshot(), id, "readimg_byidx").await,
                _ => Ok(nothing(format!("there is no sample {}: the dataset has {count}", request.imgidx))),
            },
            OpType::ReadimgByidxT => match importance::flagged(&request.imgidx_t, count) {
                Ok((id, important)) => {
                    let answer = self.icache().implicit.ask(&self.info.state, &dataset, id, !important).await?;
                    self.answer(&dataset, answer, "readimg_byidx_t").await
                }
                Err(reason) => Ok(nothing(reason)),
            },
            OpType::UpdateIvpersample => self.take_losses(&dataset, &request.kvlist_json, count).await,
            OpType::RefreshServerIvpsample => {
                self.icache().implicit.end_epoch(&self.info.state, &dataset).await?;
                self.icache().epochs.fetch_add(1, Ordering::Relaxed);
                Ok(says("refresh_server_ivpsample: accepted".into()))
            }
        }
    }

    fn icache(&self) -> &Icache {
        &self.info.state.icache
    }

    fn cache_info(&self, dataset: &Dataset) -> DcReply {
        let engine = self.engine.status();
        let dataset = dataset.status();
        let cache_size = capacity_samples(&dataset, &engine.tiers, engine.datasets.len());
        DcReply { cache_size: signed(cache_size), nsamples: signed(dataset.items), ..says("get_cache_info".into()) }
    }

    async fn take_losses(&self, dataset: &Arc<Dataset>, json: &str, count: u64) -> Result<DcReply> {
        let refused = |reason: String| Ok(says(format!("update_ivpersample: refused: {reason}")));
        let (ids, losses) = match importance::losses(json, count) {
            Ok(losses) => losses,
            Err(reason) => return refused(reason),
        };
        match self.icache().implicit.report(&self.info.state, dataset, &ids, &losses).await {
            Ok(()) => {
                self.icache().losses.fetch_add(losses.len() as u64, Ordering::Relaxed);
                Ok(says(format!("update_ivpersample: accepted {} losses", losses.len())))
            }
            Err(Error::Invalid(reason)) => refused(reason),
            Err(error) => Err(error),
        }
    }

    async fn any(&self, dataset: &Arc<Dataset>) -> Result<DcReply> {
        match self.icache().implicit.any(&self.info.state, dataset).await? {
            Some(answer) => self.answer(dataset, answer, "readimg_byidx").await,
            None => Ok(nothing("the dataset has no sample".into())),
        }
    }

    /// The sample that a job is answered with.
    async fn answer(&self, dataset: &Arc<Dataset>, answer: (SnapshotId, Served), msg: &str) -> Result<DcReply> {
        let (snapshot, Served { asked, served, kind }) = answer;
        let snapshot = place::snapshot(dataset, Some(snapshot))?;
        if kind != Kind::Substituted {
            return self.read(dataset, &snapshot, served.into(), msg).await;
        }
        let reply = self.read(dataset, &snapshot, served.into(), msg).await?;
        Ok(DcReply { is_hit: false, msg: format!("{msg}: sample {served} stands in for {asked}"), ..reply })
    }

    async fn read(&self, dataset: &Arc<Dataset>, snapshot: &Snapshot, id: ItemId, msg: &str) -> Result<DcReply> {
        let item = snapshot.item(id)?;
        let (bytes, source) = self.samples.read(dataset, id, &item).await?;
        Ok(served(id, &item, bytes, source, msg))
    }
}

fn served(id: ItemId, item: &Item, data: Bytes, source: Source, msg: &str) -> DcReply {
    DcReply {
        len: signed(data.len() as u64),
        data,
        clsidx: item.label.map_or(-1, i64::from),
        imgidx: signed(id),
        is_hit: matches!(source, Source::Tier(_)),
        ..says(msg.to_owned())
    }
}

/// A reply that is only a message.
fn says(msg: String) -> DcReply {
    DcReply { msg, ..DcReply::default() }
}

/// A reply to a read that has no sample.
fn nothing(reason: String) -> DcReply {
    DcReply { imgidx: -1, clsidx: -1, ..says(reason) }
}

fn fake() -> DcReply {
    let data = Bytes::from_static(FAKE_IMAGE);
    DcReply { len: signed(data.len() as u64), data, ..says("a made-up image".into()) }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
