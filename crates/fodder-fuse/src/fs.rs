//! The file system: what is answered to each thing the kernel can ask, without a kernel.
//!
//! Calls named `try_…` answer from what is at hand and never wait; None means that the call without it, which may ask the
//! node, must be made where waiting is allowed. Adapters (`kernel`) translate and decide nothing.

mod ahead;
mod attribute;
mod listing;
mod open;
mod rest;
mod verify;

pub(crate) use attribute::{Attr, FileKind};
pub(crate) use open::{FileRef, Opened};

use crate::{
    backing::{Backing, Pool, Registrar},
    directory::{Directory, Snapshots},
    error::Errno,
    inode::{Found, Kind, Table},
    mode::Policy,
    node::{Newest, Node, SnapshotId},
    sharded::Sharded,
};
use ahead::{Ahead, Buffers};
use fodder_api::{
    frames::{ObjectId, ObjectInfo, PAGED_READER},
    spelling,
};
use parking_lot::Mutex;
use rest::Rest;
use rustc_hash::FxHashMap;
use std::{
    hash::{BuildHasher, Hasher, RandomState},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

/// Opens of kept files that are noted between two times the node is told: more than a machine makes in a second.
const MAX_TOUCHED: usize = 1 << 16;

/// What a user may choose about a mounted dataset, and the bounds of what it holds.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// Who owns the files, as far as the kernel is told.
    pub(crate) owner: (u32, u32),
    /// Files are never opened as far as the kernel is concerned: their pages stay in its cache.
    pub(crate) immutable: bool,
    /// What the kernel lets files be.
    pub(crate) policy: Policy,
    /// Objects up to this many bytes are fetched whole when they are opened.
    pub(crate) whole_bytes: u64,
    /// Inodes the kernel may know before it is asked to forget some.
    pub(crate) inodes: usize,
    /// Leased files that are kept open.
    pub(crate) files: usize,
}

/// One mounted dataset.
#[derive(Debug)]
pub(crate) struct FileSystem<N> {
    node: N,
    settings: Settings,
    inodes: Table,
    pool: Pool,
    snapshots: Snapshots,
    /// The newest snapshot when last asked.
    newest: Mutex<Option<Newest>>,
    /// The kernel was told at the last look that the dataset changed, and must be told once more.
    tell_again: AtomicBool,
    /// Objects whose kept files were opened since the node was last told.
    touched: Sharded<Vec<ObjectId>>,
    /// Open files whose reads are answered here.
    handles: Sharded<FxHashMap<u64, Arc<Handle>>>,
    directories: Mutex<FxHashMap<u64, Arc<Directory>>>,
    next_handle: AtomicU64,
    /// Memory for what is read ahead.
    buffers: Arc<Buffers>,
    /// Where the numbers begin that tell the node which reads belong together: unlike any other mount's.
    first_reader: u64,
    registrar: Arc<dyn Registrar>,
}

/// An open file whose reads are answered here.
#[derive(Debug)]
struct Handle {
    object: ObjectInfo,
    /// The file with all its bytes, from which reads are answered; None: the node is asked.
    whole: Mutex<Option<Arc<Backing>>>,
    /// Reads that the node has answered.
    asked: AtomicU64,
    /// What came with the last of them and was not asked for yet.
    rest: Mutex<Rest>,
    /// What its reader comes to.
    ahead: Arc<Ahead>,
}

/// What the kernel should look at again because the dataset changed.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// Entries, by parent and name.
    pub(crate) entries: Vec<(u64, Box<str>)>,
    /// Directories whose listings it may have kept.
    pub(crate) directories: Vec<u64>,
}

type Result<T> = std::result::Result<T, Errno>;

impl<N: Node> FileSystem<N> {
    /// A file system over a dataset of a node.
    pub(crate) fn new(node: N, settings: Settings, registrar: Arc<dyn Registrar>) -> Self {
        Self {
            inodes: Table::new(settings.inodes),
            pool: Pool::new(settings.files, Arc::clone(&registrar)),
            registrar,
            snapshots: Snapshots::default(),
            newest: Mutex::default(),
            tell_again: AtomicBool::new(false),
            touched: Sharded::default(),
            handles: Sharded::default(),
            directories: Mutex::default(),
            next_handle: AtomicU64::new(1),
            buffers: Arc::default(),
            first_reader: RandomState::new().build_hasher().finish(),
            node,
            settings,
        }
    }

    /// The node, for tests.
    #[cfg(test)]
    pub(crate) fn node(&self) -> &N {
        &self.node
    }

    /// What it was made with.
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What a name in a directory stands for. The kernel is told of it, and will forget it.
    pub(crate) fn lookup(&self, parent: u64, name: &[u8]) -> Result<Attr> {
        let directory = self.directory_path(parent)?;
        let name = &spelling::text(name);
        let path = join(&directory, name);
        let entry = self.node.lookup(&path).map_err(|error| told(&error, &path))?;
        Ok(self.remember(parent, name, Found::entry(&entry, &path)))
    }

