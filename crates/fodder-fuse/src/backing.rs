//! Files that hold a whole object: cache files that the node leased, and memory where the cache keeps nothing.
//!
//! The kernel reads such a file itself once it is registered (passthrough), and it never changes. The [`Pool`] keeps leased
//! files from open to open, so that an object that was opened once is opened again without asking anybody.

use crate::sharded::Sharded;
use fodder_api::frames::{Lease, LeaseStatus};
use rustc_hash::FxHashMap;
use rustix::io::ReadWriteFlags;
use std::{
    collections::hash_map::Entry,
    fs::File,
    io::{self, IoSliceMut, Write},
    os::unix::fs::{FileExt, MetadataExt},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

/// The most memory that objects which the cache does not keep may take while they are open.
const MEMORY_BYTES: u64 = 256 << 20;

/// Larger objects are cached in files, which are kept instead. Also what a smaller one takes of memory: a page.
pub(crate) const KEPT_BYTES: u64 = 4096;

/// The most memory that small objects take which are not open.
const MAX_KEPT_MEMORY: u64 = 64 << 20;

/// A pooled file that nobody opened for so long is given back.
const UNUSED: Duration = Duration::from_secs(600);

/// In so many sweeps all files of a full pool are looked at; those of one that has few, in each.
const SWEEPS: usize = 8;

/// The kernel's side of passthrough.
pub(crate) trait Registrar: Send + Sync + std::fmt::Debug {
    /// Lets the kernel read a file; its number for it.
    fn register(&self, file: &File) -> io::Result<u32>;
    /// The number is no longer used.
    fn release(&self, id: u32);
    /// What the kernel has kept of an inode's bytes is wrong.
    fn invalidate(&self, _ino: u64) {}
}

/// Where a whole object's bytes are.
#[derive(Debug)]
pub(crate) enum Content {
    /// In a cache file of the node's.
    Leased(Arc<Lease>),
    /// In a file in this process's memory.
    Memory(File),
    /// In a file that a test has made.
    #[cfg(test)]
    Own(File),
}

/// A file that holds a whole object, exactly its bytes.
#[derive(Debug)]
pub(crate) struct Backing {
    content: Content,
    /// The kernel's number for it, once somebody wanted one; None if the kernel refused.
    id: OnceLock<Option<u32>>,
    registrar: Arc<dyn Registrar>,
    /// The node answered, and did not verify the file.
    is_refused: AtomicBool,
    /// When it was last opened, by the pool's clock.
    used_s: AtomicU64,
    /// What it takes of the memory for objects that the cache does not keep.
    _room: Option<Room>,
}

impl Backing {
    /// The file itself.
    pub(crate) fn file(&self) -> &File {
        match &self.content {
            Content::Leased(lease) => lease.file(),
            Content::Memory(file) => file,
            #[cfg(test)]
            Content::Own(file) => file,
        }
    }

    /// Reads what is in memory; an error or less if the disk must be waited for.
    pub(crate) fn try_read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if let Content::Memory(file) = &self.content {
            // It never waits, and the kernel does not know the flag for it.
            return file.read_at(buffer, offset);
        }
        let parts = &mut [IoSliceMut::new(buffer)];
        Ok(rustix::io::preadv2(self.file(), parts, offset, ReadWriteFlags::NOWAIT)?)
    }

    /// The kernel's number for the file; None if it does not take it.
    pub(crate) fn id(&self) -> Option<u32> {
        *self.id.get_or_init(|| match self.registrar.register(self.file()) {
            Ok(id) => Some(id),
            Err(error) => {
                tracing::debug!(%error, "the kernel refuses passthrough for a file; reading it in this process");
                None
            }
        })
    }

    /// The lease, if the file is the node's.
    pub(crate) fn lease(&self) -> Option<&Arc<Lease>> {
        match &self.content {
            Content::Leased(lease) => Some(lease),
            Content::Memory(_) => None,
            #[cfg(test)]
            Content::Own(_) => None,
        }
    }

    /// Whether its bytes are known to be right. A file that the node refuses to verify is treated as evicted: it must not be
    /// opened again.
    pub(crate) fn status(&self) -> LeaseStatus {
        match self.lease().map_or(LeaseStatus::Verified, |lease| lease.status()) {
            LeaseStatus::Unverified if self.is_refused.load(Ordering::Relaxed) => LeaseStatus::Evicted,
            status => status,
        }
    }

    /// The node answered, and did not verify the file.
    pub(crate) fn refuse(&self) {
        self.is_refused.store(true, Ordering::Relaxed);
    }

    /// Whether the node evicted the file.
    fn is_unlinked(&self) -> bool {
        !matches!(self.content, Content::Memory(_))
            && self.file().metadata().is_ok_and(|metadata| metadata.nlink() == 0)
    }
}

impl Drop for Backing {
    fn drop(&mut self) {
        if let Some(Some(id)) = self.id.get() {
            self.registrar.release(*id);
        }
    }
}

