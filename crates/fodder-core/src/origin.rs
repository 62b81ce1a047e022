//! Where the data really lives. Everything the engine knows of an origin is [`Origin`].
//!
//! Behind it stands object_store's trait: its own stores for s3, gcs, azure and http, one for local directories, the
//! `throttled:` wrapper around any of them. [docs/decisions/0004-origins.md] says why.

mod address;
mod aws;
mod cloud;
mod details;
mod failure;
mod limit;
mod link;
mod local;
mod name;
mod patience;
mod read;
mod read_only;
mod redact;
mod root;
mod source;
pub(crate) mod stamp;
mod suggest;
#[cfg(feature = "all-origins")]
mod tail;
mod throttle;
mod wire;

pub use details::ListingDetails;
pub use link::Link;
pub use patience::Patience;
pub use redact::REDACTED;
pub use root::RootIdentity;

use crate::{Error, Result, config::ListingConfig, id::Version};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, future, stream, stream::BoxStream};
use object_store::{GetOptions, ObjectMeta, path::Path};
use parking_lot::Mutex;
use read::{Reader, Want, version_of};
use source::{Listed, Source};
use std::{
    ops::Range,
    sync::{Arc, atomic::Ordering},
};

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

/// A URI as it may be shown: without credentials. For those who have not opened it.
pub fn redacted(uri: &str) -> String {
    redact::scrub(uri)
}

/// How to open an origin, beside its URI.
#[derive(Debug, Clone)]
pub struct OriginOptions {
    /// Read a public bucket without credentials.
    pub anonymous: bool,
    /// Requests that may be under way at once.
    pub concurrency: usize,
    /// How it is listed.
    pub listing: ListingConfig,
}

impl Default for OriginOptions {
    fn default() -> Self {
        Self { anonymous: false, concurrency: 64, listing: ListingConfig::default() }
    }
}

/// A dataset's origin: lists objects, and reads ranges of exactly one version of them.
#[derive(Debug)]
pub struct Origin {
    source: Source,
    reader: Arc<Reader>,
    listing: ListingConfig,
    /// Warnings of the last listing, which are not logged again.
    warned: Mutex<Vec<String>>,
}

impl Origin {
    /// Opens the origin at `uri`. Does not contact it.
    pub async fn open(uri: &str, options: &OriginOptions) -> Result<Self> {
        Self::open_with(uri, options, Patience::default()).await
    }

    /// Opens the origin at `uri` with other patience than the default.
    pub async fn open_with(uri: &str, options: &OriginOptions, patience: Patience) -> Result<Self> {
        let source = Source::open(uri, options, &patience).await?;
        let reader = Arc::new(Reader::new(Arc::clone(&source.stores.objects), patience, options.concurrency));
        Ok(Self { source, reader, listing: options.listing.clone(), warned: Mutex::default() })
    }

    /// The URI as it may be shown: without credentials.
    pub fn uri(&self) -> &str {
        &self.source.shown
    }

    /// What the data's identity hangs on: the URI without credentials and without the `throttled:` wrapper,
    /// normalised, so that the cache of one origin is found again.
    pub fn identity(&self) -> &str {
        &self.source.identity
    }

    /// When an object of this version was last written, in nanoseconds since 1970, if versions of this origin say so.
    pub fn modified_ns(&self, version: &Version) -> Option<i64> {
        if let Some(millis) = version.0.strip_prefix(Version::MTIME).and_then(|rest| Some(rest.rsplit_once('-')?.0)) {
            return millis.parse::<i64>().ok()?.checked_mul(1_000_000);
        }
        self.is_local().then(|| stamp::Stamp::parse(version)).flatten().map(|stamp| stamp.modified_ns)
    }

    /// Whether it is a local directory, whose versions are [stamps](stamp::Stamp).
    pub(crate) fn is_local(&self) -> bool {
        self.source.identity.starts_with("file://")
    }

