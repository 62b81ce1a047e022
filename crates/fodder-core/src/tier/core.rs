//! What the shelves of a tier share: directory, lock, space, health, open files, queue, the datasets by number.

use super::{
    TierOptions,
    commit::{Committer, Queue, Stop},
    files::{Files, GROUPS},
    group::SizeClass,
    health::Pulse,
    log::{self, Found, FoundFiles, Log, Record, Replay, number},
    shelf::Shelf,
    space::{self, Space},
    sweep::Keeper,
    unlinked::{self, Unlinked},
};
use crate::{
    Error, Result,
    config::{Medium, TierConfig},
    id::FileKey,
};
use parking_lot::Mutex;
use rustix::fs::{FlockOperation, Mode, OFlags};
use std::{
    fs::{DirBuilder, File, OpenOptions},
    io::{Read, Write},
    os::{
        fd::OwnedFd,
        unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

/// After a start without a clean stop, so much may lie in files that the index does not know, until they are swept: a part of
/// the tier, and no more than a disk writes in a few seconds, for which a stop waits.
pub(super) fn unknown_bytes(quota: u64) -> u64 {
    (quota / 4).clamp(256 << 20, 2 << 30)
}

#[derive(Debug)]
pub(super) struct Core {
    pub(super) path: PathBuf,
    pub(super) medium: Medium,
    pub(super) options: TierOptions,
    pub(super) space: Arc<Space>,
    pub(super) pulse: Pulse,
    pub(super) files: Files,
    pub(super) queue: Queue,
    pub(super) registry: Mutex<Registry>,
    pub(super) keeper: Keeper,
    /// Files that are unlinked and open elsewhere.
    pub(super) unlinked: Unlinked,
    /// The tier's directory, for syncfs.
    pub(super) root: File,
    /// Bytes of cells whose objects were moved, which are free with the next commit.
    pub(super) moving: AtomicU64,
    /// A file without bytes, for objects without bytes.
    pub(super) empty: Arc<File>,
    /// The file system cannot say whether a read would block.
    pub(super) no_nowait: AtomicBool,
    /// Whether the files are memory, whatever the medium is called: reading them never waits.
    pub(super) in_memory: bool,
    pub(super) clean: bool,
    lock: Mutex<Option<File>>,
    closed: AtomicBool,
    committer: Mutex<Option<std::thread::JoinHandle<()>>>,
}

/// What statfs calls a tmpfs.
const TMPFS_MAGIC: i64 = 0x0102_1994;

impl Core {
    pub(super) fn open(config: &TierConfig, options: TierOptions) -> Result<Arc<Self>> {
        let path = config.path.clone();
        let io = |doing: &'static str, path: &Path| {
            let path = path.to_owned();
            move |error: std::io::Error| Error::io(doing, &path, &error)
        };
        let data = path.join("data");
        DirBuilder::new().recursive(true).mode(0o700).create(&data).map_err(io("create the directory", &data))?;
        let lock = lock(&path)?;
        let index = path.join("index.log");
        let (log, replay) = Log::open(&index, config.medium != Medium::Mem)?;
        let root = File::open(&path).map_err(io("open", &path))?;
        let duplicate = root.try_clone().map_err(io("open", &path))?;
        let space = Space::new(config.quota_bytes, duplicate, options.floor_bytes, options.floor_inodes)
            .map_err(io("measure", &path))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle: OwnedFd = rustix::fs::open(&data, flags, Mode::empty()).map_err(|e| io("open", &data)(e.into()))?;
        let empty = path.join("empty");
        let touch = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&empty);
        touch.map_err(io("write", &empty))?;
        let empty = Arc::new(File::open(&empty).map_err(io("open", &empty))?);
        let unlinked = Unlinked::open(&path, options.recovery);
        space.charge(unlinked.expected());
        for fixed in [&path, &data, &path.join("LOCK"), &path.join(unlinked::RECORD)] {
            space.charge(std::fs::metadata(fixed).map_or(0, |m| m.blocks() * 512).max(space::DIRECTORY_BYTES));
        }
        let Replay { datasets, clean, fresh } = replay;
        let bare = || std::fs::read_dir(config.path.join("data")).is_ok_and(|mut entries| entries.next().is_none());
        let in_memory = rustix::fs::fstatfs(&root).is_ok_and(|stat| stat.f_type == TMPFS_MAGIC);
        let core = Arc::new(Self {
            path,
            medium: config.medium,
            space: Arc::new(space),
            pulse: Pulse::new(options.first_rest),
            files: Files::new(handle, options.kept_files),
            queue: Queue::default(),
            registry: Mutex::new(Registry::default()),
            keeper: Keeper::default(),
            unlinked,
            root,
            moving: AtomicU64::new(0),
            empty,
            no_nowait: AtomicBool::new(false),
            in_memory,
            clean: clean || fresh && bare(),
            lock: Mutex::new(Some(lock)),
            closed: AtomicBool::new(false),
            committer: Mutex::new(None),
            options,
        });
        let group_bytes = core.charge_found(&datasets);
        // The sweep removes what belongs to no dataset, and must not look before all are known.
        let mut registry = core.registry.lock();
        Keeper::start(&core, &datasets)?;
        *registry = Registry::new(datasets, group_bytes);
        drop(registry);
        let committer = Committer::new(core.clone(), log);
        let thread = std::thread::Builder::new().name("tier-commit".into()).spawn(move || committer.run());
        *core.committer.lock() = Some(thread.map_err(|e| Error::Unavailable(format!("cannot start a thread: {e}")))?);
        Ok(core)
    }

    /// Charges what the index remembers. Of that, what each dataset's group files are charged.
    fn charge_found(&self, datasets: &[log::Dataset]) -> Vec<u64> {
        let charge = |dataset: &log::Dataset| {
            if dataset.forgotten {
                return 0;
            }
            let bytes: u64 = dataset.files.values().map(|found| self.found_bytes(found, dataset.piece_bytes)).sum();
            let group_bytes = self.group_bytes(&dataset.name);
            self.space.charge(bytes + group_bytes + self.directory_bytes(&dataset.name));
            group_bytes
        };
        datasets.iter().map(charge).collect()
    }

    /// What a file of the index is charged. Cells are charged with their file.
    pub(super) fn found_bytes(&self, found: &log::Found, grid: u32) -> u64 {
        if found.pieces.cell().is_some() {
            return 0;
        }
        let mut bytes = space::file_bytes(found.size, self.space.block);
        found.pieces.for_each(|index, _| bytes += space::piece_bytes(found.size, index, grid, self.space.block));
        bytes
    }

    /// What the group files of a dataset that is not attached take.
    fn group_bytes(&self, dataset: &str) -> u64 {
        let blocks = SizeClass::all().filter_map(|class| self.files.group_blocks(dataset, class.cell_bytes()));
        blocks.map(|bytes| space::group_bytes(bytes, self.space.block)).sum()
    }

    /// Removes the group files of a dataset; whether all of them are gone.
    pub(super) fn remove_groups(&self, dataset: &str) -> bool {
        let mut removed = true;
        for class in SizeClass::all() {
            if let Err(error) = self.files.unlink_group(dataset, class.cell_bytes()) {
                tracing::warn!(dataset, %error, "cannot unlink a file of small objects");
                self.keeper.failed();
                removed = false;
            }
        }
        removed
    }

    /// What the directories of a dataset take now.
    pub(super) fn directory_bytes(&self, dataset: &str) -> u64 {
        let top = self.path.join("data").join(dataset);
        let size = |path: &Path| std::fs::metadata(path).map_or(0, |found| found.blocks() * 512);
        let shards = (0..=255).map(|shard| size(&top.join(format!("{shard:02x}")))).sum::<u64>();
        shards + size(&top) + size(&top.join(GROUPS))
    }

    pub(super) fn closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    pub(super) fn close(&self, how: Stop) {
        if self.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        let shelves = self.registry.lock().shelves();
        // Whoever is writing or evicting comes to an end first; nobody begins.
        shelves.iter().for_each(|shelf| shelf.shut());
        self.keeper.stop();
        self.unlinked.freeze();
        self.unlinked.end_recovery(self);
        self.queue.stop(how);
        if let Some(thread) = self.committer.lock().take()
            && thread.join().is_err()
        {
            tracing::error!(path = %self.path.display(), "the thread that commits the tier's index ended unexpectedly");
        }
        self.registry.lock().release_shelves();
        self.files.clear();
        self.lock.lock().take();
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.files.memory_bytes() + self.queue.memory_bytes() + self.registry.lock().memory_bytes()
    }
}

