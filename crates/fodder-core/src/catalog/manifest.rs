//! The manifest: which files make up the catalog. Renaming a new one into place is what commits a change.

use super::file::{FileWriter, Kind, MappedFile, Unusable};
use crate::{Error, Result, origin::RootIdentity};
use serde::{Deserialize, Serialize};
use std::{fs, path::Path};

const FILE: &str = "manifest.cat";
const JSON: u32 = 1;

/// The files of a catalog, and what it is a catalog of.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Manifest {
    /// The dataset with its origin, as a hash.
    pub(super) identity: String,
    pub(super) layout: String,
    /// Segment files in slot order.
    pub(super) segments: Vec<String>,
    /// The next slot to be given out: above every slot that ever was.
    pub(super) next_slot: u32,
    /// Snapshot files, oldest first.
    pub(super) snapshots: Vec<String>,
    /// The number of the next file.
    pub(super) next_file: u64,
    /// The file system that was last listed, where the origin is a local directory.
    pub(super) root: Option<RootIdentity>,
}

impl Manifest {
    /// Reads the manifest in `dir`; None if there is none.
    pub(super) fn read(dir: &Path) -> Result<Option<Self>, Unusable> {
        let path = dir.join(FILE);
        match path.try_exists() {
            Ok(false) => return Ok(None),
            Ok(true) => {}
            Err(error) => return Err(Error::io("look for", &path, &error).into()),
        }
        let file = MappedFile::open(&path, Kind::Manifest)?;
        let manifest = serde_json::from_slice(file.section(JSON).bytes());
        manifest.map(Some).map_err(|error| Unusable::Rebuild(format!("{}: {error}", path.display())))
    }

    /// Makes this the catalog in `dir`.
    pub(super) fn write(&self, dir: &Path) -> Result<()> {
        let json = serde_json::to_vec(self).map_err(|error| Error::Internal(error.to_string()))?;
        let mut file = FileWriter::create(&dir.join(FILE), Kind::Manifest)?;
        file.section(JSON, |out| out.put(&json))?;
        file.finish()
    }

    /// Removes catalog files in `dir` that the manifest does not name: those of a crash, and those that were replaced.
    pub(super) fn sweep(&self, dir: &Path) {
        for name in catalog_files(dir) {
            if name != FILE && !self.segments.contains(&name) && !self.snapshots.contains(&name) {
                // Readers of an older snapshot keep their pages. If this fails, the next sweep tries again.
                let _ = fs::remove_file(dir.join(name));
            }
        }
    }
}

/// A number above that of every catalog file in `dir`.
pub(super) fn unused_number(dir: &Path) -> u64 {
    let number = |name: String| name.split(['-', '.']).nth(1)?.parse::<u64>().ok();
    catalog_files(dir).filter_map(number).max().map_or(1, |largest| largest + 1)
}

fn catalog_files(dir: &Path) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| {
        let ours = ["segment-", "snapshot-", "manifest."].iter().any(|prefix| name.starts_with(prefix));
        ours && (name.ends_with(".cat") || name.ends_with(".tmp"))
    })
}