    fn remember(&self, parent: u64, name: &str, found: Found<'_>) -> Attr {
        self.attr_of(self.inodes.remember(parent, name, found), found)
    }

    /// The kernel has forgotten an inode so many times.
    pub(crate) fn forget(&self, ino: u64, times: u64) {
        self.inodes.forget(ino, times);
    }

    /// What an inode is.
    pub(crate) fn attributes(&self, ino: u64) -> Result<Attr> {
        match &self.inodes.lock(ino).get(&ino).ok_or(Errno::Stale)?.kind {
            Kind::Directory(path) => Ok(self.attr_of(ino, Found::Directory(path))),
            Kind::File(object, _) => Ok(self.attr_of(ino, Found::Object(*object))),
            Kind::Link(path, link) => Ok(self.attr_of(ino, Found::Link(path, link))),
        }
    }

    /// The path of a directory.
    fn directory_path(&self, ino: u64) -> Result<Box<str>> {
        match &self.inodes.lock(ino).get(&ino).ok_or(Errno::Stale)?.kind {
            Kind::Directory(path) => Ok(path.clone()),
            Kind::File(..) | Kind::Link(..) => Err(Errno::NotDirectory),
        }
    }

    /// The object that an inode is.
    fn object(&self, ino: u64) -> Result<ObjectInfo> {
        match &self.inodes.lock(ino).get(&ino).ok_or(Errno::Stale)?.kind {
            Kind::Directory(_) => Err(Errno::IsDirectory),
            Kind::Link(..) => Err(Errno::Invalid),
            Kind::File(object, _) => Ok(*object),
        }
    }

    /// What a symbolic link says.
    pub(crate) fn link(&self, ino: u64) -> Result<Vec<u8>> {
        match &self.inodes.lock(ino).get(&ino).ok_or(Errno::Stale)?.kind {
            Kind::Link(_, link) => Ok(spelling::name(&link.target).into_owned()),
            Kind::Directory(_) | Kind::File(..) => Err(Errno::Invalid),
        }
    }

    /// What the node is told of an open file, by which it knows which reads belong together, and which are for pages.
    fn reader(&self, handle: Option<u64>, paged: bool) -> u64 {
        let number = |handle| (self.first_reader.wrapping_add(handle) & !PAGED_READER).max(1);
        handle.map_or(0, |handle| number(handle) | if paged { PAGED_READER } else { 0 })
    }

    fn new_handle(&self) -> u64 {
        self.next_handle.fetch_add(1, Ordering::Relaxed)
    }

    /// Asks whether the dataset has changed; if so, what the kernel must look at again, now and at the next time this is asked:
    /// answers from the snapshot before may still be on their way to it. A node that is away has not changed.
    pub(crate) fn changes(&self) -> Option<Changes> {
        let now = self.node.newest().ok()?;
        let before = self.newest.lock().replace(now);
        let changed = before.is_some_and(|before| before.snapshot != now.snapshot);
        if !self.tell_again.swap(changed, Ordering::Relaxed) && !changed {
            return None;
        }
        let (entries, directories) = self.inodes.everything();
        if changed {
            tracing::info!(entries = entries.len(), "the dataset has changed; invalidating the caches of the kernel");
        }
        Some(Changes { entries, directories })
    }

    /// Whether a snapshot is the newest, as far as is known here.
    fn is_newest(&self, snapshot: SnapshotId) -> bool {
        self.newest.lock().is_some_and(|newest| newest.snapshot == snapshot)
    }

    /// Notes that a kept file was opened. What does not fit until the node is told is not told.
    fn touch(&self, ino: u64, object: ObjectId) {
        let mut touched = self.touched.lock(ino);
        if touched.len() < MAX_TOUCHED / Sharded::<()>::parts() {
            touched.push(object);
        }
    }

    /// Tells the node which kept files were opened since it was last told. May wait for the node to listen.
    pub(crate) fn tell_touched(&self) {
        let touched: Vec<_> = self.touched.each().flat_map(|mut part| std::mem::take(&mut *part)).collect();
        if !touched.is_empty() {
            self.node.touch(&touched);
        }
    }

    /// Gives back what is not needed; entries that the kernel should forget because there are too many.
    pub(crate) fn tidy(&self) -> Vec<(u64, Box<str>)> {
        self.pool.sweep();
        self.node.give_back();
        self.handles.each().for_each(|part| part.values().for_each(|open| open.ahead.grow_idle()));
        self.inodes.surplus()
    }

    /// Inodes, open files whose reads are answered here, and kept files, for the log.
    pub(crate) fn counts(&self) -> (usize, usize, usize) {
        (self.inodes.len(), self.handles.each().map(|part| part.len()).sum(), self.pool.len())
    }
}

/// The path of a name in a directory.
fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}

/// What a program is told of an error; what it cannot be told is logged.
fn told(error: &fodder_api::Error, what: &str) -> Errno {
    let errno = Errno::from(error);
    if errno == Errno::Io {
        tracing::warn!(what, "returning an I/O error to a program: {error}");
    }
    errno
}

#[cfg(test)]
mod tests;