/// Makes backing files, and keeps the leased ones by inode number. Filled and then kept: an epoch opens everything once,
/// and giving up what was used longest ago would give up exactly what is opened next.
#[derive(Debug)]
pub(crate) struct Pool {
    capacity: usize,
    registrar: Arc<dyn Registrar>,
    kept: Sharded<FxHashMap<u64, Arc<Backing>>>,
    /// How many are kept.
    count: AtomicUsize,
    began: Instant,
    /// Seconds since then when the pool was last swept, which is near enough for every open.
    clock_s: AtomicU64,
    memory: Arc<AtomicU64>,
    /// What small objects take of memory that are kept.
    kept_memory: Arc<AtomicU64>,
    /// Where the next sweep begins.
    next_part: AtomicUsize,
}

impl Pool {
    /// An empty pool for up to `capacity` files.
    pub(crate) fn new(capacity: usize, registrar: Arc<dyn Registrar>) -> Self {
        Self {
            capacity,
            registrar,
            kept: Sharded::default(),
            count: AtomicUsize::new(0),
            began: Instant::now(),
            clock_s: AtomicU64::new(0),
            memory: Arc::default(),
            kept_memory: Arc::default(),
            next_part: AtomicUsize::new(0),
        }
    }

    /// A file that was kept for an inode.
    pub(crate) fn get(&self, ino: u64) -> Option<Arc<Backing>> {
        let kept = self.kept.lock(ino);
        let backing = kept.get(&ino)?;
        backing.used_s.store(self.clock_s.load(Ordering::Relaxed), Ordering::Relaxed);
        Some(Arc::clone(backing))
    }

    /// The backing of an inode whose bytes are in a file, kept if there is room.
    pub(crate) fn put(&self, ino: u64, content: Content) -> Arc<Backing> {
        let backing = Arc::new(self.backing(content, None));
        let mut kept = self.kept.lock(ino);
        match kept.entry(ino) {
            Entry::Occupied(kept) if kept.get().status() == LeaseStatus::Verified => return Arc::clone(kept.get()),
            Entry::Occupied(mut kept) => drop(kept.insert(Arc::clone(&backing))),
            Entry::Vacant(place) if self.one_more() => drop(place.insert(Arc::clone(&backing))),
            Entry::Vacant(_) => {}
        }
        backing
    }

