//! One node a cache directory: a lock that ends with the process, and a note in it about who holds it.

use crate::{Error, Result};
use rustix::fs::{FlockOperation, flock};
use std::{
    fs::{DirBuilder, File, OpenOptions},
    io::{Read, Seek, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// A held cache directory.
#[derive(Debug)]
pub(super) struct DirLock {
    file: File,
    path: PathBuf,
}

impl DirLock {
    /// Makes the directory if need be, and locks it. [`Error::Conflict`] carries the note of the node that holds it.
    pub(super) fn take(dir: &Path) -> Result<Self> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)
            .map_err(|error| Error::io("make the cache directory", dir, &error))?;
        let path = dir.join("LOCK");
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .mode(0o600)
            .open(&path)
            .map_err(|error| Error::io("write to the cache directory", dir, &error))?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            let mut note = String::new();
            let _ = file.read_to_string(&mut note);
            let dir = dir.display();
            return Err(Error::Conflict(format!(
                "the cache directory {dir} is held by a running node: {}",
                note.trim()
            )));
        }
        let mut lock = Self { file, path };
        // A disk that is full is still read from.
        if let Err(error) = lock.note(&format!("{{\"pid\": {}}}", std::process::id())) {
            tracing::warn!(%error, "cannot leave a note who holds the cache directory");
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
