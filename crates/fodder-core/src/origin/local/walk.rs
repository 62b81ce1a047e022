//! Lists the files below a directory on a blocking thread, in batches, following symbolic links.

use super::{failed, not_found, object_meta};
use crate::origin::name;
use fodder_policy::spelling;
use futures::{StreamExt, TryStreamExt, stream, stream::BoxStream};
use object_store::{Error, ObjectMeta, Result, path::Path};
use std::{
    ffi::OsStr,
    fs::{self, Metadata},
    io,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::PathBuf,
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
pub(super) fn walk(root: PathBuf, prefix: String) -> BoxStream<'static, Result<ObjectMeta>> {
    let (sender, receiver) = mpsc::channel(4);
    tokio::task::spawn_blocking(move || {
        let mut walk = Walk { sender, batch: Vec::with_capacity(BATCH) };
        let outcome = walk.run(root, prefix).and_then(|()| walk.flush());
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
    sender: mpsc::Sender<Result<Vec<ObjectMeta>>>,
    batch: Vec<ObjectMeta>,
}

impl Walk {
    fn run(&mut self, root: PathBuf, prefix: String) -> Result<(), Stop> {
        let below = name::unescape(&prefix).unwrap_or_default();
        let start = root.join(OsStr::from_bytes(&spelling::name(&below)));
        let metadata = fs::metadata(&start).map_err(|error| {
            Stop::Failed(match error.kind() {
                io::ErrorKind::NotFound => not_found(&start, error),
                _ => about(&start, &error),
            })
        })?;
        let prefix = if prefix.is_empty() { prefix } else { prefix + "/" };
        let above = Arc::new(Chain { id: (metadata.dev(), metadata.ino()), above: None });
        let mut todo = vec![Directory { path: start, prefix, above }];
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
            let metadata = match entry.metadata() {
                Ok(metadata) if metadata.is_symlink() => fs::metadata(entry.path()),
                other => other,
            };
            // A link to nothing, a loop of links, or gone by now.
            let Ok(metadata) = metadata else { continue };
            let name = name::escape(&spelling::text(entry.file_name().as_bytes()));
            let name = format!("{}{name}", directory.prefix);
            if metadata.is_dir() {
                let id = (metadata.dev(), metadata.ino());
                if !directory.above.holds(id) {
                    let above = Arc::new(Chain { id, above: Some(Arc::clone(&directory.above)) });
                    todo.push(Directory { path: entry.path(), prefix: name + "/", above });
                }
            } else if metadata.is_file() {
                self.file(&name, &metadata)?;
            }
        }
        Ok(())
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

fn about(path: &std::path::Path, error: &io::Error) -> Error {
    failed(io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}
