//! What a client asks.

use super::{Give, ObjectId, Result, bad, u32_at, u64_at};
use crate::{
    MAX_ACKNOWLEDGED, MAX_IDS, MAX_PATH_BYTES, Target,
    frames::{MAX_LEASES, MAX_REQUEST_BYTES, MAX_TOUCHED},
};
use fodder_policy::job::{BatchRequest, JobId};

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
        if head.request == 0 || !(OPEN..=OPEN_OBJECT).contains(&head.op) || bytes[9..12] != [0; 3] {
            return bad("a request that this version does not know");
        }
        Ok(head)
    }
}

/// Packed ids, as they came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ids<'a>(&'a [u8]);

impl<'a> Ids<'a> {
    fn decode(body: &'a [u8], most: usize) -> Result<Self> {
        if !body.len().is_multiple_of(8) || body.len() / 8 > most {
            return bad(format!("{} bytes of ids, and {most} ids of 8 bytes are allowed", body.len()));
        }
        Ok(Self(body))
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.0.len() / 8
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The id at an index below the length.
    pub fn get(&self, index: usize) -> u64 {
        u64_at(self.0, index * 8)
    }

    /// In the order asked.
    pub fn iter(&self) -> impl Iterator<Item = u64> + use<'a> {
        self.0.chunks_exact(8).map(|id| u64_at(id, 0))
    }
}

/// Packed objects, as they came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectIds<'a>(&'a [u8]);

impl<'a> ObjectIds<'a> {
    fn decode(body: &'a [u8]) -> Result<Self> {
        let most = MAX_TOUCHED;
        if !body.len().is_multiple_of(ObjectId::BYTES) || body.len() / ObjectId::BYTES > most {
            return bad(format!(
                "{} bytes of objects, and {most} of {} bytes are allowed",
                body.len(),
                ObjectId::BYTES
            ));
        }
        Ok(Self(body))
    }

