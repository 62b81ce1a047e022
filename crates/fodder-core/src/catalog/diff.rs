//! What a listing changes: walks it beside the newest snapshot, both in path order.

use super::{
    RefreshReport,
    listing::Listing,
    object::{Objects, PathCursor},
    segment::Row,
    snapshot::{Snapshot, items_in},
    version,
};
use crate::{
    Error, Result,
    id::ObjectSlot,
    layout::{Layout, shard},
    origin::stamp::Stamp,
};
use rustc_hash::FxHashSet;
use std::cmp::Ordering;

/// What must be done to make a snapshot of a listing.
#[derive(Debug, Default)]
pub(super) struct Diff {
    /// The slot of every object of the listing; new slots follow those there are.
    pub(super) slots: Vec<u32>,
    /// The objects of the listing that need a new slot, in path order.
    pub(super) fresh: Vec<u32>,
    /// Local files of which only the change time differs: the object of the listing, and the slot it had.
    pub(super) suspects: Vec<(u32, ObjectSlot)>,
    pub(super) report: RefreshReport,
}

/// A slot that is still to be given.
const FRESH: u32 = u32::MAX;

impl Diff {
    /// Compares a sorted listing with the newest snapshot, if there is one. `objects` are all there are.
    pub(super) fn new(listing: &Listing, objects: &Objects, newest: Option<&Snapshot>) -> Result<Self> {
        let mut diff = Self::compare(listing, objects, newest);
        diff.assign(listing, objects, newest.map_or(0, Snapshot::object_count))?;
        Ok(diff)
    }

    /// The comparison alone: [suspects](Self::suspects) may still be [kept](Self::keep) before slots are assigned.
    pub(super) fn compare(listing: &Listing, objects: &Objects, newest: Option<&Snapshot>) -> Self {
        let mut diff = Self { slots: Vec::with_capacity(listing.len() as usize), ..Self::default() };
        diff.walk(listing, objects, newest);
        diff
    }

    /// An object that looked changed still has the bytes of its version, and keeps its slot.
    pub(super) fn keep(&mut self, index: u32, slot: ObjectSlot) {
        self.slots[index as usize] = slot.0;
        self.report.changed -= 1;
        self.report.unchanged += 1;
    }

    /// Assigns slots to everything that is new or changed; `known` objects were in the newest snapshot.
    pub(super) fn assign(&mut self, listing: &Listing, objects: &Objects, known: u32) -> Result<()> {
        self.revive(listing, objects, known);
        let mut next = objects.len();
        for index in 0..listing.len() {
            let slot = &mut self.slots[index as usize];
            if *slot == FRESH {
                *slot = next;
                self.fresh.push(index);
                next = next.checked_add(1).ok_or_else(|| {
                    Error::Invalid(
                        "the dataset has had too many versions of its objects: remove it and add it again".into(),
                    )
                })?;
            }
        }
        Ok(())
    }

    /// Whether the listing is anything else than the newest snapshot.
    pub(super) fn differs(&self) -> bool {
        self.report.added + self.report.changed + self.report.removed > 0
    }

    /// Whether a shard that was indexed before, and is in order, stays.
    pub(super) fn keeps_a_good_shard(&self, layout: &Layout, listing: &Listing, objects: &Objects) -> bool {
        let bad = objects.segments().flat_map(|segment| segment.problems());
        let bad: FxHashSet<u32> = bad.map(|(slot, _)| slot).collect();
        let is_shard = |index: u32| {
            let row = listing.row(index);
            shard::is_shard(layout, row.path, row.size)
        };
        let known = objects.len();
        (0..listing.len()).zip(&self.slots).any(|(index, slot)| *slot < known && !bad.contains(slot) && is_shard(index))
    }

    /// Whether the objects that are here already have as many `items` as another node says, where that hangs on more than size.
    pub(super) fn agrees(&self, layout: &Layout, objects: &Objects, items: &[u64]) -> Result<()> {
        let here = |slot: u32| items_in(layout, objects, ObjectSlot(slot));
        let differs = |(slot, items): &(&u32, &u64)| **slot < objects.len() && here(**slot) != **items;
        match self.slots.iter().zip(items).find(differs) {
            None => Ok(()),
            Some((slot, items)) => Err(Error::Conflict(format!(
                "{} has {} items here, and {items} at the node that listed it",
                objects.path(ObjectSlot(*slot)),
                here(*slot)
            ))),
        }
    }

    fn walk(&mut self, listing: &Listing, objects: &Objects, newest: Option<&Snapshot>) {
        let mut cursor = PathCursor::new(objects);
        let (mut rank, known, mut version) = (0, newest.map_or(0, Snapshot::object_count), Vec::new());
        for index in 0..listing.len() {
            let row = listing.row(index);
            let mut slot = FRESH;
            while rank < known {
                let old = newest.expect("a snapshot with objects").slot_at(rank);
                match cursor.path(old).cmp(row.path) {
                    Ordering::Less => self.report.removed += 1,
                    Ordering::Equal => {
                        objects.read_version(old, &mut version);
                        let same = objects.size(old) == row.size && version == row.version;
                        slot = if same { old.0 } else { FRESH };
                        let count = if same { &mut self.report.unchanged } else { &mut self.report.changed };
                        *count += 1;
                        if !same && is_suspect(objects.size(old), &version, &row) {
                            self.suspects.push((index, old));
                        }
                        rank += 1;
                        break;
                    }
                    Ordering::Greater => break,
                }
                rank += 1;
            }
            self.slots.push(slot);
        }
        self.report.removed += u64::from(known - rank);
        self.report.added = u64::from(listing.len()) - self.report.unchanged - self.report.changed;
    }

    /// An object that comes back as it once was gets its old slot: no two slots are the same version of one object.
    fn revive(&mut self, listing: &Listing, objects: &Objects, known: u32) {
        if objects.count() == known || self.slots.iter().all(|slot| *slot != FRESH) {
            return;
        }
        let (mut cursor, mut version) = (PathCursor::new(objects), Vec::new());
        for slot in objects.slots(0..objects.len()) {
            let Some(index) = listing.find(cursor.path(slot).as_bytes()) else { continue };
            if self.slots[index as usize] != FRESH {
                continue;
            }
            objects.read_version(slot, &mut version);
            let row = listing.row(index);
            if row.size == objects.size(slot) && row.version == version {
                self.slots[index as usize] = slot.0;
            }
        }
    }
}

/// Whether a listed object may have the bytes of a known version though its version differs.
fn is_suspect(size: u64, known: &[u8], listed: &Row<'_>) -> bool {
    let stamps =
        (Stamp::parse(&version::unpack(known, size)), Stamp::parse(&version::unpack(listed.version, listed.size)));
    matches!(stamps, (Some(known), Some(listed)) if known.differs_only_in_change_time(&listed))
}
