//! One node a cache directory: a lock that ends with the process, and a note in it about who holds it.

use crate::{Error, Result};
use rustix::fs::{FlockOperation, flock};
use std::{
    fs::{DirBuilder, File, OpenOptions},
    io::{self, Read, Seek, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// A held cache directory.
#[derive(Debug)]
pub(super) struct DirLock {
    file: File,
    path: PathBuf,
}

/// Why a cache directory cannot be used.
fn unusable(doing: &str, dir: &Path, error: &io::Error) -> Error {
    use io::ErrorKind as K;
    let shown = dir.display();
    match error.kind() {
        K::AlreadyExists | K::NotADirectory => {
            Error::Invalid(format!("the cache directory {shown} is not a directory: choose another with --cache-dir"))
        }
        K::PermissionDenied | K::ReadOnlyFilesystem => Error::Denied(format!(
            "cannot {doing} the cache directory {shown}: {error}; choose another with --cache-dir"
        )),
        _ => Error::io(&format!("{doing} the cache directory"), dir, error),
    }
}

impl DirLock {
    /// Makes the directory if need be, and locks it. [`Error::Conflict`] carries the note of the node that holds it.
    pub(super) fn take(dir: &Path) -> Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|error| unusable("create", dir, &error))?;
        let path = dir.join("LOCK");
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .mode(0o600)
            .open(&path)
            .map_err(|error| unusable("write to", dir, &error))?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            let mut note = String::new();
            let _ = file.read_to_string(&mut note);
            let dir = dir.display();
            return Err(Error::Conflict(format!(
                "the cache directory {dir} is in use by a running node: {}",
                note.trim()
            )));
        }
        let mut lock = Self { file, path };
        // A disk that is full is still read from.
        if let Err(error) = lock.note(&format!("{{\"pid\": {}}}", std::process::id())) {
            tracing::warn!(%error, "cannot record which process uses the cache directory");
        }
        Ok(lock)
    }

    /// Leaves a note for whoever finds the directory held.
    pub(super) fn note(&mut self, text: &str) -> Result<()> {
        let mut write = || {
            self.file.set_len(0)?;
            self.file.rewind()?;
            self.file.write_all(text.as_bytes())
        };
        write().map_err(|error| Error::io("write", &self.path, &error))
    }
}
