//! What a crash left behind: files the index does not know, and blocks of partial files that are no present piece.
//!
//! One thread a tier. It may only remove what nobody is making: while it has something to do, files are made under the same
//! lock under which it unlinks, and it leaves those alone.

use super::{
    core::{Core, Registry, unknown_bytes},
    log::{self, Record, number},
    shelf::Shelf,
};
use crate::{Error, Result, id::FileKey};
use parking_lot::{Condvar, Mutex};
use rustc_hash::{FxHashMap, FxHashSet};
use rustix::io::Errno;
use std::{
    collections::VecDeque,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};

/// Work for the thread.
#[derive(Debug)]
enum Job {
    /// Unlink every file whose key is not among these (the upper halves of keys by dataset, sorted).
    Unknown(FxHashMap<String, Vec<u64>>),
    /// Unlink files that the index knew and no object claimed, and give their charge back; the dataset's directories
    /// too, where their charge is given.
    Unclaimed { dataset: String, files: Vec<(FileKey, u64)>, directories: Option<u64> },
    /// Punch what is not present out of a shelf's partial files.
    Trim(Arc<Shelf>),
}

#[derive(Debug, Default)]
pub(super) struct Keeper {
    jobs: Mutex<Jobs>,
    changed: Condvar,
    created: Mutex<Created>,
    stopping: AtomicBool,
    /// Something that should be gone may still be there: the next start has to sweep.
    unfinished: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Jobs {
    queue: VecDeque<Job>,
    busy: bool,
}

/// Keys of files that were made while there is something to sweep.
#[derive(Debug, Default)]
struct Created {
    recording: bool,
    keys: FxHashSet<u128>,
}

impl Keeper {
    /// Starts the thread, before any shelf exists. Sweeps unless the last node closed the tier in order.
    pub(super) fn start(core: &Arc<Core>, datasets: &[log::Dataset]) -> Result<()> {
        if !core.clean {
            let mut known: FxHashMap<String, Vec<u64>> = FxHashMap::default();
            for dataset in datasets.iter().filter(|dataset| !dataset.forgotten) {
                let keys = known.entry(dataset.name.clone()).or_default();
                keys.extend(dataset.files.keys().map(|&key| (key >> 64) as u64));
            }
            known.values_mut().for_each(|keys| keys.sort_unstable());
            core.space.charge(unknown_bytes(core.space.quota));
            core.keeper.push(Job::Unknown(known));
        }
        let keeper = core.clone();
        let thread = std::thread::Builder::new().name("tier-sweep".into()).spawn(move || run(&keeper));
        *core.keeper.thread.lock() =
            Some(thread.map_err(|e| Error::Unavailable(format!("cannot start a thread: {e}")))?);
        Ok(())
    }

    fn push(&self, job: Job) {
        let mut jobs = self.jobs.lock();
        self.created.lock().recording = true;
        jobs.queue.push_back(job);
        self.changed.notify_all();
    }

    /// Makes a file, which no sweep takes for something left behind. Where something was, and has the name, nothing is made and
    /// it stays the sweep's.
    pub(super) fn create<T>(
        &self,
        key: FileKey,
        create: impl FnOnce() -> std::result::Result<T, Errno>,
    ) -> std::result::Result<T, Errno> {
        let mut created = self.created.lock();
        if !created.recording {
            drop(created);
            return create();
        }
        let file = create()?;
        created.keys.insert(number(key));
        Ok(file)
    }

    pub(super) fn trim(&self, shelf: Arc<Shelf>) {
        self.push(Job::Trim(shelf));
    }

    pub(super) fn unclaimed(&self, dataset: String, files: Vec<(FileKey, u64)>, directories: Option<u64>) {
        self.push(Job::Unclaimed { dataset, files, directories });
    }

    /// Remembers that a file could not be unlinked.
    pub(super) fn failed(&self) {
        self.unfinished.store(true, Ordering::Relaxed);
    }

    pub(super) fn unfinished(&self) -> bool {
        self.unfinished.load(Ordering::Relaxed)
    }

