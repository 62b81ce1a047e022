//! Lists the files below a directory on a blocking thread, in batches, with its symbolic links and empty directories.
//!
//! Links to files are followed where they are met. Links to directories are collected and followed afterwards, level by
//! level and in path order: first all directories by their own paths, then those behind one link, then those behind two.
//! One directory (by device and inode) is listed behind at most `max_aliases` links, and never below itself. Therefore the
//! work is proportional to the number of directories, however many paths their links make, and any node lists the same.

use super::{failed, not_found, object_meta};
use crate::{
    config::{FollowLinks, ListingConfig},
    origin::{
        details::ListingDetails,
        limit,
        link::{self, Link},
        name,
        root::RootIdentity,
    },
};
use fodder_policy::spelling;
use futures::{StreamExt, TryStreamExt, stream, stream::BoxStream};
use object_store::{Error, ObjectMeta, Result, path::Path};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use rustix::io::Errno;
use std::{
    ffi::OsStr,
    fs::{self, DirEntry, Metadata},
    io,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path as FsPath, PathBuf},
    sync::Arc,
};
use tokio::sync::mpsc;

const BATCH: usize = 1024;

/// Device and inode.
type Id = (u64, u64);

/// A directory that is to be listed.
struct Directory {
    path: PathBuf,
    /// Its name below the root, escaped, with a `/` at its end unless it is the root.
    prefix: String,
    /// Itself and the directories above it, by the path that led here.
    chain: Arc<Chain>,
    /// Whether the path to it goes through a link, which is all that needs to be shown of it.
    linked: bool,
    /// It is a link that is shown as one.
    is_shown_link: bool,
}

impl Directory {
    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + size_of::<Chain>() + self.path.as_os_str().len() + self.prefix.len()
    }
}

struct Chain {
    id: Id,
    depth: u32,
    above: Option<Arc<Chain>>,
}

impl Chain {
    fn contains(&self, id: Id) -> bool {
        std::iter::successors(Some(self), |chain| chain.above.as_deref()).any(|chain| chain.id == id)
    }
}

/// Without recursion: a chain may be as long as the tree is deep.
impl Drop for Chain {
    fn drop(&mut self) {
        let mut above = self.above.take();
        while let Some(mut chain) = above.and_then(Arc::into_inner) {
            above = chain.above.take();
        }
    }
}

/// All plain files below `root`, or below a directory of it. The rest of what was found is in `details` at the end.
pub(super) fn walk(
    root: PathBuf,
    prefix: String,
    config: Arc<ListingConfig>,
    details: Arc<Mutex<ListingDetails>>,
) -> BoxStream<'static, Result<ObjectMeta>> {
    let (sender, receiver) = mpsc::channel(4);
    tokio::task::spawn_blocking(move || {
        let mut walk = Walk::new(root, config, sender);
        let outcome = walk.run(prefix).and_then(|()| walk.flush());
        if matches!(outcome, Err(Stop::Dropped)) {
            // The next listing may be over already, and its details are not to be replaced.
            return;
        }
        *details.lock() = walk.finish();
        if let Err(Stop::Failed(error)) = outcome {
            // The reader may be gone, and then nobody wants to know.
            let _ = walk.sender.blocking_send(Err(error));
        }
    });
    stream::unfold(receiver, |mut receiver| async { receiver.recv().await.map(|batch| (batch, receiver)) })
        .map_ok(|batch: Vec<ObjectMeta>| stream::iter(batch.into_iter().map(Ok)))
        .try_flatten()
        .boxed()
}

enum Stop {
    Failed(Error),
    /// The listing has no reader any more.
    Dropped,
}

/// Links or directories that were left out: how many, and one of them.
#[derive(Default)]
struct LeftOut {
    count: u64,
    example: Option<String>,
}

impl LeftOut {
    fn add(&mut self, path: &FsPath) {
        self.count += 1;
        self.example.get_or_insert_with(|| path.display().to_string());
    }

    fn warning(&self, why: &str) -> Option<String> {
        let example = self.example.as_ref()?;
        Some(format!("{why}: {}, such as {example}", self.count))
    }
}

struct Walk {
    root: PathBuf,
    config: Arc<ListingConfig>,
    sender: mpsc::Sender<Result<Vec<ObjectMeta>>>,
    batch: Vec<ObjectMeta>,
    entries: u64,
    /// Memory for directories that are to be listed, links and empty directories.
    held_bytes: u64,
    /// Directories that are to be listed next.
    todo: Vec<Directory>,
    /// Directories behind links, which are listed when `todo` is empty.
    behind_links: Vec<Directory>,
    /// How often each directory was listed behind a link.
    aliases: FxHashMap<Id, u32>,
    found: ListingDetails,
    outside: LeftOut,
    repeated: LeftOut,
}

