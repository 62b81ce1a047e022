//! Bytes on their way from a peer: in order, each part compared with its checksum, none later than allowed.

use super::{
    Failure, Peer, Ways,
    breaker::Fault,
    connection::{Connection, Frame},
};
use bytes::Bytes;
use fodder_core::{Error, Result, engine::peer::Wanted};
use futures::stream::{self, BoxStream};
use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Instant,
};
use tokio::{sync::OwnedSemaphorePermit, time::timeout};

/// An answer that has begun. Dropped before its end, it takes its connection with it.
#[derive(Debug)]
pub(crate) struct Given {
    peer: Arc<Peer>,
    ways: Arc<Ways>,
    /// None behind the end.
    connection: Option<Connection>,
    first: Option<Frame>,
    wanted: Wanted,
    began: Instant,
    _slot: OwnedSemaphorePermit,
}

impl Given {
    pub(super) fn new(
        peer: Arc<Peer>,
        ways: Arc<Ways>,
        connection: Connection,
        first: Frame,
        wanted: &Wanted,
        slot: OwnedSemaphorePermit,
    ) -> Self {
        let (connection, first, began) = (Some(connection), Some(first), Instant::now());
        Self { peer, ways, connection, first, wanted: wanted.clone(), began, _slot: slot }
    }

    /// The bytes, as the engine takes them.
    pub(crate) fn into_stream(self) -> BoxStream<'static, Result<Bytes>> {
        Box::pin(stream::try_unfold(self, |mut given| async move {
            match given.next().await {
                Ok(bytes) => Ok(bytes.map(|bytes| (bytes, given))),
                Err(failure) => {
                    let fault = if matches!(failure, Failure::Lied(_)) { Fault::Lie } else { Fault::Silence };
                    if !matches!(failure, Failure::Refused(_)) {
                        given.peer.failed(fault, given.ways.now());
                    }
                    Err(Error::Unavailable(format!("{}: {failure:?}", given.peer.address)))
                }
            }
        }))
    }

    async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        let Some(connection) = &mut self.connection else { return Ok(None) };
        let patience = &self.ways.patience;
        loop {
            let frame = match self.first.take() {
                Some(frame) => frame,
                None => {
                    let late = |_| Failure::Silent("it stopped in the middle of an answer".into());
                    timeout(patience.progress, connection.next(&self.wanted)).await.map_err(late).flatten()?
                }
            };
            let left = &mut self.wanted.range;
            match frame {
                Frame::Coming if self.began.elapsed() > patience.coming => {
                    return Err(Failure::Silent("it keeps on promising".into()));
                }
                Frame::Coming => {}
                Frame::Done | Frame::Told(_) => {
                    return Err(Failure::Lied("it ended an answer that has no end yet".into()));
                }
                Frame::Part(offset, bytes) => {
                    if offset != left.start || bytes.is_empty() || bytes.len() as u64 > left.end - left.start {
                        return Err(Failure::Lied("it sent other bytes than those that were asked for".into()));
                    }
                    left.start += bytes.len() as u64;
                    self.peer.counts.bytes.fetch_add(bytes.len() as u64, Relaxed);
                    if left.is_empty() {
                        let connection = self.connection.take().expect("looked at above");
                        self.peer.breaker.lock().succeeded();
                        self.peer.keep(connection);
                    }
                    return Ok(Some(bytes));
                }
            }
        }
    }
}
