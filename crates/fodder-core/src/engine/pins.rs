//! Which objects are in use, by reads and by fetches: those do not leave the catalog.
//!
//! An object may leave once no snapshot has it (0029). A fetch, and a read that may wait, therefore
//! pins the object whose pieces it uses. Pinning an object and letting it leave exclude each other. Nothing here knows why an object leaves.

use crate::id::ObjectSlot;
use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// The objects of a dataset that are in use.
#[derive(Debug, Default)]
pub(super) struct Pins {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    /// How often each object is pinned.
    pinned: FxHashMap<ObjectSlot, u32>,
    /// Objects that are about to leave: nobody may pin them.
    leaving: FxHashSet<ObjectSlot>,
}

/// An object that stays in the catalog until this is dropped.
#[derive(Debug)]
pub(super) struct Pin {
    pins: Arc<Pins>,
    object: ObjectSlot,
}

impl Pins {
    /// Pins the object that `find` finds, unless it is about to leave.
    pub(super) fn pin(self: &Arc<Self>, find: impl FnOnce() -> Option<ObjectSlot>) -> Option<Pin> {
        let mut table = self.table.lock();
        let object = find().filter(|object| !table.leaving.contains(object))?;
        *table.pinned.entry(object).or_default() += 1;
        drop(table);
        Some(Pin { pins: Arc::clone(self), object })
    }

    /// Lets nobody pin these objects from now on, except those that are pinned. Answers with the others.
    pub(super) fn close(&self, objects: impl Iterator<Item = ObjectSlot>) -> FxHashSet<ObjectSlot> {
        let mut table = self.table.lock();
        let closed: FxHashSet<_> = objects.filter(|object| !table.pinned.contains_key(object)).collect();
        table.leaving.extend(&closed);
        closed
    }

    /// Objects may be pinned again; those that have left are not found.
    pub(super) fn open<'a>(&self, objects: impl IntoIterator<Item = &'a ObjectSlot>) {
        let mut table = self.table.lock();
        for object in objects {
            table.leaving.remove(object);
        }
        if table.leaving.is_empty() {
            table.leaving = FxHashSet::default();
        }
    }
}

impl Pin {
    pub(super) fn object(&self) -> ObjectSlot {
        self.object
    }
}

impl Clone for Pin {
    /// An object that is pinned is not about to leave.
    fn clone(&self) -> Self {
        *self.pins.table.lock().pinned.entry(self.object).or_default() += 1;
        Self { pins: Arc::clone(&self.pins), object: self.object }
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut table = self.pins.table.lock();
        if let Some(count) = table.pinned.get_mut(&self.object) {
            *count -= 1;
            if *count == 0 {
                table.pinned.remove(&self.object);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_leaves_or_is_pinned_and_never_both() {
        let pins = Arc::<Pins>::default();
        let [a, b] = [1, 2].map(ObjectSlot);
        let pin = pins.pin(|| Some(a));
        let again = pin.clone();
        drop(pin);
        assert_eq!(pins.close([a, b].into_iter()), FxHashSet::from_iter([b]));
        assert!(pins.pin(|| Some(b)).is_none());
        assert!(pins.pin(|| Some(a)).is_some());
        drop(again);
        assert_eq!(pins.close([a].into_iter()), FxHashSet::from_iter([a]));
        pins.open(&[a, b]);
        assert!(pins.pin(|| Some(b)).is_some());
    }
}
