//! Where the data really lives. Everything the engine knows of an origin is [`Origin`].

use crate::{Error, Result, id::Version};
use bytes::Bytes;
use futures::stream::BoxStream;
use std::ops::Range;

/// One object as the origin lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectEntry {
    /// The path below the origin's prefix, exactly as the origin spells it, with `/` between directories.
    pub path: String,
    /// Its size in bytes.
    pub size: u64,
    /// Its version at the time of listing.
    pub version: Version,
}

/// How to open an origin, beside its URI.
#[derive(Debug, Clone)]
pub struct OriginOptions {
    /// Read a public bucket without credentials.
    pub anonymous: bool,
    /// Requests that may be under way at once.
    pub concurrency: usize,
}

/// A dataset's origin: lists objects, and reads ranges of exactly one version of them.
#[derive(Debug)]
pub struct Origin {}

impl Origin {
    /// Opens the origin at `uri`. Does not contact it.
    pub async fn open(uri: &str, options: &OriginOptions) -> Result<Self> {
        let _ = (uri, options);
        Err(Error::Internal("not built yet".into()))
    }

    /// The URI as it may be shown: without credentials.
    pub fn uri(&self) -> &str {
        ""
    }

    /// What the data's identity hangs on: the URI without credentials and without the `throttled:` wrapper,
    /// normalised, so that the cache of one origin is found again.
    pub fn identity(&self) -> &str {
        ""
    }

    /// All objects below the origin, in no particular order.
    pub fn list(&self) -> BoxStream<'_, Result<ObjectEntry>> {
        Box::pin(futures::stream::empty())
    }

    /// One object as it is now.
    pub async fn head(&self, path: &str) -> Result<ObjectEntry> {
        Err(Error::NotFound(path.into()))
    }

    /// Reads `range` of one version of an object: exactly that many bytes in order, or an error.
    /// [`Error::Stale`] if the object is no longer that version. Retries and resumes by itself.
    pub async fn get(
        &self,
        path: &str,
        version: &Version,
        range: Range<u64>,
    ) -> Result<BoxStream<'static, Result<Bytes>>> {
        let _ = (path, version, range);
        Err(Error::Internal("not built yet".into()))
    }
}
