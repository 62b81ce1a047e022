//! What a node answers.

use super::{EntriesHead, MetHead, PartHead, Result, bad, u32_at, u64_at};
use crate::{Delivery, Source, frames::MAX_REPLY_BYTES, v1::ErrorCode};

/// What a reply frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A dataset was opened.
    Opened = 1,
    /// Done, and nothing to say.
    Done = 2,
    /// An item, or a part of one.
    Item = 3,
    /// A lease.
    Lease = 4,
    /// A request failed, or the connection ends.
    Error = 5,
    /// How many items follow.
    Batch = 6,
    /// Entries of a directory.
    Entries = 7,
    /// What is known of an object.
    Object = 8,
    /// Bytes for another node.
    Part = 9,
    /// The node's half of a greeting between nodes.
    Met = 10,
    /// The bytes will come: the node waits for them itself.
    Coming = 11,
    /// What a node answers in words.
    Told = 12,
    /// A cache file to read from.
    View = 13,
    /// What became of leases that were reported.
    Renewed = 14,
}

/// Flags of a reply.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flags {
    /// There is a label.
    pub label: bool,
    /// The item goes on in the next frame.
    pub more: bool,
    /// A file descriptor came with the frame.
    pub descriptor: bool,
}

/// The first 16 bytes of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyHead {
    /// How many bytes follow.
    pub body_bytes: u32,
    /// The request it answers; 0: the connection.
    pub request: u32,
    /// What it is.
    pub kind: Kind,
    /// Where the bytes came from.
    pub source: Source,
    /// [`ErrorCode::Unspecified`] is success.
    pub status: ErrorCode,
    /// See there.
    pub flags: Flags,
    /// The place in the request of the id that is answered.
    pub index: u32,
}

impl ReplyHead {
    /// Bytes of a head.
    pub const BYTES: usize = 16;

    /// A head that says neither source nor failure.
    pub fn new(kind: Kind, request: u32, body_bytes: usize) -> Self {
        let (source, status) = (Source::Unspecified, ErrorCode::Unspecified);
        Self { body_bytes: body_bytes as u32, request, kind, source, status, flags: Flags::default(), index: 0 }
    }

    /// As it is sent.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.body_bytes.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.request.to_le_bytes());
        bytes[8] = self.kind as u8;
        bytes[9] = self.source as u8;
        bytes[10] = self.status as u8;
        let Flags { label, more, descriptor } = self.flags;
        bytes[11] = u8::from(label) | u8::from(more) << 1 | u8::from(descriptor) << 2;
        bytes[12..].copy_from_slice(&self.index.to_le_bytes());
        bytes
    }

    /// From what was received; the length is within bounds. A source that this version does not know is unspecified.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Result<Self> {
        let body_bytes = u32_at(bytes, 0);
        if body_bytes > MAX_REPLY_BYTES {
            return bad(format!("a reply of {body_bytes} bytes, and {MAX_REPLY_BYTES} are allowed"));
        }
        let kind = match bytes[8] {
            1 => Kind::Opened,
            2 => Kind::Done,
            3 => Kind::Item,
            4 => Kind::Lease,
            5 => Kind::Error,
            6 => Kind::Batch,
            7 => Kind::Entries,
            8 => Kind::Object,
            9 => Kind::Part,
            10 => Kind::Met,
            11 => Kind::Coming,
            12 => Kind::Told,
            13 => Kind::View,
            14 => Kind::Renewed,
            _ => return bad("a reply that this version does not know"),
        };
        let least = match kind {
            Kind::Opened => OpenedHead::BYTES,
            Kind::Item => ItemHead::BYTES,
            Kind::Lease => LeaseHead::BYTES,
            Kind::Batch => BatchHead::BYTES,
            Kind::Entries => EntriesHead::BYTES,
            Kind::Object => ObjectHead::BYTES,
            Kind::Part => PartHead::BYTES,
            Kind::Met => MetHead::BYTES,
            Kind::Done | Kind::Error | Kind::Coming | Kind::Told | Kind::View | Kind::Renewed => 0,
        };
        if (body_bytes as usize) < least || bytes[11] > 7 {
            return bad("a reply cut short");
        }
        Ok(Self {
            body_bytes,
            request: u32_at(bytes, 4),
            kind,
            source: Source::try_from(i32::from(bytes[9])).unwrap_or(Source::Unspecified),
            status: match bytes[10] {
                0 => ErrorCode::Unspecified,
                code => ErrorCode::try_from(i32::from(code)).unwrap_or(ErrorCode::Internal),
            },
            flags: Flags { label: bytes[11] & 1 != 0, more: bytes[11] & 2 != 0, descriptor: bytes[11] & 4 != 0 },
            index: u32_at(bytes, 12),
        })
    }
}

/// What follows the head of an OPENED.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenedHead {
    /// What to call the open dataset in requests. Not 0.
    pub handle: u32,
    /// Objects in the snapshot.
    pub objects: u32,
    /// The snapshot.
    pub snapshot: [u8; 16],
    /// Items in the snapshot.
    pub items: u64,
    /// Bytes of all objects in the snapshot.
    pub bytes: u64,
}

