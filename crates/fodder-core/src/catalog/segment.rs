//! A segment: objects with ascending slots, in one file. Written once; a refresh appends another, and a compaction writes one
//! with the objects that stay.
//!
//! Columns by row: name, size, version; for layouts with records also where each object's records begin. Slots follow each
//! other unless objects in between have left: then they are a column, too.

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
const SLOTS: u32 = 32;

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
    rows: u32,
    /// Whether slots have a column, because they do not follow each other.
    has_slots: bool,
    pieces: u32,
    piece_bytes: u32,
    /// Whether every object has exactly one piece: then nothing must be summed.
    one_piece_each: bool,
    version_shape: Option<version::Shape>,
    problems: Vec<(u32, String)>,
    records: Option<u64>,
}

/// Writes a segment file. `slots` are those of its rows, ascending.
pub(super) fn write(path: &Path, piece_bytes: u32, slots: &[u32], rows: &dyn Rows, with_records: bool) -> Result<()> {
    let mut survey = Survey::new(piece_bytes);
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
    let (first_slot, last_slot) = (slots.first().copied().unwrap_or(0), slots.last().copied().unwrap_or(0));
    let has_slots = last_slot - first_slot >= slots.len() as u32;
    if has_slots {
        let width = packed::width(u64::from(last_slot - first_slot));
        file.section(SLOTS, |out| {
            packed::begin(out, width)?;
            slots.iter().try_for_each(|slot| packed::put(out, width, u64::from(slot - first_slot)))
        })?;
    }
    let records = if with_records { Some(RecordColumns::write(&mut file, RECORDS, survey.rows, rows)?) } else { None };
    let meta = Meta {
        first_slot,
        rows: survey.rows,
        has_slots,
        pieces: survey.pieces,
        piece_bytes,
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
    piece_bytes: u32,
    rows: u32,
    pieces: u32,
    largest: u64,
    one_piece_each: bool,
    shape: Option<version::Shape>,
    same_shape: bool,
    /// Pieces before every 16th object, counted from the segment's first.
    samples: Vec<u64>,
}

impl Survey {
    fn new(piece_bytes: u32) -> Self {
        Self {
            piece_bytes,
            rows: 0,
            pieces: 0,
            largest: 0,
            one_piece_each: true,
            shape: None,
            same_shape: true,
            samples: Vec::new(),
        }
    }

    fn see(&mut self, row: &Row<'_>) -> Result<()> {
        if (self.rows as usize).is_multiple_of(BLOCK) {
            self.samples.push(u64::from(self.pieces));
        }
        let pieces = row.size.div_ceil(u64::from(self.piece_bytes));
        let total = u64::from(self.pieces) + pieces;
        if total > u64::from(u32::MAX) {
            return Err(Error::Invalid(format!(
                "the dataset has more than {} pieces of {}: split it into several datasets",
                u32::MAX,
                crate::size::exact(u64::from(self.piece_bytes))
            )));
        }
        self.pieces = total as u32;
        self.largest = self.largest.max(row.size);
        self.one_piece_each &= pieces == 1;
        let shape = (row.version[0], row.version.len() - 1);
        self.same_shape &= self.shape.is_none_or(|first| first == shape);
        self.shape = Some(shape);
        self.rows = self.rows.checked_add(1).ok_or_else(|| {
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
    /// By row: how far its slot is from the first.
    slots: Option<Packed>,
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
        let rows = meta.rows as usize;
        Some(Self {
            names: Names::open(file.section(NAMES), file.section(NAMES + 1), rows)?,
            sizes: Packed::open(file.section(SIZES), rows)?,
            versions: Versions::open(file.section(VERSIONS), file.section(VERSIONS + 1), meta.version_shape, rows)?,
            pieces: match meta.one_piece_each {
                true => None,
                false => Some(Packed::open(file.section(PIECES), rows.div_ceil(BLOCK))?),
            },
            slots: match meta.has_slots {
                true => Some(Packed::open(file.section(SLOTS), rows)?),
                false => None,
            },
            records: match meta.records {
                Some(count) => Some(RecordColumns::open(file, RECORDS, meta.rows, count)?),
                None => None,
            },
            file_bytes: file.len(),
            meta,
        })
    }

    pub(super) fn first_slot(&self) -> u32 {
        self.meta.first_slot
    }

    /// How many rows it has.
    pub(super) fn len(&self) -> u32 {
        self.meta.rows
    }

    /// The slot of a row.
    #[inline]
    pub(super) fn slot_of(&self, row: u32) -> u32 {
        self.meta.first_slot + self.slots.as_ref().map_or(row, |slots| slots.get(row as usize) as u32)
    }

    /// One more than the largest of its slots.
    pub(super) fn end_slot(&self) -> u32 {
        self.meta.rows.checked_sub(1).map_or(self.meta.first_slot, |last| self.slot_of(last) + 1)
    }

    /// The first row whose slot is not below this one; as many as there are rows if there is none.
    pub(super) fn row_from(&self, slot: u32) -> u32 {
        let offset = slot.saturating_sub(self.meta.first_slot);
        let row = match (&self.slots, offset.checked_sub(1)) {
            (None, _) | (_, None) => offset,
            (Some(slots), Some(before)) => slots.count_at_most(u64::from(before)) as u32,
        };
        row.min(self.meta.rows)
    }

    /// The row of a slot, if it has one here.
    #[inline]
    pub(super) fn row_of(&self, slot: u32) -> Option<u32> {
        let row = self.row_from(slot);
        (row < self.meta.rows && self.slot_of(row) == slot).then_some(row)
    }

    pub(super) fn pieces(&self) -> u32 {
        self.meta.pieces
    }

    pub(super) fn piece_bytes(&self) -> u32 {
        self.meta.piece_bytes
    }

    /// What is wrong with objects, by slot.
    pub(super) fn problems(&self) -> impl Iterator<Item = (u32, &str)> {
        self.meta.problems.iter().map(|(row, text)| (self.slot_of(*row), text.as_str()))
    }

    pub(super) fn records(&self) -> Option<&RecordColumns> {
        self.records.as_ref()
    }

    /// Size of an object by its number in this segment, as everything below.
    #[inline]
    pub(super) fn size(&self, row: u32) -> u64 {
        self.sizes.get(row as usize)
    }

    pub(super) fn pieces_of(&self, row: u32) -> u32 {
        self.size(row).div_ceil(u64::from(self.meta.piece_bytes)) as u32
    }

    /// How many pieces the rows before this one have.
    #[inline]
    pub(super) fn pieces_before(&self, row: u32) -> u32 {
        let Some(samples) = &self.pieces else { return row };
        let block = row as usize / BLOCK;
        if block == samples.len() {
            return self.meta.pieces;
        }
        ((block * BLOCK) as u32..row).fold(samples.get(block) as u32, |piece, row| piece + self.pieces_of(row))
    }

    /// The row that has the piece with so many of this segment before it.
    pub(super) fn row_of_piece(&self, before: u32) -> u32 {
        let Some(samples) = &self.pieces else { return before };
        let mut left = before;
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
