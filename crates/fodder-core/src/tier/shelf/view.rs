//! Looking into a cache file that may still change: somebody reads it by itself and asks afterwards whether what it read still
//! counts, as a reader of this process looks at the epoch again.

use super::{Shelf, read::Ready};
use crate::{
    config::Medium,
    id::ObjectSlot,
    tier::{files::Kept, unlinked::UnlinkedFile},
};
use std::{
    fs::File,
    ops::Range,
    sync::{Arc, OnceLock, Weak, atomic::Ordering},
};

/// A cache file in which a range of an object stood, checked, when it was looked at.
#[derive(Debug)]
pub struct View {
    kept: Arc<Kept>,
    /// What the tier is made of.
    pub medium: Medium,
    slot: u32,
    epoch: u64,
}

impl View {
    /// The file, for this process to read. Its bytes are the object's only if [`Shelf::still_shows`] says so after reading.
    pub fn file(&self) -> &File {
        &self.kept.file
    }
}

/// A file that other processes are shown. Once it is unlinked it carries the charge, until the last of them has read it.
#[derive(Debug, Default)]
pub struct Shown {
    carried: OnceLock<Arc<UnlinkedFile>>,
}

impl Shown {
    pub(super) fn carry(&self, unlinked: &Arc<UnlinkedFile>) {
        let _ = self.carried.set(unlinked.clone());
    }
}

impl Shelf {
    /// The file that has a range of an object, if all of it is here and was checked. Never waits for a disk.
    pub fn view(&self, object: ObjectSlot, range: &Range<u64>) -> Option<View> {
        let _table = self.table.load();
        let object = self.object(object.0)?;
        // A group file has other objects too, and its cells are written again.
        if range.is_empty() || range.end > object.size || self.class_of(object).is_some() {
            return None;
        }
        let epoch = self.epoch(object.slot).load(Ordering::SeqCst);
        let Ready::Yes(_) = self.ready_in(object, range) else { return None };
        let kept = self.file(object.slot, epoch, false).ok()?;
        let view = View { kept, medium: self.core.medium, slot: object.slot, epoch };
        self.still_shows(&view).then_some(view)
    }

    /// The file of a view for another process, which cannot write it. Its blocks are charged until the guard is dropped, also
    /// if it is unlinked meanwhile. None if no descriptor can be spared, or the file has changed.
    pub fn show(&self, view: &View) -> Option<(Arc<File>, Arc<Shown>)> {
        let file = view.kept.for_reading()?;
        let shown = {
            let mut all = self.shown.lock();
            if all.len() == all.capacity() {
                all.retain(|_, shown| shown.strong_count() > 0);
            }
            let shown = all.get(&view.slot).and_then(Weak::upgrade).unwrap_or_default();
            all.insert(view.slot, Arc::downgrade(&shown));
            shown
        };
        // An eviction moves the epoch before it looks who is shown the file.
        self.still_shows(view).then_some((file, shown))
    }

    /// Who is shown a file that is being unlinked, after the epoch has moved.
    pub(super) fn take_shown(&self, slot: u32) -> Option<Arc<Shown>> {
        self.shown.lock().remove(&slot)?.upgrade()
    }

    /// Whether nothing was taken away from a file since it was looked at, so that what was read meanwhile is right.
    pub fn still_shows(&self, view: &View) -> bool {
        self.epoch(view.slot).load(Ordering::SeqCst) == view.epoch && !self.closed()
    }
}
