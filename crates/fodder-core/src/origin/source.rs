//! One opened origin: its store, where in the store it begins, and how it is called.

#[cfg(feature = "all-origins")]
use super::tail;
use super::{
    OriginOptions,
    address::{Address, Place},
    cloud,
    details::ListingDetails,
    failure::{self, Failure},
    limit::SeenPages,
    local::Local,
    name::{self, Naming},
    patience::Patience,
    read::Reader,
    redact::scrub,
    throttle::Throttled,
    wire::Wire,
};
use crate::{Error, Result};
use futures::{StreamExt, TryStreamExt, stream, stream::BoxStream};
use object_store::{
    ObjectMeta, ObjectStore,
    list::{PaginatedListOptions, PaginatedListStore},
    path::Path,
};
use parking_lot::Mutex;
use std::{
    fmt,
    path::PathBuf,
    sync::{Arc, atomic::AtomicU64},
};

/// A store, and the same store as one that lists by pages, if it does.
#[derive(Clone)]
pub(super) struct Stores {
    pub(super) objects: Arc<dyn ObjectStore>,
    pages: Option<Arc<dyn PaginatedListStore>>,
}

impl Stores {
    /// A store whose pages can be asked for again when one fails.
    pub(super) fn paged(store: impl ObjectStore + PaginatedListStore) -> Self {
        let store = Arc::new(store);
        Self { objects: Arc::clone(&store) as _, pages: Some(store) }
    }

    /// A store that lists as a whole.
    pub(super) fn whole(objects: Arc<dyn ObjectStore>) -> Self {
        Self { objects, pages: None }
    }
}

impl fmt::Debug for Stores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the stores themselves: theirs would show keys and tokens.
        write!(f, "Stores {{ paged: {} }}", self.pages.is_some())
    }
}

/// What a listing has.
#[derive(Debug)]
pub(super) enum Listed<O> {
    /// An object.
    Object(O),
    /// A directory that an object store has a marker for, with a `/` at its end. It may have objects all the same.
    Directory(String),
}

/// An opened origin.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) stores: Stores,
    /// Where in the store the origin begins.
    prefix: Path,
    /// Its one object's name and location, where the URI named an object and not a place for many.
    pub(super) single: Option<(String, Path)>,
    naming: Naming,
    pub(super) shown: String,
    pub(super) identity: String,
    pub(super) skipped: Arc<AtomicU64>,
    /// Keys that mark directories, of the page that was listed last.
    markers: Arc<Mutex<Vec<String>>>,
    /// What the last listing found beside objects.
    pub(super) details: Arc<Mutex<ListingDetails>>,
}

impl Source {
    /// Opens what a URI names.
    pub(super) async fn open(uri: &str, options: &OriginOptions, patience: &Patience) -> Result<Self> {
        let Address { throttling, place } = Address::parse(uri)?;
        let mut source = Self::place(place, options, patience).await?;
        if let Some((throttling, spelling)) = throttling {
            let Stores { objects, pages } = source.stores;
            let paged = pages.is_some();
            let throttled = Arc::new(Throttled::new(objects, pages, &throttling));
            source.stores = Stores { objects: Arc::clone(&throttled) as _, pages: paged.then_some(throttled as _) };
            source.shown = format!("throttled:{spelling}:{}", source.shown);
        }
        Ok(source)
    }

    async fn place(place: Place, options: &OriginOptions, patience: &Patience) -> Result<Self> {
        let skipped = Arc::<AtomicU64>::default();
        let markers = Arc::default();
        let wire = Wire { skipped: Arc::clone(&skipped), markers: Arc::clone(&markers), ..Wire::default() };
        let (stores, identity, prefix) = match place {
            Place::Local(path) => return Self::local(path, options),
            Place::S3(bucket) => {
                let (stores, identity) = cloud::s3(&bucket, options, patience, wire).await?;
                (stores, identity, bucket.prefix)
            }
            Place::Gcs(bucket) => {
                let (stores, identity) = cloud::gcs(&bucket, options, patience, wire)?;
                (stores, identity, bucket.prefix)
            }
            Place::Azure(bucket) => {
                let (stores, identity) = cloud::azure(&bucket, options, patience, wire)?;
                (stores, identity, bucket.prefix)
            }
            Place::Http(url) => {
                let (stores, identity, single) = cloud::http(&url, patience, wire)?;
                let single = single.map(|name| (name, Path::ROOT));
                let shown = scrub(url.as_str());
                return Ok(Self {
                    stores,
                    prefix: Path::ROOT,
                    single,
                    naming: Naming::Plain,
                    shown,
                    identity,
                    skipped,
                    markers,
                    details: Arc::default(),
                });
            }
            #[cfg(feature = "all-origins")]
            Place::Tail { scheme, bucket } => {
                let tail::Opened { stores, naming, identity, prefix } = tail::open(&scheme, &bucket, options)?;
                let prefix = if prefix.is_empty() { None } else { naming.path(&prefix) }.unwrap_or_default();
                let shown = identity.clone();
                return Ok(Self {
                    stores,
                    prefix,
                    single: None,
                    naming,
                    shown,
                    identity,
                    skipped,
                    markers,
                    details: Arc::default(),
                });
            }
            #[cfg(not(feature = "all-origins"))]
            Place::Tail { scheme, .. } => {
                return Err(Error::Invalid(format!(
                    "{scheme}:// needs a build with the Cargo feature all-origins; release builds have it"
                )));
            }
        };
        let prefix = Path::parse(prefix).map_err(|error| Error::Invalid(error.to_string()))?;
        let shown = identity.clone();
        let (naming, details) = (Naming::Plain, Arc::default());
        Ok(Self { stores, prefix, single: None, naming, shown, identity, skipped, markers, details })
    }

