//! All objects a dataset's snapshots speak of, by slot: the segments, one behind the other.

use super::{
    file::Unusable,
    name::{self, BLOCK},
    segment::{Segment, Start},
    version,
};
use crate::id::{FileKey, ObjectSlot, PieceId, Version};
use std::{ops::Range, sync::Arc};

/// All objects a dataset's snapshots speak of, by slot.
///
/// Methods that take a slot or a piece panic if it is not below [`Objects::len`] or [`Objects::pieces`].
#[derive(Debug)]
pub struct Objects {
    identity: blake3::Hash,
    piece_bytes: u32,
    segments: Vec<Arc<Segment>>,
}

impl Objects {
    /// Objects of segments that follow each other without a gap.
    pub(super) fn new(
        identity: blake3::Hash,
        piece_bytes: u32,
        segments: Vec<Arc<Segment>>,
    ) -> Result<Arc<Self>, Unusable> {
        let objects = Self { identity, piece_bytes, segments };
        let (mut slot, mut piece) = (0, 0);
        for segment in &objects.segments {
            let follows = (segment.first_slot(), segment.first_piece()) == (slot, piece) && segment.len() > 0;
            if !follows || segment.piece_bytes() != piece_bytes {
                return Err(Unusable::Rebuild("the catalog's segments do not follow each other".into()));
            }
            (slot, piece) = (slot + segment.len(), piece + segment.pieces());
        }
        Ok(Arc::new(objects))
    }

    /// The dataset with its origin.
    pub(crate) fn identity(&self) -> &blake3::Hash {
        &self.identity
    }

    pub(super) fn segments(&self) -> &[Arc<Segment>] {
        &self.segments
    }

    /// Where the next segment begins, if only the first `segments` of these stay as they are.
    pub(super) fn end_of(&self, segments: usize) -> Start {
        let last = segments.checked_sub(1).map(|last| &self.segments[last]);
        Start {
            slot: last.map_or(0, |last| last.first_slot() + last.len()),
            piece: last.map_or(0, |last| last.first_piece() + last.pieces()),
            piece_bytes: self.piece_bytes,
        }
    }

    /// The segment a slot lies in, and its number there.
    #[inline]
    pub(super) fn locate(&self, slot: ObjectSlot) -> (&Segment, u32) {
        let index = match self.segments.len() {
            1 => 0,
            _ => self.segments.partition_point(|segment| segment.first_slot() <= slot.0) - 1,
        };
        let segment = &self.segments[index];
        (segment, slot.0 - segment.first_slot())
    }

    /// How many slots there are; slots are 0..len.
    pub fn len(&self) -> u32 {
        self.end_of(self.segments.len()).slot
    }

    /// Whether there is no object at all.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// How many pieces all slots have together.
    pub fn pieces(&self) -> u32 {
        self.end_of(self.segments.len()).piece
    }

    /// The grid: bytes of a piece (the last of an object may be shorter).
    pub fn piece_bytes(&self) -> u32 {
        self.piece_bytes
    }

    /// The size of an object in bytes. O(1).
    #[inline]
    pub fn size(&self, slot: ObjectSlot) -> u64 {
        let (segment, row) = self.locate(slot);
        segment.size(row)
    }

    /// The first piece of an object; its pieces are consecutive. An empty object has none. O(1).
    #[inline]
    pub fn first_piece(&self, slot: ObjectSlot) -> PieceId {
        let (segment, row) = self.locate(slot);
        PieceId(segment.first_piece_of(row))
    }

    /// The object a piece belongs to. O(log n).
    pub fn object_of(&self, piece: PieceId) -> ObjectSlot {
        assert!(piece.0 < self.pieces(), "piece {} of {}", piece.0, self.pieces());
        let index = self.segments.partition_point(|segment| segment.first_piece() <= piece.0) - 1;
        let segment = &self.segments[index];
        ObjectSlot(segment.first_slot() + segment.row_of_piece(piece.0))
    }

    /// The path of an object.
    pub fn path(&self, slot: ObjectSlot) -> String {
        let mut name = Vec::new();
        self.read_path(slot, &mut name);
        String::from_utf8(name).expect("a catalog whose checksums hold was written from strings")
    }

    /// Makes `name` the bytes of an object's path; saves the allocation where many are asked for.
    pub(super) fn read_path(&self, slot: ObjectSlot, name: &mut Vec<u8>) {
        let (segment, row) = self.locate(slot);
        segment.names().read(row as usize, name);
    }

    /// Makes `packed` the packed version of an object.
    pub(super) fn read_version(&self, slot: ObjectSlot, packed: &mut Vec<u8>) {
        let (segment, row) = self.locate(slot);
        segment.version(row, packed);
    }

    /// The version of an object.
    pub fn version(&self, slot: ObjectSlot) -> Version {
        let mut packed = Vec::new();
        self.read_version(slot, &mut packed);
        version::unpack(&packed, self.size(slot))
    }

    /// The name of an object's cache file. No two slots have the same.
    pub fn key(&self, slot: ObjectSlot) -> FileKey {
        FileKey::new(&self.identity, &self.path(slot), &self.version(slot))
    }

    /// The names of the cache files of consecutive slots, at one step of the front coding each.
    pub fn each_key(&self, slots: Range<u32>, take: &mut dyn FnMut(ObjectSlot, FileKey)) {
        let (mut paths, mut packed) = (PathCursor::new(self), Vec::new());
        for slot in slots.map(ObjectSlot) {
            let (segment, row) = self.locate(slot);
            segment.version(row, &mut packed);
            let version = version::unpack(&packed, segment.size(row));
            take(slot, FileKey::new(&self.identity, paths.path(slot), &version));
        }
    }

    /// Bytes of memory and mapped pages, without the front-coded names.
    pub fn memory_bytes(&self) -> usize {
        self.segments.iter().map(|segment| size_of::<Segment>() + segment.memory_bytes()).sum()
    }
}

/// Reads paths of slots one after the other; consecutive slots cost one step each.
pub(super) struct PathCursor<'a> {
    objects: &'a Objects,
    name: Vec<u8>,
    rest: &'a [u8],
    next: Option<(&'a Segment, u32)>,
}

impl<'a> PathCursor<'a> {
    pub(super) fn new(objects: &'a Objects) -> Self {
        Self { objects, name: Vec::new(), rest: &[], next: None }
    }

    /// The path of a slot.
    pub(super) fn path(&mut self, slot: ObjectSlot) -> &str {
        let follows = self.next.filter(|(segment, row)| {
            *row < segment.len() && segment.first_slot() + row == slot.0 && !(*row as usize).is_multiple_of(BLOCK)
        });
        let (segment, row) = match follows {
            Some((segment, row)) => {
                name::step(&mut self.rest, row as usize % BLOCK, &mut self.name);
                (segment, row)
            }
            None => {
                let (segment, row) = self.objects.locate(slot);
                self.rest = segment.names().block(row as usize / BLOCK);
                for position in 0..=row as usize % BLOCK {
                    name::step(&mut self.rest, position, &mut self.name);
                }
                (segment, row)
            }
        };
        self.next = Some((segment, row + 1));
        std::str::from_utf8(&self.name).expect("a catalog whose checksums hold was written from strings")
    }
}
