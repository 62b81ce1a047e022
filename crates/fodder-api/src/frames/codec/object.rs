//! Objects by what never changes about them, and directories of them.

use super::{Result, bad, u16_at, u32_at, u64_at};

/// One version of one object of a dataset: where the catalog has it, and which bytes it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ObjectId {
    /// Its slot in the dataset's catalog.
    pub slot: u32,
    /// A hash of dataset, path and version. If the slot has another, the object is stale.
    pub key: [u8; 16],
}

impl ObjectId {
    /// Bytes of it.
    pub const BYTES: usize = 20;

    /// As it is sent.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.slot.to_le_bytes());
        bytes[4..].copy_from_slice(&self.key);
        bytes
    }

    /// From what was received.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Self {
        Self { slot: u32_at(bytes, 0), key: bytes[4..].try_into().expect("sixteen bytes") }
    }
}

/// What is known of one object, as a directory shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectInfo {
    /// Which.
    pub id: ObjectId,
    /// Its bytes.
    pub size: u64,
    /// When it was last written, in nanoseconds since 1970, where the origin tells.
    pub modified_ns: Option<i64>,
}

/// A symbolic link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkInfo<'a> {
    /// What it says: a relative path that stays in the dataset.
    pub target: &'a str,
    /// When it was made, in nanoseconds since 1970.
    pub modified_ns: i64,
}

/// One entry of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Its name, without a slash.
    pub name: &'a str,
    /// The object it is, or leads to; None: a directory.
    pub object: Option<ObjectInfo>,
    /// It is a symbolic link.
    pub link: Option<LinkInfo<'a>>,
    /// Where the listing goes on behind it, in the same snapshot. Never 0.
    pub next: u32,
}

const UNKNOWN_TIME: i64 = i64::MIN;

impl<'a> Entry<'a> {
    /// Bytes of it before its name.
    pub const BYTES: usize = 44;

    /// The most bytes it has with a name and a target of so many.
    pub const fn most_bytes(name: usize, target: usize) -> usize {
        Self::BYTES + name + LINK_BYTES + target
    }

    /// Appends it to `out`. Its name and its target have at most 65,535 bytes each.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[u8::from(self.object.is_none()), u8::from(self.link.is_some())]);
        out.extend_from_slice(&(self.name.len() as u16).to_le_bytes());
        out.extend_from_slice(&self.next.to_le_bytes());
        let nothing = ObjectInfo { id: ObjectId { slot: 0, key: [0; 16] }, size: 0, modified_ns: Some(0) };
        let ObjectInfo { id, size, modified_ns } = self.object.unwrap_or(nothing);
        out.extend_from_slice(&id.encode());
        out.extend_from_slice(&size.to_le_bytes());
        out.extend_from_slice(&modified_ns.unwrap_or(UNKNOWN_TIME).to_le_bytes());
        out.extend_from_slice(self.name.as_bytes());
        if let Some(LinkInfo { target, modified_ns }) = self.link {
            out.extend_from_slice(&modified_ns.to_le_bytes());
            out.extend_from_slice(&(target.len() as u16).to_le_bytes());
            out.extend_from_slice(target.as_bytes());
        }
    }

    /// The entry that `rest` begins with, which is then what is behind it.
    pub fn decode(rest: &mut &'a [u8]) -> Result<Self> {
        let Some((head, behind)) = rest.split_at_checked(Self::BYTES) else { return bad("an entry cut short") };
        let Some((name, behind)) = behind.split_at_checked(usize::from(u16_at(head, 2))) else {
            return bad("a name cut short");
        };
        let name = std::str::from_utf8(name).or_else(|_| bad("a name that is not UTF-8"))?;
        let object = ObjectInfo {
            id: ObjectId::decode(head[8..28].try_into().expect("twenty bytes")),
            size: u64_at(head, 28),
            modified_ns: Some(u64_at(head, 36) as i64).filter(|time| *time != UNKNOWN_TIME),
        };
        *rest = behind;
        let link = if head[1] == 0 { None } else { Some(LinkInfo::decode(rest)?) };
        Ok(Self { name, object: (head[0] == 0).then_some(object), link, next: u32_at(head, 4) })
    }
}

/// Bytes of a link before its target.
const LINK_BYTES: usize = 10;

impl<'a> LinkInfo<'a> {
    /// The link that `rest` begins with, which is then what is behind it.
    fn decode(rest: &mut &'a [u8]) -> Result<Self> {
        let Some((head, behind)) = rest.split_at_checked(LINK_BYTES) else { return bad("a link cut short") };
        let Some((target, behind)) = behind.split_at_checked(usize::from(u16_at(head, 8))) else {
            return bad("a link's target cut short");
        };
        let target = std::str::from_utf8(target).or_else(|_| bad("a link's target that is not UTF-8"))?;
        *rest = behind;
        Ok(Self { target, modified_ns: u64_at(head, 0).cast_signed() })
    }
}

/// What follows the head of an ENTRIES, before the entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntriesHead {
    /// The snapshot they are of.
    pub snapshot: [u8; 16],
    /// How many there are.
    pub count: u32,
    /// Nothing is behind them.
    pub end: bool,
}

impl EntriesHead {
    /// Bytes of it.
    pub const BYTES: usize = 24;

    /// As it is sent.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..16].copy_from_slice(&self.snapshot);
        bytes[16..20].copy_from_slice(&self.count.to_le_bytes());
        bytes[20] = u8::from(self.end);
        bytes
    }

    /// From what was received.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Self {
        let snapshot = bytes[..16].try_into().expect("sixteen bytes");
        Self { snapshot, count: u32_at(bytes, 16), end: bytes[20] != 0 }
    }
}
