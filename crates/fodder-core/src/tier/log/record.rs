//! The records of the index log, to bytes and back.

use super::array;
use crate::id::FileKey;

/// One fact of the index. Datasets are named by the number under which the log defined them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::tier) enum Record {
    /// From here on this number means this dataset with this grid. Numbers are given in order.
    Define { dataset: u16, piece_bytes: u32, name: String },
    /// Nothing of the dataset is here any more.
    Forget { dataset: u16 },
    /// These consecutive pieces of a file are durable and have these checksums.
    Pieces { dataset: u16, key: FileKey, size: u64, first: u32, crcs: Vec<u32> },
    /// A small object is durable in this cell of the group file of its size, and its bytes have this checksum.
    Cell { dataset: u16, key: FileKey, size: u32, cell: u32, crc: u32 },
    /// One piece of a file left.
    DropPiece { dataset: u16, key: FileKey, index: u32 },
    /// The whole file, or the small object, left.
    DropFile { dataset: u16, key: FileKey },
    /// A node opened the tier.
    Opened,
    /// The node closed it in order: there are no files that the index does not know.
    Closed,
}

const DEFINE: u8 = 1;
const FORGET: u8 = 2;
const PIECES: u8 = 3;
const DROP_PIECE: u8 = 4;
const DROP_FILE: u8 = 5;
const OPENED: u8 = 6;
const CLOSED: u8 = 7;
const CELL: u8 = 8;

/// Checksums in one record.
const RUN: usize = 255;
/// Bytes of a record that names a single piece.
pub(in crate::tier) const PIECE_RECORD: u64 = 36;
/// Bytes of a record of a small object, the shortest of which there are many.
pub(super) const CELL_RECORD: u64 = 32;

impl Record {
    /// Appends the record (long runs of pieces as several).
    pub(in crate::tier) fn encode(&self, to: &mut Vec<u8>) {
        let head = |to: &mut Vec<u8>, kind: u8, count: u8, dataset: u16| {
            to.extend_from_slice(&[kind, count]);
            to.extend_from_slice(&dataset.to_le_bytes());
        };
        match self {
            Record::Define { dataset, piece_bytes, name } => {
                head(to, DEFINE, name.len() as u8, *dataset);
                to.extend_from_slice(&piece_bytes.to_le_bytes());
                to.extend_from_slice(name.as_bytes());
            }
            Record::Forget { dataset } => head(to, FORGET, 0, *dataset),
            Record::Pieces { dataset, key, size, first, crcs } => {
                for (run, crcs) in crcs.chunks(RUN).enumerate() {
                    head(to, PIECES, crcs.len() as u8, *dataset);
                    to.extend_from_slice(&key.0);
                    to.extend_from_slice(&size.to_le_bytes());
                    to.extend_from_slice(&(first + (run * RUN) as u32).to_le_bytes());
                    crcs.iter().for_each(|crc| to.extend_from_slice(&crc.to_le_bytes()));
                }
            }
            Record::Cell { dataset, key, size, cell, crc } => {
                head(to, CELL, 0, *dataset);
                to.extend_from_slice(&key.0);
                [size, cell, crc].iter().for_each(|number| to.extend_from_slice(&number.to_le_bytes()));
            }
            Record::DropPiece { dataset, key, index } => {
                head(to, DROP_PIECE, 0, *dataset);
                to.extend_from_slice(&key.0);
                to.extend_from_slice(&index.to_le_bytes());
            }
            Record::DropFile { dataset, key } => {
                head(to, DROP_FILE, 0, *dataset);
                to.extend_from_slice(&key.0);
            }
            Record::Opened => head(to, OPENED, 0, 0),
            Record::Closed => head(to, CLOSED, 0, 0),
        }
    }

    /// Takes one record off the front; None if the bytes are none.
    pub(in crate::tier) fn decode(from: &mut &[u8]) -> Option<Record> {
        let head: [u8; 4] = array(take(from, 4)?);
        let (kind, count, dataset) = (head[0], usize::from(head[1]), u16::from_le_bytes([head[2], head[3]]));
        Some(match kind {
            DEFINE => {
                let piece_bytes = u32::from_le_bytes(array(take(from, 4)?));
                let name = String::from_utf8(take(from, count)?.to_vec()).ok()?;
                Record::Define { dataset, piece_bytes, name }
            }
            FORGET => Record::Forget { dataset },
            PIECES => {
                let run = Run::decode(from, dataset, count)?;
                Record::Pieces { dataset, key: run.key, size: run.size, first: run.first, crcs: run.crcs().collect() }
            }
            CELL => {
                let key = FileKey(array(take(from, 16)?));
                let mut number = || Some(u32::from_le_bytes(array(take(from, 4)?)));
                Record::Cell { dataset, key, size: number()?, cell: number()?, crc: number()? }
            }
            DROP_PIECE => {
                let key = FileKey(array(take(from, 16)?));
                Record::DropPiece { dataset, key, index: u32::from_le_bytes(array(take(from, 4)?)) }
            }
            DROP_FILE => Record::DropFile { dataset, key: FileKey(array(take(from, 16)?)) },
            OPENED => Record::Opened,
            CLOSED => Record::Closed,
            _ => return None,
        })
    }
}

/// A [`Record::Pieces`] as it lies in the log: a start reads millions of them, and none needs memory of its own.
pub(super) struct Run<'a> {
    pub(super) dataset: u16,
    pub(super) key: FileKey,
    pub(super) size: u64,
    pub(super) first: u32,
    crcs: &'a [u8],
}

impl<'a> Run<'a> {
    /// Takes one off the front, if the next record is one.
    pub(super) fn next(from: &mut &'a [u8]) -> Option<Self> {
        let &[PIECES, count, low, high, ..] = *from else { return None };
        let mut rest = &from[4..];
        let run = Self::decode(&mut rest, u16::from_le_bytes([low, high]), usize::from(count))?;
        *from = rest;
        Some(run)
    }

    fn decode(from: &mut &'a [u8], dataset: u16, count: usize) -> Option<Self> {
        let key = FileKey(array(take(from, 16)?));
        let size = u64::from_le_bytes(array(take(from, 8)?));
        let first = u32::from_le_bytes(array(take(from, 4)?));
        first.checked_add(count as u32)?;
        Some(Self { dataset, key, size, first, crcs: take(from, 4 * count)? })
    }

    pub(super) fn crcs(&self) -> impl Iterator<Item = u32> + 'a {
        self.crcs.chunks_exact(4).map(|crc| u32::from_le_bytes(array(crc)))
    }
}

fn take<'a>(from: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (taken, rest) = from.split_at_checked(len)?;
    *from = rest;
    Some(taken)
}
