//! All objects a dataset's snapshots speak of, by slot: the segments, one behind the other.
//!
//! A slot is one version of one object for ever. Objects that nothing needs any more leave, and their slots with them; the
//! numbers of their pieces are given to other objects.

use super::{
    file::Unusable,
    name::{self, BLOCK},
    pieces::{self, Extent, Free, Placed},
    segment::Segment,
    version,
};
use crate::id::{FileKey, ObjectSlot, PieceId, Version};
use std::{ops::Range, sync::Arc};

/// All objects a dataset's snapshots speak of, by slot.
///
/// A slot that has left, or that never was, is an object without a name and without bytes.
#[derive(Debug)]
pub struct Objects {
    identity: blake3::Hash,
    piece_bytes: u32,
    segments: Vec<Placed>,
    /// How many rows come before each segment.
    rows_before: Vec<u32>,
    /// The numbers of all pieces.
    extents: Vec<Extent>,
    rows: u32,
    /// Numbers of pieces below this are in use, or may still be by those who work with an earlier table.
    end_in_use: u32,
    /// The next slot that is given out.
    next_slot: u32,
}

impl Objects {
    /// Objects of segments with ascending slots below `next_slot`. Numbers of pieces below `in_use` may still be in use.
    pub(super) fn new(
        identity: blake3::Hash,
        piece_bytes: u32,
        next_slot: u32,
        in_use: u32,
        segments: Vec<Placed>,
    ) -> Result<Arc<Self>, Unusable> {
        let unfit = |what: &str| Unusable::Rebuild(format!("the catalog's segments do not fit together: {what}"));
        let (mut slot, mut rows, mut rows_before) = (0, 0u32, Vec::with_capacity(segments.len()));
        for Placed { segment, .. } in &segments {
            if segment.first_slot() < slot || segment.len() == 0 || segment.piece_bytes() != piece_bytes {
                return Err(unfit("slots or pieces"));
            }
            rows_before.push(rows);
            slot = segment.end_slot();
            rows = rows.checked_add(segment.len()).ok_or_else(|| unfit("too many objects"))?;
        }
        if slot > next_slot {
            return Err(unfit("the last slot"));
        }
        let extents = pieces::extents(&segments).ok_or_else(|| unfit("numbers of pieces"))?;
        let end_in_use = in_use.max(pieces::end_of(&extents));
        Ok(Arc::new(Self { identity, piece_bytes, segments, rows_before, extents, rows, end_in_use, next_slot }))
    }

    /// Objects of segments that were opened: their pieces are numbered in a row.
    pub(super) fn open(
        identity: blake3::Hash,
        piece_bytes: u32,
        next_slot: u32,
        segments: Vec<Arc<Segment>>,
    ) -> Result<Arc<Self>, Unusable> {
        let mut free = Free::from(0);
        let placed = segments.into_iter().map(|segment| Placed::in_a_row(segment, &mut free));
        Self::new(identity, piece_bytes, next_slot, 0, placed.collect::<crate::Result<_>>()?)
    }

    /// The dataset with its origin.
    pub(crate) fn identity(&self) -> &blake3::Hash {
        &self.identity
    }

    /// The segments, with the numbers of their pieces.
    pub(super) fn placed(&self) -> &[Placed] {
        &self.segments
    }

    pub(super) fn segments(&self) -> impl DoubleEndedIterator<Item = &Segment> {
        self.segments.iter().map(|placed| &*placed.segment)
    }

    /// The numbers that new pieces may have: those of pieces that have left only if they may be given out again.
    pub(super) fn free(&self, reuses: bool) -> Free {
        if reuses { Free::among(&self.extents) } else { Free::from(self.end_in_use) }
    }

    /// Numbers of pieces below this may still be in use.
    pub(super) fn end_in_use(&self) -> u32 {
        self.end_in_use
    }

    /// The size of an object and the number of its first piece, if it is here.
    pub(crate) fn measure(&self, slot: ObjectSlot) -> Option<(u64, PieceId)> {
        let (index, row) = self.find(slot)?;
        let placed = &self.segments[index];
        Some((placed.segment.size(row), PieceId(placed.first_piece(row))))
    }

    /// The segment a slot lies in, and its row there.
    #[inline]
    fn find(&self, slot: ObjectSlot) -> Option<(usize, u32)> {
        let index = match self.segments.len() {
            1 => 0,
            _ => self.segments.partition_point(|placed| placed.segment.first_slot() <= slot.0).checked_sub(1)?,
        };
        let placed = self.segments.get(index)?;
        (slot.0 >= placed.segment.first_slot()).then(|| placed.segment.row_of(slot.0))?.map(|row| (index, row))
    }

    /// The segment a slot lies in, and its row there, unless it has left.
    #[inline]
    pub(super) fn locate(&self, slot: ObjectSlot) -> Option<(&Segment, u32)> {
        self.find(slot).map(|(index, row)| (&*self.segments[index].segment, row))
    }

    /// The number of an object among all that are here, in the order of slots.
    pub fn row(&self, slot: ObjectSlot) -> Option<u32> {
        self.find(slot).map(|(index, row)| self.rows_before[index] + row)
    }

