//! The leases that a mount holds, so that they can be reported to a node that does not know of them. Knows no connections.

use fodder_api::frames::{Lease, LeaseStatus, ObjectId};
use parking_lot::Mutex;
use std::sync::{Arc, Weak};

/// Entries below which nothing is pruned.
const MIN_ENTRIES: usize = 1024;

/// A lease and the object it is of.
pub(super) type Entry = (ObjectId, Arc<Lease>);

/// Every lease that is still in use. Entries of dropped leases are pruned before the list doubles.
#[derive(Debug, Default)]
pub(super) struct HeldLeases {
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    list: Vec<(ObjectId, Weak<Lease>)>,
    prune_at: usize,
}

impl HeldLeases {
    pub(super) fn add(&self, object: ObjectId, lease: &Arc<Lease>) {
        let mut entries = self.entries.lock();
        if entries.list.len() >= entries.prune_at.max(MIN_ENTRIES) {
            entries.list.retain(|(_, lease)| lease.strong_count() > 0);
            entries.prune_at = 2 * entries.list.len();
        }
        entries.list.push((object, Arc::downgrade(lease)));
    }

    /// Leases whose connection is gone.
    pub(super) fn unregistered(&self) -> Vec<Entry> {
        self.filtered(|lease| !lease.is_registered())
    }

    /// Leases that the node knows of and has not compared with their checksums.
    pub(super) fn unverified(&self) -> Vec<Entry> {
        self.filtered(|lease| lease.is_registered() && lease.status() == LeaseStatus::Unverified)
    }

    fn filtered(&self, wanted: impl Fn(&Lease) -> bool) -> Vec<Entry> {
        let live = self.entries.lock().list.clone().into_iter();
        let live = live.filter_map(|(object, lease)| Some((object, lease.upgrade()?)));
        live.filter(|(_, lease)| wanted(lease)).collect()
    }
}
