//! A client of one node's gRPC service: typed calls, timeouts, reconnection.
//!
//! No call hangs for ever. Connecting takes at most [`Timeouts::connect`]. Calls that answer from memory, and the gap
//! between two messages of a stream, take at most [`Timeouts::progress`]. Calls that may rightly take long (adding,
//! refreshing, evicting, verifying, advising) last as long as the node answers pings. What must not be here: retries of calls,
//! since only the caller knows which are safe.

mod channel;
mod job;
mod rank;
mod stream;
mod warm;

pub use job::{Introduced, Job, Scores};
pub use rank::Rank;
pub use stream::{Item, ItemStream, ItemsStream, ObjectStream, ReadStream};
pub use warm::WarmStream;

use crate::{
    Address, Error, Result, probe,
    v1::{self, node_client::NodeClient},
};
use fodder_policy::advise::Advice;
use std::{
    future::Future,
    io::{self, ErrorKind},
    pin::pin,
    sync::Arc,
    time::Duration,
};
use tonic::{Request, Response, Status, transport::Channel};

/// How long a client waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// For a connection.
    pub connect: Duration,
    /// For the answer to a short call, and for the next message of a stream.
    pub progress: Duration,
    /// Where there is another node to go to: an answer that is so late is waited for only if the node answers a greeting over
    /// another connection.
    pub doubt: Option<Duration>,
}

impl Timeouts {
    /// These where there is another node to go to: one that hangs costs a few seconds and not all of the timeout, and one
    /// that is slow is waited for all the same.
    #[must_use]
    pub fn among_others(self) -> Self {
        Self {
            connect: self.connect.min(Duration::from_secs(2)),
            doubt: self.doubt.or(Some(Duration::from_secs(1))),
            ..self
        }
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { connect: Duration::from_secs(5), progress: Duration::from_secs(30), doubt: None }
    }
}

/// What a request is about: an object by its path, or an item by its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The object at a path.
    Path(String),
    /// The item with an id.
    Item(u64),
}

/// A client of one node. Cheap to clone; clones share one connection, which is made again when it is lost.
#[derive(Debug, Clone)]
pub struct Client {
    node: NodeClient<Channel>,
    channel: Channel,
    peer: Arc<Peer>,
}

/// Who is asked, for messages, and how long to wait.
#[derive(Debug)]
struct Peer {
    address: Address,
    timeouts: Timeouts,
}

/// Whether a connection was there, and then not.
fn broke_off(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof)
}

impl Peer {
    /// The error of a call. One that never reached the node says so, and what to do.
    fn error(&self, status: Status) -> Error {
        let mut source = std::error::Error::source(&status);
        if source.is_none() || status.metadata().contains_key(crate::error::ERROR_TRAILER) {
            return status.into();
        }
        let (mut cause, mut is_mute, mut kind) = (status.message().to_owned(), false, ErrorKind::Other);
        while let Some(error) = source {
            cause = error.to_string();
            kind = error.downcast_ref().map_or(kind, io::Error::kind);
            is_mute = error.downcast_ref().is_none_or(broke_off);
            source = error.source();
        }
        let address = &self.address;
        let advice = if is_mute { address.advice_when_mute() } else { Address::advice(kind) };
        Error::Unavailable(format!("cannot reach the node at {address}: {cause}; {advice}"))
    }

    fn silent(&self) -> Error {
        let Self { address, timeouts } = self;
        Error::Unavailable(format!("the node at {address} has not answered for {} s", timeouts.progress.as_secs_f64()))
    }

    async fn short<T>(&self, call: impl Future<Output = Result<Response<T>, Status>>) -> Result<T> {
        self.patiently(call).await?.map(Response::into_inner).map_err(|status| self.error(status))
    }

    /// Waits for an answer as long as is allowed, and no longer than the node is there, if that is in doubt.
    async fn patiently<T>(&self, answer: impl Future<Output = T>) -> Result<T> {
        let mut answer = pin!(tokio::time::timeout(self.timeouts.progress, answer));
        let answered = match self.timeouts.doubt {
            None => answer.await,
            Some(doubt) => tokio::select! {
                answered = &mut answer => answered,
                () = self.hangs(doubt) => {
                    let address = &self.address;
                    let text = format!("the node at {address} hangs: it answers no request");
                    return Err(Error::Unavailable(text));
                }
            },
        };
        answered.map_err(|_| self.silent())
    }

