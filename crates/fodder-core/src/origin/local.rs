//! A directory as an object store: every read checked against the file it began with.
//!
//! object_store's own local store is not used: it streams 8 KiB at a time, one unreadable name ends its whole listing,
//! and it does not notice that a file was written to while it was read.

mod walk;

use super::{details::ListingDetails, name, read_only::unsupported, stamp::Stamp};
use crate::config::ListingConfig;
use async_trait::async_trait;
use bytes::Bytes;
use fodder_policy::spelling;
use futures::{StreamExt, stream, stream::BoxStream};
use object_store::{
    Attributes, CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, path::Path,
};
use parking_lot::Mutex;
use std::{
    ffi::OsStr,
    fmt,
    fs::{File, Metadata},
    io,
    ops::Range,
    os::unix::{ffi::OsStrExt, fs::OpenOptionsExt},
    path::{Path as FsPath, PathBuf},
    sync::Arc,
};

const STORE: &str = "local";

/// Bytes read at a time. Each is a hop to a blocking thread, and with half of it the hops showed in the time of a warm-up on two
/// processors; nobody pays for them out of the memory budget until they are gathered, and twice as much showed there.
const CHUNK_BYTES: u64 = 512 << 10;

/// The files below a directory.
#[derive(Debug)]
pub(super) struct Local {
    root: PathBuf,
    listing: Arc<ListingConfig>,
    details: Arc<Mutex<ListingDetails>>,
}

impl Local {
    /// The files below `root`, a canonical path. A listing stores what it finds beside files in `details`.
    pub(super) fn new(root: PathBuf, listing: Arc<ListingConfig>, details: Arc<Mutex<ListingDetails>>) -> Self {
        Self { root, listing, details }
    }

    /// The file at a location: always below the root, because a location has no `..` and no empty parts.
    fn file(&self, location: &Path) -> Result<PathBuf> {
        let unlisted = || io::Error::other("the name is not one that was listed");
        let name = name::unescape(location.as_ref()).ok_or_else(|| failed(unlisted()))?;
        if !spelling::is_spelled(&name) {
            return Err(not_found(FsPath::new(&name), unlisted()));
        }
        Ok(self.root.join(OsStr::from_bytes(&spelling::name(&name))))
    }
}

impl fmt::Display for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Local({})", self.root.display())
    }
}

#[async_trait]
impl ObjectStore for Local {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let (path, location) = (self.file(location)?, location.clone());
        blocking(move || {
            let file = open(&path)?;
            let metadata = file.metadata().map_err(failed)?;
            if !metadata.is_file() {
                return Err(not_found(&path, io::Error::other("it is not a plain file")));
            }
            let meta = object_meta(location, &metadata)?;
            options.check_preconditions(&meta)?;
            let range = match &options.range {
                Some(object_store::GetRange::Bounded(range)) => range.clone(),
                Some(_) => return Err(unsupported("a range without both ends", STORE)),
                None => 0..meta.size,
            };
            if range.end > meta.size {
                return Err(changed(&path));
            }
            let payload = if options.head {
                GetResultPayload::Stream(stream::empty().boxed())
            } else {
                // The first bytes are read here, so that a small file costs one hop.
                let mut body = Body { file, path, stamp: Stamp::of(&metadata), rest: range.clone() };
                let first = body.read()?;
                GetResultPayload::Stream(first.map_or_else(|| stream::empty().boxed(), |first| body.into_stream(first)))
            };
            Ok(GetResult { payload, meta, range, attributes: Attributes::new(), extensions: Default::default() })
        })
        .await
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let prefix = prefix.map(ToString::to_string).unwrap_or_default();
        walk::walk(self.root.clone(), prefix, Arc::clone(&self.listing), Arc::clone(&self.details))
    }

    async fn list_with_delimiter(&self, _prefix: Option<&Path>) -> Result<ListResult> {
        Err(unsupported("listing one level", STORE))
    }

    async fn put_opts(&self, _: &Path, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        Err(unsupported("writing", STORE))
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        Err(unsupported("writing", STORE))
    }

    fn delete_stream(&self, _: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        stream::once(async { Err(unsupported("deleting", STORE)) }).boxed()
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        Err(unsupported("copying", STORE))
    }
}

fn object_meta(location: Path, metadata: &Metadata) -> Result<ObjectMeta> {
    Ok(ObjectMeta {
        location,
        last_modified: metadata.modified().map_err(failed)?.into(),
        size: metadata.len(),
        e_tag: Some(Stamp::of(metadata).etag()),
        version: None,
    })
}

/// A read under way: a file, what it was when it was opened, and what is still to be read of it.
struct Body {
    file: File,
    path: PathBuf,
    stamp: Stamp,
    rest: Range<u64>,
}

impl Body {
    /// The next bytes, None at the end. The stamp is compared after they were read: a writer changes the change time
    /// before the bytes, so bytes of another version are never returned.
    fn read(&mut self) -> Result<Option<Bytes>> {
        let length = (self.rest.end - self.rest.start).min(CHUNK_BYTES) as usize;
        if length == 0 {
            return Ok(None);
        }
        let mut buffer = Vec::with_capacity(length);
        while buffer.len() < length {
            let at = self.rest.start + buffer.len() as u64;
            match rustix::io::pread(&self.file, rustix::buffer::spare_capacity(&mut buffer), at) {
                Ok(0) => return Err(changed(&self.path)),
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(failed(error.into())),
            }
        }
        buffer.truncate(length);
        if Stamp::of(&self.file.metadata().map_err(failed)?) != self.stamp {
            return Err(changed(&self.path));
        }
        self.rest.start += length as u64;
        Ok(Some(buffer.into()))
    }

    fn into_stream(self, first: Bytes) -> BoxStream<'static, Result<Bytes>> {
        let rest = stream::try_unfold(self, |mut body| async move {
            // Known without a hop: whoever reads looks for the end, too.
            if body.rest.is_empty() {
                return Ok(None);
            }
            blocking(move || Ok(body.read()?.map(|bytes| (bytes, body)))).await
        });
        stream::once(async { Ok(first) }).chain(rest).boxed()
    }
}

/// Opens a file for reading; does not wait for a writer if it is a pipe.
fn open(path: &FsPath) -> Result<File> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::InvalidFilename => {
            not_found(path, error)
        }
        // A socket.
        _ if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => not_found(path, error),
        _ => failed(error),
    })
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await?
}

fn failed(error: io::Error) -> Error {
    Error::Generic { store: STORE, source: error.into() }
}

fn not_found(path: &FsPath, error: io::Error) -> Error {
    Error::NotFound { path: path.display().to_string(), source: error.into() }
}

fn changed(path: &FsPath) -> Error {
    Error::Precondition { path: path.display().to_string(), source: "the file changed while it was read".into() }
}
