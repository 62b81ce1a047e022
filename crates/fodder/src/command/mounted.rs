//! Paths of mounts: which dataset is mounted where a path leads, and which node serves it.

use crate::{cli::NodeArgs, join};
use anyhow::{Context, Result, anyhow, bail};
use fodder_api::{Address, Client, spelling};
use fodder_fuse::point::{self, Entry};
use rustix::io::Errno;
use std::{
    ffi::OsStr,
    fs, io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// A path without links. Of one that does not exist, as far as it does: it may be of a mount, whose node then says what is
/// missing.
pub(super) fn resolve(path: &Path) -> Option<PathBuf> {
    path.ancestors().find_map(|above| {
        let rest = path.strip_prefix(above).ok()?;
        let above = fs::canonicalize(if above.as_os_str().is_empty() { Path::new(".") } else { above }).ok()?;
        Some(if rest.as_os_str().is_empty() { above } else { above.join(rest) })
    })
}

/// The dataset that is mounted where a path leads, and the path in it; None if what is mounted there is not ours.
pub(super) fn in_mount(mounts: &[Entry], path: &Path) -> Option<(String, String)> {
    let (mount, below) = mount_of(mounts, path)?;
    Some((mount.dataset()?.to_owned(), below))
}

/// The mount that a path leads into, and the path in its file system.
fn mount_of<'a>(mounts: &'a [Entry], path: &Path) -> Option<(&'a Entry, String)> {
    // The innermost, and of several on one directory the last.
    let mount = mounts
        .iter()
        .filter(|mount| path.starts_with(&mount.point))
        .max_by_key(|mount| mount.point.as_os_str().len())?;
    let below = path.strip_prefix(&mount.point).ok()?;
    // A bind mount may show a part of the file system only.
    let root = mount.root.strip_prefix("/").unwrap_or(&mount.root);
    let inside = if below.as_os_str().is_empty() { root.to_owned() } else { root.join(below) };
    Some((mount, spelling::text(inside.as_os_str().as_bytes()).into_owned()))
}

/// A path in a mount of ours, which need not exist.
pub(super) struct Inside {
    pub(super) dataset: String,
    /// The path in the dataset; empty: its root.
    pub(super) path: String,
    /// Where the dataset is mounted.
    point: PathBuf,
    /// The path as the kernel knows it.
    full: PathBuf,
}

impl Inside {
    /// Finds the mount that a path leads into.
    pub(super) fn find(named: &str) -> Result<Option<Self>> {
        let Some(full) = resolve(Path::new(OsStr::from_bytes(&spelling::name(named)))) else { return Ok(None) };
        let mounts = point::mounts()?;
        let Some((mount, path)) = mount_of(&mounts, &full) else { return Ok(None) };
        let inside = |dataset: &str| Self { dataset: dataset.into(), path, point: mount.point.clone(), full };
        Ok(mount.dataset().map(inside))
    }

    /// Makes sure that something is there.
    pub(super) fn check(&self) -> Result<()> {
        let (path, dataset, point) = (&self.path, &self.dataset, self.point.display());
        match fs::symlink_metadata(&self.full) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                bail!("there is no {path:?} in dataset {dataset:?}, which is mounted on {point}")
            }
            Err(error) if is_dead(error.raw_os_error()) => Err(self.ended()),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", self.full.display())),
            Ok(_) => Ok(()),
        }
    }

    /// Connects to the node of the mount: the one that its root names, unless `--addr` names it.
    pub(super) async fn connect(&self, args: &NodeArgs) -> Result<Client> {
        let (dataset, point) = (&self.dataset, self.point.display());
        let address = if args.addr.is_some() { None } else { self.node()? };
        let connected = match address {
            Some(address) => Client::connect(&address).await.map_err(Into::into),
            None => join::connect(args).await,
        };
        connected.with_context(|| format!("cannot use the node of dataset {dataset}, which is mounted on {point}"))
    }

    /// The address of the node, as the mount tells it.
    fn node(&self) -> Result<Option<Address>> {
        let mut value = vec![0; 4096];
        match rustix::fs::getxattr(&self.point, NODE_ATTRIBUTE, &mut value[..]) {
            Ok(length) => Ok(Some(String::from_utf8_lossy(&value[..length]).parse()?)),
            Err(error) if is_dead(Some(error.raw_os_error())) => Err(self.ended()),
            Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot ask the mount on {}", self.point.display())),
        }
    }

    fn ended(&self) -> anyhow::Error {
        let point = self.point.display();
        anyhow!("the process of the mount on {point} is gone: `fodder unmount {point}`, and mount it again")
    }
}

/// The attribute of a mount that names its node.
const NODE_ATTRIBUTE: &str = "user.fodder.node";

/// Whether an error means that nobody answers for a mount any more.
fn is_dead(errno: Option<i32>) -> bool {
    [Errno::NOTCONN, Errno::CONNABORTED].iter().any(|dead| errno == Some(dead.raw_os_error()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fodder_fuse::point;

    #[test]
    fn a_path_belongs_to_the_innermost_mount() {
        let mounts = point::parse(
            b"1 0 8:1 / / rw - ext4 /dev/sda rw\n\
              2 1 0:50 / /data/pets rw - fuse.fodder fodder:pets rw\n\
              3 2 0:51 / /data/pets/other rw - tmpfs tmpfs rw\n\
              4 1 0:50 /cat /cats rw - fuse.fodder fodder:pets rw\n",
        );
        let found = |path: &str| in_mount(&mounts, Path::new(path));
        assert_eq!(found("/data/pets/cat/1.png"), Some(("pets".into(), "cat/1.png".into())));
        assert_eq!(found("/data/pets"), Some(("pets".into(), String::new())));
        assert_eq!(found("/data/pets/other/x"), None);
        assert_eq!(found("/data/petshop"), None);
        assert_eq!(found("/cats"), Some(("pets".into(), "cat".into())), "a bind mount of a directory");
        assert_eq!(found("/cats/1.png"), Some(("pets".into(), "cat/1.png".into())));
    }
}
