//! The file system below the root of a local origin, to notice that it is no longer mounted.

use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags};
use serde::{Deserialize, Serialize};
use std::{fmt, fs, os::unix::fs::MetadataExt, path::Path};

/// What identifies the file system below a directory. Device numbers are not part of it: they change with a remount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootIdentity {
    /// The type of the file system, as `statfs` reports it.
    fs_type: i64,
    /// The identifier of the file system, as `statfs` reports it; 0 where it has none.
    fs_id: u64,
    /// The inode of the directory.
    inode: u64,
    /// Whether the directory is the root of a mount. None: the kernel does not report it.
    is_mount_root: Option<bool>,
}

impl RootIdentity {
    /// Identifies the file system below a directory; None if it cannot be determined.
    pub(super) fn of(root: &Path) -> Option<Self> {
        let statx = rustix::fs::statx(CWD, root, AtFlags::empty(), StatxFlags::BASIC_STATS).ok();
        let mount_root = StatxAttributes::MOUNT_ROOT;
        let is_mount_root = statx
            .filter(|statx| statx.stx_attributes_mask.contains(mount_root))
            .map(|statx| statx.stx_attributes.contains(mount_root));
        Some(Self {
            fs_type: rustix::fs::statfs(root).ok()?.f_type,
            fs_id: rustix::fs::statvfs(root).ok()?.f_fsid,
            inode: fs::metadata(root).ok()?.ino(),
            is_mount_root,
        })
    }

    /// Whether `now` may be the same file system. A remount may change its identifier, and a replaced directory its
    /// inode, but not both; a mount that is gone leaves a directory that is no mount root.
    pub(crate) fn may_be(&self, now: &Self) -> bool {
        let unmounted = self.is_mount_root == Some(true) && now.is_mount_root == Some(false);
        let same_id = self.fs_id != 0 && self.fs_id == now.fs_id;
        !unmounted && self.fs_type == now.fs_type && (same_id || self.inode == now.inode)
    }
}

impl fmt::Display for RootIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mount = if self.is_mount_root == Some(true) { "a mount of " } else { "a directory on " };
        match name_of(self.fs_type) {
            Some(name) => write!(f, "{mount}{name}")?,
            None => write!(f, "{mount}file system type {:#x}", self.fs_type)?,
        }
        write!(f, " {:x}", self.fs_id)
    }
}

/// The name of a common file system by the magic number in `statfs`, see `linux/magic.h`.
fn name_of(fs_type: i64) -> Option<&'static str> {
    Some(match fs_type {
        0xef53 => "ext4",
        0x5846_5342 => "xfs",
        0x9123_683e => "btrfs",
        0x0102_1994 => "tmpfs",
        0x6969 => "nfs",
        0x794c_7630 => "overlay",
        0x6573_5546 => "fuse",
        0x0bd0_0bd0 => "lustre",
        0x4750_4653 => "gpfs",
        0x00c3_6400 => "ceph",
        0xff53_4d42 | 0xfe53_4d42 => "smb",
        0x2fc1_2fc1 => "zfs",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const EXT4: RootIdentity = RootIdentity { fs_type: 0xef53, fs_id: 7, inode: 2, is_mount_root: Some(true) };

    #[test]
    fn a_remounted_file_system_is_the_same_one() {
        assert!(EXT4.may_be(&EXT4));
        assert!(EXT4.may_be(&RootIdentity { fs_id: 8, ..EXT4 }), "another identifier after a reboot");
        assert!(EXT4.may_be(&RootIdentity { inode: 12, ..EXT4 }), "a directory that was replaced");
        let nfs = RootIdentity { fs_type: 0x6969, fs_id: 0, inode: 99, is_mount_root: None };
        assert!(nfs.may_be(&nfs));
    }

    #[test]
    fn the_directory_below_a_mount_is_another_file_system() {
        assert!(!EXT4.may_be(&RootIdentity { is_mount_root: Some(false), ..EXT4 }), "a bind mount that is gone");
        assert!(!EXT4.may_be(&RootIdentity { fs_type: 0x0102_1994, ..EXT4 }));
        assert!(!EXT4.may_be(&RootIdentity { fs_id: 8, inode: 12, ..EXT4 }));
        let nfs = RootIdentity { fs_type: 0x6969, fs_id: 0, inode: 99, is_mount_root: None };
        assert!(!nfs.may_be(&RootIdentity { inode: 100, ..nfs }), "0 is no identifier");
    }

    #[test]
    fn a_directory_of_this_machine_has_an_identity() {
        let dir = tempfile::tempdir().unwrap();
        let identity = RootIdentity::of(dir.path()).unwrap();
        assert!(identity.may_be(&RootIdentity::of(dir.path()).unwrap()));
        assert_ne!(identity.is_mount_root, Some(true), "{identity}");
    }
}
