//! A stream that ends when its client stops reading it.
//!
//! A client that opens a stream and leaves it unread holds buffers and a part of the memory budget, while its
//! connection looks alive. What is under way is dropped after a while; the client finds an error where the stream was.

use super::convert::refuse;
use fodder_core::Error;
use futures::{Stream, StreamExt};
use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};
use tokio::{sync::OwnedSemaphorePermit, task::AbortHandle, time::Instant};
use tonic::Status;

type Inner<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

struct Shared<T> {
    /// The stream with its right to run; gone once the client was given up.
    inner: Option<(Inner<T>, OwnedSemaphorePermit)>,
    /// Since when a message has been ready for the client to ask for; None while the stream itself waits.
    unread_since: Option<Instant>,
}

/// A stream under watch.
pub(super) struct Watched<T> {
    shared: Arc<Mutex<Shared<T>>>,
    watch: AbortHandle,
}

impl<T: Send + 'static> Watched<T> {
    /// Watches a stream: whoever does not ask for its next message within `limit` is given up.
    pub(super) fn new(inner: Inner<T>, permit: OwnedSemaphorePermit, limit: Duration) -> Self {
        let shared = Shared { inner: Some((inner, permit)), unread_since: Some(Instant::now()) };
        let shared = Arc::new(Mutex::new(shared));
        let watch = tokio::spawn(watch(Arc::clone(&shared), limit)).abort_handle();
        Self { shared, watch }
    }
}

async fn watch<T>(shared: Arc<Mutex<Shared<T>>>, limit: Duration) {
    loop {
        let since = shared.lock().unwrap_or_else(PoisonError::into_inner).unread_since;
        let due = since.unwrap_or_else(Instant::now) + limit;
        if since.is_none() || due > Instant::now() {
            tokio::time::sleep_until(due).await;
            continue;
        }
        let given_up = shared.lock().unwrap_or_else(PoisonError::into_inner).inner.take();
        drop(given_up);
        tracing::info!(after = ?limit, "gave up a client that does not read its stream");
        return;
    }
}

impl<T> Stream for Watched<T> {
    type Item = Result<T, Status>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((inner, _)) = &mut shared.inner else {
            let text = "the stream was not read for too long and was closed: ask again";
            return Poll::Ready(Some(Err(refuse(Error::Unavailable(text.into())))));
        };
        let next = inner.poll_next_unpin(context);
        shared.unread_since = next.is_ready().then(Instant::now);
        next
    }
}

impl<T> Drop for Watched<T> {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use futures::stream;
    use tokio::sync::Semaphore;

    async fn watched(inner: Inner<u32>, streams: &Arc<Semaphore>) -> Watched<u32> {
        let permit = Arc::clone(streams).acquire_owned().await.unwrap();
        Watched::new(inner, permit, Duration::from_secs(30))
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_nobody_reads_is_given_up() {
        let streams = Arc::new(Semaphore::new(1));
        let mut stream = watched(Box::pin(stream::repeat(7).map(Ok)), &streams).await;
        assert_eq!(stream.next().await.unwrap().unwrap(), 7);
        let _freed = streams.acquire().await.unwrap();
        assert!(stream.next().await.unwrap().is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_waits_for_its_origin_is_not() {
        let streams = Arc::new(Semaphore::new(1));
        let slow = stream::once(async {
            tokio::time::sleep(Duration::from_secs(300)).await;
            Ok(7)
        });
        let mut stream = watched(Box::pin(slow), &streams).await;
        assert_eq!(stream.next().await.unwrap().unwrap(), 7);
        assert!(stream.next().await.is_none());
    }
}