/// Takes the tier for this process.
fn lock(path: &Path) -> Result<File> {
    let name = path.join("LOCK");
    let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&name);
    let mut file = open.map_err(|error| Error::io("open", &name, &error))?;
    if let Err(error) = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        if error != rustix::io::Errno::WOULDBLOCK {
            return Err(Error::io("lock", &name, &error.into()));
        }
        let mut holder = String::new();
        let _ = file.read_to_string(&mut holder);
        let holder =
            if holder.trim().is_empty() { "of unknown pid".into() } else { format!("with pid {}", holder.trim()) };
        return Err(Error::Conflict(format!(
            "the tier {} is in use by the process {holder}: stop it, or choose another cache directory for this node",
            path.display()
        )));
    }
    // A disk that is full is still read from.
    if let Err(error) = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())) {
        tracing::warn!(path = %name.display(), %error, "cannot record which process uses the tier");
    }
    Ok(file)
}

/// The datasets a tier knows, by the number the index gives them.
#[derive(Debug, Default)]
pub(super) struct Registry {
    datasets: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    name: String,
    piece_bytes: u32,
    forgotten: bool,
    /// What the index remembers, until the dataset is attached.
    found: FoundFiles,
    found_pieces: u64,
    /// What its group files are charged, until the dataset is attached.
    group_bytes: u64,
    shelf: Option<Arc<Shelf>>,
}