    /// Forgets the file of an inode if it is damaged or evicted.
    pub(crate) fn drop_invalid(&self, ino: u64) {
        let mut kept = self.kept.lock(ino);
        let invalid = |backing: &Arc<Backing>| matches!(backing.status(), LeaseStatus::Corrupt | LeaseStatus::Evicted);
        let dropped = if kept.get(&ino).is_some_and(invalid) { kept.remove(&ino) } else { None };
        drop(kept);
        if dropped.is_some() {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Whether one more file may be kept; it is counted then.
    fn one_more(&self) -> bool {
        let more = |count: usize| (count < self.capacity).then_some(count + 1);
        self.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Room in memory for an object that the cache does not keep; None if too much is taken.
    pub(crate) fn room(&self, size: u64) -> Option<Room> {
        let taken = self.memory.fetch_add(size, Ordering::Relaxed) + size;
        let room = Room { memory: Arc::clone(&self.memory), size };
        (taken <= MEMORY_BYTES).then_some(room)
    }

    /// The backing of an object in memory. The node has no file for a small object even if it is cached: such a one is kept, if
    /// there is room. Others live as long as they are open.
    pub(crate) fn hold(&self, ino: u64, room: Room, bytes: &[u8]) -> io::Result<Arc<Backing>> {
        let mut file = File::from(rustix::fs::memfd_create("fodder-object", rustix::fs::MemfdFlags::CLOEXEC)?);
        file.write_all(bytes)?;
        let kept_room = if bytes.len() as u64 <= KEPT_BYTES { self.kept_room() } else { None };
        let is_kept = kept_room.is_some();
        let backing = Arc::new(self.backing(Content::Memory(file), kept_room.or(Some(room))));
        let mut kept = self.kept.lock(ino);
        match kept.entry(ino) {
            Entry::Vacant(place) if is_kept && self.one_more() => drop(place.insert(Arc::clone(&backing))),
            _ => {}
        }
        Ok(backing)
    }

    /// Room for a small object that is kept when it is closed.
    fn kept_room(&self) -> Option<Room> {
        let taken = self.kept_memory.fetch_add(KEPT_BYTES, Ordering::Relaxed) + KEPT_BYTES;
        let room = Room { memory: Arc::clone(&self.kept_memory), size: KEPT_BYTES };
        (taken <= MAX_KEPT_MEMORY).then_some(room)
    }

    /// Gives back what the node evicted, so that its space becomes free, and what nobody used for long. Looks at some of the
    /// files, others each time, and goes on while it finds such: a look at every file each second would never be idle.
    pub(crate) fn sweep(&self) {
        let now_s = self.began.elapsed().as_secs();
        self.clock_s.store(now_s, Ordering::Relaxed);
        let unused =
            |backing: &Backing| now_s.saturating_sub(backing.used_s.load(Ordering::Relaxed)) > UNUSED.as_secs();
        let mut looked_at = 0;
        for _ in 0..Sharded::<()>::parts() {
            let part = self.next_part.fetch_add(1, Ordering::Relaxed);
            // The files are looked at without holding up those who open some.
            let kept: Vec<_> = self.kept.part(part).iter().map(|(ino, kept)| (*ino, Arc::clone(kept))).collect();
            let gone = kept.iter().filter(|(_, backing)| backing.is_unlinked() || unused(backing));
            let given_back = gone.filter_map(|(ino, _)| self.kept.lock(*ino).remove(ino)).count();
            self.count.fetch_sub(given_back, Ordering::Relaxed);
            looked_at += kept.len();
            if looked_at * SWEEPS >= self.capacity && given_back == 0 {
                return;
            }
        }
    }

    /// How many files are kept.
    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    fn backing(&self, content: Content, room: Option<Room>) -> Backing {
        let (registrar, now_s) = (Arc::clone(&self.registrar), self.clock_s.load(Ordering::Relaxed));
        Backing {
            content,
            id: OnceLock::new(),
            registrar,
            is_refused: AtomicBool::new(false),
            used_s: AtomicU64::new(now_s),
            _room: room,
        }
    }
}

/// A share of the memory for objects that the cache does not keep.
#[derive(Debug)]
pub(crate) struct Room {
    memory: Arc<AtomicU64>,
    size: u64,
}

impl Drop for Room {
    fn drop(&mut self) {
        self.memory.fetch_sub(self.size, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::Ids;

    fn own(bytes: &[u8]) -> Content {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        Content::Own(file)
    }

    #[test]
    fn a_pool_keeps_up_to_its_capacity_and_registers_each_file_once() {
        let ids = Arc::new(Ids::default());
        let pool = Pool::new(2, ids.clone());
        let linked = tempfile::NamedTempFile::new().unwrap();
        let first = pool.put(1, Content::Own(linked.reopen().unwrap()));
        assert_eq!(first.id(), first.id());
        pool.put(2, own(b"two")).id();
        let third = pool.put(3, own(b"three"));
        assert!(pool.get(3).is_none() && pool.len() == 2);
        third.id();
        assert_eq!(ids.open(), 3);
        drop(third);
        assert_eq!(ids.open(), 2);
        // A temporary file has no name, as one that the node evicted.
        (0..SWEEPS).for_each(|_| pool.sweep());
        assert!(pool.get(2).is_none() && pool.get(1).is_some());
        assert_eq!(ids.open(), 1);
    }

    #[test]
    fn a_sweep_looks_at_some_of_many_files_and_goes_on_where_many_were_evicted() {
        const FILES: u64 = 256;
        let pool = Pool::new(FILES as usize, Arc::new(Ids::default()));
        let linked = tempfile::NamedTempFile::new().unwrap();
        (0..FILES).for_each(|ino| drop(pool.put(ino, Content::Own(linked.reopen().unwrap()))));
        pool.sweep();
        let parts = pool.next_part.load(Ordering::Relaxed);
        assert!(parts < Sharded::<()>::parts() / 2, "{parts} parts were looked at for an eighth of the files");
        linked.close().unwrap();
        pool.sweep();
        assert_eq!(pool.len(), 0);
    }

    #[test]
    fn memory_for_objects_that_are_not_kept_is_bounded_and_given_back() {
        let pool = Pool::new(2, Arc::new(Ids::default()));
        let room = pool.room(MEMORY_BYTES).unwrap();
        assert!(pool.room(1).is_none());
        let held = pool.hold(1, room, &[7; 5000]).unwrap();
        assert!(pool.room(1).is_none());
        drop(held);
        assert!(pool.room(MEMORY_BYTES).is_some());
    }

    #[test]
    fn small_objects_are_kept_when_they_are_closed_within_their_memory() {
        let pool = Pool::new(100_000, Arc::new(Ids::default()));
        for ino in 1..=MAX_KEPT_MEMORY / KEPT_BYTES {
            let kept_room = pool.kept_room().unwrap();
            // As many as there are descriptors in a test are made, and for the others only the memory is taken.
            if ino <= 3 {
                drop(kept_room);
                drop(pool.hold(ino, pool.room(5).unwrap(), b"bytes").unwrap());
            } else {
                std::mem::forget(kept_room);
            }
        }
        assert!((1..=3).all(|ino| pool.get(ino).is_some()) && pool.len() == 3);
        (0..SWEEPS).for_each(|_| pool.sweep());
        assert_eq!(pool.len(), 3, "they are not files that the node has evicted");
        drop(pool.hold(4, pool.room(5).unwrap(), b"bytes").unwrap());
        assert!(pool.get(4).is_none());
    }

    #[test]
    fn a_file_the_kernel_refuses_has_no_number() {
        let ids = Arc::new(Ids::refusing());
        let pool = Pool::new(2, ids);
        assert_eq!(pool.put(1, own(b"")).id(), None);
    }
}
