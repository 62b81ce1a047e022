//! Joining group files with what the index remembers of them, and removing them.

use super::group_charge;
use crate::tier::{
    group::{Cells, Claim, SizeClass},
    log::Record,
    shelf::{ON_DISK, Object, Shelf},
};
use std::sync::atomic::Ordering;

impl Shelf {
    /// Looks which group files there are, before their cells are claimed.
    pub(in crate::tier::shelf) fn open_groups(&self) {
        for class in SizeClass::all() {
            let length = self.core.files.group_length(&self.name, class.cell_bytes());
            *self.groups.of(class).length.write() = length.unwrap_or(0);
        }
    }

    /// Gives a cell to the object for which the index remembers it. An error names the object that has it already.
    pub(in crate::tier::shelf) fn claim_cell(&self, object: Object, cell: u32) -> std::result::Result<(), u32> {
        let Some(class) = self.class_of(object) else { return Ok(()) };
        if let Claim::TakenBy(owner) = self.groups.of(class).cells.lock().claim(cell, object.slot) {
            return Err(owner);
        }
        self.cells.reach(object.first).store(cell, Ordering::Release);
        Ok(())
    }

    /// Forgets objects of which the index says that they are in one cell: a crash came between two of its records, and which of
    /// them is out of date is not known.
    pub(in crate::tier::shelf) fn forget_disputed(&self, slots: &[u32]) {
        for object in slots.iter().filter_map(|&slot| self.object(slot)) {
            if self.flags(object) & ON_DISK != 0 {
                self.drop_object(&mut self.gate(object.slot), object);
            }
            self.core.queue.note(Record::DropFile { dataset: self.id, key: self.key(object.slot) });
        }
    }

    /// All cells that the index remembers are claimed: charges them, and cuts off or removes the rest.
    pub(in crate::tier::shelf) fn close_groups(&self) {
        for class in SizeClass::all() {
            let group = self.groups.of(class);
            let cells = {
                let mut cells = group.cells.lock();
                cells.claimed();
                cells.len()
            };
            self.charge_used(group_charge(class, cells, self.core.space.block));
            if *group.length.read() == 0 {
                continue;
            }
            if cells > 0 {
                self.cut(class, &mut group.length.write());
            } else if self.core.files.unlink_group(&self.name, class.cell_bytes()).is_ok() {
                *group.length.write() = 0;
            }
        }
    }

    /// Removes all group files: the dataset was removed, and its objects dropped.
    pub(in crate::tier::shelf) fn remove_groups(&self) {
        for class in SizeClass::all() {
            let group = self.groups.of(class);
            *group.length.write() = 0;
            self.core.files.forget(self.id, class.file_number(), || {});
            let mut cells = group.cells.lock();
            self.release(group_charge(class, cells.charged(), self.core.space.block));
            *cells = Cells::default();
        }
        self.core.remove_groups(&self.name);
    }
}