    /// Ends when the node turns out to hang.
    async fn hangs(&self, doubt: Duration) {
        loop {
            tokio::time::sleep(doubt).await;
            if probe::is_silent_async(&self.address).await {
                return;
            }
        }
    }

    async fn long<T>(&self, call: impl Future<Output = Result<Response<T>, Status>>) -> Result<T> {
        call.await.map(Response::into_inner).map_err(|status| self.error(status))
    }
}

impl Client {
    /// Connects, with the usual timeouts.
    pub async fn connect(address: &Address) -> Result<Self> {
        Self::connect_with(address, Timeouts::default()).await
    }

    /// Connects. Unavailable, if nobody answers.
    pub async fn connect_with(address: &Address, timeouts: Timeouts) -> Result<Self> {
        let client = Self::lazy(address, timeouts)?;
        client.status().await?;
        Ok(client)
    }

    /// A client that connects at its first call. Needs a tokio runtime around it.
    pub fn lazy(address: &Address, timeouts: Timeouts) -> Result<Self> {
        let channel = channel::open(address, timeouts)?;
        let node = NodeClient::new(channel.clone()).max_decoding_message_size(channel::MAX_MESSAGE_BYTES);
        Ok(Self { node, channel, peer: Arc::new(Peer { address: address.clone(), timeouts }) })
    }

    /// Where the node listens, as it was given.
    pub fn address(&self) -> &Address {
        &self.peer.address
    }

    /// How the node stands.
    pub async fn status(&self) -> Result<v1::StatusReply> {
        self.peer.short(self.node.clone().status(v1::StatusRequest {})).await
    }

    /// The members of the node's cluster, as it sees them.
    pub async fn members(&self) -> Result<v1::MembersReply> {
        let mut cluster = v1::cluster_client::ClusterClient::new(self.channel.clone());
        self.peer.short(cluster.members(v1::MembersRequest {})).await
    }

    /// Makes the node own nothing, and waits until it has handed over what it alone holds.
    pub async fn drain(&self) -> Result<v1::DrainReply> {
        let mut cluster = v1::cluster_client::ClusterClient::new(self.channel.clone());
        self.peer.long(cluster.drain(v1::DrainRequest {})).await
    }

    /// The datasets, by name.
    pub async fn list_datasets(&self) -> Result<Vec<v1::DatasetStatus>> {
        let reply = self.peer.short(self.node.clone().list_datasets(v1::ListDatasetsRequest {})).await?;
        Ok(reply.datasets)
    }

    /// Adds a dataset, which lists its origin if the node does not know it.
    pub async fn add_dataset(&self, config: v1::DatasetConfig) -> Result<v1::DatasetStatus> {
        let request = v1::AddDatasetRequest { config: Some(config) };
        let reply = self.peer.long(self.node.clone().add_dataset(request)).await?;
        reply.dataset.ok_or_else(|| Error::Internal("the node added the dataset but sent no status of it".into()))
    }

    /// Forgets a dataset and drops what is cached of it.
    pub async fn remove_dataset(&self, dataset: &str) -> Result<()> {
        let request = v1::RemoveDatasetRequest { dataset: dataset.into() };
        self.peer.long(self.node.clone().remove_dataset(request)).await.map(drop)
    }

    /// Looks for new, changed and removed objects.
    pub async fn refresh(&self, dataset: &str) -> Result<v1::RefreshReply> {
        self.refresh_with(dataset, false).await
    }

    /// The same; with `confirm_removals` also if the listing removes everything, more than the configured share, or is of
    /// another file system.
    pub async fn refresh_with(&self, dataset: &str, confirm_removals: bool) -> Result<v1::RefreshReply> {
        let request = v1::RefreshRequest { dataset: dataset.into(), confirm_removals };
        self.peer.long(self.node.clone().refresh(request)).await
    }

