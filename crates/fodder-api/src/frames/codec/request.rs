//! What a client asks.

mod packed;
mod wire;

pub use packed::{Ids, ObjectIds};
pub(in crate::frames) use packed::{pack, pack_objects};
pub(super) use wire::text;

use super::{Give, ObjectId, Result, bad, u32_at};
use crate::{Target, frames::MAX_REQUEST_BYTES};
use fodder_policy::job::BatchRequest;

pub(super) const OPEN: u8 = 1;
pub(super) const CLOSE: u8 = 2;
pub(super) const GET: u8 = 3;
pub(super) const READ: u8 = 4;
pub(super) const LEASE: u8 = 5;
pub(super) const LEASE_PATH: u8 = 6;
pub(super) const RETURN: u8 = 7;
pub(super) const PING: u8 = 8;
pub(super) const NEXT: u8 = 9;
pub(super) const LOOKUP: u8 = 10;
pub(super) const LIST: u8 = 11;
pub(super) const LEASE_OBJECT: u8 = 12;
pub(super) const DESCRIBE: u8 = 13;
pub(super) const TOUCH: u8 = 14;
pub(super) const GIVE: u8 = 15;
pub(super) const MEET: u8 = 16;
pub(super) const PROVE: u8 = 17;
pub(super) const TAKE: u8 = 18;
pub(super) const TELL: u8 = 19;
pub(super) const VIEW: u8 = 20;
pub(super) const VIEWED: u8 = 21;
pub(super) const OPEN_OBJECT: u8 = 22;
pub(super) const RENEW: u8 = 23;
pub(super) const LEASE_CACHED: u8 = 24;
pub(super) const TOUCH_ITEMS: u8 = 25;

/// The first 16 bytes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestHead {
    /// How many bytes follow.
    pub body_bytes: u32,
    /// The client's number for it; replies carry it. Not 0.
    pub request: u32,
    /// What is asked.
    pub op: u8,
    /// The handle it is about; 0 where there is none.
    pub handle: u32,
}

impl RequestHead {
    /// Bytes of a head.
    pub const BYTES: usize = 16;

    /// As it is sent.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.body_bytes.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.request.to_le_bytes());
        bytes[8] = self.op;
        bytes[12..].copy_from_slice(&self.handle.to_le_bytes());
        bytes
    }

    /// From what was received; the length is within bounds.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Result<Self> {
        let head =
            Self { body_bytes: u32_at(bytes, 0), request: u32_at(bytes, 4), op: bytes[8], handle: u32_at(bytes, 12) };
        if head.body_bytes > MAX_REQUEST_BYTES {
            return bad(format!("a request of {} bytes, and {MAX_REQUEST_BYTES} are allowed", head.body_bytes));
        }
        if head.request == 0 || !(OPEN..=TOUCH_ITEMS).contains(&head.op) || bytes[9..12] != [0; 3] {
            return bad("a request that this version does not know");
        }
        Ok(head)
    }
}

/// An item or an object, borrowed from a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetRef<'a> {
    /// The object at a path.
    Path(&'a str),
    /// The item with an id.
    Item(u64),
    /// One version of one object.
    Object(ObjectId),
}

impl<'a> From<&'a Target> for TargetRef<'a> {
    fn from(target: &'a Target) -> Self {
        match target {
            Target::Path(path) => Self::Path(path),
            Target::Item(item) => Self::Item(*item),
        }
    }
}

/// What a request for cached bytes does about those that are on their way from the origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arriving {
    /// Waits a moment for them.
    Await,
    /// Takes them as not cached: the request never waits for the origin.
    Ignore,
}

/// A request, decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request<'a> {
    /// Opens a dataset at a snapshot, or at its newest.
    Open {
        /// The dataset's name.
        dataset: &'a str,
        /// The snapshot.
        snapshot: Option<[u8; 16]>,
    },
    /// Gives a handle back.
    Close,
    /// Asks for items.
    Get {
        /// Their ids.
        ids: Ids<'a>,
    },
    /// Asks for a range.
    Read {
        /// Of what.
        target: TargetRef<'a>,
        /// From where.
        offset: u64,
        /// How much; 0 means to the end.
        length: u64,
        /// The client's number for the open file that is read, by which its reads are known to belong together; unlike any
        /// other client's. Only for an object. 0: it does not say.
        reader: u64,
    },
    /// Asks for leases on the objects of items.
    Lease {
        /// The items' ids.
        ids: Ids<'a>,
    },
    /// Asks for leases on the objects of items that are whole objects and cached; fetches nothing.
    LeaseCached {
        /// The items' ids.
        ids: Ids<'a>,
    },
    /// Reports that items were read from leases which the client holds.
    TouchItems {
        /// The items' ids.
        ids: Ids<'a>,
    },
    /// Asks for a lease on an object.
    LeasePath {
        /// Its path.
        path: &'a str,
    },
    /// Gives leases back.
    Return {
        /// Their numbers.
        leases: Ids<'a>,
    },
    /// Asks whether the node is there.
    Ping,
    /// Asks for a batch of a job's plan.
    Next {
        /// Which.
        batch: BatchRequest,
        /// The numbers of batches of the same rank and epoch that were consumed meanwhile.
        acknowledged: Ids<'a>,
    },
    /// Asks what lies at a path.
    Lookup {
        /// Without slashes at its ends; empty: the root.
        path: &'a str,
    },
    /// Asks for entries of a directory.
    List {
        /// Its path, without slashes at its ends; empty: the root.
        path: &'a str,
        /// Of which snapshot; None: the newest.
        snapshot: Option<[u8; 16]>,
        /// Where in the snapshot to go on; 0: at the beginning.
        rank: u32,
        /// The name to go on behind if the snapshot is no longer kept.
        behind: &'a str,
        /// At most so many.
        count: u32,
    },
    /// Asks for the file of an object that is cached.
    LeaseObject {
        /// Which.
        object: ObjectId,
        /// Whether to wait for bytes that are on their way.
        arriving: Arriving,
    },
    /// Asks for the file of an object that is cached, or else for its bytes.
    OpenObject {
        /// Which.
        object: ObjectId,
        /// As for a read.
        reader: u64,
        /// Whether to wait for bytes that are on their way, and to fetch them.
        arriving: Arriving,
    },
    /// Asks what is known of an object.
    Describe {
        /// Which.
        object: ObjectId,
    },
    /// Tells that files which the client has were opened again.
    Touch {
        /// Which.
        objects: ObjectIds<'a>,
    },
    /// Asks for the cache file that has a range of an object, to read it from there.
    View {
        /// Which object.
        object: ObjectId,
        /// From where.
        offset: u64,
        /// How much.
        length: u64,
        /// As for a read.
        reader: u64,
        /// Whether to wait for bytes that are on their way.
        arriving: Arriving,
    },
    /// Reports leased files that the client has open, and whose descriptors come with the request.
    Renew {
        /// Whether to compare them with their checksums first.
        check: bool,
        /// The objects they are of.
        objects: ObjectIds<'a>,
    },
    /// Asks whether what was read from the last file that was shown is right.
    Viewed,
    /// Asks for bytes, as one node asks another.
    Give(Give<'a>),
    /// Begins to prove that both sides know the cluster's token.
    Meet {
        /// Random bytes.
        nonce: [u8; 16],
    },
    /// Proves it.
    Prove {
        /// The proof.
        proof: [u8; 32],
    },
    /// Tells a node that it owns bytes which the sender holds: it may fetch them, and answers when it has them or will not.
    Take(Give<'a>),
    /// Asks another node in words.
    Tell {
        /// A message of `peer.proto`, encoded.
        message: &'a [u8],
    },
}
