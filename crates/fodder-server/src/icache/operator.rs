//! iCache's gRPC service: `rpc.Operator/DCSubmit`.
//!
//! - `get_cache_info`: `nsamples`, and `cache_size`: how many of them fit the cache. `id` is the number of samples that
//!   these clients were sent and another node's cache had.
//! - `readimg_byidx`: the sample `imgidx`. With the policy `quiver` only if it is cached here and was not taken in this
//!   epoch, else `imgidx` −1: the client goes on with other samples. −1 asks for any sample: one that was not given yet in this epoch, a cached one
//!   if there is one.
//! - `readimg_byidx_t`: an important sample is answered with itself; another one perhaps with a cached sample, if the policy is
//!   `importance` with `package_design`, and not with `full_access`.
//! - `update_ivpersample`: losses are the scores of the job that stands for these clients.
//! - `refresh_server_ivpsample`: that job's epoch ends, and its scores take effect.
//! - A read with `id` 1 is answered with a grey image of 32×32 pixels in RGB, class 0, sample 0, a hit, whatever was asked:
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
use fodder_policy::Policy;
use std::sync::{Arc, atomic::Ordering};
use tonic::{Request, Response, Status};

/// A PNG of 32×32 pixels in RGB, all of them grey.
const FAKE_IMAGE: &[u8] = &[
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48, 0x44, 0x52, 0x00, 0x00, 0x00,
    0x20, 0x00, 0x00, 0x00, 0x20, 0x08, 0x02, 0x00, 0x00, 0x00, 0xfc, 0x18, 0xed, 0xa3, 0x00, 0x00, 0x00, 0x26, 0x49,
    0x44, 0x41, 0x54, 0x78, 0xda, 0xed, 0xcd, 0x31, 0x0d, 0x00, 0x00, 0x0c, 0x03, 0xa0, 0x4a, 0xaf, 0xf4, 0xaa, 0xd8,
    0xb1, 0x04, 0x0c, 0x90, 0x1e, 0x8b, 0x40, 0x20, 0x10, 0x08, 0x04, 0x02, 0x81, 0x40, 0x20, 0xf8, 0x12, 0x0c, 0x2d,
    0xde, 0x00, 0x5b, 0x05, 0x0f, 0x37, 0xaf, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82,
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
                Ok(id) if id < count && dataset.config().policy == Policy::Quiver => self.take(&dataset, id).await,
                Ok(id) if id < count => self.read(&dataset, &dataset.snapshot(), id, "readimg_byidx").await,
                _ => Ok(nothing(format!("there is no sample {}: the dataset has {count}", request.imgidx))),
            },
            OpType::ReadimgByidxT => match importance::flagged(&request.imgidx_t, count) {
                Ok((id, important)) => {
                    let replaceable = !important && !request.full_access && self.icache().may_substitute(&dataset);
                    let answer = self.icache().implicit.ask(&self.info.state, &dataset, id, replaceable).await?;
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
        let id = signed(self.icache().remote_hits.load(Ordering::Relaxed));
        DcReply { id, cache_size: signed(cache_size), nsamples: signed(dataset.items), ..says("get_cache_info".into()) }
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

    async fn take(&self, dataset: &Arc<Dataset>, id: ItemId) -> Result<DcReply> {
        let narrow = u32::try_from(id).map_err(|_| Error::Invalid(format!("sample {id} is too large a number")))?;
        match self.icache().implicit.take(&self.info.state, dataset, narrow).await? {
            Some(answer) => self.answer(dataset, answer, "readimg_byidx").await,
            None => Ok(nothing(format!("sample {id} is not cached, or was taken in this epoch"))),
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
        if source == Source::Peer {
            self.icache().remote_hits.fetch_add(1, Ordering::Relaxed);
        }
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
    DcReply { len: signed(data.len() as u64), data, is_hit: true, ..says("a made-up image".into()) }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
