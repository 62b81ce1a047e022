//! Where the bytes of one flight come from: a peer as far as it brings them, the origin for the rest.

use super::Wanted;
use crate::{
    Error, Result,
    engine::{Dataset, flight::Flight},
    id::{FileKey, Version},
};
use bytes::Bytes;
use futures::{StreamExt, stream::BoxStream};
use std::{ops::Range, sync::atomic::Ordering::Relaxed};

/// What a flight reads from.
pub(in crate::engine) struct Supply<'a> {
    dataset: &'a Dataset,
    flight: &'a Flight,
    path: String,
    version: Version,
    /// What has not come yet.
    rest: Range<u64>,
    body: BoxStream<'static, Result<Bytes>>,
    by_peer: bool,
}

impl<'a> Supply<'a> {
    /// Asks the peers, unless the flight is for one of them, then the origin.
    pub(in crate::engine) async fn open(dataset: &'a Dataset, flight: &'a Flight) -> Result<Self> {
        let objects = dataset.objects();
        let (path, version) = (objects.path(flight.object), objects.version(flight.object));
        let (key, object_bytes) = (objects.key(flight.object), objects.size(flight.object));
        let rest = flight.range.clone();
        let given = dataset.ask_peers(flight, &path, (key, object_bytes)).await;
        let by_peer = given.is_some();
        let body = match given {
            Some(body) => body,
            None => {
                flight.asks_origin();
                dataset.ask_origin(&path, &version, rest.clone()).await?
            }
        };
        Ok(Self { dataset, flight, path, version, rest, body, by_peer })
    }

    /// The next bytes: some, until all have come.
    pub(in crate::engine) async fn next(&mut self) -> Result<Bytes> {
        loop {
            let left = self.rest.end - self.rest.start;
            match self.body.next().await {
                Some(Ok(chunk)) if chunk.is_empty() => {}
                Some(Ok(chunk)) if chunk.len() as u64 <= left => {
                    let (bytes, counters) = (chunk.len() as u64, &self.dataset.counters);
                    let counter = if self.by_peer { &counters.bytes_from_peers } else { &counters.bytes_from_origin };
                    counter.fetch_add(bytes, Relaxed);
                    self.flight.came_from(self.by_peer);
                    self.rest.start += bytes;
                    return Ok(chunk);
                }
                failed if self.by_peer => {
                    let error = failed.and_then(Result::err);
                    tracing::debug!(path = self.path, ?error, "a peer sent less than it should; asking the origin");
                    self.flight.asks_origin();
                    self.body = self.dataset.ask_origin(&self.path, &self.version, self.rest.clone()).await?;
                    self.by_peer = false;
                }
                Some(Err(error)) => return Err(error),
                Some(Ok(_)) | None => {
                    let path = &self.path;
                    return Err(Error::Unavailable(format!(
                        "the origin did not send as many bytes of {path:?} as were asked for"
                    )));
                }
            }
        }
    }
}

impl Dataset {
    async fn ask_peers(
        &self,
        flight: &Flight,
        path: &str,
        (key, object_bytes): (FileKey, u64),
    ) -> Option<BoxStream<'static, Result<Bytes>>> {
        let peers = self.shared.peers.get()?;
        let (dataset, path) = (self.config().name.clone(), path.to_owned());
        let (range, for_peer) = (flight.range.clone(), flight.is_for_peer());
        peers.read(Wanted { dataset, path, key, object_bytes, range, for_peer }).await
    }

    async fn ask_origin(
        &self,
        path: &str,
        version: &Version,
        range: Range<u64>,
    ) -> Result<BoxStream<'static, Result<Bytes>>> {
        self.counters.origin_requests.fetch_add(1, Relaxed);
        self.origin.get(path, version, range).await
    }
}
