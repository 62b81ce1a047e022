//! A request as bytes, and from bytes, whatever they are.

use super::{
    super::{bad, u32_at, u64_at},
    *,
};
use crate::{
    MAX_ACKNOWLEDGED, MAX_IDS, MAX_PATH_BYTES,
    frames::{MAX_LEASES, MAX_TOUCHED},
};
use fodder_policy::job::JobId;

/// A path or a name: text of a bounded length.
pub(in crate::frames::codec) fn text(bytes: &[u8], most: usize) -> Result<&str> {
    if bytes.len() > most {
        return bad(format!("a path or name of {} bytes, and {most} are allowed", bytes.len()));
    }
    std::str::from_utf8(bytes).or_else(|_| bad("a path or name that is not UTF-8"))
}

fn object(bytes: &[u8]) -> Result<ObjectId> {
    let bytes = bytes.try_into().or_else(|_| bad("an object cut short or too long"))?;
    Ok(ObjectId::decode(bytes))
}

/// An object, and behind it what to do about bytes that are on their way.
fn object_arriving(bytes: &[u8]) -> Result<(ObjectId, Arriving)> {
    let (id, flag) = bytes.split_at(bytes.len().min(ObjectId::BYTES));
    let arriving = match flag {
        [] => Arriving::Await,
        [1] => Arriving::Ignore,
        _ => return bad("an object with unknown flags"),
    };
    Ok((object(id)?, arriving))
}

impl Arriving {
    /// Absent as in the versions that do not know it, unless it must be said.
    fn encode(self, out: &mut Vec<u8>) {
        if self == Self::Ignore {
            out.push(1);
        }
    }
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
            LEASE_CACHED => Self::LeaseCached { ids: Ids::decode(body, MAX_LEASES)? },
            TOUCH_ITEMS => Self::TouchItems { ids: Ids::decode(body, MAX_IDS)? },
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
            LEASE_OBJECT => {
                let (object, arriving) = object_arriving(body)?;
                Self::LeaseObject { object, arriving }
            }
            OPEN_OBJECT => {
                let Some((reader, id)) = body.split_at_checked(8) else { return bad("an open cut short") };
                let (object, arriving) = object_arriving(id)?;
                Self::OpenObject { object, reader: u64_at(reader, 0), arriving }
            }
            DESCRIBE => Self::Describe { object: object(body)? },
            TOUCH => Self::Touch { objects: ObjectIds::decode(body, MAX_TOUCHED)? },
            RENEW => {
                let Some((check @ (0 | 1), objects)) = body.split_first() else { return bad("a renewal cut short") };
                Self::Renew { check: *check == 1, objects: ObjectIds::decode(objects, MAX_LEASES)? }
            }
            VIEW => {
                let Some((head, id)) = body.split_at_checked(24) else { return bad("a view cut short") };
                let (offset, length, reader) = (u64_at(head, 0), u64_at(head, 8), u64_at(head, 16));
                let (object, arriving) = object_arriving(id)?;
                Self::View { object, offset, length, reader, arriving }
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
            Self::LeaseCached { ids } => {
                out.extend_from_slice(ids.0);
                LEASE_CACHED
            }
            Self::TouchItems { ids } => {
                out.extend_from_slice(ids.0);
                TOUCH_ITEMS
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
            Self::View { object, offset, length, reader, arriving } => {
                for number in [offset, length, reader] {
                    out.extend_from_slice(&number.to_le_bytes());
                }
                out.extend_from_slice(&object.encode());
                arriving.encode(out);
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
            Self::LeaseObject { object, arriving } => {
                out.extend_from_slice(&object.encode());
                arriving.encode(out);
                LEASE_OBJECT
            }
            Self::OpenObject { object, reader, arriving } => {
                out.extend_from_slice(&reader.to_le_bytes());
                out.extend_from_slice(&object.encode());
                arriving.encode(out);
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
            Self::Renew { check, objects } => {
                out.push(u8::from(*check));
                out.extend_from_slice(objects.0);
                RENEW
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
