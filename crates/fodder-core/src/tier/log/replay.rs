//! What the index log says after a start: for every dataset the files with their durable pieces.

use super::{
    GROUP_HEADER, LONGEST_GROUP, Record, array, group_crc,
    record::{CELL_RECORD, Run},
};
use crate::id::FileKey;
use rustc_hash::FxHashMap;
use std::{
    collections::HashMap,
    fs::File,
    hash::{BuildHasherDefault, Hasher},
    io::{BufReader, ErrorKind, Read, Seek, SeekFrom},
    sync::atomic::AtomicBool,
};

/// A dataset the log speaks of; its number is its place.
#[derive(Debug, Default)]
pub(in crate::tier) struct Dataset {
    pub(in crate::tier) name: String,
    pub(in crate::tier) piece_bytes: u32,
    pub(in crate::tier) forgotten: bool,
    pub(in crate::tier) files: FoundFiles,
}

/// One file of the index.
#[derive(Debug)]
pub(in crate::tier) struct Found {
    pub(in crate::tier) size: u64,
    pub(in crate::tier) pieces: Pieces,
    /// Set by the object that takes it over.
    pub(in crate::tier) claimed: AtomicBool,
}

/// The durable pieces of a file: index and checksum. Most files have one, which costs no allocation.
#[derive(Debug)]
pub(in crate::tier) enum Pieces {
    One(u32, u32),
    Many(Box<FxHashMap<u32, u32>>),
    /// Of a small object: its cell and its checksum.
    Cell(u32, u32),
}

impl Pieces {
    pub(in crate::tier) fn for_each(&self, mut f: impl FnMut(u32, u32)) {
        match self {
            Pieces::One(index, crc) => f(*index, *crc),
            Pieces::Many(many) => many.iter().for_each(|(&index, &crc)| f(index, crc)),
            Pieces::Cell(_, crc) => f(0, *crc),
        }
    }

    pub(in crate::tier) fn len(&self) -> usize {
        match self {
            Pieces::One(..) | Pieces::Cell(..) => 1,
            Pieces::Many(many) => many.len(),
        }
    }

    fn insert(&mut self, index: u32, crc: u32) {
        match self {
            Pieces::Cell(..) => *self = Pieces::One(index, crc),
            Pieces::One(at, old) if *at == index => *old = crc,
            Pieces::One(at, old) => *self = Pieces::Many(Box::new(FxHashMap::from_iter([(*at, *old), (index, crc)]))),
            Pieces::Many(many) => _ = many.insert(index, crc),
        }
    }

    /// The cell of a small object.
    pub(in crate::tier) fn cell(&self) -> Option<u32> {
        if let Pieces::Cell(cell, _) = self { Some(*cell) } else { None }
    }

    /// Whether nothing is left.
    fn remove(&mut self, index: u32) -> bool {
        match self {
            Pieces::One(at, _) => *at == index,
            Pieces::Cell(..) => true,
            Pieces::Many(many) => {
                many.remove(&index);
                many.is_empty()
            }
        }
    }
}

/// Files by key. Keys are hashes already.
pub(in crate::tier) type FoundFiles = HashMap<u128, Found, BuildHasherDefault<KeyHasher>>;

#[derive(Debug, Default, Clone, Copy)]
pub(in crate::tier) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.0 = self.0.rotate_left(8) ^ u64::from(byte));
    }
    fn write_u128(&mut self, key: u128) {
        self.0 = key as u64;
    }
}

pub(in crate::tier) fn number(key: FileKey) -> u128 {
    u128::from_be_bytes(key.0)
}

/// What a log said.
#[derive(Debug, Default)]
pub(in crate::tier) struct Replay {
    pub(in crate::tier) datasets: Vec<Dataset>,
    /// The last node closed the tier in order.
    pub(in crate::tier) clean: bool,
    /// There was no usable log.
    pub(in crate::tier) fresh: bool,
}

impl Replay {
    /// `most` is how many more files the log can speak of.
    fn insert(&mut self, run: &Run<'_>, most: usize) -> Option<()> {
        self.clean = false;
        let files = self.files(run.dataset, most)?;
        for (index, crc) in (run.first..).zip(run.crcs()) {
            let new = || Found { size: run.size, pieces: Pieces::One(index, crc), claimed: AtomicBool::new(false) };
            files.entry(number(run.key)).and_modify(|found| found.pieces.insert(index, crc)).or_insert_with(new);
        }
        Some(())
    }

