//! Objects of a dataset that its newest snapshot does not have: they are evicted before anything else, those that were
//! removed only after a grace period.

use crate::{
    catalog::{Objects, Snapshot},
    id::ObjectSlot,
};
use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

/// A longer grace would be one without an end, and overflow.
const LONGEST_GRACE: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Objects that the newest snapshot does not have.
#[derive(Debug, Clone, Default)]
pub(super) struct Retired {
    due: Vec<ObjectSlot>,
    /// Removed objects by the time at which their grace ends; at most one group for each kept snapshot.
    in_grace: Vec<(Instant, Vec<ObjectSlot>)>,
}

impl Retired {
    /// Finds them. `snapshots` are those that are kept, the newest last.
    ///
    /// An object whose path is still there is an old version, which is due at once. The others were removed when the first
    /// snapshot without them was sealed, or earlier.
    pub(super) fn find(snapshots: &[Arc<Snapshot>], objects: &Objects, grace: Duration) -> Self {
        let mut retired = Self::default();
        let Some((newest, older)) = snapshots.split_last() else { return retired };
        let mut live = vec![false; objects.len() as usize];
        newest.objects().for_each(|object| live[object.0 as usize] = true);
        let mut groups = vec![Vec::new(); snapshots.len()];
        for slot in (0..objects.len()).filter(|slot| !live[*slot as usize]).map(ObjectSlot) {
            if newest.lookup(&objects.path(slot)).is_some() {
                retired.due.push(slot);
                continue;
            }
            let last_with = older.iter().rposition(|snapshot| snapshot.place_of(slot).is_some());
            groups[last_with.map_or(0, |index| index + 1)].push(slot);
        }
        for (snapshot, group) in snapshots.iter().zip(groups).filter(|(_, group)| !group.is_empty()) {
            let age = SystemTime::now().duration_since(snapshot.sealed_at()).unwrap_or_default();
            retired.in_grace.push((Instant::now() + grace.min(LONGEST_GRACE).saturating_sub(age), group));
        }
        retired
    }

    /// Takes the next object that is due.
    pub(super) fn pop(&mut self) -> Option<ObjectSlot> {
        self.end_graces();
        self.due.pop()
    }

    /// Whether no object is due.
    pub(super) fn is_empty(&mut self) -> bool {
        self.end_graces();
        self.due.is_empty()
    }

    fn end_graces(&mut self) {
        if self.in_grace.is_empty() {
            return;
        }
        let now = Instant::now();
        for (_, group) in self.in_grace.extract_if(.., |(end, _)| *end <= now) {
            self.due.extend(group);
        }
    }
}
