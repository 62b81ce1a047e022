//! Mount points: whether a directory can be one, what is mounted there, and taking it away again.
//!
//! Looks only at this machine; knows nothing of datasets.

mod attach;
mod table;
mod user;

pub(crate) use attach::Attach;
pub(crate) use table::SOURCE;
pub use table::{Entry, mounts, parse};

use crate::{Error, Result};
use rustix::mount::UnmountFlags;
use std::{
    fs, io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    process::Command,
};

/// How many of those who use a mount are named.
const MAX_NAMED: usize = 5;

/// Makes sure that a directory can be a mount point, and is one that is there, a directory, empty and not in use. What a
/// mount that was killed has left there is taken away. The directory's full path.
pub fn prepare(dir: &Path) -> Result<PathBuf> {
    let path = full(dir)?;
    if clean(&path)? {
        tracing::info!(path = %path.display(), "cleaned up after a mount that was killed");
    }
    let shown = path.display();
    match fs::metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(Error::NotFound(format!("{shown} does not exist: create it with `mkdir -p {shown}`")));
        }
        Err(error) => return Err(Error::io(format_args!("read {shown}"), &error)),
        Ok(metadata) if !metadata.is_dir() => {
            return Err(Error::Invalid(format!("{shown} is not a directory: mount on an empty directory")));
        }
        Ok(_) => {}
    }
    if let Some(entry) = at(&path)?.filter(|entry| entry.kind.starts_with("fuse")) {
        return Err(Error::Busy(match entry.dataset() {
            Some(dataset) => format!(
                "dataset {dataset} is already mounted on {shown}: run `fodder unmount {shown}` first, or choose another \
                 directory"
            ),
            None => format!("{shown} is a mount of type {}: choose another directory", entry.kind),
        }));
    }
    let mut entries = fs::read_dir(&path).map_err(|error| Error::io(format_args!("read {shown}"), &error))?;
    if entries.next().is_some() {
        return Err(Error::Invalid(format!(
            "{shown} is not empty, and its files would be hidden: choose an empty directory"
        )));
    }
    Ok(path)
}

/// Whether FUSE can be used here at all; the error says what is missing.
pub fn check_fuse() -> Result<()> {
    let device = Path::new("/dev/fuse");
    if !device.exists() {
        return Err(Error::Unsupported(
            "there is no /dev/fuse: load the module with `modprobe fuse`, or give the container the device \
             (docker run --device /dev/fuse)"
                .into(),
        ));
    }
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    match Command::new("fusermount3").arg("--version").output() {
        Ok(_) => Ok(()),
        Err(_) => Err(Error::Unsupported(
            "mounting without being root needs fusermount3: install the package fuse3 (apt-get install fuse3), or mount \
             as root"
                .into(),
        )),
    }
}

/// What is mounted on a directory, the last if several are.
pub fn at(path: &Path) -> Result<Option<Entry>> {
    Ok(mounts()?.into_iter().rfind(|entry| entry.point == path))
}

/// The mounts of ours on a directory and, one level deep, in it.
pub fn ours(path: &Path) -> Result<Vec<Entry>> {
    let here = |entry: &Entry| entry.point == path || entry.point.parent() == Some(path);
    Ok(mounts()?.into_iter().filter(|entry| entry.is_ours() && here(entry)).collect())
}

/// Takes mounts away whose process is gone. True if there was one.
fn clean(path: &Path) -> Result<bool> {
    let mut cleaned = false;
    // One on top of the other, if mounts were killed again and again.
    while let Some(entry) = at(path)?.filter(Entry::is_ours) {
        // Nobody but its process answers this, so it waits while the kernel is still busy with the process's end.
        let asked = rustix::fs::statfs(path);
        if !matches!(asked, Err(rustix::io::Errno::NOTCONN | rustix::io::Errno::CONNABORTED)) {
            break;
        }
        detach(&entry.point)?;
        cleaned = true;
    }
    Ok(cleaned)
}

/// Takes a mount away even if it is in use: those who use it keep what they have open.
pub fn detach(path: &Path) -> Result<()> {
    match rustix::mount::unmount(path, UnmountFlags::DETACH) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::PERM) => fusermount(path, &["-u", "-z"]),
        Err(error) => Err(Error::io(format_args!("unmount {}", path.display()), &error.into())),
    }
}

/// Unmounts our mounts on a directory, or in it. [`Error::Busy`] names who is in the way.
pub fn unmount(dir: &Path) -> Result<Vec<Entry>> {
    each(dir, unmount_one)
}

