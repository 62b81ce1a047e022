//! Frames to bytes and back: pure functions over slices. Nothing here reads, writes or allocates by what a length says.

mod give;
mod object;
mod reply;
mod request;

pub(super) use request::{pack, pack_objects};
pub use {
    give::{Give, MetHead, PartHead, RunningChecksum, checksum},
    object::{EntriesHead, Entry, LinkInfo, ObjectId, ObjectInfo},
    reply::{BatchHead, Flags, ItemHead, Kind, LeaseHead, ObjectHead, OpenedHead, RenewStatus, Renewed, ReplyHead},
    request::{Arriving, Ids, ObjectIds, Request, RequestHead, TargetRef},
};

use super::{MAGIC, VERSIONS};

/// Why bytes are not a frame. The connection they came from is of no further use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadFrame(pub String);

type Result<T> = std::result::Result<T, BadFrame>;

fn bad<T>(text: impl Into<String>) -> Result<T> {
    Err(BadFrame(text.into()))
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// What a client begins with: the versions it speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// The oldest version.
    pub oldest: u16,
    /// The newest version.
    pub newest: u16,
}

impl Hello {
    /// Bytes of a hello, from either side.
    pub const BYTES: usize = 8;

    /// What this code says.
    pub const OURS: Self = Self { oldest: VERSIONS.0, newest: VERSIONS.1 };

    /// As it is sent.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        encode_hello(self.oldest, self.newest)
    }

    /// From what was received.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Result<Self> {
        let (oldest, newest) = decode_hello(bytes)?;
        if oldest == 0 || oldest > newest {
            return bad("a hello without a version");
        }
        Ok(Self { oldest, newest })
    }

    /// The node's answer: the newest version that both speak.
    pub fn answer(&self) -> HelloReply {
        let newest = self.newest.min(VERSIONS.1);
        let common = newest >= self.oldest.max(VERSIONS.0);
        HelloReply { version: if common { newest } else { 0 }, newest: VERSIONS.1 }
    }
}

/// What a node answers: the version that will be spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HelloReply {
    /// The version; 0 if there is none in common.
    pub version: u16,
    /// The newest version the node speaks.
    pub newest: u16,
}

impl HelloReply {
    /// As it is sent.
    pub fn encode(&self) -> [u8; Hello::BYTES] {
        encode_hello(self.version, self.newest)
    }

    /// From what was received.
    pub fn decode(bytes: &[u8; Hello::BYTES]) -> Result<Self> {
        let (version, newest) = decode_hello(bytes)?;
        Ok(Self { version, newest })
    }
}

fn encode_hello(first: u16, second: u16) -> [u8; Hello::BYTES] {
    let mut bytes = [0; Hello::BYTES];
    bytes[..4].copy_from_slice(&MAGIC);
    bytes[4..6].copy_from_slice(&first.to_le_bytes());
    bytes[6..].copy_from_slice(&second.to_le_bytes());
    bytes
}

fn decode_hello(bytes: &[u8; Hello::BYTES]) -> Result<(u16, u16)> {
    if bytes[..4] != MAGIC {
        return bad("the other side does not speak the frames protocol of Fodder");
    }
    Ok((u16_at(bytes, 4), u16_at(bytes, 6)))
}

#[cfg(test)]
mod tests;