    /// Whether nothing is left to sweep.
    pub(super) fn is_idle(&self) -> bool {
        let jobs = self.jobs.lock();
        !jobs.busy && jobs.queue.is_empty()
    }

    pub(super) fn wait_idle(&self) {
        let mut jobs = self.jobs.lock();
        while (jobs.busy || !jobs.queue.is_empty()) && !self.stopping.load(Ordering::Relaxed) {
            self.changed.wait(&mut jobs);
        }
    }

    /// Ends the thread after the file it is at.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        {
            let mut jobs = self.jobs.lock();
            if jobs.busy || !jobs.queue.is_empty() {
                self.failed();
            }
            jobs.queue.clear();
        }
        self.changed.notify_all();
        if let Some(thread) = self.thread.lock().take()
            && thread.join().is_err()
        {
            tracing::error!("the sweep of a tier ended unexpectedly");
        }
    }

    fn next(&self) -> Option<Job> {
        let mut jobs = self.jobs.lock();
        jobs.busy = false;
        if jobs.queue.is_empty() {
            *self.created.lock() = Created::default();
            self.changed.notify_all();
        }
        loop {
            if self.stopping.load(Ordering::Relaxed) {
                return None;
            }
            if let Some(job) = jobs.queue.pop_front() {
                jobs.busy = true;
                return Some(job);
            }
            self.changed.wait(&mut jobs);
        }
    }

    /// Unlinks a file unless somebody has made it meanwhile. Whether what was left behind is gone.
    fn unlink(&self, core: &Arc<Core>, dataset: &str, key: FileKey) -> bool {
        let created = self.created.lock();
        if created.keys.contains(&number(key)) {
            // Its name was free, so the other was gone by then.
            return true;
        }
        let unlinked = unlink(core, dataset, key);
        if let Err(error) = &unlinked {
            tracing::warn!(dataset, %key, %error, "cannot unlink a file that a crash left behind");
            self.failed();
        }
        unlinked.is_ok()
    }
}

/// Unlinks a file that is on no shelf. It stays charged as long as a client has it open that reported it, and for the recovery if
/// one may that has not.
fn unlink(core: &Arc<Core>, dataset: &str, key: FileKey) -> std::result::Result<(), Errno> {
    let sealed = core.unlinked.may_be_reported().then(|| core.files.sealed(dataset, key)).flatten();
    core.files.unlink(dataset, key)?;
    let Some(found) = sealed else { return Ok(()) };
    let (reported, is_uncertain) = (core.unlinked.reported(found.st_ino), core.unlinked.is_uncertain(core));
    if reported.is_some() || is_uncertain {
        let bytes = found.st_blocks as u64 * 512;
        core.space.charge(bytes);
        let file = core.unlinked.add(core, None, Some(found.st_ino), bytes);
        if let Some(reported) = reported {
            reported.carry(&file);
        }
        core.unlinked.doubt(file);
    }
    Ok(())
}

fn run(core: &Arc<Core>) {
    let keeper = &core.keeper;
    let stopping = || keeper.stopping.load(Ordering::Relaxed);
    while let Some(job) = keeper.next() {
        match job {
            Job::Unknown(known) => {
                sweep_unknown(core, &known, &stopping);
                core.space.release(unknown_bytes(core.space.quota));
            }
            Job::Unclaimed { dataset, files, directories } => {
                for (key, bytes) in files {
                    if stopping() {
                        return;
                    }
                    if keeper.unlink(core, &dataset, key) {
                        core.space.release(bytes);
                    }
                }
                if let Some(bytes) = directories {
                    remove_directories(core, &dataset);
                    core.space.release(bytes);
                }
            }
            Job::Trim(shelf) => shelf.trim(&stopping),
        }
    }
}

