//! Which numbers the pieces of objects have, while the catalog is open. They are not written to disk.
//!
//! A segment knows how many pieces come before each of its rows; a *run* of rows adds the number of the first. An opened
//! catalog has one run for each segment. After objects have left, their numbers are free, and new objects take them: then a
//! segment has several runs. Nothing here knows of slots.

use super::segment::Segment;
use crate::{Error, Result};
use std::{ops::Range, sync::Arc};

/// Rows whose pieces follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    /// The first row; the run ends where the next begins.
    row: u32,
    /// What must be added (modulo 2^32) to the number of pieces before a row to get the number of its first piece.
    base: u32,
}

/// A segment whose pieces have numbers.
#[derive(Debug, Clone)]
pub(super) struct Placed {
    pub(super) segment: Arc<Segment>,
    /// Never empty; the first begins at row 0.
    runs: Arc<[Run]>,
}

/// Consecutive numbers that the pieces of one run have.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    first: u32,
    len: u32,
    segment: u32,
    /// Pieces of the segment before the first of these.
    before: u32,
}

impl Placed {
    /// The pieces of a segment, one behind the other.
    pub(super) fn in_a_row(segment: Arc<Segment>, free: &mut Free) -> Result<Self> {
        let base = free.append(segment.pieces())?;
        Ok(Self { segment, runs: [Run { row: 0, base }].into() })
    }

    /// Gives each row the number that is known for its first piece, or else numbers that are free.
    pub(super) fn place(
        segment: Arc<Segment>,
        known: impl Iterator<Item = Option<u32>>,
        free: &mut Free,
    ) -> Result<Self> {
        let (mut runs, mut before) = (Vec::<Run>::new(), 0u32);
        for (row, known) in (0..segment.len()).zip(known) {
            let count = segment.pieces_of(row);
            if count == 0 {
                continue;
            }
            let first = known.map_or_else(|| free.take(count), Ok)?;
            let base = first.wrapping_sub(before);
            if runs.last().is_none_or(|last| last.base != base) {
                runs.push(Run { row: if runs.is_empty() { 0 } else { row }, base });
            }
            before += count;
        }
        if runs.is_empty() {
            runs.push(Run { row: 0, base: 0 });
        }
        Ok(Self { segment, runs: runs.into() })
    }

    /// The number of a row's first piece.
    #[inline]
    pub(super) fn first_piece(&self, row: u32) -> u32 {
        let run = match self.runs.len() {
            1 => 0,
            _ => self.runs.partition_point(|run| run.row <= row) - 1,
        };
        self.runs[run].base.wrapping_add(self.segment.pieces_before(row))
    }

    fn extents(&self, index: usize) -> impl Iterator<Item = Extent> + '_ {
        let ends = self.runs.iter().skip(1).map(|run| self.segment.pieces_before(run.row));
        self.runs.iter().zip(ends.chain([self.segment.pieces()])).filter_map(move |(run, end)| {
            let before = self.segment.pieces_before(run.row);
            let first = run.base.wrapping_add(before);
            (end > before).then_some(Extent { first, len: end - before, segment: index as u32, before })
        })
    }

    /// Bytes it has on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.runs)
    }
}

/// All numbers that pieces have, in order. None if two runs have the same.
pub(super) fn extents(segments: &[Placed]) -> Option<Vec<Extent>> {
    let all = segments.iter().enumerate().flat_map(|(index, placed)| placed.extents(index));
    let mut all: Vec<Extent> = all.collect();
    all.sort_unstable_by_key(|extent| extent.first);
    let apart = |a: &Extent, b: &Extent| a.first.checked_add(a.len).is_some_and(|end| end <= b.first);
    all.is_sorted_by(apart).then_some(all)
}

/// The segment and row that a piece belongs to. None if it is free.
pub(super) fn row_of(extents: &[Extent], segments: &[Placed], piece: u32) -> Option<(usize, u32)> {
    let index = extents.partition_point(|extent| extent.first <= piece).checked_sub(1)?;
    let extent = extents[index];
    let offset = piece - extent.first;
    let segment = extent.segment as usize;
    (offset < extent.len).then(|| (segment, segments[segment].segment.row_of_piece(extent.before + offset)))
}

/// One more than the largest number that a piece has.
pub(super) fn end_of(extents: &[Extent]) -> u32 {
    extents.last().map_or(0, |last| last.first + last.len)
}

/// Numbers that no piece has.
#[derive(Debug)]
pub(super) struct Free {
    gaps: Vec<Range<u32>>,
    /// For each power of two: the gaps before this one have no room for so many pieces.
    full: [usize; 33],
    end: u32,
}

impl Free {
    /// All of them.
    pub(super) fn among(extents: &[Extent]) -> Self {
        let ends = [0].into_iter().chain(extents.iter().map(|extent| extent.first + extent.len));
        let gaps = ends.zip(extents).map(|(end, next)| end..next.first).filter(|gap| !gap.is_empty());
        Self { gaps: gaps.collect(), ..Self::from(end_of(extents)) }
    }

    /// Only those from this one on.
    pub(super) fn from(end: u32) -> Self {
        Self { gaps: Vec::new(), full: [0; 33], end }
    }

    /// Takes the first of `count` consecutive numbers, from the first gap that has so many.
    fn take(&mut self, count: u32) -> Result<u32> {
        let class = (32 - (count - 1).leading_zeros()) as usize;
        let fits = |gap: &Range<u32>| gap.len() >= count as usize;
        let skipped = self.gaps[self.full[class]..].iter().position(fits);
        self.full[class] += skipped.unwrap_or(self.gaps.len() - self.full[class]);
        match self.gaps.get_mut(self.full[class]) {
            Some(gap) => {
                gap.start += count;
                Ok(gap.start - count)
            }
            None => self.append(count),
        }
    }

    fn append(&mut self, count: u32) -> Result<u32> {
        let first = self.end;
        self.end = first.checked_add(count).ok_or_else(|| {
            Error::Invalid(format!("the dataset has more than {} pieces: split it into several datasets", u32::MAX))
        })?;
        Ok(first)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn taken(numbers: &[(u32, u32)]) -> Vec<Extent> {
        numbers.iter().map(|&(first, len)| Extent { first, len, segment: 0, before: 0 }).collect()
    }

    #[test]
    fn free_numbers_are_taken_from_the_first_gap_with_room() {
        let mut free = Free::among(&taken(&[(2, 1), (4, 6), (13, 1)]));
        let takes = [1, 3, 1, 1, 1].map(|count| free.take(count).unwrap());
        assert_eq!(takes, [0, 10, 1, 3, 14]);
        assert_eq!(Free::from(14).take(1).unwrap(), 14);
    }

    #[test]
    fn there_are_no_more_numbers_than_fit() {
        let mut free = Free::from(u32::MAX - 1);
        assert!(matches!(free.take(2), Err(Error::Invalid(_))));
        assert_eq!(free.take(1).unwrap(), u32::MAX - 1);
        assert!(matches!(free.take(1), Err(Error::Invalid(_))));
    }
}