    /// Whether an object is here.
    #[inline]
    pub fn contains(&self, slot: ObjectSlot) -> bool {
        self.find(slot).is_some()
    }

    /// The objects that are here, among the slots of a range.
    pub fn slots(&self, range: Range<u32>) -> impl Iterator<Item = ObjectSlot> + '_ {
        self.segments.iter().flat_map(move |Placed { segment, .. }| {
            let rows = segment.row_from(range.start)..segment.row_from(range.end);
            rows.map(|row| ObjectSlot(segment.slot_of(row)))
        })
    }

    /// How many objects are here.
    pub fn count(&self) -> u32 {
        self.rows
    }

    /// How many slots there have been; slots are below this.
    pub fn len(&self) -> u32 {
        self.next_slot
    }

    /// Whether there is no object at all.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// How many pieces all objects have together.
    pub fn piece_count(&self) -> u32 {
        self.segments().map(Segment::pieces).sum()
    }

    /// The numbers of pieces are below this. Some may be free.
    pub fn pieces(&self) -> u32 {
        pieces::end_of(&self.extents)
    }

    /// The grid: bytes of a piece (the last of an object may be shorter).
    pub fn piece_bytes(&self) -> u32 {
        self.piece_bytes
    }

    /// The size of an object in bytes.
    #[inline]
    pub fn size(&self, slot: ObjectSlot) -> u64 {
        self.locate(slot).map_or(0, |(segment, row)| segment.size(row))
    }

    /// The first piece of an object; its pieces are consecutive. An empty object has none.
    #[inline]
    pub fn first_piece(&self, slot: ObjectSlot) -> PieceId {
        PieceId(self.find(slot).map_or(0, |(index, row)| self.segments[index].first_piece(row)))
    }

    /// How many pieces an object has.
    pub fn pieces_of(&self, slot: ObjectSlot) -> u32 {
        self.locate(slot).map_or(0, |(segment, row)| segment.pieces_of(row))
    }

    /// The object a piece belongs to, if its number is not free. O(log n).
    pub fn object_of(&self, piece: PieceId) -> Option<ObjectSlot> {
        let (index, row) = pieces::row_of(&self.extents, &self.segments, piece.0)?;
        Some(ObjectSlot(self.segments[index].segment.slot_of(row)))
    }

    /// The path of an object.
    pub fn path(&self, slot: ObjectSlot) -> String {
        let mut name = Vec::new();
        self.read_path(slot, &mut name);
        String::from_utf8(name).expect("a catalog whose checksums hold was written from strings")
    }

    /// Makes `name` the bytes of an object's path; saves the allocation where many are asked for.
    pub(super) fn read_path(&self, slot: ObjectSlot, name: &mut Vec<u8>) {
        name.clear();
        if let Some((segment, row)) = self.locate(slot) {
            segment.names().read(row as usize, name);
        }
    }

    /// Makes `packed` the packed version of an object.
    pub(super) fn read_version(&self, slot: ObjectSlot, packed: &mut Vec<u8>) {
        packed.clear();
        if let Some((segment, row)) = self.locate(slot) {
            segment.version(row, packed);
        }
    }

    /// The version of an object.
    pub fn version(&self, slot: ObjectSlot) -> Version {
        let Some((segment, row)) = self.locate(slot) else { return Version("".into()) };
        let mut packed = Vec::new();
        segment.version(row, &mut packed);
        version::unpack(&packed, segment.size(row))
    }

    /// The name of an object's cache file. No two slots have the same.
    pub fn key(&self, slot: ObjectSlot) -> FileKey {
        FileKey::new(&self.identity, &self.path(slot), &self.version(slot))
    }

    /// The names of the cache files of the objects in a range of slots, at one step of the front coding each.
    pub fn each_key(&self, slots: Range<u32>, take: &mut dyn FnMut(ObjectSlot, FileKey)) {
        let (mut paths, mut packed) = (PathCursor::new(self), Vec::new());
        for slot in self.slots(slots) {
            let Some((segment, row)) = self.locate(slot) else { continue };
            segment.version(row, &mut packed);
            let version = version::unpack(&packed, segment.size(row));
            take(slot, FileKey::new(&self.identity, paths.path(slot), &version));
        }
    }

    /// Bytes of memory and mapped pages, without the front-coded names.
    pub fn memory_bytes(&self) -> usize {
        let segments = self.segments.iter();
        let segments = segments.map(|p| size_of::<Segment>() + p.segment.memory_bytes() + p.heap_bytes());
        segments.sum::<usize>() + size_of_val(&*self.extents)
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
            *row < segment.len() && segment.slot_of(*row) == slot.0 && !(*row as usize).is_multiple_of(BLOCK)
        });
        let (segment, row) = match follows {
            Some((segment, row)) => {
                name::step(&mut self.rest, row as usize % BLOCK, &mut self.name);
                (segment, row)
            }
            None => {
                let Some((segment, row)) = self.objects.locate(slot) else {
                    self.next = None;
                    return "";
                };
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
