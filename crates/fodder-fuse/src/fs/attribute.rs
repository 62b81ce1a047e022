//! What files and directories look like: sizes, times, modes, and the attributes that tell of the cache.

use super::{FileSystem, Result, told};
use crate::{
    error::Errno,
    inode::{Found, ROOT},
    node::Node,
    wire::answer::Size,
};
use fodder_api::{Source, spelling};

/// The time of what has none, in seconds since 1970: the first of 1980, which every archive format can hold.
const NO_TIME_S: i64 = 315_532_800;

/// What is best read at a time.
const BLOCK_BYTES: u32 = 128 << 10;

/// The unit in which the size of all files together is told.
const UNIT_BYTES: u32 = 4096;

/// A file, a directory or a symbolic link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileKind {
    File,
    Directory,
    Link,
}

impl FileKind {
    pub(super) fn of(found: Found<'_>) -> Self {
        match found {
            Found::Directory(_) => Self::Directory,
            Found::Object(_) => Self::File,
            Found::Link(..) => Self::Link,
        }
    }
}

/// What `stat` shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Attr {
    pub(crate) ino: u64,
    pub(crate) kind: FileKind,
    pub(crate) size: u64,
    /// Seconds since 1970 and nanoseconds.
    pub(crate) modified: (i64, u32),
    pub(crate) permissions: u16,
    pub(crate) links: u32,
    pub(crate) owner: (u32, u32),
    pub(crate) block_bytes: u32,
}

/// How much of a file is cached, in bytes.
const CACHED: &str = "user.fodder.cached";
/// The version of the object, as the origin spells it.
const ETAG: &str = "user.fodder.etag";
/// The tier that has all of it, or `none`.
const TIER: &str = "user.fodder.tier";
/// The address of the mount's node. On everything in the mount, listed on its root only.
const NODE: &str = "user.fodder.node";
/// The dataset that is mounted; where `NODE` is.
const DATASET: &str = "user.fodder.dataset";

impl<N: Node> FileSystem<N> {
    pub(super) fn attr_of(&self, ino: u64, found: Found<'_>) -> Attr {
        let kind = FileKind::of(found);
        let (size, permissions, links, modified_ns) = match found {
            Found::Object(object) => (object.size, 0o444, 1, object.modified_ns),
            Found::Link(_, link) => (spelling::name(&link.target).len() as u64, 0o777, 1, Some(link.modified_ns)),
            Found::Directory(_) => (0, 0o555, 2, None),
        };
        let modified = modified_ns
            .map_or((NO_TIME_S, 0), |nanos| (nanos.div_euclid(1_000_000_000), nanos.rem_euclid(1_000_000_000) as u32));
        let owner = self.settings.owner;
        Attr { ino, kind, size, modified, permissions, links, owner, block_bytes: BLOCK_BYTES }
    }

    /// How large it is: as large as the dataset, all of it in use.
    pub(crate) fn size(&self) -> Size {
        let (objects, bytes) = self.newest.lock().map_or((0, 0), |newest| (newest.objects, newest.bytes));
        Size {
            blocks: bytes.div_ceil(u64::from(UNIT_BYTES)),
            block_bytes: UNIT_BYTES,
            files: objects,
            longest_name: 255,
        }
    }

    /// The names of an inode's extended attributes.
    pub(crate) fn attribute_names(&self, ino: u64) -> Result<Vec<u8>> {
        let list = |names: &[&str]| names.iter().map(|name| format!("{name}\0")).collect::<String>().into_bytes();
        match self.object(ino) {
            Ok(_) => Ok(list(&[CACHED, ETAG, TIER])),
            Err(Errno::IsDirectory) if ino == ROOT && self.node.identity().is_some() => Ok(list(&[NODE, DATASET])),
            Err(Errno::IsDirectory | Errno::Invalid) => Ok(Vec::new()),
            Err(errno) => Err(errno),
        }
    }

    /// The value of an extended attribute that is the same everywhere in the mount. Never waits.
    pub(crate) fn mount_attribute(&self, name: &[u8]) -> Option<Vec<u8>> {
        let identity = self.node.identity()?;
        match name {
            name if name == NODE.as_bytes() => Some(identity.address.into_bytes()),
            name if name == DATASET.as_bytes() => Some(identity.dataset.into_bytes()),
            _ => None,
        }
    }

    /// Whether an extended attribute can be there at all: programs ask for many that cannot.
    pub(crate) fn has_attribute(&self, name: &[u8]) -> bool {
        [CACHED, ETAG, TIER].iter().any(|known| known.as_bytes() == name)
    }

    /// The value of an extended attribute. May wait.
    pub(crate) fn attribute(&self, ino: u64, name: &[u8]) -> Result<Vec<u8>> {
        let object = match self.object(ino) {
            Ok(object) if self.has_attribute(name) => object,
            Ok(_) | Err(Errno::IsDirectory | Errno::Invalid) => return Err(Errno::NoAttribute),
            Err(errno) => return Err(errno),
        };
        let description = self.node.describe(object.id).map_err(|error| told(&error, "an attribute"))?;
        let value = match name {
            name if name == CACHED.as_bytes() => description.cached_bytes.to_string(),
            name if name == ETAG.as_bytes() => description.version,
            _ => match description.tier {
                Some(Source::TierMem) => "MEM".into(),
                Some(Source::TierSsd) => "SSD".into(),
                Some(Source::TierHdd) => "HDD".into(),
                _ => "none".into(),
            },
        };
        Ok(value.into_bytes())
    }
}