impl Registry {
    fn new(datasets: Vec<log::Dataset>, group_bytes: Vec<u64>) -> Self {
        let entry = |(dataset, group_bytes): (log::Dataset, u64)| {
            let log::Dataset { name, piece_bytes, forgotten, files } = dataset;
            let found_pieces = files.values().map(|found| found.pieces.len() as u64).sum();
            Entry { name, piece_bytes, forgotten, found: files, found_pieces, group_bytes, shelf: None }
        };
        Self { datasets: datasets.into_iter().zip(group_bytes).map(entry).collect() }
    }

    pub(super) fn id_of(&self, name: &str) -> Option<u16> {
        self.datasets.iter().position(|entry| entry.name == name && !entry.forgotten).map(|at| at as u16)
    }

    pub(super) fn piece_bytes(&self, id: u16) -> u32 {
        self.datasets[usize::from(id)].piece_bytes
    }

    pub(super) fn name(&self, id: u16) -> String {
        self.datasets[usize::from(id)].name.clone()
    }

    pub(super) fn shelf(&self, id: u16) -> Option<Arc<Shelf>> {
        self.datasets[usize::from(id)].shelf.clone()
    }

    pub(super) fn set_shelf(&mut self, id: u16, shelf: Arc<Shelf>) {
        self.datasets[usize::from(id)].shelf = Some(shelf);
    }

    /// Adds a dataset under a new number.
    pub(super) fn define(&mut self, name: &str, piece_bytes: u32) -> Result<(u16, Record)> {
        let full = || Error::Full("the tier has seen 65,536 datasets: restart with an empty tier directory".into());
        let dataset = u16::try_from(self.datasets.len()).map_err(|_| full())?;
        let (name, found) = (name.to_owned(), FoundFiles::default());
        let define = Record::Define { dataset, piece_bytes, name: name.clone() };
        let (found_pieces, group_bytes) = (0, 0);
        self.datasets.push(Entry {
            name,
            piece_bytes,
            forgotten: false,
            found,
            found_pieces,
            group_bytes,
            shelf: None,
        });
        Ok((dataset, define))
    }

    /// What the group files of a dataset that is not attached are charged.
    pub(super) fn group_bytes(&self, id: u16) -> u64 {
        self.datasets[usize::from(id)].group_bytes
    }