impl OpenedHead {
    /// Bytes of it.
    pub const BYTES: usize = 40;

    /// As it is sent.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.handle.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.objects.to_le_bytes());
        bytes[8..24].copy_from_slice(&self.snapshot);
        bytes[24..32].copy_from_slice(&self.items.to_le_bytes());
        bytes[32..].copy_from_slice(&self.bytes.to_le_bytes());
        bytes
    }

    /// From what was received.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Self {
        let snapshot = bytes[8..24].try_into().expect("sixteen bytes");
        let (handle, objects) = (u32_at(bytes, 0), u32_at(bytes, 4));
        Self { handle, objects, snapshot, items: u64_at(bytes, 24), bytes: u64_at(bytes, 32) }
    }
}

/// What follows the head of a BATCH.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchHead {
    /// How many items follow, each as an ITEM.
    pub items: u32,
}

impl BatchHead {
    /// Bytes of it.
    pub const BYTES: usize = 8;

    /// As it is sent.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        u64::from(self.items).to_le_bytes()
    }

    /// From what was received.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Self {
        Self { items: u32_at(bytes, 0) }
    }
}

/// What follows the head of an ITEM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ItemHead {
    /// Its class, if the flag says so.
    pub label: u32,
    /// How it relates to the plan of the job that asked.
    pub delivery: Delivery,
    /// The id that was asked for.
    pub asked: u64,
    /// The id that is served.
    pub served: u64,
    /// Bytes of the whole item.
    pub size: u64,
}

impl ItemHead {
    /// Bytes of it.
    pub const BYTES: usize = 32;

    /// As it is sent.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.label.to_le_bytes());
        bytes[4] = self.delivery as u8;
        bytes[8..16].copy_from_slice(&self.asked.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.served.to_le_bytes());
        bytes[24..].copy_from_slice(&self.size.to_le_bytes());
        bytes
    }

    /// From what was received. A delivery that this version does not know is unspecified.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Self {
        Self {
            label: u32_at(bytes, 0),
            delivery: Delivery::try_from(i32::from(bytes[4])).unwrap_or(Delivery::Unspecified),
            asked: u64_at(bytes, 8),
            served: u64_at(bytes, 16),
            size: u64_at(bytes, 24),
        }
    }
}

/// What follows the head of a LEASE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseHead {
    /// Its class, if the flag says so.
    pub label: u32,
    /// The id that was asked for.
    pub asked: u64,
    /// The id that is served.
    pub served: u64,
    /// The lease's number, to give it back with; one for each object that a connection has leased.
    pub lease: u64,
    /// Bytes of the object, and of the file.
    pub object_bytes: u64,
    /// Where the item begins in the file.
    pub offset: u64,
    /// Bytes of the item.
    pub length: u64,
}

impl LeaseHead {
    /// Bytes of it.
    pub const BYTES: usize = 56;

    /// As it is sent.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.label.to_le_bytes());
        let numbers = [self.asked, self.served, self.lease, self.object_bytes, self.offset, self.length];
        for (index, number) in numbers.into_iter().enumerate() {
            bytes[8 + index * 8..16 + index * 8].copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    /// From what was received.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Self {
        Self {
            label: u32_at(bytes, 0),
            asked: u64_at(bytes, 8),
            served: u64_at(bytes, 16),
            lease: u64_at(bytes, 24),
            object_bytes: u64_at(bytes, 32),
            offset: u64_at(bytes, 40),
            length: u64_at(bytes, 48),
        }
    }
}

/// What follows the head of an OBJECT, before its version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectHead {
    /// Bytes of it that are cached.
    pub cached_bytes: u64,
}

impl ObjectHead {
    /// Bytes of it.
    pub const BYTES: usize = 8;

    /// As it is sent.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        self.cached_bytes.to_le_bytes()
    }

    /// From what was received.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Self {
        Self { cached_bytes: u64::from_le_bytes(*bytes) }
    }
}

/// What a node says of a file that was reported to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum RenewStatus {
    /// It was not compared with its checksums.
    Unchecked = 0,
    /// It matches its checksums.
    Good = 1,
    /// The node has another file for the object, or none.
    Evicted = 2,
    /// It does not match its checksums.
    Corrupt = 3,
}

/// One answer in a RENEWED.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Renewed {
    /// The lease's number, to give it back with; 0: the node does not count the file.
    pub lease: u64,
    /// What is known of the file.
    pub status: RenewStatus,
}

impl Renewed {
    /// Bytes of it.
    pub const BYTES: usize = 9;

    /// As it is sent.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.lease.to_le_bytes());
        bytes[8] = self.status as u8;
        bytes
    }

    /// From what was received. A status that this version does not know is unchecked.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Self {
        let status = match bytes[8] {
            1 => RenewStatus::Good,
            2 => RenewStatus::Evicted,
            3 => RenewStatus::Corrupt,
            _ => RenewStatus::Unchecked,
        };
        Self { lease: u64_at(bytes, 0), status }
    }
}
