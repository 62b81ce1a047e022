//! Objects: bytes in memory, bytes made up from a seed, a file.

use bytes::Bytes;
use md5::{Digest, Md5};
use rand::{Rng, SeedableRng, rngs::SmallRng};
use std::{
    collections::BTreeMap,
    fs::File,
    hash::{DefaultHasher, Hash, Hasher},
    io,
    ops::Range,
    os::unix::fs::FileExt,
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
    tag: [u8; 16],
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
    let tag = (u128::from(hash(&(seed, size))) << 64 | u128::from(size)).to_be_bytes();
    Object { content: Content::Synthetic(noise.into()), size, tag, modified: SystemTime::now() }
}

impl Object {
    pub(crate) fn memory(bytes: Bytes) -> Self {
        let (size, tag) = (bytes.len() as u64, Md5::digest(&bytes).into());
        Self { content: Content::Memory(bytes), size, tag, modified: SystemTime::now() }
    }

    fn file(path: &Path) -> io::Result<Self> {
        let metadata = path.metadata()?;
        let (size, modified) = (metadata.len(), metadata.modified()?);
        let mut sum = Md5::new();
        io::copy(&mut File::open(path)?, &mut Summing(&mut sum))?;
        Ok(Self { content: Content::Path(path.into()), size, tag: sum.finalize().into(), modified })
    }

    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Its ETag, with quotes: as S3 makes it of what was uploaded in one part, the MD5 sum, unless the bytes are made up.
    pub fn etag(&self) -> String {
        format!("\"{:032x}\"", u128::from_be_bytes(self.tag))
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

/// Sums what is written to it.
struct Summing<'a>(&'a mut Md5);

impl io::Write for Summing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
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
