//! What the catalog needs of an origin: a listing, and ranges of objects. A seam, so that it is tested without one.

use crate::{
    Result,
    id::Version,
    origin::{ListingDetails, ObjectEntry, Origin},
};
use bytes::Bytes;
use futures::stream::BoxStream;
use std::ops::Range;

/// Something with objects in it.
#[async_trait::async_trait]
pub(super) trait Source: Sync {
    /// All objects, in no particular order.
    fn list(&self) -> BoxStream<'_, Result<ObjectEntry>>;
    /// What was found beside them, once all were listed.
    fn take_details(&self) -> ListingDetails {
        ListingDetails::default()
    }
    /// A range of one version of an object, in order.
    async fn get(&self, path: &str, version: &Version, range: Range<u64>) -> Result<BoxStream<'static, Result<Bytes>>>;
}

#[async_trait::async_trait]
impl Source for Origin {
    fn list(&self) -> BoxStream<'_, Result<ObjectEntry>> {
        self.list()
    }

    fn take_details(&self) -> ListingDetails {
        self.take_details()
    }

    async fn get(&self, path: &str, version: &Version, range: Range<u64>) -> Result<BoxStream<'static, Result<Bytes>>> {
        self.get(path, version, range).await
    }
}
