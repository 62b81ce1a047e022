//! What the mount asks of a node. `remote` asks a real one over frames.

mod held;
mod remote;
mod renew;

pub(crate) use remote::Remote;
pub use remote::Revive;

use crate::backing::Content;
use fodder_api::{
    Result, Source,
    frames::{Arriving, Lease, ObjectId, ObjectInfo},
};
use std::sync::Arc;

/// The name of a snapshot.
pub(crate) type SnapshotId = [u8; 16];

/// The newest snapshot, and how much is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Newest {
    pub(crate) snapshot: SnapshotId,
    pub(crate) objects: u64,
    pub(crate) bytes: u64,
}

/// A symbolic link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Link {
    /// What it says: a relative path that stays in the dataset.
    pub(crate) target: Box<str>,
    pub(crate) modified_ns: i64,
}

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Its name, without a slash.
    pub(crate) name: Box<str>,
    /// The object it is, or leads to; None: a directory.
    pub(crate) object: Option<ObjectInfo>,
    /// It is a symbolic link.
    pub(crate) link: Option<Link>,
    /// Where the listing goes on behind it, in the same snapshot. Never 0.
    pub(crate) next: u32,
}

/// A page of a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) snapshot: SnapshotId,
    pub(crate) entries: Vec<Entry>,
    /// Nothing is behind it.
    pub(crate) end: bool,
}

/// Where a page begins: a place in a snapshot, and the name before it for when the snapshot is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct From<'a> {
    pub(crate) snapshot: Option<SnapshotId>,
    pub(crate) rank: u32,
    pub(crate) behind: &'a str,
}

/// A part of an object that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) offset: u64,
    pub(crate) length: u64,
    /// Tells which reads belong together: a number for the open file, unlike any other mount's. 0: for nobody.
    pub(crate) reader: u64,
}

/// What is known of an object beside what its entry tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Description {
    /// Bytes of it that are cached.
    pub(crate) cached_bytes: u64,
    /// The tier that has all of it.
    pub(crate) tier: Option<Source>,
    pub(crate) version: String,
}

/// Which dataset of which node is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The node's address, as `--addr` takes it.
    pub(crate) address: String,
    pub(crate) dataset: String,
}

/// Objects of fewer bytes are small: it costs less to be given them than to ask twice.
pub(crate) const SMALL_BYTES: u64 = 128 << 10;

/// A node, as the mount of one dataset needs it. Every call may wait for the node or its origin, in bounded time.
pub(crate) trait Node: Send + Sync + 'static {
    /// What lies at a path of the newest snapshot.
    fn lookup(&self, path: &str) -> Result<Entry>;
    /// A page of a directory.
    fn list(&self, path: &str, from: From<'_>, count: u32) -> Result<Page>;
    /// The file of an object that is whole in the cache; None if it is not. Fetches nothing. The node may read the file to verify
    /// it.
    fn lease(&self, object: ObjectId, arriving: Arriving) -> Result<Option<Content>>;
    /// The same for a small object of so many bytes; if there is no file, None, and `take` is given all its bytes. If those that are
    /// on their way are to be ignored, nothing is fetched: [`Error::Full`](fodder_api::Error::Full) if it is not cached.
    fn open(
        &self,
        object: ObjectId,
        part: Part,
        arriving: Arriving,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<Content>> {
        let file = self.lease(object, arriving)?;
        if file.is_none() && arriving == Arriving::Ignore {
            return Err(fodder_api::Error::Full("the object is not cached".into()));
        }
        if file.is_none() {
            self.read(object, part, take)?;
        }
        Ok(file)
    }
    /// Gives `take` the bytes of a part, all at once.
    fn read(&self, object: ObjectId, part: Part, take: &mut dyn FnMut(&[u8])) -> Result<()>;
    /// Fills a buffer with a part from the cache, if all of it is there: whether it was. Fetches nothing.
    fn read_shown(&self, object: ObjectId, part: Part, arriving: Arriving, buffer: &mut [u8]) -> Result<bool>;
    /// What is known of an object.
    fn describe(&self, object: ObjectId) -> Result<Description>;
    /// The newest snapshot, without waiting for a node that is away.
    fn newest(&self) -> Result<Newest>;
    /// Tells that leased files were opened again. A node that is away is not told.
    fn touch(&self, objects: &[ObjectId]);
    /// Tells which leased files are in use no more: until it hears of it, the node has no room for others in their place.
    fn give_back(&self) {}
    /// Which dataset of which node this is, if it can be named to other processes.
    fn identity(&self) -> Option<Identity> {
        None
    }
    /// Reports leases that the node does not know of, because it was restarted or a connection was lost. Objects with a leased
    /// file that must not be opened again. A node that is away is not waited for.
    fn renew_leases(&self) -> Vec<ObjectId> {
        Vec::new()
    }
    /// Compares a leased file with its checksums; the lease has the result. A node that is away is not waited for.
    fn verify_lease(&self, _object: ObjectId, _lease: &Arc<Lease>) -> Result<()> {
        Ok(())
    }
    /// Whether the node did not answer when it was last asked.
    fn is_away(&self) -> bool {
        false
    }
}
