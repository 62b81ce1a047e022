//! When a refresh is stopped.

use crate::{Error, Result};
use tokio_util::sync::CancellationToken;

/// How a refresh treats what it lists.
#[derive(Debug, Clone, Default)]
pub struct RefreshRules {
    /// Cancelled when the caller has gone away: the listing stops, but a listing that is complete is still committed.
    pub cancel: CancellationToken,
}

impl RefreshRules {
    /// Runs a listing until it ends or is cancelled.
    pub(super) async fn cancellable<T>(&self, listing: impl Future<Output = Result<T>>) -> Result<T> {
        let cancelled = || Error::Unavailable("the listing was cancelled because its caller went away".into());
        self.cancel.run_until_cancelled(listing).await.unwrap_or_else(|| Err(cancelled()))
    }
}