fn sweep_unknown(core: &Arc<Core>, known: &FxHashMap<String, Vec<u64>>, stopping: &dyn Fn() -> bool) {
    let data = core.path.join("data");
    for dataset in names(&data) {
        let keys = known.get(&dataset).map_or(&[][..], |keys| keys);
        let mut removed = 0_u64;
        for shard in names(&data.join(&dataset)).into_iter().filter(|shard| shard.len() == 2) {
            for name in names(&data.join(&dataset).join(&shard)) {
                if stopping() {
                    return core.keeper.failed();
                }
                // Only what is called as a cache file is: a person may have put something else here.
                let Some(key) = parse(&name).filter(|key| name.starts_with(&shard) && key.to_string() == name) else {
                    continue;
                };
                if keys.binary_search(&((number(key) >> 64) as u64)).is_err() {
                    core.keeper.unlink(core, &dataset, key);
                    removed += 1;
                }
            }
        }
        if removed > 0 {
            tracing::info!(dataset, removed, "removed cache files that the index did not know");
        }
        // Nobody attaches it meanwhile.
        let registry = core.registry.lock();
        if registry.id_of(&dataset).is_none() {
            core.remove_groups(&dataset);
            remove_directories(core, &dataset);
        }
    }
}

fn parse(name: &str) -> Option<FileKey> {
    (name.len() == 32).then(|| u128::from_str_radix(name, 16).ok()).flatten().map(|key| FileKey(key.to_be_bytes()))
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Removes a dataset's directories as far as they are empty.
pub(super) fn remove_directories(core: &Core, dataset: &str) {
    let top = core.path.join("data").join(dataset);
    for shard in names(&top) {
        let _ = std::fs::remove_dir(top.join(shard));
    }
    let _ = std::fs::remove_dir(top);
}

/// Files that are dropped while nobody can attach their dataset.
const FEW_FILES: usize = 64;

/// Deletes files of a dataset that the index remembers but nobody attached, as many as so many bytes need, or a few; false if
/// there are none. With the last one the dataset is forgotten.
pub(super) fn evict_unattached(core: &Arc<Core>, bytes: u64) -> bool {
    // Kept until the files are gone: who attaches the dataset afterwards may make them anew.
    let mut registry = core.registry.lock();
    let Some(id) = registry.next_unattached() else { return false };
    if core.space.reserve(bytes, 1).is_some() {
        // Somebody else has made room meanwhile.
        return true;
    }
    let (name, lacking) = (registry.name(id), core.space.lacks(bytes));
    if registry.group_bytes(id) > 0 && core.remove_groups(&name) {
        // The index goes on naming their cells until it is rewritten; a start finds them beyond the end of the file.
        registry.forget_cells(id);
        core.space.release(registry.take_group_bytes(id));
        if registry.has_no_files(id) {
            forget_in(&mut registry, core, id);
        }
        return true;
    }
    for (key, bytes) in registry.take_some(id, FEW_FILES, lacking, |found, grid| core.found_bytes(found, grid)) {
        core.queue.note(Record::DropFile { dataset: id, key });
        match unlink(core, &name, key) {
            Ok(()) => {
                core.space.inode_freed();
                core.space.release(bytes);
            }
            Err(error) => {
                // It stays charged: its blocks are still there, and the next start sweeps it.
                tracing::warn!(dataset = name, %key, %error, "cannot unlink a cache file");
                core.keeper.failed();
            }
        }
    }
    if registry.has_no_files(id) {
        forget_in(&mut registry, core, id);
    }
    true
}

/// Deletes a dataset that the index remembers but nobody attached.
pub(super) fn forget_unattached(core: &Core, id: u16) {
    forget_in(&mut core.registry.lock(), core, id);
}

fn forget_in(registry: &mut Registry, core: &Core, id: u16) {
    let (found, grid, name) = (registry.take_found(id), registry.piece_bytes(id), registry.name(id));
    registry.forget(id);
    core.queue.note(Record::Forget { dataset: id });
    let files = found.iter().map(|(&key, found)| (FileKey(key.to_be_bytes()), core.found_bytes(found, grid))).collect();
    if core.remove_groups(&name) {
        core.space.release(registry.take_group_bytes(id));
    }
    let directories = core.directory_bytes(&name);
    core.keeper.unclaimed(name, files, Some(directories));
}
