//! A segment: the objects of a range of slots, in one file. Written once; a refresh appends another.
//!
//! Columns by slot: name, size, version; for layouts with records also where each object's records begin. Pieces are
//! numbered through all segments, so a segment knows the first of its own.

use super::{
    file::{FileWriter, Kind, MappedFile, Unusable},
    name::{BLOCK, Names, NamesWriter},
    packed::{self, Packed},
    record::{Record, RecordColumns},
    version::{self, Versions},
};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::{path::Path, sync::Arc};

const META: u32 = 1;
const NAMES: u32 = 2;
const SIZES: u32 = 4;
const VERSIONS: u32 = 5;
const PIECES: u32 = 7;
pub(super) const RECORDS: u32 = 8;

/// One object on its way into a segment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row<'a> {
    pub(super) path: &'a str,
    pub(super) size: u64,
    /// As [`version::pack`] packs it.
    pub(super) version: &'a [u8],
}

/// Objects in slot order that can be walked several times, once for each column.
pub(super) trait Rows {
    fn each(&self, take: &mut dyn FnMut(Row<'_>) -> Result<()>) -> Result<()>;
    /// Every record, with the number of its row, in order.
    fn each_record(&self, take: &mut dyn FnMut(u32, Record<'_>) -> Result<()>) -> Result<()>;
    /// What is wrong with rows, by number.
    fn problems(&self) -> Vec<(u32, String)>;
}

#[derive(Debug, Serialize, Deserialize)]
struct Meta {
    first_slot: u32,
    slots: u32,
    first_piece: u32,
    pieces: u32,
    piece_bytes: u32,
    /// Whether every object has exactly one piece: then nothing must be summed.
    one_piece_each: bool,
    version_shape: Option<version::Shape>,
    problems: Vec<(u32, String)>,
    records: Option<u64>,
}

/// Where a new segment begins.
#[derive(Debug, Clone, Copy)]
pub(super) struct Start {
    pub(super) slot: u32,
    pub(super) piece: u32,
    pub(super) piece_bytes: u32,
}

/// Writes a segment file.
pub(super) fn write(path: &Path, start: Start, rows: &dyn Rows, with_records: bool) -> Result<()> {
    let mut survey = Survey::new(start);
    rows.each(&mut |row| survey.see(&row))?;
    let mut file = FileWriter::create(path, Kind::Segment)?;
    NamesWriter::write(&mut file, NAMES, |take| rows.each(&mut |row| take(row.path.as_bytes())))?;
    let width = packed::width(survey.largest);
    file.section(SIZES, |out| {
        packed::begin(out, width)?;
        rows.each(&mut |row| packed::put(out, width, row.size))
    })?;
    let shape = survey.shape.filter(|_| survey.same_shape);
    version::write(&mut file, VERSIONS, shape, |take| rows.each(&mut |row| take(row.version)))?;
    if !survey.one_piece_each {
        file.section(PIECES, |out| packed::column(out, &survey.samples))?;
    }
    let records = if with_records { Some(RecordColumns::write(&mut file, RECORDS, survey.slots, rows)?) } else { None };
    let meta = Meta {
        first_slot: start.slot,
        slots: survey.slots,
        first_piece: start.piece,
        pieces: survey.pieces,
        piece_bytes: start.piece_bytes,
        one_piece_each: survey.one_piece_each,
        version_shape: shape,
        problems: rows.problems(),
        records,
    };
    let json = serde_json::to_vec(&meta).map_err(|error| Error::Internal(error.to_string()))?;
    file.section(META, |out| out.put(&json))?;
    file.finish()
}

/// What the first walk over the rows finds out.
struct Survey {
    start: Start,
    slots: u32,
    pieces: u32,
    largest: u64,
    one_piece_each: bool,
    shape: Option<version::Shape>,
    same_shape: bool,
    /// Pieces before every 16th object, counted from the segment's first.
    samples: Vec<u64>,
}

impl Survey {
    fn new(start: Start) -> Self {
        Self {
            start,
            slots: 0,
            pieces: 0,
            largest: 0,
            one_piece_each: true,
            shape: None,
            same_shape: true,
            samples: Vec::new(),
        }
    }

    fn see(&mut self, row: &Row<'_>) -> Result<()> {
        if (self.slots as usize).is_multiple_of(BLOCK) {
            self.samples.push(u64::from(self.pieces));
        }
        let pieces = row.size.div_ceil(u64::from(self.start.piece_bytes));
        let total = u64::from(self.start.piece) + u64::from(self.pieces) + pieces;
        if total > u64::from(u32::MAX) {
            return Err(Error::Invalid(format!(
                "the dataset has more than {} pieces of {}: split it into several datasets",
                u32::MAX,
                crate::size::exact(u64::from(self.start.piece_bytes))
            )));
        }
        self.pieces = (total - u64::from(self.start.piece)) as u32;
        self.largest = self.largest.max(row.size);
        self.one_piece_each &= pieces == 1;
        let shape = (row.version[0], row.version.len() - 1);
        self.same_shape &= self.shape.is_none_or(|first| first == shape);
        self.shape = Some(shape);
        let slots = self.slots.checked_add(1).filter(|slots| self.start.slot.checked_add(*slots).is_some());
        self.slots = slots.ok_or_else(|| {
            Error::Invalid(format!(
                "the dataset has had more than {} objects: split it into several datasets",
                u32::MAX
            ))
        })?;
        Ok(())
    }
}

/// A segment file, mapped.
#[derive(Debug)]
pub(super) struct Segment {
    meta: Meta,
    names: Names,
    sizes: Packed,
    versions: Versions,
    pieces: Option<Packed>,
    records: Option<RecordColumns>,
    file_bytes: usize,
}

impl Segment {
    pub(super) fn open(path: &Path) -> Result<Arc<Self>, Unusable> {
        let file = MappedFile::open(path, Kind::Segment)?;
        Self::from_file(&file)
            .map(Arc::new)
            .ok_or_else(|| Unusable::Rebuild(format!("{} is inconsistent", path.display())))
    }

    fn from_file(file: &Arc<MappedFile>) -> Option<Self> {
        let meta: Meta = serde_json::from_slice(file.section(META).bytes()).ok()?;
        let slots = meta.slots as usize;
        Some(Self {
            names: Names::open(file.section(NAMES), file.section(NAMES + 1), slots)?,
            sizes: Packed::open(file.section(SIZES), slots)?,
            versions: Versions::open(file.section(VERSIONS), file.section(VERSIONS + 1), meta.version_shape, slots)?,
            pieces: match meta.one_piece_each {
                true => None,
                false => Some(Packed::open(file.section(PIECES), slots.div_ceil(BLOCK))?),
            },
            records: match meta.records {
                Some(count) => Some(RecordColumns::open(file, RECORDS, meta.slots, count)?),
                None => None,
            },
            file_bytes: file.len(),
            meta,
        })
    }

    pub(super) fn first_slot(&self) -> u32 {
        self.meta.first_slot
    }

    /// How many slots it has.
    pub(super) fn len(&self) -> u32 {
        self.meta.slots
    }

    pub(super) fn first_piece(&self) -> u32 {
        self.meta.first_piece
    }

    pub(super) fn pieces(&self) -> u32 {
        self.meta.pieces
    }

    pub(super) fn piece_bytes(&self) -> u32 {
        self.meta.piece_bytes
    }

    /// What is wrong with objects, by slot.
    pub(super) fn problems(&self) -> impl Iterator<Item = (u32, &str)> {
        self.meta.problems.iter().map(|(row, text)| (self.meta.first_slot + row, text.as_str()))
    }

    pub(super) fn records(&self) -> Option<&RecordColumns> {
        self.records.as_ref()
    }

    /// Size of an object by its number in this segment, as everything below.
    #[inline]
    pub(super) fn size(&self, row: u32) -> u64 {
        self.sizes.get(row as usize)
    }

    fn pieces_of(&self, row: u32) -> u32 {
        self.size(row).div_ceil(u64::from(self.meta.piece_bytes)) as u32
    }

    #[inline]
    pub(super) fn first_piece_of(&self, row: u32) -> u32 {
        let Some(samples) = &self.pieces else { return self.meta.first_piece + row };
        let block = row as usize / BLOCK;
        let sampled = self.meta.first_piece + samples.get(block) as u32;
        ((block * BLOCK) as u32..row).fold(sampled, |piece, row| piece + self.pieces_of(row))
    }

    /// The object that a piece of this segment belongs to.
    pub(super) fn row_of_piece(&self, piece: u32) -> u32 {
        let Some(samples) = &self.pieces else { return piece - self.meta.first_piece };
        let mut left = piece - self.meta.first_piece;
        let block = samples.count_at_most(u64::from(left)) - 1;
        left -= samples.get(block) as u32;
        let mut row = (block * BLOCK) as u32;
        while left >= self.pieces_of(row) {
            left -= self.pieces_of(row);
            row += 1;
        }
        row
    }

    pub(super) fn names(&self) -> &Names {
        &self.names
    }

    /// Makes `packed` the packed version of an object.
    pub(super) fn version(&self, row: u32, packed: &mut Vec<u8>) {
        self.versions.read(row as usize, packed);
    }

    /// Bytes of the map without the front-coded names.
    pub(super) fn memory_bytes(&self) -> usize {
        self.file_bytes - self.names.name_bytes() - self.records.as_ref().map_or(0, RecordColumns::name_bytes)
    }
}

/// An old segment's objects, to be written again as part of a larger segment.
impl Rows for Segment {
    fn each(&self, take: &mut dyn FnMut(Row<'_>) -> Result<()>) -> Result<()> {
        let (mut name, mut packed) = (Vec::new(), Vec::new());
        let mut rest: &[u8] = &[];
        for row in 0..self.len() {
            let position = row as usize % BLOCK;
            if position == 0 {
                rest = self.names.block(row as usize / BLOCK);
            }
            super::name::step(&mut rest, position, &mut name);
            self.version(row, &mut packed);
            let path = std::str::from_utf8(&name).map_err(|error| Error::Corrupt(error.to_string()))?;
            take(Row { path, size: self.size(row), version: &packed })?;
        }
        Ok(())
    }

    fn each_record(&self, take: &mut dyn FnMut(u32, Record<'_>) -> Result<()>) -> Result<()> {
        match &self.records {
            Some(records) => records.each(take),
            None => Ok(()),
        }
    }

    fn problems(&self) -> Vec<(u32, String)> {
        self.meta.problems.clone()
    }
}
