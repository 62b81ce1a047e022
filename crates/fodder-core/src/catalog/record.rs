//! Records inside objects (samples of a tar shard, TFRecords): where each lies, its label, its key.

use super::{
    file::{FileWriter, MappedFile},
    name::{Names, NamesWriter},
    packed::{self, Packed, put_varint, take, take_varint},
    segment::Rows,
};
use crate::Result;
use std::{ops::Range, sync::Arc};

/// One record of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub(crate) start: u64,
    pub(crate) length: u64,
    pub(crate) label: Option<u32>,
    /// What the archive calls it; empty where records have no names.
    pub(crate) key: &'a [u8],
}

/// The records of one object on their way into a segment, in few bytes.
#[derive(Debug, Default, Clone)]
pub(crate) struct RecordList {
    bytes: Vec<u8>,
    count: u64,
    end: u64,
    key: Vec<u8>,
}

impl RecordList {
    /// Adds a record, which begins at or behind the end of the one before.
    pub(crate) fn push(&mut self, record: Record<'_>) {
        let shared = self.key.iter().zip(record.key).take_while(|(a, b)| a == b).count();
        put_varint(&mut self.bytes, record.start - self.end);
        put_varint(&mut self.bytes, record.length);
        put_varint(&mut self.bytes, record.label.map_or(0, |label| u64::from(label) + 1));
        put_varint(&mut self.bytes, shared as u64);
        put_varint(&mut self.bytes, (record.key.len() - shared) as u64);
        self.bytes.extend_from_slice(&record.key[shared..]);
        self.key.truncate(shared);
        self.key.extend_from_slice(&record.key[shared..]);
        self.end = record.start + record.length;
        self.count += 1;
    }

    /// How many there are.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Every record in order.
    pub(crate) fn each(&self, take_record: &mut dyn FnMut(Record<'_>) -> Result<()>) -> Result<()> {
        let (mut rest, mut end, mut key) = (&self.bytes[..], 0, Vec::new());
        while !rest.is_empty() {
            let start = end + take_varint(&mut rest);
            let length = take_varint(&mut rest);
            let label = take_varint(&mut rest).checked_sub(1).map(|label| label as u32);
            key.truncate(take_varint(&mut rest) as usize);
            let suffix = take_varint(&mut rest) as usize;
            key.extend_from_slice(take(&mut rest, suffix));
            end = start + length;
            take_record(Record { start, length, label, key: &key })?;
        }
        Ok(())
    }
}

/// All records of a segment, by number; an object's are consecutive.
#[derive(Debug)]
pub(super) struct RecordColumns {
    /// The first record of each object, and the number of all.
    firsts: Packed,
    starts: Packed,
    lengths: Packed,
    /// 0 is no label, else the label and one.
    labels: Packed,
    keys: Option<Names>,
}

impl RecordColumns {
    /// Writes the sections from `id` on. How many records there are.
    pub(super) fn write(file: &mut FileWriter, id: u32, slots: u32, rows: &dyn Rows) -> Result<u64> {
        let mut firsts = vec![0u64; slots as usize + 1];
        let (mut start, mut length, mut label, mut keys) = (0, 0, 0, false);
        rows.each_record(&mut |row, record| {
            firsts[row as usize + 1] += 1;
            start = start.max(record.start);
            length = length.max(record.length);
            label = label.max(code(record.label));
            keys |= !record.key.is_empty();
            Ok(())
        })?;
        for row in 0..slots as usize {
            firsts[row + 1] += firsts[row];
        }
        file.section(id, |out| packed::column(out, &firsts))?;
        let mut column = |id: u32, largest: u64, number: fn(&Record<'_>) -> u64| {
            let width = packed::width(largest);
            file.section(id, |out| {
                packed::begin(out, width)?;
                rows.each_record(&mut |_, record| packed::put(out, width, number(&record)))
            })
        };
        column(id + 1, start, |record| record.start)?;
        column(id + 2, length, |record| record.length)?;
        column(id + 3, label, |record| code(record.label))?;
        if keys {
            NamesWriter::write(file, id + 4, |take| rows.each_record(&mut |_, record| take(record.key)))?;
        }
        Ok(firsts[slots as usize])
    }

    pub(super) fn open(file: &Arc<MappedFile>, id: u32, slots: u32, count: u64) -> Option<Self> {
        let count = usize::try_from(count).ok()?;
        let keys = file.section(id + 5);
        Some(Self {
            firsts: Packed::open(file.section(id), slots as usize + 1)?,
            starts: Packed::open(file.section(id + 1), count)?,
            lengths: Packed::open(file.section(id + 2), count)?,
            labels: Packed::open(file.section(id + 3), count)?,
            keys: if keys.len() == 0 { None } else { Some(Names::open(file.section(id + 4), keys, count)?) },
        })
    }

    /// How many records an object has.
    #[inline]
    pub(super) fn count(&self, row: u32) -> u64 {
        self.firsts.get(row as usize + 1) - self.firsts.get(row as usize)
    }

    /// Where the `n`th record of an object lies, and its label.
    #[inline]
    pub(super) fn get(&self, row: u32, n: u64) -> (Range<u64>, Option<u32>) {
        let at = (self.firsts.get(row as usize) + n) as usize;
        let start = self.starts.get(at);
        (start..start + self.lengths.get(at), self.labels.get(at).checked_sub(1).map(|label| label as u32))
    }

    /// Makes `key` the key of the `n`th record of an object; false where records have no names.
    pub(super) fn key(&self, row: u32, n: u64, key: &mut Vec<u8>) -> bool {
        if let Some(keys) = &self.keys {
            keys.read((self.firsts.get(row as usize) + n) as usize, key);
        }
        self.keys.is_some()
    }

    /// Every record with the number of its object.
    pub(super) fn each(&self, take: &mut dyn FnMut(u32, Record<'_>) -> Result<()>) -> Result<()> {
        let mut key = Vec::new();
        for row in 0..self.firsts.len() as u32 - 1 {
            for n in 0..self.count(row) {
                let (range, label) = self.get(row, n);
                self.key(row, n, &mut key);
                take(row, Record { start: range.start, length: range.end - range.start, label, key: &key })?;
            }
        }
        Ok(())
    }

    /// Bytes of the front-coded keys.
    pub(super) fn name_bytes(&self) -> usize {
        self.keys.as_ref().map_or(0, Names::name_bytes)
    }
}

/// A label as its column holds it.
fn code(label: Option<u32>) -> u64 {
    label.map_or(0, |label| u64::from(label) + 1)
}