    /// What is known of an object or an item.
    pub async fn stat(&self, dataset: &str, snapshot: Option<&str>, target: Target) -> Result<v1::StatReply> {
        let target = match target {
            Target::Path(path) => v1::stat_request::Target::Path(path),
            Target::Item(item) => v1::stat_request::Target::Item(item),
        };
        let snapshot = snapshot.unwrap_or_default().into();
        let request = v1::StatRequest { dataset: dataset.into(), snapshot, target: Some(target) };
        self.peer.short(self.node.clone().stat(request)).await
    }

    /// The objects whose path begins with `prefix`, in path order.
    pub async fn list(&self, dataset: &str, prefix: &str) -> Result<ObjectStream> {
        let request = v1::ListRequest { dataset: dataset.into(), prefix: prefix.into(), ..Default::default() };
        self.list_with(request).await
    }

    /// The objects a request asks for, in path order.
    pub async fn list_with(&self, request: v1::ListRequest) -> Result<ObjectStream> {
        let pages = self.peer.short(self.node.clone().list(request)).await?;
        Ok(ObjectStream::new(pages, self.peer.clone()))
    }

    /// What is known of items without their bytes, in pages.
    pub async fn list_items(&self, request: v1::ListItemsRequest) -> Result<ItemsStream> {
        let pages = self.peer.short(self.node.clone().list_items(request)).await?;
        Ok(ItemsStream::new(pages, self.peer.clone()))
    }

    /// Reads an object or an item of the newest snapshot from `offset`; a `length` of 0 means to its end.
    pub async fn read(&self, dataset: &str, target: Target, offset: u64, length: u64) -> Result<ReadStream> {
        let target = match target {
            Target::Path(path) => v1::read_request::Target::Path(path),
            Target::Item(item) => v1::read_request::Target::Item(item),
        };
        let target = Some(target);
        let request = v1::ReadRequest { dataset: dataset.into(), target, offset, length, ..Default::default() };
        self.read_with(request).await
    }

    /// Reads what a request asks for.
    pub async fn read_with(&self, request: v1::ReadRequest) -> Result<ReadStream> {
        let chunks = self.peer.short(self.node.clone().read(request)).await?;
        ReadStream::open(chunks, self.peer.clone()).await
    }

    /// Items by id, in the order asked; at most [`crate::MAX_IDS`] of them. No snapshot means the newest.
    pub async fn get_items(&self, dataset: &str, snapshot: Option<&str>, ids: Vec<u64>) -> Result<ItemStream> {
        let snapshot = snapshot.unwrap_or_default().into();
        let request = Request::new(v1::GetItemsRequest { dataset: dataset.into(), snapshot, ids });
        let batches = self.peer.short(self.node.clone().get_items(request)).await?;
        Ok(ItemStream::new(batches, self.peer.clone()))
    }

    /// Drops what is cached of the objects whose path begins with `prefix`, on all nodes of the node's cluster.
    pub async fn evict(&self, dataset: &str, prefix: &str) -> Result<v1::EvictReply> {
        self.evict_with(v1::EvictRequest { dataset: dataset.into(), prefix: prefix.into(), ..Default::default() }).await
    }

    /// Drops what a request says.
    pub async fn evict_with(&self, request: v1::EvictRequest) -> Result<v1::EvictReply> {
        self.peer.long(self.node.clone().evict(request)).await
    }

    /// Has the node read its configuration again, or all nodes of its cluster theirs.
    pub async fn reload(&self, cluster: bool) -> Result<v1::ReloadReply> {
        self.peer.long(self.node.clone().reload(v1::ReloadRequest { cluster })).await
    }

    /// What the readers of a dataset wait for, and what would help.
    pub async fn advise(&self, dataset: &str) -> Result<Advice> {
        let request = v1::AdviseRequest { dataset: dataset.into() };
        Ok(self.peer.long(self.node.clone().advise(request)).await?.into())
    }

    /// Compares what is cached of a dataset, or of all, with its checksums.
    pub async fn verify(&self, dataset: Option<&str>) -> Result<v1::VerifyReply> {
        let request = v1::VerifyRequest { dataset: dataset.unwrap_or_default().into() };
        self.peer.long(self.node.clone().verify(request)).await
    }
}
