//! What nodes of a cluster say to each other: a proof that they belong together, and bytes with their checksums.

use super::{Result, bad, request::text, u16_at, u32_at, u64_at};
use crate::MAX_PATH_BYTES;

/// The longest name of a dataset in a request.
const MAX_NAME_BYTES: usize = 255;

/// Asks another node for bytes of one version of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Give<'a> {
    /// The dataset's name.
    pub dataset: &'a str,
    /// The object's path.
    pub path: &'a str,
    /// Which version of it.
    pub key: [u8; 16],
    /// From where.
    pub offset: u64,
    /// How much. Not 0.
    pub length: u64,
    /// Only what the node has in its tiers, or the origin is sending it, is wanted.
    pub only_held: bool,
    /// The owner does not answer: the node is asked in its place. Together with `only_held`: the node may not have heard yet
    /// that it is the owner no more; if it takes itself for the owner, it is to fetch.
    pub stand_in: bool,
    /// Only what the node can send without waiting is wanted. From [a version](crate::frames::HANDS_SINCE) on, and then several
    /// such requests may follow each other before the first is answered.
    pub at_hand: bool,
    /// Bytes came that did not match their checksum: the node is to compare what it has of them before it sends any. From
    /// [a version](crate::frames::COMPARES_SINCE) on.
    pub again: bool,
}

impl<'a> Give<'a> {
    const HEAD_BYTES: usize = 36;

    pub(super) fn decode(body: &'a [u8]) -> Result<Self> {
        let Some((head, names)) = body.split_at_checked(Self::HEAD_BYTES) else { return bad("a give cut short") };
        let (flags, name_bytes) = (head[32], u16_at(head, 34) as usize);
        let Some((dataset, path)) = names.split_at_checked(name_bytes) else { return bad("a give cut short") };
        let (offset, length) = (u64_at(head, 0), u64_at(head, 8));
        if flags > 15 || head[33] != 0 || length == 0 || offset.checked_add(length).is_none() {
            return bad("a give of nothing, or with unknown flags");
        }
        Ok(Self {
            dataset: text(dataset, MAX_NAME_BYTES)?,
            path: text(path, MAX_PATH_BYTES)?,
            key: head[16..32].try_into().expect("sixteen bytes"),
            offset,
            length,
            only_held: flags & 1 != 0,
            stand_in: flags & 2 != 0,
            at_hand: flags & 4 != 0,
            again: flags & 8 != 0,
        })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.offset.to_le_bytes());
        out.extend_from_slice(&self.length.to_le_bytes());
        out.extend_from_slice(&self.key);
        let flags = [self.only_held, self.stand_in, self.at_hand, self.again];
        out.extend_from_slice(&[flags.iter().rev().fold(0, |all, flag| all << 1 | u8::from(*flag)), 0]);
        out.extend_from_slice(&(self.dataset.len() as u16).to_le_bytes());
        out.extend_from_slice(self.dataset.as_bytes());
        out.extend_from_slice(self.path.as_bytes());
    }
}

/// What follows the head of a PART, before its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartHead {
    /// The CRC-32C of the part's bytes.
    pub crc: u32,
    /// Where in the object they begin.
    pub offset: u64,
    /// Where in the object the answer ends.
    pub end: u64,
    /// Bytes of the object.
    pub object_bytes: u64,
}

impl PartHead {
    /// Bytes of it.
    pub const BYTES: usize = 32;

    /// As it is sent.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.crc.to_le_bytes());
        for (index, number) in [self.offset, self.end, self.object_bytes].into_iter().enumerate() {
            bytes[8 + index * 8..16 + index * 8].copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    /// From what was received.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Self {
        let (offset, end, object_bytes) = (u64_at(bytes, 8), u64_at(bytes, 16), u64_at(bytes, 24));
        Self { crc: u32_at(bytes, 0), offset, end, object_bytes }
    }
}

/// What follows the head of a MET: the node's half of the greeting, and its proof that it knows the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetHead {
    /// Random bytes of the node.
    pub nonce: [u8; 16],
    /// The node's proof.
    pub proof: [u8; 32],
}

impl MetHead {
    /// Bytes of it.
    pub const BYTES: usize = 48;

    /// As it is sent.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..16].copy_from_slice(&self.nonce);
        bytes[16..].copy_from_slice(&self.proof);
        bytes
    }

    /// From what was received.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Self {
        let (nonce, proof) = bytes.split_at(16);
        Self { nonce: nonce.try_into().expect("sixteen bytes"), proof: proof.try_into().expect("thirty-two bytes") }
    }
}

/// The checksum that parts carry: CRC-32C.
pub fn checksum(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// The same [`checksum`] of bytes that come bit by bit.
#[derive(Debug)]
pub struct RunningChecksum(crc_fast::Digest);

impl RunningChecksum {
    /// Of the first bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
        digest.update(bytes);
        Self(digest)
    }

    /// More bytes have come.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Of all that came.
    pub fn value(&self) -> u32 {
        self.0.finalize() as u32
    }
}
