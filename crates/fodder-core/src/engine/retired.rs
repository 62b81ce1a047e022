//! Objects of a dataset that its newest snapshot does not have: they are evicted before anything else, those that were
//! removed only after a grace period.

use crate::{
    catalog::{Objects, Snapshot},
    id::ObjectSlot,
};
use rustc_hash::{FxHashMap, FxHashSet};
use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

/// A longer grace would be one without an end, and overflow.
const LONGEST_GRACE: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// When the grace of each removed object ends, or has ended.
pub(super) type Ends = FxHashMap<ObjectSlot, Instant>;

/// Objects that the newest snapshot does not have.
#[derive(Debug, Clone, Default)]
pub(super) struct Retired {
    due: Vec<ObjectSlot>,
    /// Removed objects whose grace has not ended, the first to end last.
    in_grace: Vec<(Instant, ObjectSlot)>,
    ends: Arc<Ends>,
}

impl Retired {
    /// Finds them. `snapshots` are those that are kept, the newest last; `before` is what was found the last time.
    ///
    /// An object whose path is still there is an old version, which is due at once. The others were removed when the first
    /// snapshot without them was sealed. If no snapshot is kept that has an object, its grace ends as was found before; or, if the
    /// node has started since, as if it had been removed when the oldest snapshot was sealed.
    pub(super) fn find(snapshots: &[Arc<Snapshot>], objects: &Objects, grace: Duration, before: &Ends) -> Self {
        let Some((newest, older)) = snapshots.split_last() else { return Self::default() };
        let mut live = vec![false; objects.count() as usize];
        newest.objects().filter_map(|object| objects.row(object)).for_each(|row| live[row as usize] = true);
        let ends_by_snapshot: Vec<Instant> = snapshots.iter().map(|snapshot| end_of_grace(snapshot, grace)).collect();
        let (mut due, mut ends) = (Vec::new(), Ends::default());
        for (_, object) in objects.slots(0..objects.len()).enumerate().filter(|(row, _)| !live[*row]) {
            if newest.lookup(&objects.path(object)).is_some() {
                due.push(object);
                continue;
            }
            let last_with = older.iter().rposition(|snapshot| snapshot.place_of(object).is_some());
            let end = match (last_with, before.get(&object)) {
                (Some(index), _) => ends_by_snapshot[index + 1],
                (None, Some(known)) => *known,
                (None, None) => ends_by_snapshot[0],
            };
            ends.insert(object, end);
        }
        let mut in_grace: Vec<_> = ends.iter().map(|(object, end)| (*end, *object)).collect();
        in_grace.sort_unstable_by(|a, b| b.cmp(a));
        Self { due, in_grace, ends: Arc::new(ends) }
    }

    /// When the grace of each removed object ends.
    pub(super) fn ends(&self) -> Arc<Ends> {
        Arc::clone(&self.ends)
    }

    /// The removed objects whose grace has not ended.
    pub(super) fn in_grace(&mut self) -> FxHashSet<ObjectSlot> {
        self.end_graces();
        self.in_grace.iter().map(|(_, object)| *object).collect()
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
        while let Some((_, object)) = self.in_grace.pop_if(|(end, _)| *end <= now) {
            self.due.push(object);
        }
    }
}

/// When the grace ends of what was removed when a snapshot was sealed.
fn end_of_grace(snapshot: &Snapshot, grace: Duration) -> Instant {
    let age = SystemTime::now().duration_since(snapshot.sealed_at()).unwrap_or_default();
    Instant::now() + grace.min(LONGEST_GRACE).saturating_sub(age)
}
