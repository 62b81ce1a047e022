//! What the doors of a node share beside the engine: who is connected, whether the node is ready, what iCache's keep.
//!
//! It only remembers; whoever opens doors and datasets tells it.

use crate::{
    cluster::{Peering, Strangers, Tls, Trust, membership::Joined, warm::Orders},
    icache::{Icache, IcacheConfig},
    listener::Caller,
    place,
};
use fodder_api::{error::NODES_ONLY, v1::NodeReload};
use fodder_core::{Dataset, Error, Result, catalog::Snapshot, id::SnapshotId, job::JobId};
use futures::future::BoxFuture;
use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

/// What the doors of a node share.
#[derive(Debug, Default)]
pub struct NodeState {
    /// Connections that are open.
    pub connections: Connections,
    /// What iCache's doors keep.
    pub(crate) icache: Icache,
    /// What other nodes have told this one to bring in.
    pub(crate) orders: Arc<Orders>,
    /// Who was turned away.
    pub(crate) strangers: Strangers,
    reloading: OnceLock<Reloading>,
    ready: AtomicBool,
    cluster: OnceLock<Joined>,
    peering: OnceLock<Arc<Peering>>,
    trust: OnceLock<Trust>,
}

/// Reads a node's configuration again, and makes it so: what whoever started the node knows how to do.
pub struct Reloading(Box<dyn Fn() -> BoxFuture<'static, Result<NodeReload>> + Send + Sync>);

impl Reloading {
    /// By this.
    pub fn new<F>(reload: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<NodeReload>> + Send + 'static,
    {
        Self(Box::new(move || Box::pin(reload())))
    }

    pub(crate) async fn run(&self) -> Result<NodeReload> {
        (self.0)().await
    }
}

impl fmt::Debug for Reloading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reloading")
    }
}

/// Connections that are open, by door, and how many there ever were.
#[derive(Debug, Default)]
pub struct Connections {
    /// HTTP/1.
    pub rest: AtomicU64,
    /// gRPC, over TCP or the Unix socket.
    pub grpc: AtomicU64,
    /// Frames, over TCP or the Unix socket.
    pub frames: AtomicU64,
    /// All that were ever taken, open or not.
    pub ever: AtomicU64,
}

impl NodeState {
    /// A node that is not ready yet.
    pub fn new(icache: IcacheConfig) -> Self {
        Self { icache: Icache::new(icache), ..Self::default() }
    }

    /// From now on the node gives bytes to the others of its cluster. Only the first call counts.
    pub fn share(&self, peering: Arc<Peering>) {
        let _ = self.peering.set(peering);
    }

    /// The node's dealings with the others of its cluster, if it is in one.
    pub fn peering(&self) -> Option<&Arc<Peering>> {
        self.peering.get()
    }

    /// Hears what other nodes know of a job, before it is answered.
    pub(crate) async fn consult(&self, dataset: &Arc<Dataset>, job: &str) {
        if let Some(peering) = self.peering() {
            peering.consult(dataset, job).await;
        }
    }

    /// The snapshot that a request names, or the newest; from other nodes, if it is not here.
    pub(crate) async fn snapshot(&self, dataset: &Arc<Dataset>, id: Option<SnapshotId>) -> Result<Arc<Snapshot>> {
        let here = place::snapshot(dataset, id);
        match (here, self.peering(), id) {
            (Err(error), Some(peering), Some(id)) => peering.pull_snapshot(dataset, &id.0).await.ok_or(error),
            (here, ..) => here,
        }
    }

    /// Gets the snapshot that a checkpoint is of from other nodes, if it is not here.
    pub(crate) async fn prepare_resume(&self, dataset: &Arc<Dataset>, checkpoint: &[u8]) {
        if let Some(peering) = self.peering()
            && let Some(lack) = dataset.jobs().lacks_for(checkpoint)
        {
            peering.pull_snapshot(dataset, &lack.fingerprint.to_le_bytes()).await;
        }
    }

    /// Hears what other nodes know of all jobs of a dataset.
    pub(crate) async fn hear_all(&self, dataset: &Arc<Dataset>) {
        if let Some(peering) = self.peering() {
            peering.hear_all(dataset).await;
        }
    }

    /// The same by the job's number here.
    pub(crate) async fn consult_of(&self, dataset: &Arc<Dataset>, job: JobId) {
        if self.peering().is_some()
            && let Some(name) = dataset.jobs().name_of(job)
        {
            self.consult(dataset, &name).await;
        }
    }

    /// What reads the node's configuration again, once whoever started it has said so.
    pub(crate) fn reloading(&self) -> Option<&Reloading> {
        self.reloading.get()
    }

    /// Says how the node's configuration is read again. Only the first counts.
    pub fn reload_by(&self, reloading: Reloading) {
        let _ = self.reloading.set(reloading);
    }

    /// From now on other machines are answered only if they have what is asked for here. Only the first call counts.
    pub(crate) fn secure(&self, trust: Trust) {
        let _ = self.trust.set(trust);
    }

    /// What other nodes must show, and are shown.
    pub fn tls(&self) -> Option<&Arc<Tls>> {
        self.trust.get()?.tls.as_ref()
    }

    /// Whether somebody is answered as clients are. Where nodes must prove who they are, whoever is on another machine is a
    /// stranger until that is proven, as is whoever is not known at all.
    pub(crate) fn admit(&self, caller: Option<&Caller>) -> Result<()> {
        let is_stranger = self.trust.get().is_some_and(Trust::is_asked) && !caller.is_some_and(|caller| caller.is_here);
        if is_stranger {
            return Err(Error::Denied(NODES_ONLY.into()));
        }
        Ok(())
    }

    /// Whether the datasets that were configured are open.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// Says that the datasets that were configured are open.
    pub fn set_ready(&self) {
        self.ready.store(true, Ordering::Release);
    }

    /// The cluster that the node has joined.
    pub fn cluster(&self) -> Option<&Joined> {
        self.cluster.get()
    }

    /// Says that the node has joined a cluster. Only the first counts.
    pub fn join(&self, joined: Joined) {
        let _ = self.cluster.set(joined);
    }
}