impl Walk {
    fn new(root: PathBuf, config: Arc<ListingConfig>, sender: mpsc::Sender<Result<Vec<ObjectMeta>>>) -> Self {
        Self {
            root,
            config,
            sender,
            batch: Vec::with_capacity(BATCH),
            entries: 0,
            held_bytes: 0,
            todo: Vec::new(),
            behind_links: Vec::new(),
            aliases: FxHashMap::default(),
            found: ListingDetails::default(),
            outside: LeftOut::default(),
            repeated: LeftOut::default(),
        }
    }

    fn run(&mut self, prefix: String) -> Result<(), Stop> {
        let below = name::unescape(&prefix).unwrap_or_default();
        let start = self.root.join(OsStr::from_bytes(&spelling::name(&below)));
        let metadata = fs::metadata(&start).map_err(|error| {
            Stop::Failed(match error.kind() {
                io::ErrorKind::NotFound => not_found(&start, error),
                _ => about(&start, &error),
            })
        })?;
        self.found.root = RootIdentity::of(&self.root);
        // Only the whole is listed with its links.
        let linked = !prefix.is_empty();
        let prefix = if prefix.is_empty() { prefix } else { prefix + "/" };
        let chain = Arc::new(Chain { id: id(&metadata), depth: 0, above: None });
        let start = Directory { path: start, prefix, chain, linked, is_shown_link: false };
        self.hold(start.memory_bytes())?;
        self.todo.push(start);
        self.drain()?;
        while !self.behind_links.is_empty() {
            let mut level = std::mem::take(&mut self.behind_links);
            level.sort_unstable_by(|a, b| a.prefix.cmp(&b.prefix));
            for directory in level {
                self.alias(directory)?;
            }
        }
        Ok(())
    }

    /// Lists a directory behind a link, unless it was listed behind too many others.
    fn alias(&mut self, directory: Directory) -> Result<(), Stop> {
        if self.has_enough_aliases(directory.chain.id) {
            self.release(&directory);
            return self.repeat(&directory.path, directory.is_shown_link).map(|_| ());
        }
        *self.aliases.entry(directory.chain.id).or_default() += 1;
        self.todo.push(directory);
        self.drain()
    }

    fn has_enough_aliases(&self, id: Id) -> bool {
        self.aliases.get(&id).copied().unwrap_or(0) >= self.config.max_aliases
    }

    /// Leaves out what is behind a link to a directory that was listed often enough. False if the link is left out as well: what
    /// cannot be shown as a link would look like an empty directory.
    fn repeat(&mut self, path: &FsPath, is_shown_link: bool) -> Result<bool, Stop> {
        self.repeated.add(path);
        if is_shown_link {
            self.empty_directory(path)?;
        }
        Ok(is_shown_link)
    }

    fn drain(&mut self) -> Result<(), Stop> {
        while let Some(directory) = self.todo.pop() {
            self.release(&directory);
            self.directory(&directory)?;
        }
        Ok(())
    }

    fn directory(&mut self, directory: &Directory) -> Result<(), Stop> {
        let entries = match fs::read_dir(&directory.path) {
            Ok(entries) => entries,
            // It went away while the listing was under way.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(Stop::Failed(about(&directory.path, &error))),
        };
        let mut is_empty = true;
        for entry in entries {
            let entry = entry.map_err(|error| Stop::Failed(about(&directory.path, &error)))?;
            self.count()?;
            let listed = self.entry(directory, &entry)?;
            is_empty &= !listed;
        }
        if is_empty && !directory.prefix.is_empty() {
            self.empty_directory(&directory.path)?;
        }
        Ok(())
    }

    /// Counts memory that the walk holds.
    fn hold(&mut self, bytes: usize) -> Result<(), Stop> {
        self.held_bytes += bytes as u64;
        match self.held_bytes > self.config.max_memory_bytes {
            true => Err(exceeded(&limit::too_large(&self.config, &self.root.display().to_string()))),
            false => Ok(()),
        }
    }

    fn release(&mut self, directory: &Directory) {
        self.held_bytes -= directory.memory_bytes() as u64;
    }

    /// Counts an entry. The place where a listing notices that it is too long, or that it has no reader.
    fn count(&mut self) -> Result<(), Stop> {
        self.entries += 1;
        if self.sender.is_closed() {
            return Err(Stop::Dropped);
        }
        match self.entries > self.config.max_entries {
            true => Err(exceeded(&limit::too_many(&self.config, &self.root.display().to_string()))),
            false => Ok(()),
        }
    }

