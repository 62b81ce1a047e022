//! The files of a tier by name, and the few that are kept open.
//!
//! A name is data/DATASET/ab/<32 hexadecimal digits>, or data/DATASET/groups/CELL_BYTES for the small objects of a dataset. Mode 0600 means the file may still change, 0400 that it is sealed.
//! It knows nothing of pieces; who may open, change or unlink what is decided by the shelf.

mod fill;

use crate::id::FileKey;
use parking_lot::Mutex;
use rustix::{
    fs::{AtFlags, IFlags, Mode, OFlags, ResolveFlags},
    io::Errno,
};
use std::{
    fs::File,
    os::fd::{AsRawFd, OwnedFd},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Mode of a file that may still be written and punched.
pub(super) const OPEN_MODE: Mode = Mode::from_raw_mode(0o600);
/// Mode of a sealed file: it is never changed again, whatever the index says.
pub(super) const SEALED_MODE: Mode = Mode::from_raw_mode(0o400);
pub(super) const DIRECTORY_MODE: Mode = Mode::from_raw_mode(0o700);

/// The directory of a dataset's group files, which are named by the size of their cells.
pub(super) const GROUPS: &str = "groups";

const WAYS: usize = 8;

/// Files kept open by all tiers of this process.
static KEPT: AtomicUsize = AtomicUsize::new(0);

/// Files that are open because somebody else was given them.
static GIVEN: AtomicUsize = AtomicUsize::new(0);

/// How many files the process may keep open for itself: half of what the system lets it.
fn limit() -> usize {
    (descriptors() / 2).clamp(WAYS, 65_536)
}

/// Whether one more file may be open, kept or given: an eighth is left for everything else.
fn spare() -> bool {
    KEPT.load(Ordering::Relaxed) + GIVEN.load(Ordering::Relaxed) < descriptors() / 8 * 7
}

/// How many descriptors the process may have, which is raised as far as it goes.
fn descriptors() -> usize {
    static LIMIT: OnceLock<usize> = OnceLock::new();
    *LIMIT.get_or_init(|| {
        use rustix::process::{Resource, getrlimit, setrlimit};
        let mut limits = getrlimit(Resource::Nofile);
        let before = limits.current;
        limits.current = limits.maximum;
        let now = if setrlimit(Resource::Nofile, limits).is_ok() { limits.maximum } else { before };
        now.and_then(|now| usize::try_from(now).ok()).unwrap_or(1 << 20)
    })
}

/// Whether a file cannot be opened because too many are: no fault of the disk.
pub(super) fn is_want_of_descriptors(error: Errno) -> bool {
    matches!(error, Errno::MFILE | Errno::NFILE)
}

/// Whether a create failed because the file system or a quota has no room for another name or inode.
pub(super) fn is_out_of_inodes(error: Errno) -> bool {
    matches!(error, Errno::NOSPC | Errno::DQUOT | Errno::MLINK)
}

/// The descriptor of a file that somebody else was given, counted as long as it is open here.
#[derive(Debug)]
pub(super) struct Given(());

impl Given {
    /// One more, if there is one to spare.
    pub(super) fn new() -> Option<Self> {
        spare().then(|| {
            GIVEN.fetch_add(1, Ordering::Relaxed);
            Self(())
        })
    }
}

impl Drop for Given {
    fn drop(&mut self) {
        GIVEN.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An open cache file. Whoever holds it can read it to its end, even after it was unlinked.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) file: File,
    pub(super) writable: bool,
    /// One writes at a time: the kernel would let the others burn a core until it is their turn.
    writing: Mutex<()>,
    /// The same file, opened once more for those who must not write it.
    for_reading: OnceLock<(Arc<File>, Given)>,
}

impl Kept {
    fn new(fd: OwnedFd, writable: bool) -> Arc<Self> {
        Arc::new(Self { file: File::from(fd), writable, writing: Mutex::new(()), for_reading: OnceLock::new() })
    }

    /// The file for another process to read; None if no descriptor can be spared.
    pub(super) fn for_reading(&self) -> Option<Arc<File>> {
        if self.for_reading.get().is_none() {
            let given = Given::new()?;
            // By its descriptor and not by its name, which may be another file's by now.
            let file = File::open(format!("/proc/self/fd/{}", self.file.as_raw_fd())).ok()?;
            let _ = self.for_reading.set((Arc::new(file), given));
        }
        self.for_reading.get().map(|(file, _)| Arc::clone(file))
    }
}

#[derive(Debug)]
struct Way {
    shelf: u16,
    slot: u32,
    used: u32,
    kept: Arc<Kept>,
}

#[derive(Debug, Default)]
struct Set {
    ways: [Option<Way>; WAYS],
    tick: u32,
}

/// The directory of all cache files of a tier.
#[derive(Debug)]
pub(super) struct Files {
    data: OwnedFd,
    sets: Box<[Mutex<Set>]>,
}

impl Files {
    pub(super) fn new(data: OwnedFd, capacity: Option<usize>) -> Self {
        let sets = (capacity.unwrap_or_else(limit) / WAYS).max(1);
        Self { data, sets: std::iter::repeat_with(Mutex::default).take(sets).collect() }
    }

    fn set(&self, shelf: u16, slot: u32) -> &Mutex<Set> {
        let mixed = (u64::from(shelf) << 32 | u64::from(slot)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        &self.sets[((mixed * self.sets.len() as u64) >> 32) as usize]
    }

    /// The kept file of an object: the one short lock of a warm hit.
    #[inline]
    pub(super) fn kept(&self, shelf: u16, slot: u32) -> Option<Arc<Kept>> {
        let mut set = self.set(shelf, slot).lock();
        set.tick = set.tick.wrapping_add(1);
        let tick = set.tick;
        let way = set.ways.iter_mut().flatten().find(|way| way.slot == slot && way.shelf == shelf)?;
        way.used = tick;
        Some(way.kept.clone())
    }

    /// Keeps a file open if `valid` still holds once nobody can forget it in between; false if it does not.
    pub(super) fn keep(&self, shelf: u16, slot: u32, kept: &Arc<Kept>, valid: impl FnOnce() -> bool) -> bool {
        let mut set = self.set(shelf, slot).lock();
        if !valid() {
            return false;
        }
        set.tick = set.tick.wrapping_add(1);
        let tick = set.tick;
        let same = set.ways.iter().position(|way| way.as_ref().is_some_and(|w| w.slot == slot && w.shelf == shelf));
        let free =
            || set.ways.iter().position(Option::is_none).filter(|_| KEPT.load(Ordering::Relaxed) < limit() && spare());
        let oldest = || {
            let aged =
                set.ways.iter().enumerate().filter_map(|(at, way)| Some((at, tick.wrapping_sub(way.as_ref()?.used))));
            aged.max_by_key(|&(_, age)| age).map(|(at, _)| at)
        };
        let Some(at) = same.or_else(free).or_else(oldest) else { return true };
        let replaced = set.ways[at].replace(Way { shelf, slot, used: tick, kept: kept.clone() });
        if replaced.is_none() {
            // Before anybody can forget it.
            KEPT.fetch_add(1, Ordering::Relaxed);
        }
        drop(set);
        true
    }

    /// Forgets a file and runs `then` before anybody can keep it again.
    pub(super) fn forget(&self, shelf: u16, slot: u32, then: impl FnOnce()) {
        let mut set = self.set(shelf, slot).lock();
        let way = set.ways.iter_mut().find(|way| way.as_ref().is_some_and(|w| w.slot == slot && w.shelf == shelf));
        let taken = way.and_then(Option::take);
        then();
        drop(set);
        if taken.is_some() {
            KEPT.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Closes everything that is kept.
    pub(super) fn clear(&self) {
        for set in &self.sets {
            let ways = std::mem::take(&mut set.lock().ways);
            KEPT.fetch_sub(ways.iter().flatten().count(), Ordering::Relaxed);
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.sets.len() * size_of::<Mutex<Set>>()
    }

    /// Opens an existing file. Without `wait` only if its name is in the kernel's memory, else EAGAIN.
    pub(super) fn open(&self, dataset: &str, key: FileKey, writable: bool, wait: bool) -> Result<Arc<Kept>, Errno> {
        let access = if writable { OFlags::RDWR } else { OFlags::RDONLY };
        let flags = access | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let fd = self.open_at(&name(dataset, key), flags, wait)?;
        Ok(Kept::new(fd, writable))
    }

    /// Opens an existing group file, to be read and written.
    pub(super) fn open_group(&self, dataset: &str, cell_bytes: u64, wait: bool) -> Result<Arc<Kept>, Errno> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        Ok(Kept::new(self.open_at(&group_name(dataset, cell_bytes), flags, wait)?, true))
    }

    fn open_at(&self, name: &str, flags: OFlags, wait: bool) -> Result<OwnedFd, Errno> {
        if wait {
            return rustix::fs::openat(&self.data, name, flags, Mode::empty());
        }
        match rustix::fs::openat2(&self.data, name, flags, Mode::empty(), ResolveFlags::CACHED) {
            Err(Errno::NOSYS | Errno::PERM | Errno::INVAL) => Err(Errno::AGAIN),
            other => other,
        }
    }

    /// Makes an empty group file.
    pub(super) fn create_group(&self, dataset: &str, cell_bytes: u64) -> Result<Arc<Kept>, Errno> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let fd = rustix::fs::openat(&self.data, group_name(dataset, cell_bytes), flags, OPEN_MODE)?;
        Ok(Kept::new(fd, true))
    }

    /// How long a group file is; None if there is none.
    pub(super) fn group_length(&self, dataset: &str, cell_bytes: u64) -> Option<u64> {
        let found = rustix::fs::statat(&self.data, group_name(dataset, cell_bytes), AtFlags::SYMLINK_NOFOLLOW).ok()?;
        u64::try_from(found.st_size).ok()
    }

    /// What the blocks of a group file take; None if there is none.
    pub(super) fn group_blocks(&self, dataset: &str, cell_bytes: u64) -> Option<u64> {
        let found = rustix::fs::statat(&self.data, group_name(dataset, cell_bytes), AtFlags::SYMLINK_NOFOLLOW).ok()?;
        u64::try_from(found.st_blocks).ok().map(|blocks| blocks * 512)
    }

    pub(super) fn unlink_group(&self, dataset: &str, cell_bytes: u64) -> Result<(), Errno> {
        match rustix::fs::unlinkat(&self.data, group_name(dataset, cell_bytes), AtFlags::empty()) {
            Err(Errno::NOENT) | Ok(()) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Makes the directory of a dataset's group files; whether it is new.
    pub(super) fn make_group_directory(&self, dataset: &str) -> Result<bool, Errno> {
        self.make_at(&format!("{dataset}/{GROUPS}"))
    }

    /// Makes a new, empty file; EEXIST if the name is taken, ENOENT if its directory must be made first.
    pub(super) fn create(&self, dataset: &str, key: FileKey, size: u64) -> Result<Arc<Kept>, Errno> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let fd = rustix::fs::openat(&self.data, name(dataset, key), flags, OPEN_MODE)?;
        if let Err(error) = rustix::fs::ftruncate(&fd, size) {
            // The file has no bytes yet: if it cannot be removed either, a sweep finds it.
            let _ = self.unlink(dataset, key);
            return Err(error);
        }
        Ok(Kept::new(fd, true))
    }

    /// What is known of a file if it is sealed: then a client may have it open.
    pub(super) fn sealed(&self, dataset: &str, key: FileKey) -> Option<rustix::fs::Stat> {
        let found = rustix::fs::statat(&self.data, name(dataset, key), AtFlags::SYMLINK_NOFOLLOW).ok()?;
        (Mode::from_raw_mode(found.st_mode) == SEALED_MODE).then_some(found)
    }

    pub(super) fn unlink(&self, dataset: &str, key: FileKey) -> Result<(), Errno> {
        match rustix::fs::unlinkat(&self.data, name(dataset, key), AtFlags::empty()) {
            Err(Errno::NOENT) | Ok(()) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Makes a dataset's directory, or one of the 256 inside it; whether it is new.
    pub(super) fn make_directory(&self, dataset: &str, shard: Option<u8>) -> Result<bool, Errno> {
        self.make_at(&shard.map_or_else(|| dataset.to_owned(), |shard| format!("{dataset}/{shard:02x}")))
    }

    fn make_at(&self, name: &str) -> Result<bool, Errno> {
        match rustix::fs::mkdirat(&self.data, name, DIRECTORY_MODE) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Has directories that are still to be made inside a dataset's lie far apart. ext4 puts new files beside their directory and
    /// takes no place there that was given back less than a minute ago: where all of them lie together, who evicts as
    /// it fills looks through thousands of places for each new file. Other file systems do not know this, nor need it.
    pub(super) fn spread(&self, dataset: &str) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let spread = |dir: OwnedFd| {
            let flags = rustix::fs::ioctl_getflags(&dir)?;
            rustix::fs::ioctl_setflags(&dir, flags | IFlags::TOPDIR)
        };
        if let Err(error) = rustix::fs::openat(&self.data, dataset, flags, Mode::empty()).and_then(spread) {
            tracing::debug!(dataset, %error, "the file system does not spread directories");
        }
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        self.clear();
    }
}

fn group_name(dataset: &str, cell_bytes: u64) -> String {
    format!("{dataset}/{GROUPS}/{cell_bytes}")
}

fn name(dataset: &str, key: FileKey) -> String {
    format!("{dataset}/{:02x}/{key}", key.0[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXT4_MAGIC: i64 = 0xef53;

    #[test]
    fn directories_lie_apart_where_the_file_system_can_do_that() {
        let home = tempfile::tempdir().unwrap();
        let data = File::open(home.path()).unwrap();
        let files = Files::new(data.into(), None);
        assert!(files.make_directory("birds", None).unwrap());
        files.spread("birds");
        files.spread("none such");
        assert!(files.make_directory("birds", Some(7)).unwrap());
        let birds = File::open(home.path().join("birds")).unwrap();
        if rustix::fs::fstatfs(&birds).unwrap().f_type == EXT4_MAGIC {
            assert!(rustix::fs::ioctl_getflags(&birds).unwrap().contains(IFlags::TOPDIR));
        }
    }
}
