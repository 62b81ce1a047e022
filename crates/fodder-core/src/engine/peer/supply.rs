//! Where the bytes of one flight come from: a peer as far as it brings them, the origin for the rest.

use super::{Given, Wanted};
use crate::{
    Error, Result,
    engine::{
        Dataset,
        flight::Flight,
        segment::{Chunk, Incoming},
    },
    id::Version,
};
use bytes::Bytes;
use futures::{StreamExt, stream::BoxStream};
use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

/// What a flight reads from.
pub(in crate::engine) struct Supply<'a> {
    dataset: &'a Arc<Dataset>,
    flight: &'a Flight,
    path: String,
    version: Version,
    /// What has not come yet.
    rest: Range<u64>,
    body: Body,
}

/// What comes.
enum Body {
    /// From a peer.
    Given(Box<dyn Given>),
    /// From the origin, and what has come of it and was not taken.
    Fetched(BoxStream<'static, Result<Bytes>>, Chunk),
}

impl<'a> Supply<'a> {
    /// Asks the peers, unless the flight is for one of them, then the origin. It has waited so long for a peer already.
    pub(in crate::engine) async fn open(
        dataset: &'a Arc<Dataset>,
        flight: &'a Flight,
        waited: Duration,
    ) -> Result<Self> {
        flight.requested_at(dataset.stamps.generation());
        let (path, mut version) = (dataset.objects().path(flight.object), dataset.origin_version(flight.object));
        let rest = flight.range.clone();
        let given = dataset.ask_peers(flight, waited).await;
        let body = match given {
            Some(given) => Body::Given(given),
            None => match dataset.ask_origin(flight, &path, &version, rest.clone()).await {
                Err(Error::Stale(text)) => {
                    // Nothing has come yet: if the contents are as they were, the request is made again.
                    version = dataset.revalidate(flight.object).await.ok_or(Error::Stale(text))?;
                    flight.requested_at(dataset.stamps.generation());
                    dataset.ask_origin(flight, &path, &version, rest.clone()).await?
                }
                body => body?,
            },
        };
        Ok(Self { dataset, flight, path, version, rest, body })
    }

    /// Brings the next bytes of a segment: some, and never more than it misses.
    pub(in crate::engine) async fn bring(&mut self, incoming: &mut Incoming) -> Result<()> {
        loop {
            let left = self.rest.end - self.rest.start;
            match &mut self.body {
                Body::Given(given) => match given.next(incoming.room()).await {
                    Ok(bytes) if bytes > 0 => {
                        incoming.filled(bytes);
                        self.came(&self.dataset.counters.bytes_from_peers, bytes as u64, true);
                        return Ok(());
                    }
                    ended => {
                        let (path, error) = (&self.path, ended.err());
                        tracing::debug!(path, ?error, "a peer sent less than it announced; fetching from the origin");
                        let rest = self.rest.clone();
                        self.body = self.dataset.ask_origin(self.flight, path, &self.version, rest).await?;
                    }
                },
                Body::Fetched(_, chunk) if !chunk.is_empty() => {
                    incoming.take(chunk);
                    return Ok(());
                }
                Body::Fetched(body, chunk) => match body.next().await {
                    Some(Ok(bytes)) if bytes.len() as u64 <= left => {
                        let count = bytes.len() as u64;
                        *chunk = bytes.into();
                        if count > 0 {
                            self.came(&self.dataset.counters.bytes_from_origin, count, false);
                        }
                    }
                    Some(Err(error)) => return Err(error),
                    Some(Ok(_)) | None => {
                        let path = &self.path;
                        return Err(Error::Unavailable(format!(
                            "the origin sent fewer bytes of {path:?} than requested"
                        )));
                    }
                },
            }
        }
    }

    fn came(&mut self, counter: &AtomicU64, bytes: u64, by_peer: bool) {
        counter.fetch_add(bytes, Relaxed);
        self.flight.came_from(by_peer);
        self.rest.start += bytes;
    }
}

impl Dataset {
    async fn ask_peers(&self, flight: &Flight, waited: Duration) -> Option<Box<dyn Given>> {
        let peers = self.shared.peers.get().filter(|_| !flight.flies_straight())?;
        if self.stamps.has(|| self.objects.load().key(flight.object)) {
            return None;
        }
        peers.read(Wanted { waited, ..self.wanted(flight) }).await
    }

    /// What a flight is to bring, as a peer is asked for it.
    pub(in crate::engine) fn wanted(&self, flight: &Flight) -> Wanted {
        let objects = self.objects();
        Wanted {
            dataset: self.config().name.clone(),
            path: objects.path(flight.object),
            key: objects.key(flight.object),
            object_bytes: objects.size(flight.object),
            range: flight.range.clone(),
            for_peer: flight.is_for_peer(),
            waited: Duration::ZERO,
        }
    }

    async fn ask_origin(&self, flight: &Flight, path: &str, version: &Version, range: Range<u64>) -> Result<Body> {
        flight.asks_origin();
        self.counters.origin_requests.fetch_add(1, Relaxed);
        Ok(Body::Fetched(self.origin.get(path, version, range).await?, Chunk::default()))
    }
}
