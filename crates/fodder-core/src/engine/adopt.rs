//! Snapshots that other nodes of a cluster have sealed: told to them, and taken from them, by name.
//!
//! How they travel is not known here. What is taken is what its name says, so nobody has to be believed; and reads name the
//! versions of the objects, so an old listing never leads to other bytes than those it lists.

use super::Dataset;
use crate::{
    Result,
    catalog::{Arriving, Snapshot},
    id::SnapshotId,
};
use std::sync::Arc;

impl Dataset {
    /// What tells this dataset and its origin from others of the same name, as a hash.
    pub fn identity(&self) -> [u8; 32] {
        *self.objects.load().identity().as_bytes()
    }

    /// The snapshot whose id begins so, if it is here: in the catalog, or because a job is on it.
    pub fn snapshot_beginning(self: &Arc<Self>, id: &[u8]) -> Option<Arc<Snapshot>> {
        self.jobs().known().into_iter().find(|snapshot| snapshot.id().0.starts_with(id))
    }

    /// A place for a snapshot that another node tells. Waits for the disk.
    pub fn arriving(&self) -> Result<Arriving> {
        self.catalog().arriving()
    }

    /// Takes a snapshot that another node has told. Done to its end, also if nobody waits for that.
    pub async fn adopt(self: &Arc<Self>, id: SnapshotId, arriving: Arriving) -> Result<Arc<Snapshot>> {
        let dataset = Arc::clone(self);
        self.to_its_end(async move { dataset.adopt_here(id, arriving).await }).await
    }

    async fn adopt_here(self: &Arc<Self>, id: SnapshotId, arriving: Arriving) -> Result<Arc<Snapshot>> {
        let _one_at_a_time = self.refreshing.lock().await;
        let snapshot = self.catalog().adopt(id, arriving, &self.origin).await?;
        self.follow_snapshot();
        self.compact().await;
        Ok(snapshot)
    }
}
