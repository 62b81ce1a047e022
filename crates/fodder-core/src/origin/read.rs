//! Reads ranges of one version of an object: conditional, with retries, resumed where a body broke.
//! Knows nothing of which store it reads.

use super::{
    failure::Failure,
    patience::{Patience, Trial},
};
use crate::{Result, id::Version};
use bytes::Bytes;
use futures::{FutureExt, StreamExt, stream, stream::BoxStream};
use object_store::{GetOptions, GetRange, ObjectMeta, ObjectStore, path::Path};
use std::{fmt, future::Future, ops::Range, sync::Arc};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A store with patience, and a bound on the requests that are under way.
pub(super) struct Reader {
    store: Arc<dyn ObjectStore>,
    patience: Patience,
    permits: Arc<Semaphore>,
}

/// Without the store: its own would show keys and tokens.
impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("patience", &self.patience)
            .field("permits", &self.permits)
            .finish_non_exhaustive()
    }
}

/// What is to be read.
#[derive(Debug)]
pub(super) struct Want {
    pub(super) location: Path,
    /// The object as errors name it.
    pub(super) what: String,
    pub(super) version: Version,
    pub(super) range: Range<u64>,
}

impl Reader {
    pub(super) fn new(store: Arc<dyn ObjectStore>, patience: Patience, concurrency: usize) -> Self {
        Self { store, patience, permits: Arc::new(Semaphore::new(concurrency.max(1))) }
    }

    /// Leave for one request. The semaphore is never closed.
    async fn permit(&self) -> OwnedSemaphorePermit {
        Arc::clone(&self.permits).acquire_owned().await.expect("the semaphore of an origin is never closed")
    }

    /// Asks until the answer is good or patience ends. `what` names the thing asked for in errors.
    pub(super) async fn ask<T, F>(&self, what: &str, mut request: impl FnMut() -> F) -> Result<T>
    where
        F: Future<Output = object_store::Result<T>>,
    {
        let _permit = self.permit().await;
        let mut trial = Trial::new(&self.patience);
        loop {
            match self.attempt(request()).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => again(&mut trial, failure, what).await?,
            }
        }
    }

    /// One request, within the time it may take to answer.
    pub(super) async fn attempt<T>(
        &self,
        request: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, Failure> {
        match tokio::time::timeout(self.patience.no_progress, request).await {
            Ok(answer) => answer.map_err(|error| Failure::of(&error)),
            Err(_) => Err(Failure::Passing(format!("no answer for {:?}", self.patience.no_progress))),
        }
    }

    /// Reads a range: exactly its bytes in order, or an error.
    pub(super) async fn get(self: Arc<Self>, want: Want) -> Result<BoxStream<'static, Result<Bytes>>> {
        if want.range.is_empty() {
            return Ok(stream::empty().boxed());
        }
        let permit = self.permit().await;
        let trial = Trial::new(&self.patience);
        let mut read = Read { reader: self, rest: want.range.clone(), want, body: None, trial, permit: Some(permit) };
        read.open().await?;
        Ok(stream::unfold(Some(read), |read| async {
            let mut read = read?;
            match read.next().await {
                Ok(bytes) => bytes.map(|bytes| (Ok(bytes), Some(read))),
                Err(error) => Some((Err(error), None)),
            }
        })
        .boxed())
    }
}

/// Waits before the next attempt, or fails.
async fn again(trial: &mut Trial, failure: Failure, what: &str) -> Result<()> {
    let pause = match &failure {
        Failure::Passing(_) => trial.failed(rand::random()),
        _ => None,
    };
    let Some(pause) = pause else { return Err(failure.error(what, &trial.account())) };
    tracing::debug!(object = what, ?failure, ?pause, "the origin failed, trying again");
    tokio::time::sleep(pause).await;
    Ok(())
}

/// A read under way.
struct Read {
    reader: Arc<Reader>,
    want: Want,
    rest: Range<u64>,
    body: Option<BoxStream<'static, object_store::Result<Bytes>>>,
    trial: Trial,
    /// Held from the first request until the last byte, so that pauses count as load too.
    permit: Option<OwnedSemaphorePermit>,
}

impl Read {
    /// Asks for the rest until a body comes.
    async fn open(&mut self) -> Result<()> {
        while self.body.is_none() {
            match self.request().await {
                Ok(body) => self.body = Some(body),
                Err(failure) => again(&mut self.trial, failure, &self.want.what).await?,
            }
        }
        Ok(())
    }