/// Takes our mounts on a directory, or in it, away even if they are in use.
pub fn detach_all(dir: &Path) -> Result<Vec<Entry>> {
    each(dir, detach)
}

fn each(dir: &Path, end: impl Fn(&Path) -> Result<()>) -> Result<Vec<Entry>> {
    let path = full(dir)?;
    let mounts = ours(&path)?;
    if mounts.is_empty() {
        let shown = path.display();
        return Err(Error::Invalid(match at(&path)? {
            Some(entry) => format!("{shown} is a mount of type {} and not of Fodder: use umount", entry.kind),
            None => format!("nothing is mounted on {shown}; `mount -t fuse.fodder` shows what is"),
        }));
    }
    mounts.iter().rev().try_for_each(|entry| end(&entry.point))?;
    Ok(mounts)
}

fn unmount_one(path: &Path) -> Result<()> {
    match rustix::mount::unmount(path, UnmountFlags::empty()) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::BUSY) => Err(busy(path)),
        Err(rustix::io::Errno::PERM) => fusermount(path, &["-u"]).map_err(|error| match user::users(path).is_empty() {
            true => error,
            false => busy(path),
        }),
        Err(error) => Err(Error::io(format_args!("unmount {}", path.display()), &error.into())),
    }
}

fn busy(path: &Path) -> Error {
    let users = user::users(path);
    let shown = path.display();
    if users.is_empty() {
        return Error::Busy(format!(
            "{shown} is in use by a process of another user: try again as root, or run `fodder unmount --lazy {shown}`"
        ));
    }
    let named: Vec<String> = users.iter().take(MAX_NAMED).map(ToString::to_string).collect();
    let more = users.len().saturating_sub(MAX_NAMED);
    let more = if more > 0 { format!("\n  and {more} more") } else { String::new() };
    Error::Busy(format!(
        "{shown} is in use by:\n  {}{more}\nend them first, or run `fodder unmount --lazy {shown}`, after which they keep the files that they have open",
        named.join("\n  ")
    ))
}

fn fusermount(path: &Path, flags: &[&str]) -> Result<()> {
    let output = Command::new("fusermount3").args(flags).arg("--").arg(path).output();
    let output = output.map_err(|_| {
        Error::Unsupported("unmounting without being root needs fusermount3: install the package fuse3".into())
    })?;
    if output.status.success() {
        return Ok(());
    }
    Err(Error::Busy(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

/// The full path of a directory. What is mounted on it may be dead, so only what leads there is looked at.
fn full(dir: &Path) -> Result<PathBuf> {
    let absolute =
        std::path::absolute(dir).map_err(|error| Error::io(format_args!("find {}", dir.display()), &error))?;
    // `absolute` keeps a slash at the end, which would follow a link that the directory is.
    let absolute: PathBuf = absolute.components().collect();
    match (absolute.parent(), absolute.file_name()) {
        (Some(parent), Some(name)) if name.as_bytes() != b".." => match fs::canonicalize(&absolute) {
            Ok(full) => Ok(full),
            Err(_) => Ok(fs::canonicalize(parent).unwrap_or_else(|_| parent.to_owned()).join(name)),
        },
        _ => Ok(absolute),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_cannot_be_a_mount_point_says_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let missing = prepare(&dir.path().join("missing")).unwrap_err().to_string();
        assert!(missing.contains("mkdir -p"), "{missing}");
        fs::write(dir.path().join("file"), b"x").unwrap();
        let file = prepare(&dir.path().join("file")).unwrap_err().to_string();
        assert!(file.contains("not a directory"), "{file}");
        let full = prepare(dir.path()).unwrap_err().to_string();
        assert!(full.contains("not empty"), "{full}");
        fs::create_dir(dir.path().join("empty")).unwrap();
        let empty = dir.path().join("empty");
        assert_eq!(prepare(&empty).unwrap(), fs::canonicalize(&empty).unwrap());
        std::os::unix::fs::symlink(&empty, dir.path().join("link")).unwrap();
        assert_eq!(prepare(&dir.path().join("link/")).unwrap(), fs::canonicalize(&empty).unwrap());
    }

    #[test]
    fn unmounting_what_is_not_mounted_or_not_ours_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let nothing = unmount(dir.path()).unwrap_err().to_string();
        assert!(nothing.contains("nothing is mounted"), "{nothing}");
        let foreign = unmount(Path::new("/proc")).unwrap_err().to_string();
        assert!(foreign.contains("type proc"), "{foreign}");
    }
}
