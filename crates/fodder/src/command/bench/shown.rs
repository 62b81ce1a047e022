//! What of Fodder's a directory shows: the dataset in whose mount it lies, or those whose mounts lie in it.

use super::{
    super::mounted::{in_mount, resolve},
    files::Files,
};
use crate::{cli::NodeArgs, join};
use anyhow::{Context, Result, bail};
use fodder_api::{spelling, v1::DatasetStatus};
use fodder_fuse::point::{self, Entry};
use std::{
    collections::BTreeMap,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// The datasets that are mounted at a directory.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shown(Vec<Part>);

/// A part of a directory, and the part of a dataset that it shows.
#[derive(Debug, PartialEq, Eq)]
struct Part {
    below: PathBuf,
    dataset: String,
    path: String,
}

impl Shown {
    /// What the directory of these files shows. An error if one of them lies in no mount of Fodder.
    pub(super) fn by(files: &Files) -> Result<Self> {
        let dir = resolve(&files.root).with_context(|| format!("cannot find {}", files.root.display()))?;
        let shown = Self::at(&dir, &point::mounts()?);
        match files.files.iter().find(|(file, _)| shown.object(file).is_none()) {
            None => Ok(shown),
            Some(_) if shown.0.is_empty() => bail!("{} is not in a mount of Fodder", files.root.display()),
            Some((file, _)) => bail!("{} is not in a mount of Fodder", files.root.join(file).display()),
        }
    }

    fn at(dir: &Path, mounts: &[Entry]) -> Self {
        if let Some((dataset, path)) = in_mount(mounts, dir) {
            return Self(vec![Part { below: PathBuf::new(), dataset, path }]);
        }
        let inside = mounts.iter().filter_map(|mount| {
            let below = mount.point.strip_prefix(dir).ok()?.to_owned();
            Some(Part { below, dataset: mount.dataset()?.into(), path: String::new() })
        });
        Self(inside.collect())
    }

    /// The dataset that a file of the directory belongs to, and the file's path in it.
    pub(super) fn object(&self, file: &Path) -> Option<(&str, String)> {
        // Of several on one directory the last is seen.
        self.0.iter().rev().find_map(|part| {
            let name = spelling::text(file.strip_prefix(&part.below).ok()?.as_os_str().as_bytes()).into_owned();
            let path = if part.path.is_empty() { name } else { format!("{}/{name}", part.path) };
            Some((part.dataset.as_str(), path))
        })
    }

    /// What the node says of these datasets, by name.
    pub(super) async fn datasets(&self, node: &NodeArgs) -> Result<BTreeMap<String, DatasetStatus>> {
        let client = join::connect(node).await.context("cannot ask the node of the mount")?;
        let known = client.list_datasets().await?.into_iter();
        let mut known: BTreeMap<_, _> =
            known.filter_map(|status| Some((status.config.as_ref()?.name.clone(), status))).collect();
        known.retain(|name, _| self.0.iter().any(|part| part.dataset == *name));
        match self.0.iter().find(|part| !known.contains_key(&part.dataset)) {
            None => Ok(known),
            Some(part) => bail!(
                "the node does not have dataset {}, which is mounted: name the node that serves it with --addr or --cache-dir, as for `fodder mount`",
                part.dataset
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_shows_the_mount_that_it_lies_in_or_those_that_lie_in_it() {
        let mounts = point::parse(
            b"1 0 8:1 / / rw - ext4 /dev/sda rw\n\
              2 1 0:50 / /data/pets rw - fuse.fodder fodder:pets rw\n\
              3 1 0:51 / /data/cars rw - fuse.fodder fodder:old rw\n\
              4 3 0:52 / /data/cars rw - fuse.fodder fodder:cars rw\n",
        );
        let object = |dir: &str, file: &str| {
            let shown = Shown::at(Path::new(dir), &mounts);
            shown.object(Path::new(file)).map(|(dataset, path)| format!("{dataset}: {path}"))
        };
        assert_eq!(object("/data/pets", "cat/1.png").unwrap(), "pets: cat/1.png");
        assert_eq!(object("/data/pets/cat", "1.png").unwrap(), "pets: cat/1.png");
        assert_eq!(object("/data", "pets/cat/1.png").unwrap(), "pets: cat/1.png");
        assert_eq!(object("/data", "cars/1.png").unwrap(), "cars: 1.png");
        assert_eq!(object("/data", "README"), None);
        assert_eq!(Shown::at(Path::new("/srv"), &mounts), Shown(Vec::new()));
    }
}