    /// The same, for the caller to release.
    pub(super) fn take_group_bytes(&mut self, id: u16) -> u64 {
        std::mem::take(&mut self.datasets[usize::from(id)].group_bytes)
    }

    /// Takes what the index remembers of a dataset.
    pub(super) fn take_found(&mut self, id: u16) -> FoundFiles {
        let entry = &mut self.datasets[usize::from(id)];
        entry.found_pieces = 0;
        std::mem::take(&mut entry.found)
    }

    pub(super) fn forget(&mut self, id: u16) {
        let entry = &mut self.datasets[usize::from(id)];
        (entry.forgotten, entry.shelf, entry.found_pieces) = (true, None, 0);
        entry.found = FoundFiles::default();
    }

    pub(super) fn unattached(&self) -> Vec<String> {
        let idle = self.datasets.iter().filter(|entry| !entry.forgotten && entry.shelf.is_none());
        idle.map(|entry| entry.name.clone()).collect()
    }

    /// The first dataset that is not attached and of which there are files.
    pub(super) fn next_unattached(&self) -> Option<u16> {
        let idle = |entry: &Entry| !entry.forgotten && entry.shelf.is_none() && !entry.found.is_empty();
        self.datasets.iter().position(idle).map(|at| at as u16)
    }

    /// Takes files out of what the index remembers of a dataset, until they are so many bytes by what `charge` says of each,
    /// and no more than `most`.
    pub(super) fn take_some(
        &mut self,
        id: u16,
        most: usize,
        bytes: u64,
        charge: impl Fn(&Found, u32) -> u64,
    ) -> Vec<(FileKey, u64)> {
        let Entry { found, found_pieces, piece_bytes, .. } = &mut self.datasets[usize::from(id)];
        let (mut taken, mut sum) = (Vec::new(), 0);
        for (&key, file) in found.iter().take(most) {
            if sum >= bytes {
                break;
            }
            let charged = charge(file, *piece_bytes);
            *found_pieces -= file.pieces.len() as u64;
            sum += charged;
            taken.push((FileKey(key.to_be_bytes()), charged));
        }
        for (key, _) in &taken {
            found.remove(&number(*key));
        }
        taken
    }

    /// Forgets the small objects of a dataset that is not attached.
    pub(super) fn forget_cells(&mut self, id: u16) {
        let entry = &mut self.datasets[usize::from(id)];
        let before = entry.found.len();
        entry.found.retain(|_, found| found.pieces.cell().is_none());
        entry.found_pieces -= (before - entry.found.len()) as u64;
    }

    /// Whether the index remembers nothing of a dataset any more.
    pub(super) fn has_no_files(&self, id: u16) -> bool {
        self.datasets[usize::from(id)].found.is_empty()
    }

    fn shelves(&self) -> Vec<Arc<Shelf>> {
        self.datasets.iter().filter_map(|entry| entry.shelf.clone()).collect()
    }

    fn release_shelves(&mut self) {
        self.datasets.iter_mut().for_each(|entry| entry.shelf = None);
    }

    /// Pieces of all datasets, as many as a rewritten index would name.
    pub(super) fn pieces(&self) -> u64 {
        let held = |entry: &Entry| entry.shelf.as_ref().map_or(0, |shelf| shelf.len() as u64);
        self.datasets.iter().map(|entry| entry.found_pieces + held(entry)).sum()
    }

    /// Every dataset as the index defines it, with what is here of it, for rewriting the index.
    pub(super) fn for_each(&self, mut f: impl FnMut(Record, bool, &FoundFiles, Option<&Arc<Shelf>>)) {
        for (at, entry) in self.datasets.iter().enumerate() {
            let define =
                Record::Define { dataset: at as u16, piece_bytes: entry.piece_bytes, name: entry.name.clone() };
            f(define, entry.forgotten, &entry.found, entry.shelf.as_ref());
        }
    }

    fn memory_bytes(&self) -> usize {
        let entry = size_of::<(u128, log::Found)>() + 1;
        self.datasets.iter().map(|dataset| dataset.found.capacity() * entry).sum()
    }
}