    /// How many objects the last listing left out, because their names cannot be told or asked for.
    pub fn skipped(&self) -> u64 {
        self.source.skipped.load(Ordering::Relaxed)
    }

    /// What the last listing found beside objects. Links lead to what it listed, and each is listed as what it leads to as well.
    pub fn take_details(&self) -> ListingDetails {
        std::mem::take(&mut *self.source.details.lock())
    }

    /// All objects below the origin, in no particular order. Fails if a limit of [`ListingConfig`] is exceeded; stops when dropped.
    pub fn list(&self) -> BoxStream<'_, Result<ObjectEntry>> {
        if let Some((single, _)) = &self.source.single {
            return stream::once(self.head(single)).boxed();
        }
        self.source.skipped.store(0, Ordering::Relaxed);
        self.take_details();
        let entries = self.source.list(&self.reader).try_filter_map(|listed| future::ready(Ok(self.entry(listed))));
        let entries = limit::limited(entries.boxed(), &self.listing, self.uri());
        let entries = entries.try_filter_map(|listed| future::ready(Ok(self.object(listed))));
        let end = stream::once(async { self.warn() });
        entries.chain(end.filter_map(|()| future::ready(None))).boxed()
    }

    /// Logs what a listing left out; periodic listings log the same only once.
    fn warn(&self) {
        let mut warnings = self.source.details.lock().warnings.clone();
        let skipped = self.skipped();
        if skipped > 0 {
            warnings.push(format!("objects were left out because their names cannot be requested: {skipped}"));
        }
        let mut warned = self.warned.lock();
        for warning in warnings.iter().filter(|warning| !warned.contains(warning)) {
            tracing::warn!(origin = self.uri(), "{warning}");
        }
        *warned = warnings;
    }

    /// An entry of a listing; None for what is no object of this origin.
    fn entry(&self, listed: Listed<ObjectMeta>) -> Option<Listed<ObjectEntry>> {
        let meta = match listed {
            Listed::Object(meta) => meta,
            Listed::Directory(path) => return Some(Listed::Directory(path)),
        };
        let path = self.source.name(&meta.location);
        if path.is_none() {
            self.source.skipped.fetch_add(1, Ordering::Relaxed);
        }
        Some(Listed::Object(ObjectEntry { path: path?, size: meta.size, version: version_of(&meta) }))
    }

    /// The object that was listed. A directory is noted instead.
    fn object(&self, listed: Listed<ObjectEntry>) -> Option<ObjectEntry> {
        match listed {
            Listed::Object(entry) => Some(entry),
            Listed::Directory(path) => {
                self.source.details.lock().empty_directories.push(path);
                None
            }
        }
    }

    /// One object as it is now.
    pub async fn head(&self, path: &str) -> Result<ObjectEntry> {
        let location = self.location(path)?;
        let request = || {
            let options = GetOptions { head: true, ..GetOptions::default() };
            self.source.stores.objects.get_opts(&location, options)
        };
        let answer = self.reader.ask(&self.what(path), request).await?;
        Ok(ObjectEntry { path: path.into(), size: answer.meta.size, version: version_of(&answer.meta) })
    }

    /// Reads `range` of one version of an object: exactly that many bytes in order, or an error.
    /// [`Error::Stale`] if the object is no longer that version. Retries and resumes by itself.
    pub async fn get(
        &self,
        path: &str,
        version: &Version,
        range: Range<u64>,
    ) -> Result<BoxStream<'static, Result<Bytes>>> {
        let location = self.location(path)?;
        let want = Want { location, what: self.what(path), version: version.clone(), range };
        Arc::clone(&self.reader).get(want).await
    }

    /// The store's name for an object; one that would leave the origin does not exist.
    fn location(&self, path: &str) -> Result<Path> {
        let location = self.source.location(path);
        location
            .ok_or_else(|| Error::NotFound(format!("{} does not exist: no object has such a name", self.what(path))))
    }

    /// An object as errors name it.
    fn what(&self, path: &str) -> String {
        format!("{path:?} of {}", self.uri())
    }
}
