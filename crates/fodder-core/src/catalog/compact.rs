//! Removes the objects that nothing needs any more.
//!
//! An object stays as long as a snapshot has it that is kept or that somebody holds. When the others are more than half of all,
//! the segments are written again without them, as one. The manifest that names the new segment commits: after a crash the
//! catalog is the old or the new one. Slots are never given out again, so that a slot which somebody remembers is never
//! another object; the numbers of pieces are. Who may still use an object is asked of the [`Release`].

use super::{
    Catalog, Inner, Objects, Snapshot, State, blocking, internal, number,
    pieces::Placed,
    record,
    segment::{self, Row, Rows, Segment},
};
use crate::{Result, id::ObjectSlot};
use rustc_hash::FxHashSet;
use std::sync::{Arc, Weak};
use tokio::sync::OwnedMutexGuard;

/// When a compaction is worth it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Worth {
    /// The fewest objects, or pieces, that are not needed.
    pub(super) least_objects: u32,
    pub(super) least_pieces: u32,
    /// The share of all that must be more.
    pub(super) share: f64,
}

impl Worth {
    const USUAL: Self = Self { least_objects: 1024, least_pieces: 1 << 14, share: 0.5 };
    /// As soon as one object is not needed, for tests.
    pub(super) const ALWAYS: Self = Self { least_objects: 1, least_pieces: 1, share: 0.0 };

    /// Whether it is, to remove so many objects and pieces.
    fn it(&self, objects: &Objects, count: u32, pieces: u32) -> bool {
        let most = |part: u32, all: u32| f64::from(part) > self.share * f64::from(all);
        count >= self.least_objects && most(count, objects.count())
            || pieces >= self.least_pieces && most(pieces, objects.piece_count())
    }
}

/// What is kept beside the catalog for each object, and may still be needed of objects that no snapshot has.
pub trait Release: Send + Sync {
    /// Those that must stay, of objects that no snapshot has.
    fn wanted(&self, objects: &[ObjectSlot]) -> FxHashSet<ObjectSlot>;

    /// Drops what is kept of these objects, and lets nobody use them from now on. Answers with those that are not in use: the
    /// others stay.
    fn release(&self, objects: &[ObjectSlot]) -> FxHashSet<ObjectSlot>;

    /// The objects that were released have left `before`. What else is known of their pieces is of no use any more.
    fn left(&self, before: &Objects, released: &FxHashSet<ObjectSlot>);

    /// The objects that were released stay after all.
    fn stay(&self, released: &FxHashSet<ObjectSlot>);
}

/// The snapshots that somebody holds: they and their objects are needed.
#[derive(Debug, Default)]
pub(super) struct Living(parking_lot::Mutex<Vec<Weak<Snapshot>>>);

impl Living {
    pub(super) fn add<'a>(&self, snapshots: impl Iterator<Item = &'a Arc<Snapshot>>) {
        let mut living = self.0.lock();
        living.retain(|snapshot| snapshot.strong_count() > 0);
        living.extend(snapshots.map(Arc::downgrade));
    }

    /// Each of them once, although a snapshot is made anew whenever the catalog changes.
    fn all(&self) -> Vec<Arc<Snapshot>> {
        let mut all: Vec<Arc<Snapshot>> = self.0.lock().iter().filter_map(Weak::upgrade).collect();
        all.sort_by_key(|snapshot| snapshot.id().0);
        all.dedup_by_key(|snapshot| snapshot.id().0);
        all
    }
}

impl Catalog {
    /// Removes the objects that nothing needs any more, if they are more than half of all. Whether it did.
    pub async fn compact(&self, release: Arc<dyn Release>) -> Result<bool> {
        let guard = self.changing.clone().lock_owned().await;
        let inner = Arc::clone(&self.inner);
        blocking(move || inner.compact(&guard, &*release, Worth::USUAL)).await
    }

    /// Removes all objects that nothing needs, however few they are. For tests.
    #[doc(hidden)]
    pub async fn compact_fully(&self, release: Arc<dyn Release>) -> Result<bool> {
        let guard = self.changing.clone().lock_owned().await;
        let inner = Arc::clone(&self.inner);
        blocking(move || inner.compact(&guard, &*release, Worth::ALWAYS)).await
    }

    /// The same on this thread, before anybody else has the catalog.
    pub fn compact_now(&self, release: &dyn Release) -> Result<bool> {
        let Ok(guard) = self.changing.clone().try_lock_owned() else { return Ok(false) };
        self.inner.compact(&guard, release, Worth::USUAL)
    }
}

