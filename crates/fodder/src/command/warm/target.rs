//! What is to be warmed, as people name it: a dataset and a path in it, a path of a mount, or an origin.

use crate::{
    cli::WarmArgs,
    config,
    join::{self, Wanted},
};
use anyhow::{Context, Result};
use fodder_api::{Client, spelling};
use fodder_fuse::point::{self, Entry};
use std::{
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// The node that has the data, the dataset, and the path in it.
pub(super) struct Target {
    pub(super) client: Client,
    pub(super) dataset: String,
    /// Empty: everything.
    pub(super) path: String,
    /// It was named by a path of a mount.
    pub(super) mounted: bool,
}

impl Target {
    /// Finds it; for an origin, a node is joined or started.
    pub(super) async fn find(args: &WarmArgs) -> Result<Self> {
        let mut node = args.node.clone();
        node.cache_size = args.cache_size;
        let named = args.target.as_str();
        if !config::is_origin(named) {
            let (dataset, path) = named.split_once('/').unwrap_or((named, ""));
            let client = join::connect(&node).await?;
            return Ok(Self { client, dataset: dataset.into(), path: path.into(), mounted: false });
        }
        if let Some(path) = resolve(Path::new(OsStr::from_bytes(&spelling::name(named))))
            && let Some((dataset, path)) = in_mount(&point::mounts()?, &path)
        {
            let client = join::connect(&node).await.with_context(|| {
                format!("{named} is a mount of dataset {dataset}; say which node serves it as for `fodder mount`")
            })?;
            return Ok(Self { client, dataset, path, mounted: true });
        }
        let (client, dataset) = join::open(named, &node, &Wanted::default()).await?;
        Ok(Self { client, dataset, path: String::new(), mounted: false })
    }
}

/// A path without links. Of one that does not exist, as far as it does: it may be of a mount, whose node then says what is
/// missing.
fn resolve(path: &Path) -> Option<PathBuf> {
    path.ancestors().find_map(|above| {
        let rest = path.strip_prefix(above).ok()?;
        let above = fs::canonicalize(if above.as_os_str().is_empty() { Path::new(".") } else { above }).ok()?;
        Some(if rest.as_os_str().is_empty() { above } else { above.join(rest) })
    })
}

/// The dataset that is mounted where a path leads, and the path in it; None if what is mounted there is not ours.
fn in_mount(mounts: &[Entry], path: &Path) -> Option<(String, String)> {
    // The innermost, and of several on one directory the last.
    let mount = mounts
        .iter()
        .filter(|mount| path.starts_with(&mount.point))
        .max_by_key(|mount| mount.point.as_os_str().len())?;
    let below = path.strip_prefix(&mount.point).ok()?.as_os_str().as_bytes();
    Some((mount.dataset()?.to_owned(), spelling::text(below).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_belongs_to_the_innermost_mount() {
        let mounts = point::parse(
            b"1 0 8:1 / / rw - ext4 /dev/sda rw\n\
              2 1 0:50 / /data/pets rw - fuse.fodder fodder:pets rw\n\
              3 2 0:51 / /data/pets/other rw - tmpfs tmpfs rw\n",
        );
        let found = |path: &str| in_mount(&mounts, Path::new(path));
        assert_eq!(found("/data/pets/cat/1.png"), Some(("pets".into(), "cat/1.png".into())));
        assert_eq!(found("/data/pets"), Some(("pets".into(), String::new())));
        assert_eq!(found("/data/pets/other/x"), None);
        assert_eq!(found("/data/petshop"), None);
    }
}