    /// In the order sent.
    pub fn iter(&self) -> impl Iterator<Item = ObjectId> + use<'a> {
        let whole = self.0.chunks_exact(ObjectId::BYTES);
        whole.map(|bytes| ObjectId::decode(bytes.try_into().expect("an exact chunk")))
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
    },
    /// Asks for the file of an object that is cached, or else for its bytes.
    OpenObject {
        /// Which.
        object: ObjectId,
        /// As for a read.
        reader: u64,
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

/// A path or a name: text of a bounded length.
pub(super) fn text(bytes: &[u8], most: usize) -> Result<&str> {
    if bytes.len() > most {
        return bad(format!("a path or name of {} bytes, and {most} are allowed", bytes.len()));
    }
    std::str::from_utf8(bytes).or_else(|_| bad("a path or name that is not UTF-8"))
}

fn object(bytes: &[u8]) -> Result<ObjectId> {
    let bytes = bytes.try_into().or_else(|_| bad("an object cut short or too long"))?;
    Ok(ObjectId::decode(bytes))
}

/// The longest name of a dataset in a request.
const MAX_NAME_BYTES: usize = 255;

impl<'a> Request<'a> {
    /// From a head's op and the bytes behind it.
    pub fn decode(op: u8, body: &'a [u8]) -> Result<Self> {
        Ok(match op {
            OPEN => {
                let Some((head, name)) = body.split_at_checked(17) else { return bad("an open cut short") };
                let snapshot = <[u8; 16]>::try_from(&head[1..]).expect("sixteen bytes");
                let snapshot = match head[0] {
                    0 => None,
                    1 => Some(snapshot),
                    _ => return bad("an open with unknown flags"),
                };
                Self::Open { dataset: text(name, MAX_NAME_BYTES)?, snapshot }
            }
            CLOSE if body.is_empty() => Self::Close,
            GET => Self::Get { ids: Ids::decode(body, MAX_IDS)? },
            READ => {
                let Some((head, target)) = body.split_at_checked(16) else { return bad("a read cut short") };
                let (target, reader) = match target.split_first() {
                    Some((0, id)) if id.len() == 8 => (TargetRef::Item(u64_at(id, 0)), 0),
                    Some((1, path)) => (TargetRef::Path(text(path, MAX_PATH_BYTES)?), 0),
                    Some((2, id)) => (TargetRef::Object(object(id)?), 0),
                    Some((3, id)) if id.len() > 8 => {
                        let (reader, id) = id.split_at(8);
                        (TargetRef::Object(object(id)?), u64_at(reader, 0))
                    }
                    _ => return bad("a read of nothing"),
                };
                Self::Read { target, offset: u64_at(head, 0), length: u64_at(head, 8), reader }
            }
            LEASE => Self::Lease { ids: Ids::decode(body, MAX_LEASES)? },
            LEASE_PATH => Self::LeasePath { path: text(body, MAX_PATH_BYTES)? },
            RETURN => Self::Return { leases: Ids::decode(body, MAX_IDS)? },
            PING if body.is_empty() => Self::Ping,
            NEXT => {
                let Some((head, acknowledged)) = body.split_at_checked(32) else { return bad("a next cut short") };
                let batch = BatchRequest {
                    job: JobId(u64_at(head, 0)),
                    epoch: u64_at(head, 8),
                    number: u64_at(head, 16),
                    rank: u32_at(head, 24),
                    count: u32_at(head, 28),
                };
                Self::Next { batch, acknowledged: Ids::decode(acknowledged, MAX_ACKNOWLEDGED)? }
            }
            LOOKUP => Self::Lookup { path: text(body, MAX_PATH_BYTES)? },
            LIST => {
                let Some((head, names)) = body.split_at_checked(28) else { return bad("a list cut short") };
                let Some((path, behind)) = names.split_at_checked(u32_at(head, 24) as usize) else {
                    return bad("a list cut short");
                };
                let snapshot = <[u8; 16]>::try_from(&head[..16]).expect("sixteen bytes");
                Self::List {
                    path: text(path, MAX_PATH_BYTES)?,
                    snapshot: (snapshot != [0; 16]).then_some(snapshot),
                    rank: u32_at(head, 16),
                    behind: text(behind, MAX_PATH_BYTES)?,
                    count: u32_at(head, 20),
                }
            }
            LEASE_OBJECT => Self::LeaseObject { object: object(body)? },
            OPEN_OBJECT => {
                let Some((reader, id)) = body.split_at_checked(8) else { return bad("an open cut short") };
                Self::OpenObject { object: object(id)?, reader: u64_at(reader, 0) }
            }
            DESCRIBE => Self::Describe { object: object(body)? },
            TOUCH => Self::Touch { objects: ObjectIds::decode(body)? },
            VIEW => {
                let Some((head, id)) = body.split_at_checked(24) else { return bad("a view cut short") };
                let (offset, length, reader) = (u64_at(head, 0), u64_at(head, 8), u64_at(head, 16));
                Self::View { object: object(id)?, offset, length, reader }
            }
            VIEWED if body.is_empty() => Self::Viewed,
            GIVE => Self::Give(Give::decode(body)?),
            MEET => Self::Meet { nonce: body.try_into().or_else(|_| bad("a meet cut short or too long"))? },
            PROVE => Self::Prove { proof: body.try_into().or_else(|_| bad("a proof cut short or too long"))? },
            TAKE => Self::Take(Give::decode(body)?),
            TELL => Self::Tell { message: body },
            _ => return bad("a request that this version does not know"),
        })
    }

    /// Appends a whole request frame to `out`. Bounds are the caller's to keep; the other side checks them.
    pub fn encode(&self, request: u32, handle: u32, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; RequestHead::BYTES]);
        let op = match self {
            Self::Open { dataset, snapshot } => {
                out.push(u8::from(snapshot.is_some()));
                out.extend_from_slice(&snapshot.unwrap_or_default());
                out.extend_from_slice(dataset.as_bytes());
                OPEN
            }
            Self::Close => CLOSE,
            Self::Get { ids } => {
                out.extend_from_slice(ids.0);
                GET
            }
            Self::Read { target, offset, length, reader } => {
                out.extend_from_slice(&offset.to_le_bytes());
                out.extend_from_slice(&length.to_le_bytes());
                match target {
                    TargetRef::Item(id) => {
                        out.push(0);
                        out.extend_from_slice(&id.to_le_bytes());
                    }
                    TargetRef::Path(path) => {
                        out.push(1);
                        out.extend_from_slice(path.as_bytes());
                    }
                    TargetRef::Object(object) if *reader == 0 => {
                        out.push(2);
                        out.extend_from_slice(&object.encode());
                    }
                    TargetRef::Object(object) => {
                        out.push(3);
                        out.extend_from_slice(&reader.to_le_bytes());
                        out.extend_from_slice(&object.encode());
                    }
                }
                READ
            }
            Self::Lease { ids } => {
                out.extend_from_slice(ids.0);
                LEASE
            }
            Self::LeasePath { path } => {
                out.extend_from_slice(path.as_bytes());
                LEASE_PATH
            }
            Self::Return { leases } => {
                out.extend_from_slice(leases.0);
                RETURN
            }
            Self::Ping => PING,
            Self::Next { batch, acknowledged } => {
                for number in [batch.job.0, batch.epoch, batch.number] {
                    out.extend_from_slice(&number.to_le_bytes());
                }
                out.extend_from_slice(&batch.rank.to_le_bytes());
                out.extend_from_slice(&batch.count.to_le_bytes());
                out.extend_from_slice(acknowledged.0);
                NEXT
            }
            Self::View { object, offset, length, reader } => {
                for number in [offset, length, reader] {
                    out.extend_from_slice(&number.to_le_bytes());
                }
                out.extend_from_slice(&object.encode());
                VIEW
            }
            Self::Viewed => VIEWED,
            Self::Lookup { path } => {
                out.extend_from_slice(path.as_bytes());
                LOOKUP
            }
            Self::List { path, snapshot, rank, behind, count } => {
                out.extend_from_slice(&snapshot.unwrap_or_default());
                for number in [*rank, *count, path.len() as u32] {
                    out.extend_from_slice(&number.to_le_bytes());
                }
                out.extend_from_slice(path.as_bytes());
                out.extend_from_slice(behind.as_bytes());
                LIST
            }
            Self::LeaseObject { object } => {
                out.extend_from_slice(&object.encode());
                LEASE_OBJECT
            }
            Self::OpenObject { object, reader } => {
                out.extend_from_slice(&reader.to_le_bytes());
                out.extend_from_slice(&object.encode());
                OPEN_OBJECT
            }
            Self::Describe { object } => {
                out.extend_from_slice(&object.encode());
                DESCRIBE
            }
            Self::Touch { objects } => {
                out.extend_from_slice(objects.0);
                TOUCH
            }
            Self::Give(give) => {
                give.encode(out);
                GIVE
            }
            Self::Meet { nonce } => {
                out.extend_from_slice(nonce);
                MEET
            }
            Self::Prove { proof } => {
                out.extend_from_slice(proof);
                PROVE
            }
            Self::Take(give) => {
                give.encode(out);
                TAKE
            }
            Self::Tell { message } => {
                out.extend_from_slice(message);
                TELL
            }
        };
        let body_bytes = (out.len() - start - RequestHead::BYTES) as u32;
        let head = RequestHead { body_bytes, request, op, handle }.encode();
        out[start..start + RequestHead::BYTES].copy_from_slice(&head);
    }
}

/// Ids packed for a request, into a buffer that is used again.
pub(in crate::frames) fn pack<'a>(ids: &[u64], into: &'a mut Vec<u8>) -> Ids<'a> {
    into.clear();
    into.extend(ids.iter().flat_map(|id| id.to_le_bytes()));
    Ids(into)
}

/// Objects packed for a request.
pub(in crate::frames) fn pack_objects<'a>(objects: &[ObjectId], into: &'a mut Vec<u8>) -> ObjectIds<'a> {
    into.clear();
    into.extend(objects.iter().flat_map(ObjectId::encode));
    ObjectIds(into)
}
