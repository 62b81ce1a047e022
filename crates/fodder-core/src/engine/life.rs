//! How long a dataset does anything: until the node stops, or removes it.
//!
//! Doors may have it open for longer. One that was removed is not told from a node that has gone: whoever has it asks again,
//! by name, and finds the dataset that has the name by then.

use super::Dataset;
use crate::Result;

impl Dataset {
    /// Whether nothing is done for it any more.
    pub fn is_closed(&self) -> bool {
        self.closing.is_cancelled()
    }

    /// Ends what it does by itself and for others, and returns when its catalog's directory is left alone: another dataset
    /// may get its name.
    pub(super) async fn close(&self) {
        self.closing.cancel();
        self.catalog().settled().await;
    }

    /// Runs a task until it ends or the dataset is closed.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.shared.spawn_until(&self.closing, task);
    }

    /// Does something to its end even if its caller goes away, unless the dataset is closed.
    pub(super) async fn to_its_end<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        self.shared.to_its_end(&self.closing, work).await
    }
}
