//! Items and pieces: jobs speak of the one, policies of the other.
//!
//! A large item has several pieces. A piece of a shard holds several small items, and then counts for all of them:
//! its score is the highest of theirs, its next use the soonest, and it is pending once for each job and item.

use crate::{
    catalog::{Objects, Snapshot},
    id::PieceId,
};
use std::ops::Range;

/// The items of a snapshot over the grid of its dataset.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) objects: &'a Objects,
}

impl Span<'_> {
    /// The pieces that hold an item; none for one that is empty or does not exist.
    pub(super) fn pieces(&self, id: u32) -> Range<u32> {
        let Ok(item) = self.snapshot.item(u64::from(id)) else { return 0..0 };
        if item.range.is_empty() {
            return 0..0;
        }
        let grid = u64::from(self.objects.piece_bytes());
        let first = self.objects.first_piece(item.object).0;
        first + (item.range.start / grid) as u32..first + item.range.end.div_ceil(grid) as u32
    }

    /// The items that have bytes in a piece, none if the snapshot has none there.
    pub(super) fn items(&self, piece: u32) -> Range<u32> {
        let Some(object) = self.objects.object_of(PieceId(piece)) else { return 0..0 };
        let grid = u64::from(self.objects.piece_bytes());
        let start = u64::from(piece - self.objects.first_piece(object).0) * grid;
        let items = self.snapshot.items_in(object, start..start + grid);
        let id = |id: u64| u32::try_from(id).unwrap_or(u32::MAX);
        id(items.start)..id(items.end)
    }

    /// The piece of an item that has one, and no other item in it.
    pub(super) fn sole_piece(&self, id: u32) -> Option<u32> {
        let pieces = self.pieces(id);
        (pieces.len() == 1 && self.items(pieces.start).len() == 1).then_some(pieces.start)
    }

    /// Whether every piece there is belongs to exactly one item, and so all items are all pieces.
    pub(super) fn is_one_to_one(&self) -> bool {
        let objects = self.objects;
        let no_others = self.snapshot.object_count() == objects.count() && objects.pieces() == objects.piece_count();
        let whole = !self.snapshot.has_records() && no_others;
        whole && self.snapshot.len() >= u64::from(self.snapshot.object_count())
    }
}