impl Inner {
    pub(super) fn compact(&self, _changing: &OwnedMutexGuard<()>, release: &dyn Release, worth: Worth) -> Result<bool> {
        let state = self.state.load_full();
        let objects = &state.objects;
        let Some(newest) = state.snapshots.last() else { return Ok(false) };
        let needed_pieces = newest.total_bytes() / u64::from(objects.piece_bytes());
        let most_pieces = objects.piece_count().saturating_sub(u32::try_from(needed_pieces).unwrap_or(u32::MAX));
        if !worth.it(objects, objects.count().saturating_sub(newest.object_count()), most_pieces) {
            return Ok(false);
        }
        let mut dead = self.without_snapshot(objects);
        let wanted = release.wanted(&dead);
        dead.retain(|object| !wanted.contains(object));
        let pieces = dead.iter().map(|object| objects.pieces_of(*object)).sum();
        if !worth.it(objects, dead.len() as u32, pieces) {
            return Ok(false);
        }
        let released = release.release(&dead);
        let compacted = self.without(&state, &released);
        if let Err(error) = compacted {
            release.stay(&released);
            return Err(error);
        }
        release.left(objects, &released);
        tracing::debug!(dir = %self.dir.display(), removed = released.len(), "removed old versions from the catalog");
        Ok(true)
    }

    /// The objects that no snapshot has which is kept or held.
    fn without_snapshot(&self, objects: &Objects) -> Vec<ObjectSlot> {
        let mut needed = vec![0u64; (objects.count() as usize).div_ceil(64)];
        for snapshot in self.living.all() {
            for row in snapshot.objects().filter_map(|object| objects.row(object)) {
                needed[row as usize / 64] |= 1 << (row % 64);
            }
        }
        let is_needed = |row: usize| needed[row / 64] >> (row % 64) & 1 == 1;
        let rows = objects.slots(0..objects.len()).enumerate();
        rows.filter(|(row, _)| !is_needed(*row)).map(|(_, object)| object).collect()
    }

    /// Writes the objects that are not `gone` as one segment, and makes it count.
    fn without(&self, state: &State, gone: &FxHashSet<ObjectSlot>) -> Result<()> {
        let objects = &state.objects;
        let mut manifest = state.manifest.clone();
        let staying = Staying { objects, gone };
        let slots: Vec<u32> = staying.slots().map(|slot| slot.0).collect();
        let mut segments = Vec::new();
        manifest.segments.clear();
        if !slots.is_empty() {
            let name = number(&mut manifest, "segment");
            let path = self.dir.join(&name);
            segment::write(&path, objects.piece_bytes(), &slots, &staying, self.layout.has_records())?;
            let known = staying.slots().map(|slot| Some(objects.first_piece(slot).0));
            let segment = Segment::open(&path).map_err(internal)?;
            segments.push(Placed::place(segment, known, &mut objects.free(false))?);
            manifest.segments.push(name);
        }
        let (next_slot, in_use) = (objects.len(), objects.end_in_use());
        let objects = Objects::new(self.identity, objects.piece_bytes(), next_slot, in_use, segments);
        let objects = objects.map_err(internal)?;
        let snapshots: Vec<_> = state.snapshots.iter().map(|kept| Arc::new(kept.over(objects.clone()))).collect();
        manifest.write(&self.dir)?;
        manifest.sweep(&self.dir);
        self.publish(State { manifest, objects, snapshots });
        Ok(())
    }
}

/// The objects that stay, as the rows of a segment.
struct Staying<'a> {
    objects: &'a Objects,
    gone: &'a FxHashSet<ObjectSlot>,
}

impl Staying<'_> {
    fn stays(&self, segment: &Segment, row: u32) -> bool {
        !self.gone.contains(&ObjectSlot(segment.slot_of(row)))
    }

    fn slots(&self) -> impl Iterator<Item = ObjectSlot> + '_ {
        self.objects.slots(0..self.objects.len()).filter(|slot| !self.gone.contains(slot))
    }

    /// The segments, with the new row of each of their rows that stays.
    fn segments(&self) -> impl Iterator<Item = (&Segment, Vec<Option<u32>>)> {
        let mut next = 0;
        self.objects.segments().map(move |segment| {
            let mut number = |row| {
                self.stays(segment, row).then(|| {
                    next += 1;
                    next - 1
                })
            };
            (segment, (0..segment.len()).map(&mut number).collect())
        })
    }
}

impl Rows for Staying<'_> {
    fn each(&self, take: &mut dyn FnMut(Row<'_>) -> Result<()>) -> Result<()> {
        for segment in self.objects.segments() {
            let mut rows = 0..segment.len();
            segment.each(&mut |row| match rows.next() {
                Some(number) if self.stays(segment, number) => take(row),
                _ => Ok(()),
            })?;
        }
        Ok(())
    }

    fn each_record(&self, take: &mut dyn FnMut(u32, record::Record<'_>) -> Result<()>) -> Result<()> {
        self.segments().try_for_each(|(segment, rows)| {
            segment.each_record(&mut |row, record| rows[row as usize].map_or(Ok(()), |row| take(row, record)))
        })
    }

    fn problems(&self) -> Vec<(u32, String)> {
        let all = self.segments().flat_map(|(segment, rows)| {
            let problems = Rows::problems(segment).into_iter();
            problems.filter_map(move |(row, text)| rows[row as usize].map(|row| (row, text))).collect::<Vec<_>>()
        });
        all.collect()
    }
}
