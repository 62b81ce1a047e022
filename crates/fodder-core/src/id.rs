//! The names of things: objects, pieces, items, versions, cache files, snapshots.
//!
//! docs/decisions/0001 says why there are two worlds: people and plans speak of (snapshot, item id);
//! cache files, placement and peers speak of (object, version, range).

use std::fmt;

/// The dense number of an item inside a snapshot.
pub type ItemId = u64;

/// One version of one object in a dataset's catalog. Slots are handed out once and never reused, so that
/// everything kept beside them survives a refresh.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectSlot(pub u32);

impl ObjectSlot {
    /// The slot of no object.
    pub const NONE: Self = Self(u32::MAX);
}

/// The dense number of a piece in a dataset's catalog: pieces of slot 0, then of slot 1, and so on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PieceId(pub u32);

/// Which bytes an object has: its ETag exactly as the origin gave it, or, where there is none, its
/// modification time and size. Two reads of one version give the same bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Version(pub Box<str>);

impl Version {
    /// The prefix of a version made from modification time and size, which cannot be sent as an `If-Match`.
    pub const MTIME: &'static str = "mtime:";

    /// The ETag to make a read conditional on, unless this version was made from time and size.
    pub fn etag(&self) -> Option<&str> {
        (!self.0.starts_with(Self::MTIME)).then_some(&*self.0)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name of a cache file: a hash of dataset, origin, path and version. Equal keys mean equal bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileKey(pub [u8; 16]);

impl FileKey {
    /// The key of one version of one object. `dataset` identifies the dataset with its origin.
    pub fn new(dataset: &blake3::Hash, path: &str, version: &Version) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(dataset.as_bytes());
        hasher.update(&(path.len() as u64).to_le_bytes());
        hasher.update(path.as_bytes());
        hasher.update(version.0.as_bytes());
        let mut key = [0; 16];
        key.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        Self(key)
    }
}

/// Lower-case hexadecimal, as the file is called on disk.
impl fmt::Display for FileKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for FileKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileKey({self})")
    }
}

/// The name of a snapshot: a hash of everything in it, so that nodes which list the same data agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SnapshotId(pub [u8; 16]);

impl fmt::Display for SnapshotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl std::str::FromStr for SnapshotId {
    type Err = crate::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        (text.len() == 32)
            .then(|| u128::from_str_radix(text, 16).ok())
            .flatten()
            .map(|number| Self(number.to_be_bytes()))
            .ok_or_else(|| crate::Error::Invalid(format!("{text:?} is not a snapshot id (32 hexadecimal digits)")))
    }
}
