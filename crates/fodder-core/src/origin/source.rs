//! One opened origin: its store, where in the store it begins, and how it is called.

use super::{OriginOptions, failure::Failure, local::Local, name, patience::Patience, read::Reader, redact::scrub};
use crate::{Error, Result};
use futures::{StreamExt, TryStreamExt, stream::BoxStream};
use object_store::{ObjectMeta, ObjectStore, path::Path};
use std::{
    path::PathBuf,
    sync::{Arc, atomic::AtomicU64},
};

/// An opened origin.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) store: Arc<dyn ObjectStore>,
    /// Where in the store the origin begins.
    prefix: Path,
    /// The name of its one object, where the URI named an object and not a place for many.
    pub(super) single: Option<String>,
    /// Whether names are file names, whose control characters are escaped.
    files: bool,
    pub(super) shown: String,
    pub(super) identity: String,
    pub(super) skipped: Arc<AtomicU64>,
}

impl Source {
    /// Opens what a URI names.
    pub(super) async fn open(uri: &str, _options: &OriginOptions, _patience: &Patience) -> Result<Self> {
        let path = uri.strip_prefix("file://").or_else(|| uri.strip_prefix("local://")).unwrap_or(uri);
        if path.contains("://") {
            return Err(Error::Invalid(format!("cannot open {}: unknown kind of origin", scrub(uri))));
        }
        Self::local(path.into())
    }

    /// A local directory, or one file.
    fn local(path: PathBuf) -> Result<Self> {
        let full = std::fs::canonicalize(&path).map_err(|error| Error::io("open the origin", &path, &error))?;
        let shown = full.display().to_string();
        let skipped = Arc::default();
        let (root, single) = match full.file_name().and_then(|name| name.to_str()) {
            Some(name) if full.is_file() => (full.with_file_name(""), Some(name.to_owned())),
            _ => (full.clone(), None),
        };
        Ok(Self {
            store: Arc::new(Local::new(root, Arc::clone(&skipped))),
            prefix: Path::ROOT,
            single,
            files: true,
            identity: format!("file://{shown}"),
            shown,
            skipped,
        })
    }

    /// What the store calls an object of this origin; None if no object can have the name.
    pub(super) fn location(&self, name: &str) -> Option<Path> {
        let path = if self.files { name::path(&name::escape(name)) } else { name::path(name) }?;
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
        if self.files { name::unescape(below) } else { Some(below.into()) }
    }

    /// Everything the store lists below the prefix.
    pub(super) fn list<'a>(&'a self, _reader: &'a Reader) -> BoxStream<'a, Result<ObjectMeta>> {
        let prefix = (!self.prefix.is_root()).then_some(&self.prefix);
        self.store.list(prefix).map_err(|error| Failure::of(&error).error(&self.shown, "1 attempt")).boxed()
    }
}