    /// The files of a dataset, to which up to `most` are still to be added.
    fn files(&mut self, dataset: u16, most: usize) -> Option<&mut FoundFiles> {
        let files = &mut self.datasets.get_mut(usize::from(dataset))?.files;
        if files.is_empty() {
            files.reserve(most);
        }
        Some(files)
    }

    /// Everything but pieces of files.
    fn apply(&mut self, record: Record, most: usize) -> Option<()> {
        self.clean = record == Record::Closed;
        match record {
            Record::Define { dataset, piece_bytes, name } => {
                // Said again after the index was rewritten: that is the same dataset.
                if self.datasets.get(usize::from(dataset)).is_none_or(|known| known.name != name) {
                    let next = usize::from(dataset) == self.datasets.len() && piece_bytes > 0;
                    next.then(|| self.datasets.push(Dataset { name, piece_bytes, ..Dataset::default() }))?;
                }
            }
            Record::Forget { dataset } => {
                let dataset = self.datasets.get_mut(usize::from(dataset))?;
                dataset.forgotten = true;
                dataset.files = FoundFiles::default();
            }
            Record::Pieces { .. } => return None,
            Record::Cell { dataset, key, size, cell, crc } => {
                let found =
                    Found { size: u64::from(size), pieces: Pieces::Cell(cell, crc), claimed: AtomicBool::new(false) };
                self.files(dataset, most)?.insert(number(key), found);
            }
            Record::DropPiece { dataset, key, index } => {
                let files = &mut self.datasets.get_mut(usize::from(dataset))?.files;
                if files.get_mut(&number(key)).is_some_and(|found| found.pieces.remove(index)) {
                    files.remove(&number(key));
                }
            }
            Record::DropFile { dataset, key } => {
                self.datasets.get_mut(usize::from(dataset))?.files.remove(&number(key));
            }
            Record::Opened | Record::Closed => {}
        }
        Some(())
    }
}

/// Reads the groups from `start`. Answers with what they say, where the last whole one ends, and the next number.
pub(super) fn replay(file: &File, start: u64, uuid: &[u8; 16]) -> std::io::Result<(Replay, u64, u64)> {
    let mut reader = BufReader::with_capacity(1 << 20, file);
    reader.seek(SeekFrom::Start(start))?;
    let (mut replay, mut end, mut next, mut payload) = (Replay::default(), start, 0, Vec::new());
    let left = file.metadata()?.len().saturating_sub(start);
    while read_group(&mut reader, uuid, next, left, &mut payload)? {
        let mut records = &payload[..];
        while !records.is_empty() {
            // The group's CRC matched, so a record that makes no sense was written so: by a Fodder with other rules.
            let most = ((start + left - end) / CELL_RECORD) as usize;
            let applied = match Run::next(&mut records) {
                Some(run) => replay.insert(&run, most),
                None => Record::decode(&mut records).and_then(|record| replay.apply(record, most)),
            };
            if applied.is_none() {
                tracing::warn!(group = next, "the tier's index has an invalid record: ignoring what follows");
                replay.clean = false;
                return Ok((replay, end, next));
            }
        }
        end += (GROUP_HEADER + payload.len()) as u64;
        next += 1;
    }
    Ok((replay, end, next))
}

fn read_group(from: &mut impl Read, uuid: &[u8; 16], next: u64, left: u64, to: &mut Vec<u8>) -> std::io::Result<bool> {
    let mut header = [0; GROUP_HEADER];
    if !fill(from, &mut header)? {
        return Ok(false);
    }
    let len = u32::from_le_bytes(array(&header)) as usize;
    if len > LONGEST_GROUP || len as u64 > left || u64::from_le_bytes(array(&header[8..])) != next {
        return Ok(false);
    }
    to.resize(len, 0);
    Ok(fill(from, to)? && group_crc(uuid, next, to).to_le_bytes() == header[4..8])
}

fn fill(from: &mut impl Read, to: &mut [u8]) -> std::io::Result<bool> {
    match from.read_exact(to) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}