    /// Lists one entry of a directory. False if it is left out.
    fn entry(&mut self, directory: &Directory, entry: &DirEntry) -> Result<bool, Stop> {
        let path = entry.path();
        let Some((metadata, link)) = self.look(entry).map_err(|error| Stop::Failed(about(&path, &error)))? else {
            return Ok(false);
        };
        let is_loop = || directory.chain.contains(id(&metadata));
        if !metadata.is_file() && (!metadata.is_dir() || is_loop()) {
            return Ok(false);
        }
        let name = name::escape(&spelling::text(entry.file_name().as_bytes()));
        let name = format!("{}{name}", directory.prefix);
        let is_shown_link = match link.as_ref().filter(|_| !directory.linked) {
            Some(link) => self.link(directory, &path, link)?,
            None => false,
        };
        if metadata.is_file() {
            return self.file(&name, &metadata).map(|()| true);
        }
        let depth = directory.chain.depth + 1;
        if depth > self.config.max_depth {
            return Err(exceeded(&limit::too_deep(&self.config, &path.display().to_string())));
        }
        if link.is_some() && self.has_enough_aliases(id(&metadata)) {
            return self.repeat(&path, is_shown_link);
        }
        let chain = Arc::new(Chain { id: id(&metadata), depth, above: Some(Arc::clone(&directory.chain)) });
        let linked = directory.linked || link.is_some();
        let next = Directory { path, prefix: name + "/", chain, linked, is_shown_link };
        self.hold(next.memory_bytes())?;
        if link.is_some() {
            self.behind_links.push(next)
        } else {
            self.todo.push(next)
        }
        Ok(true)
    }

    /// What an entry of a directory is, and the link if it is one. None if there is nothing, or a link that is not followed. Any
    /// other failure fails the listing: an entry that a disk or a server cannot report now would count as removed.
    fn look(&mut self, entry: &DirEntry) -> io::Result<Option<(Metadata, Option<Metadata>)>> {
        use io::ErrorKind as Kind;
        let link = match entry.metadata() {
            Ok(metadata) if !metadata.is_symlink() => return Ok(Some((metadata, None))),
            Ok(link) => link,
            // Gone by now, perhaps with its directory.
            Err(error) if matches!(error.kind(), Kind::NotFound | Kind::NotADirectory) => return Ok(None),
            Err(error) => return Err(error),
        };
        let path = entry.path();
        let followed = match self.config.follow_links {
            FollowLinks::Never => return Ok(None),
            FollowLinks::All => fs::metadata(&path),
            FollowLinks::Inside => match fs::canonicalize(&path) {
                Ok(target) if target.starts_with(&self.root) => fs::metadata(&target),
                Ok(_) => {
                    self.outside.add(&path);
                    return Ok(None);
                }
                Err(error) => Err(error),
            },
        };
        match followed {
            Ok(metadata) => Ok(Some((metadata, Some(link)))),
            Err(error) if leads_nowhere(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Records a link, if it leads to something below the root. False if it does not.
    fn link(&mut self, directory: &Directory, path: &FsPath, metadata: &Metadata) -> Result<bool, Stop> {
        let (Ok(target), Some(path)) = (fs::read_link(path), self.spelled(path)) else { return Ok(false) };
        let is_inside = link::stays_inside(&self.root, &directory.path, target.as_os_str());
        if is_inside {
            let target = spelling::text(target.as_os_str().as_bytes()).into_owned();
            let modified_ns = metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec());
            self.hold(size_of::<Link>() + path.len() + target.len())?;
            self.found.links.push(Link { path, target, modified_ns });
        }
        Ok(is_inside)
    }

    fn empty_directory(&mut self, path: &FsPath) -> Result<(), Stop> {
        let Some(path) = self.spelled(path).map(|path| path + "/") else { return Ok(()) };
        self.hold(size_of::<String>() + path.len())?;
        self.found.empty_directories.push(path);
        Ok(())
    }

    /// A path below the root, spelled as paths of objects are.
    fn spelled(&self, path: &FsPath) -> Option<String> {
        let below = path.strip_prefix(&self.root).ok()?;
        Some(spelling::text(below.as_os_str().as_bytes()).into_owned())
    }

    fn file(&mut self, name: &str, metadata: &Metadata) -> Result<(), Stop> {
        let location = Path::parse(name).map_err(|error| Stop::Failed(error.into()))?;
        self.batch.push(object_meta(location, metadata).map_err(Stop::Failed)?);
        if self.batch.len() == BATCH { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Stop> {
        let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH));
        if batch.is_empty() {
            return Ok(());
        }
        self.sender.blocking_send(Ok(batch)).map_err(|_| Stop::Dropped)
    }

    /// What was found beside the files.
    fn finish(&mut self) -> ListingDetails {
        let mut found = std::mem::take(&mut self.found);
        let outside = "symbolic links that lead outside the origin are not followed (--follow-links all follows them)";
        let repeated = "symbolic links to directories that many other links lead to are not followed (--max-aliases)";
        found.warnings.extend([self.outside.warning(outside), self.repeated.warning(repeated)].into_iter().flatten());
        found
    }
}

fn id(metadata: &Metadata) -> Id {
    (metadata.dev(), metadata.ino())
}

fn exceeded(error: &crate::Error) -> Stop {
    Stop::Failed(Error::Generic { store: super::STORE, source: Box::new(error.clone()) })
}

/// Whether a link cannot be followed because of what it says: to nothing, in a loop, or where we may not go.
fn leads_nowhere(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    errno.is_some_and(|errno| {
        matches!(errno, Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NAMETOOLONG | Errno::ACCESS)
    })
}

fn about(path: &FsPath, error: &io::Error) -> Error {
    failed(io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

#[cfg(test)]
mod tests;