    /// Asks once for the rest, of the wanted version only.
    async fn request(&mut self) -> Result<BoxStream<'static, object_store::Result<Bytes>>, Failure> {
        let options = GetOptions {
            if_match: self.want.version.etag().filter(|etag| !etag.starts_with("W/")).map(Into::into),
            range: Some(GetRange::Bounded(self.rest.clone())),
            ..GetOptions::default()
        };
        let answer = self.reader.attempt(self.reader.store.get_opts(&self.want.location, options)).await?;
        if !matches(&self.want.version, &answer.meta) || answer.range.end != self.rest.end {
            return Err(Failure::Changed);
        }
        if answer.range != self.rest {
            return Err(Failure::Passing(format!("asked for bytes {:?}, got {:?}", self.rest, answer.range)));
        }
        Ok(answer.into_stream())
    }

    /// The next bytes, None at the end.
    async fn next(&mut self) -> Result<Option<Bytes>> {
        while !self.rest.is_empty() {
            self.open().await?;
            let body = self.body.as_mut().expect("open() leaves a body");
            let failure = match tokio::time::timeout(self.reader.patience.no_progress, body.next()).await {
                Ok(Some(Ok(bytes))) if bytes.is_empty() => continue,
                Ok(Some(Ok(bytes))) => match self.take(bytes) {
                    Ok(bytes) => return Ok(Some(bytes)),
                    Err(failure) => failure,
                },
                Ok(Some(Err(error))) => Failure::of(&error),
                Ok(None) => Failure::Passing(format!("the body ended {} bytes early", self.rest.end - self.rest.start)),
                Err(_) => Failure::Passing(format!("no bytes for {:?}", self.reader.patience.no_progress)),
            };
            self.body = None;
            again(&mut self.trial, failure, &self.want.what).await?;
        }
        Ok(None)
    }

    /// Counts bytes that arrived; after the last ones, lets the connection and the permit go.
    fn take(&mut self, bytes: Bytes) -> Result<Bytes, Failure> {
        let length = bytes.len() as u64;
        if length > self.rest.end - self.rest.start {
            return Err(Failure::Passing("the body is longer than the range asked for".into()));
        }
        self.rest.start += length;
        self.trial.progress(length);
        if self.rest.is_empty() {
            // A look at the end of the body lets its connection be used again.
            if let Some(mut body) = self.body.take() {
                let _ = body.next().now_or_never();
            }
            self.permit = None;
        }
        Ok(bytes)
    }
}

/// The version an answer speaks of.
pub(super) fn version_of(meta: &ObjectMeta) -> Version {
    match &meta.e_tag {
        Some(etag) if !etag.is_empty() => Version(quoted(etag)),
        _ => by_time(meta),
    }
}

/// An ETag as `If-Match` wants it. Azure and some others list it without its quotes.
fn quoted(etag: &str) -> Box<str> {
    if etag.ends_with('"') { etag.into() } else { format!("\"{etag}\"").into() }
}

fn by_time(meta: &ObjectMeta) -> Version {
    Version(format!("{}{}-{}", Version::MTIME, meta.last_modified.timestamp_millis(), meta.size).into())
}

/// Whether an answer is of the wanted version. Listings without ETags are compared by time and size.
fn matches(version: &Version, meta: &ObjectMeta) -> bool {
    if version.etag().is_some() { version_of(meta) == *version } else { by_time(meta) == *version }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(etag: Option<&str>, seconds: u64, size: u64) -> ObjectMeta {
        let last_modified = (std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds)).into();
        ObjectMeta { location: Path::from("o"), last_modified, size, e_tag: etag.map(Into::into), version: None }
    }

    #[test]
    fn a_version_is_the_etag_with_its_quotes_or_time_and_size() {
        assert_eq!(&*version_of(&meta(Some("\"a\""), 1, 2)).0, "\"a\"");
        assert_eq!(&*version_of(&meta(Some("0x8D"), 1, 2)).0, "\"0x8D\"");
        assert_eq!(&*version_of(&meta(Some("W/\"a\""), 1, 2)).0, "W/\"a\"");
        assert_eq!(&*version_of(&meta(None, 1, 2)).0, "mtime:1000-2");
        assert_eq!(version_of(&meta(Some(""), 1, 2)).etag(), None);
    }

    #[test]
    fn an_answer_matches_its_version_and_no_other() {
        let by_etag = version_of(&meta(Some("\"a\""), 1, 2));
        assert!(matches(&by_etag, &meta(Some("\"a\""), 9, 2)));
        assert!(!matches(&by_etag, &meta(Some("\"b\""), 1, 2)));
        assert!(!matches(&by_etag, &meta(None, 1, 2)), "an answer that does not say its version is not trusted");
        let by_time = version_of(&meta(None, 1, 2));
        assert!(matches(&by_time, &meta(None, 1, 2)));
        assert!(matches(&by_time, &meta(Some("\"a\""), 1, 2)), "answers may have ETags where listings have none");
        assert!(!matches(&by_time, &meta(None, 2, 2)) && !matches(&by_time, &meta(None, 1, 3)));
    }
}
