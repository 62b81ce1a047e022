//! Datasets through a real mount: the kernel, the program, a node. Needs root and /dev/fuse.

mod ahead;
mod cli;
mod empty;
mod fault;
mod hang;
mod inside;
mod kill;
mod life;
mod link;
mod mode;
mod recover;
mod small;
mod soak;
mod stall;
mod tool;
mod transport;
mod tree;

use fodder_testing::skip;
pub(crate) use transport::Way;
use transport::over_each_transport;

use crate::program::{Node, fodder, wait_for};
use rustix::mount::{UnmountFlags, unmount};
use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Stdio},
};
use tempfile::TempDir;

/// Whether mounts can be made here; if not, the test is reported as skipped.
pub(crate) fn can_mount() -> bool {
    let why = match (Path::new("/dev/fuse").exists(), rustix::process::geteuid().is_root()) {
        (false, _) => "there is no /dev/fuse",
        (_, false) => "mounting needs root",
        _ => return true,
    };
    skip!("{why}");
}

/// An origin, a cache directory and a directory to mount on.
pub(crate) struct Place {
    dir: TempDir,
    way: Way,
}

impl Place {
    /// For mounts over the device.
    pub(crate) fn new() -> Self {
        Self::over(Way::Device)
    }

    pub(crate) fn over(way: Way) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["origin", "cache", "mnt"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        // As the commands create it; otherwise they warn.
        fs::set_permissions(dir.path().join("cache"), fs::Permissions::from_mode(0o700)).unwrap();
        Self { dir, way }
    }

    pub(crate) fn origin(&self) -> PathBuf {
        self.dir.path().join("origin")
    }

    pub(crate) fn cache(&self) -> PathBuf {
        self.dir.path().join("cache")
    }

    pub(crate) fn mnt(&self) -> PathBuf {
        self.dir.path().join("mnt")
    }

    /// Writes an object at the origin, in a new file each time.
    pub(crate) fn put(&self, path: &str, bytes: &[u8]) {
        let path = self.origin().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let new = path.with_extension("new");
        fs::write(&new, bytes).unwrap();
        fs::rename(new, path).unwrap();
    }

    /// A node with the origin as the dataset `data`.
    pub(crate) fn node(&self, flags: &[&str]) -> Node {
        let origin = self.origin();
        Node::start(&self.cache(), &[&[origin.to_str().unwrap(), "--name", "data"], flags].concat())
    }

    /// Mounts the dataset `data` of the cache directory's node.
    pub(crate) fn mount(&self, flags: &[&str]) -> Mounted {
        Mounted::new(&self.cache(), &["data"], &self.mnt(), &[&[self.way.flag()], flags].concat())
    }
}

/// Whatever happened, nothing stays mounted.
impl Drop for Place {
    fn drop(&mut self) {
        let inside = fs::read_dir(self.mnt()).into_iter().flatten().flatten().map(|entry| entry.path());
        for path in inside.chain([self.mnt(), self.cache()]).collect::<Vec<_>>() {
            while unmount(&path, UnmountFlags::DETACH).is_ok() {}
        }
    }
}

/// A mount in the foreground of a process of ours.
pub(crate) struct Mounted {
    pub(crate) child: Child,
    dir: PathBuf,
}

impl Mounted {
    pub(crate) fn new(cache: &Path, sources: &[&str], dir: &Path, flags: &[&str]) -> Self {
        let mut command = fodder();
        command.args(["mount", "--foreground"]).args(flags).arg("--cache-dir").arg(cache).args(sources).arg(dir);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let lines: Vec<String> = lines.take_while(|line| line != "ready").collect();
        assert!(lines.iter().any(|line| line.starts_with("mounted ")), "the mount ended: {lines:?}");
        Self { child, dir: dir.into() }
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Unmounts as a person does, and waits for the process.
    pub(crate) fn unmount(mut self) {
        // Programs that other tests start have this process's files open for a moment, before they become themselves.
        wait_for("nobody to use the mount", || {
            let unmounted = crate::program::run(fodder().arg("unmount").arg(&self.dir));
            assert!(unmounted.code == 0 || unmounted.stderr.contains("is in use"), "{}", unmounted.stderr);
            unmounted.code == 0
        });
        let mut status = None;
        wait_for("the mount's process to end", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        assert!(status.unwrap().success());
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        while unmount(&self.dir, UnmountFlags::DETACH).is_ok() {}
    }
}

/// Bytes that differ from place to place and from seed to seed.
pub(crate) fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// An extended attribute of a file.
pub(crate) fn attribute(path: &Path, name: &str) -> String {
    let mut value = vec![0; 256];
    let length = rustix::fs::getxattr(path, name, &mut value[..]).unwrap();
    value.truncate(length);
    String::from_utf8(value).unwrap()
}

/// Waits until all of a file is cached.
pub(crate) fn wait_until_cached(path: &Path) {
    let size = fs::metadata(path).unwrap().len().to_string();
    wait_for("the file to be cached", || attribute(path, "user.fodder.cached") == size);
}
