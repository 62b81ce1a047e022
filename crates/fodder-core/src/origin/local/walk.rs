//! Lists the files below a directory on a blocking thread, in batches. Symbolic links are followed, and those that lead to
//! something of the same directory are told too.

use super::{failed, not_found, object_meta};
use crate::origin::{
    link::{self, Link},
    name,
};
use fodder_policy::spelling;
use futures::{StreamExt, TryStreamExt, stream, stream::BoxStream};
use object_store::{Error, ObjectMeta, Result, path::Path};
use parking_lot::Mutex;
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

/// A directory that is being read, and those above it by device and inode, to notice a loop of links.
struct Directory {
    path: PathBuf,
    /// Its name below the root, escaped, with a `/` at its end unless it is the root.
    prefix: String,
    above: Arc<Chain>,
    /// It is reached through a link, which is all that needs to be shown of it.
    linked: bool,
}

struct Chain {
    id: (u64, u64),
    above: Option<Arc<Chain>>,
}

impl Chain {
    fn holds(&self, id: (u64, u64)) -> bool {
        self.id == id || self.above.as_ref().is_some_and(|above| above.holds(id))
    }
}

/// All plain files below `root`, or below a directory of it.
pub(super) fn walk(
    root: PathBuf,
    prefix: String,
    links: Arc<Mutex<Vec<Link>>>,
) -> BoxStream<'static, Result<ObjectMeta>> {
    let (sender, receiver) = mpsc::channel(4);
    tokio::task::spawn_blocking(move || {
        let mut walk = Walk { root, sender, batch: Vec::with_capacity(BATCH), links };
        let outcome = walk.run(prefix).and_then(|()| walk.flush());
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
    /// Nobody reads the listing any more.
    Dropped,
}

struct Walk {
    root: PathBuf,
    sender: mpsc::Sender<Result<Vec<ObjectMeta>>>,
    batch: Vec<ObjectMeta>,
    links: Arc<Mutex<Vec<Link>>>,
}

impl Walk {
    fn run(&mut self, prefix: String) -> Result<(), Stop> {
        let below = name::unescape(&prefix).unwrap_or_default();
        let start = self.root.join(OsStr::from_bytes(&spelling::name(&below)));
        let metadata = fs::metadata(&start).map_err(|error| {
            Stop::Failed(match error.kind() {
                io::ErrorKind::NotFound => not_found(&start, error),
                _ => about(&start, &error),
            })
        })?;
        // Only the whole is listed with its links.
        let linked = !prefix.is_empty();
        let prefix = if prefix.is_empty() { prefix } else { prefix + "/" };
        let above = Arc::new(Chain { id: (metadata.dev(), metadata.ino()), above: None });
        let mut todo = vec![Directory { path: start, prefix, above, linked }];
        while let Some(directory) = todo.pop() {
            self.directory(&directory, &mut todo)?;
        }
        Ok(())
    }

    fn directory(&mut self, directory: &Directory, todo: &mut Vec<Directory>) -> Result<(), Stop> {
        let entries = match fs::read_dir(&directory.path) {
            Ok(entries) => entries,
            // It went away while the listing was under way.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(Stop::Failed(about(&directory.path, &error))),
        };
        for entry in entries {
            let entry = entry.map_err(|error| Stop::Failed(about(&directory.path, &error)))?;
            let Some((metadata, link)) = look(&entry).map_err(|error| Stop::Failed(about(&entry.path(), &error)))?
            else {
                continue;
            };
            let name = name::escape(&spelling::text(entry.file_name().as_bytes()));
            let name = format!("{}{name}", directory.prefix);
            let linked = directory.linked || link.is_some();
            let id = (metadata.dev(), metadata.ino());
            if !metadata.is_file() && (!metadata.is_dir() || directory.above.holds(id)) {
                continue;
            }
            if let Some(link) = link.filter(|_| !directory.linked) {
                self.link(directory, &entry.path(), &link);
            }
            if metadata.is_dir() {
                let above = Arc::new(Chain { id, above: Some(Arc::clone(&directory.above)) });
                todo.push(Directory { path: entry.path(), prefix: name + "/", above, linked });
            } else {
                self.file(&name, &metadata)?;
            }
        }
        Ok(())
    }

    /// Tells of a link, if it leads to something below the root.
    fn link(&self, directory: &Directory, path: &FsPath, metadata: &Metadata) {
        let Ok(target) = fs::read_link(path) else { return };
        let Ok(below) = path.strip_prefix(&self.root) else { return };
        if link::stays_inside(&self.root, &directory.path, target.as_os_str()) {
            let [path, target] = [below, &target].map(|path| spelling::text(path.as_os_str().as_bytes()).into_owned());
            let modified_ns = metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec());
            self.links.lock().push(Link { path, target, modified_ns });
        }
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
}

/// What an entry of a directory is, and the link if it is one. None if there is nothing. Any other failure is not passed over:
/// what a disk or a server cannot tell of now would count as removed.
fn look(entry: &DirEntry) -> io::Result<Option<(Metadata, Option<Metadata>)>> {
    use io::ErrorKind as Kind;
    let link = match entry.metadata() {
        Ok(metadata) if !metadata.is_symlink() => return Ok(Some((metadata, None))),
        Ok(link) => link,
        // Gone by now, perhaps with its directory.
        Err(error) if matches!(error.kind(), Kind::NotFound | Kind::NotADirectory) => return Ok(None),
        Err(error) => return Err(error),
    };
    match fs::metadata(entry.path()) {
        Ok(metadata) => Ok(Some((metadata, Some(link)))),
        Err(error) if leads_nowhere(&error) => Ok(None),
        Err(error) => Err(error),
    }
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
