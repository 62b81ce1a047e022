//! Objects: bytes in memory, bytes made up from a seed, a file.

use bytes::Bytes;
use rand::{Rng, SeedableRng, rngs::SmallRng};
use std::{
    collections::BTreeMap,
    fs::File,
    hash::{DefaultHasher, Hash, Hasher},
    io,
    ops::Range,
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

/// The unit in which bytes are made up and sent.
pub(crate) const BLOCK: u64 = 1 << 20;

/// An object: its bytes and what tells its versions apart.
#[derive(Debug, Clone)]
pub struct Object {
    content: Content,
    size: u64,
    tag: u64,
    modified: SystemTime,
}

#[derive(Debug, Clone)]
enum Content {
    Memory(Bytes),
    /// Two blocks of noise. Block k of the object is a window of it that begins where a hash of k says.
    Synthetic(Bytes),
    /// A file, opened for each request.
    Path(Arc<Path>),
    File(Arc<File>),
}

/// An object of any size that takes no memory to speak of: the same seed and size, the same bytes.
pub fn synthetic(seed: u64, size: u64) -> Object {
    let mut noise = vec![0; 2 * BLOCK as usize];
    SmallRng::seed_from_u64(seed).fill_bytes(&mut noise);
    Object { content: Content::Synthetic(noise.into()), size, tag: hash(&(seed, size)), modified: SystemTime::now() }
}

impl Object {
    pub(crate) fn memory(bytes: Bytes) -> Self {
        let (size, tag) = (bytes.len() as u64, hash(&bytes));
        Self { content: Content::Memory(bytes), size, tag, modified: SystemTime::now() }
    }

    fn file(path: &Path) -> io::Result<Self> {
        let metadata = path.metadata()?;
        let (size, modified) = (metadata.len(), metadata.modified()?);
        let tag = hash(&(metadata.ino(), size, modified));
        Ok(Self { content: Content::Path(path.into()), size, tag, modified })
    }

    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Its ETag, with quotes.
    pub fn etag(&self) -> String {
        format!("\"{:016x}{:016x}\"", self.tag, self.tag.rotate_left(29) ^ self.size)
    }

    /// Seconds since 1970 of its last change.
    pub(crate) fn modified(&self) -> u64 {
        self.modified.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs())
    }

    /// The object ready to be read.
    pub(crate) fn open(self) -> io::Result<Self> {
        match &self.content {
            Content::Path(path) => Ok(Self { content: Content::File(Arc::new(File::open(path)?)), ..self }),
            _ => Ok(self),
        }
    }

    /// Some of the bytes from `range.start` on: at least one, at most a block.
    pub(crate) fn read(&self, range: Range<u64>) -> io::Result<Bytes> {
        let length = (range.end - range.start).min(BLOCK);
        match &self.content {
            Content::Memory(bytes) => Ok(bytes.slice(range.start as usize..(range.start + length) as usize)),
            Content::Synthetic(noise) => {
                let (block, within) = (range.start / BLOCK, range.start % BLOCK);
                let start = (hash(&block) % BLOCK + within) as usize;
                Ok(noise.slice(start..start + length.min(BLOCK - within) as usize))
            }
            Content::Path(_) => self.clone().open()?.read(range),
            Content::File(file) => {
                let mut buffer = vec![0; length as usize];
                file.read_exact_at(&mut buffer, range.start)?;
                Ok(buffer.into())
            }
        }
    }

    /// The bytes of a range, for comparison.
    pub fn bytes(&self, mut range: Range<u64>) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity((range.end - range.start) as usize);
        while !range.is_empty() {
            let some = self.read(range.clone())?;
            range.start += some.len() as u64;
            bytes.extend_from_slice(&some);
        }
        Ok(bytes)
    }
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// The plain files below a directory by key.
pub(crate) fn directory(dir: &Path) -> io::Result<BTreeMap<String, Object>> {
    let mut objects = BTreeMap::new();
    let mut todo: Vec<PathBuf> = vec![dir.into()];
    while let Some(path) = todo.pop() {
        for entry in std::fs::read_dir(path)? {
            let path = entry?.path();
            if path.is_dir() {
                todo.push(path);
            } else if let Some(key) = path.strip_prefix(dir).ok().and_then(Path::to_str) {
                objects.insert(key.into(), Object::file(&path)?);
            }
        }
    }
    Ok(objects)
}
