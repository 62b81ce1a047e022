//! The gate of an object: what must be known about it while its file changes. Objects share gates.

use super::lease::Pin;
use rustc_hash::FxHashMap;
use std::sync::{Arc, Weak};

/// Counts of an object with several pieces. Objects of one piece need none: their state says it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) present: u32,
    pub(super) writing: u32,
}

#[derive(Debug, Default)]
pub(super) struct Gate {
    /// By slot: objects of several pieces that have a file.
    pub(super) counts: FxHashMap<u32, Counts>,
    /// By slot: files that are handed out.
    pins: FxHashMap<u32, Weak<Pin>>,
}

impl Gate {
    pub(super) fn pin(&self, slot: u32) -> Option<Arc<Pin>> {
        self.pins.get(&slot).and_then(Weak::upgrade)
    }

    pub(super) fn take_pin(&mut self, slot: u32) -> Option<Arc<Pin>> {
        self.pins.remove(&slot)?.upgrade()
    }

    pub(super) fn set_pin(&mut self, slot: u32, pin: &Arc<Pin>) {
        // Pins that were given back are cleared away before the map would grow.
        if self.pins.len() == self.pins.capacity() {
            self.pins.retain(|_, pin| pin.strong_count() > 0);
        }
        self.pins.insert(slot, Arc::downgrade(pin));
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.counts.capacity() * (size_of::<(u32, Counts)>() + 1)
            + self.pins.capacity() * (size_of::<(u32, Weak<Pin>)>() + 1)
    }
}