    /// A local directory, or one file.
    fn local(path: PathBuf, options: &OriginOptions) -> Result<Self> {
        let full = std::fs::canonicalize(&path).map_err(|error| Error::io("open the origin", &path, &error))?;
        let shown = full.display().to_string();
        let (listing, details) = (Arc::new(options.listing.clone()), Arc::default());
        let (root, single) = match (full.parent(), full.file_name().and_then(|name| name.to_str())) {
            (Some(parent), Some(name)) if full.is_file() => (parent.to_owned(), Some(name.to_owned())),
            _ => (full.clone(), None),
        };
        let single = single.and_then(|name| Naming::Files.path(&name).map(|path| (name, path)));
        Ok(Self {
            stores: Stores::whole(Arc::new(Local::new(root, listing, Arc::clone(&details)))),
            prefix: Path::ROOT,
            single,
            naming: Naming::Files,
            identity: format!("file://{shown}"),
            shown,
            skipped: Arc::default(),
            markers: Arc::default(),
            details,
        })
    }

    /// What the store calls an object of this origin; None if no object can have the name.
    pub(super) fn location(&self, name: &str) -> Option<Path> {
        if let Some((single, location)) = &self.single {
            return (name == single).then(|| location.clone());
        }
        let path = self.naming.path(name)?;
        if self.prefix.is_root() {
            return Some(path);
        }
        Path::parse(format!("{}/{path}", self.prefix)).ok()
    }

    /// What this origin calls an object of the store.
    pub(super) fn name(&self, location: &Path) -> Option<String> {
        let full = location.as_ref();
        let below = match self.prefix.as_ref() {
            "" => full,
            prefix => full.strip_prefix(prefix)?.strip_prefix('/')?,
        };
        self.naming.name(below)
    }

    /// What this origin calls a directory that a key of the store marks; None for the origin's root.
    fn directory(&self, marker: &str) -> Option<String> {
        let location = name::path(marker.strip_suffix('/')?)?;
        Some(self.name(&location)? + "/")
    }

    /// Everything the store lists below the prefix. A page that fails is asked for again.
    pub(super) fn list<'a>(&'a self, reader: &'a Reader) -> BoxStream<'a, Result<Listed<ObjectMeta>>> {
        let Some(pages) = &self.stores.pages else {
            let prefix = (!self.prefix.is_root()).then_some(&self.prefix);
            let entries = self.stores.objects.list(prefix);
            if self.identity.starts_with("file") {
                return entries.map_ok(Listed::Object).map_err(|error| self.unlisted_directory(&error)).boxed();
            }
            // A server that never answers must not be waited for for ever. A directory may be slow, and ends.
            let next = move |mut entries: BoxStream<'a, object_store::Result<ObjectMeta>>| async move {
                let entry = reader.attempt(entries.try_next()).await.map_err(|failure| self.unlisted(failure))?;
                Ok(entry.map(|entry| (Listed::Object(entry), entries)))
            };
            return stream::try_unfold(entries, next).boxed();
        };
        let prefix = (!self.prefix.is_root()).then(|| format!("{}/", self.prefix));
        stream::try_unfold((Some(None), SeenPages::default()), move |(page, mut seen)| {
            let prefix = prefix.clone();
            async move {
                let page: Option<Option<String>> = page;
                let Some(page_token) = page else { return Ok(None) };
                let request = || {
                    let options = PaginatedListOptions { page_token: page_token.clone(), ..Default::default() };
                    pages.list_paginated(prefix.as_deref(), options)
                };
                let page = reader.ask(&self.shown, request).await?;
                let first_key = page.result.objects.first().map(|object| object.location.as_ref());
                if !seen.insert(first_key, page.page_token.as_deref()) {
                    return Err(self.repeats());
                }
                let markers = std::mem::take(&mut *self.markers.lock());
                let directories =
                    markers.into_iter().filter_map(|marker| self.directory(&marker)).map(Listed::Directory);
                let entries = directories.chain(page.result.objects.into_iter().map(Listed::Object)).map(Ok);
                let entries = stream::iter(entries.collect::<Vec<_>>());
                Ok::<_, Error>(Some((entries, (page.page_token.map(Some), seen))))
            }
        })
        .try_flatten()
        .boxed()
    }

    /// The error for a server that would be listed without end.
    fn repeats(&self) -> Error {
        Error::Unavailable(format!(
            "{} cannot be listed: its server returns the same page again (a continuation token or a first key was repeated)",
            self.shown
        ))
    }

    /// The error for a local directory that could not be listed, or exceeded a limit.
    fn unlisted_directory(&self, error: &object_store::Error) -> Error {
        let limit = failure::find::<Error>(error).cloned();
        limit.unwrap_or_else(|| self.unlisted(Failure::of(error)))
    }

    /// The error for a listing that failed as a whole.
    fn unlisted(&self, failure: Failure) -> Error {
        match failure {
            Failure::Useless(text) if self.identity.starts_with("http") => Error::Invalid(format!(
                "{} cannot be listed ({text}): only WebDAV servers list their files; \
                 give the URL of one file, without a / at its end",
                self.shown
            )),
            failure => failure.error(&self.shown, "1 attempt"),
        }
    }
}
