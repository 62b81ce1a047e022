//! Where the thing that a request names lies: a path or an id of a snapshot becomes a range of an object.

use fodder_api::frames::{ObjectId, PAGED_READER};
use fodder_core::{
    Dataset, Error, Result,
    catalog::Snapshot,
    engine::{Pattern, ReaderId},
    id::{ItemId, ObjectSlot, SnapshotId},
};
use std::{ops::Range, sync::Arc};

const _: () = assert!(PAGED_READER == ReaderId::PAGED, "clients and the engine know pages by the same bit");

/// An object, or an item in one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) object: ObjectSlot,
    /// Its bytes in the object.
    pub(crate) range: Range<u64>,
    /// The item, unless an object was named by its path.
    pub(crate) item: Option<ItemId>,
    pub(crate) label: Option<u32>,
}

impl Place {
    /// The object at a path.
    pub(crate) fn of_path(dataset: &Dataset, snapshot: &Snapshot, path: &str) -> Result<Self> {
        let object = snapshot.lookup(path).ok_or_else(|| {
            let (name, id) = (&dataset.config().name, snapshot.id());
            Error::NotFound(format!("there is no object {path:?} in snapshot {id} of dataset {name:?}"))
        })?;
        let size = dataset.objects().size(object);
        Ok(Self { object, range: 0..size, item: None, label: None })
    }

    /// The item with an id.
    pub(crate) fn of_item(snapshot: &Snapshot, id: ItemId) -> Result<Self> {
        let item = snapshot.item(id)?;
        Ok(Self { object: item.object, range: item.range, item: Some(id), label: item.label })
    }

    /// The item with an id, if it is a whole object and not a part of one.
    pub(crate) fn of_whole_object(dataset: &Dataset, snapshot: &Snapshot, id: ItemId) -> Result<Self> {
        let place = Self::of_item(snapshot, id)?;
        if place.range == (0..dataset.objects().size(place.object)) {
            return Ok(place);
        }
        Err(Error::Invalid(format!("item {id} is a part of an object")))
    }

    /// One version of an object, if it is still in the catalog.
    pub(crate) fn of_object(dataset: &Dataset, id: ObjectId) -> Result<Self> {
        let (objects, object) = (dataset.objects(), ObjectSlot(id.slot));
        if !objects.contains(object) || objects.key(object).0 != id.key {
            let name = &dataset.config().name;
            return Err(Error::Stale(format!("an object of dataset {name:?} has changed: look it up again")));
        }
        Ok(Self { object, range: 0..objects.size(object), item: None, label: None })
    }

    /// Tells the dataset that a range of it is read, by a client's open file or by nobody in particular. Reads of items
    /// follow a plan, and say nothing about what comes next.
    pub(crate) fn notice(&self, dataset: &Dataset, range: &Range<u64>, reader: u64, waits: bool) -> Pattern {
        match self.item {
            Some(_) => Pattern::Start,
            None => dataset.notice_read(self.object, range, reader, waits),
        }
    }

    /// How many bytes it has.
    pub(crate) fn size(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// The part of it from `offset` on, `length` bytes long (0: to the end), as a range of the object.
    pub(crate) fn cut(&self, offset: u64, length: u64) -> Result<Range<u64>> {
        let size = self.size();
        let length = if length == 0 { size.saturating_sub(offset) } else { length };
        match offset.checked_add(length) {
            Some(end) if end <= size => Ok(self.range.start + offset..self.range.start + end),
            _ => Err(Error::Invalid(format!("the range ends beyond the end, which is at {size} bytes"))),
        }
    }
}

/// The snapshot a request names, or the newest.
pub(crate) fn snapshot(dataset: &Dataset, id: Option<SnapshotId>) -> Result<Arc<Snapshot>> {
    id.map_or_else(|| Ok(dataset.snapshot()), |id| dataset.snapshot_by_id(id))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_range_lies_inside_its_item() {
        let place = Place { object: ObjectSlot(0), range: 100..150, item: Some(3), label: None };
        assert_eq!(place.cut(0, 0).unwrap(), 100..150);
        assert_eq!(place.cut(10, 0).unwrap(), 110..150);
        assert_eq!(place.cut(10, 40).unwrap(), 110..150);
        assert_eq!(place.cut(50, 0).unwrap(), 150..150);
        for (offset, length) in [(0, 51), (51, 0), (50, 1), (u64::MAX, 2), (1, u64::MAX)] {
            let cut = place.cut(offset, length);
            assert!(matches!(cut, Err(Error::Invalid(_))), "{offset}+{length}: {cut:?}");
        }
    }
}
