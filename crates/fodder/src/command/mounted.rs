//! Paths of mounts: which dataset is mounted where a path leads. Looks only at this machine.

use fodder_api::spelling;
use fodder_fuse::point::Entry;
use std::{
    fs,
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
    use fodder_fuse::point;

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
