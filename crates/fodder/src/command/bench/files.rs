//! The files of a directory, found once, before anything is measured.

use anyhow::{Context, Result, bail};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// More are not read: a benchmark of so many is none of another kind.
const MAX_FILES: usize = 1_000_000;

/// The files below a directory, in path order.
pub(super) struct Files {
    pub(super) root: PathBuf,
    /// Path below the root, and size. None is empty.
    pub(super) files: Vec<(PathBuf, u64)>,
}

impl Files {
    /// Finds them. An error if there is none with any bytes.
    pub(super) fn below(root: &Path) -> Result<Self> {
        let mut found = Self { root: root.to_owned(), files: Vec::new() };
        found.walk(PathBuf::new())?;
        found.files.sort_unstable();
        if found.files.is_empty() {
            bail!("{} has no file with any bytes in it", root.display());
        }
        Ok(found)
    }

    fn walk(&mut self, below: PathBuf) -> Result<()> {
        let dir = self.root.join(&below);
        for entry in fs::read_dir(&dir).with_context(|| format!("cannot list {}", dir.display()))? {
            let entry = entry.with_context(|| format!("cannot list {}", dir.display()))?;
            let path = below.join(entry.file_name());
            // Through links, as programs read them; one that leads nowhere is no file.
            let Ok(meta) = fs::metadata(entry.path()) else { continue };
            if meta.is_dir() && !entry.file_type()?.is_symlink() {
                self.walk(path)?;
            } else if meta.is_file() && meta.len() > 0 && self.files.len() < MAX_FILES {
                self.files.push((path, meta.len()));
            }
        }
        Ok(())
    }

    /// Where a file is.
    pub(super) fn path(&self, index: usize) -> PathBuf {
        self.root.join(&self.files[index].0)
    }

    /// The first file that only one of two directories has, or that has another size in the other.
    pub(super) fn first_difference<'a>(&'a self, other: &'a Self) -> Option<&'a Path> {
        let same = self.files.iter().zip(&other.files).take_while(|(mine, theirs)| mine == theirs).count();
        let next = [self, other].into_iter().filter_map(|found| found.files.get(same));
        next.map(|(path, _)| path.as_path()).min()
    }

    /// The bytes of all of them.
    pub(super) fn bytes(&self) -> u64 {
        self.files.iter().map(|(_, size)| size).sum()
    }
}
