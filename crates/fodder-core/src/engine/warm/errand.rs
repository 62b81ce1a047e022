//! One warming at work: it looks, walks, brings in, and looks again. What it counts is in the tally.

use super::{
    bring::{Carrier, Outcome},
    pace::Pace,
    tally::Tally,
    walk::Chosen,
};
use crate::{
    Error, Result,
    config::DatasetConfig,
    engine::{Dataset, on_blocking_thread, read::REQUEST_BYTES, space::Space, stock::Stock},
    id::ObjectSlot,
    size,
    tier::Health,
};
use futures::{TryStreamExt, stream};
use std::{
    collections::VecDeque,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
};

/// Failures in a row after which an origin is given up: it does not answer, or refuses.
const GIVE_UP: usize = 64;
/// Objects whose parts are brought in at the same time, if they have several.
const ABREAST: usize = 8;

/// One warming at work.
pub(super) struct Errand {
    carrier: Carrier,
    chosen: Chosen,
    tally: Arc<Tally>,
    /// Stretches that failed since the last one that did not.
    failures: AtomicUsize,
}

/// What there is room for.
struct Room {
    /// Bytes that the order still allows.
    allowed: u64,
    /// Bytes that the tiers could still hold of this dataset, if the policy gave up everything else for it.
    capacity: u64,
}

/// A part of an object that is to be brought in.
struct Part {
    pieces: Range<u32>,
    whole: Arc<Whole>,
}

/// An object whose parts are on their way.
struct Whole {
    object: ObjectSlot,
    /// Whether it counts as an object here, and not on another node.
    counts: bool,
    parts_left: AtomicUsize,
    lost: AtomicBool,
}

impl Errand {
    pub(super) fn new(
        dataset: &Arc<Dataset>,
        chosen: Chosen,
        tally: Arc<Tally>,
        bytes_per_second: Option<u64>,
    ) -> Self {
        let carrier = Carrier::new(Arc::clone(dataset), Pace::new(bytes_per_second));
        Self { carrier, chosen, tally, failures: AtomicUsize::new(0) }
    }

    /// Brings in what is missing of everything that was chosen. An error if it cannot go on.
    pub(super) async fn run(&self, max_bytes: Option<u64>, workers: usize) -> Result<()> {
        let present = self.look().await?;
        let tally = &self.tally;
        tally.files.store(present.files, Relaxed);
        tally.bytes.store(present.bytes, Relaxed);
        for (there, skipped, count) in [
            (&tally.files_there, &tally.files_skipped, present.files_there),
            (&tally.bytes_there, &tally.bytes_skipped, present.bytes_there),
        ] {
            there.store(count, Relaxed);
            skipped.store(count, Relaxed);
        }
        let mut room = Room {
            allowed: max_bytes.unwrap_or(u64::MAX).saturating_sub(present.bytes_there),
            capacity: self.carrier.dataset.capacity_bytes().saturating_sub(present.bytes_there),
        };
        let parts = abreast(ABREAST, self.chosen.walk().map(|object| self.parts(object, &mut room)));
        stream::iter(parts.map(Ok)).try_for_each_concurrent(workers, |part| self.carry(part)).await?;
        self.settle().await
    }

    /// Looks at everything that was chosen.
    async fn look(&self) -> Result<Found> {
        let (dataset, chosen) = (Arc::clone(&self.carrier.dataset), self.chosen.clone());
        on_blocking_thread(move || {
            let mut found = Found::default();
            for object in chosen.walk() {
                if dataset.is_closed() {
                    return Err(Error::Closed);
                }
                let runs = dataset.runs_of(object, chosen.share);
                let size: u64 = runs.iter().map(|run| dataset.run_bytes(object, run)).sum();
                let missing: u64 = runs.into_iter().map(|run| dataset.missing_bytes(run)).sum();
                if dataset.counts(object, chosen.share) {
                    found.files += 1;
                    found.files_there += u64::from(missing == 0);
                }
                found.bytes += size;
                found.bytes_there += size - missing;
            }
            Ok(found)
        })
        .await
    }

    /// The parts of an object that are to be brought in: none if it is there, or must stay out.
    fn parts(&self, object: ObjectSlot, room: &mut Room) -> Vec<Part> {
        let dataset = &self.carrier.dataset;
        let runs = dataset.runs_of(object, self.chosen.share);
        let bytes: u64 = runs.iter().map(|run| dataset.missing_bytes(run.clone())).sum();
        if bytes == 0 {
            return Vec::new();
        }
        let counts = dataset.counts(object, self.chosen.share);
        for (left, count) in
            [(&mut room.allowed, &self.tally.files_too_large), (&mut room.capacity, &self.tally.files_declined)]
        {
            let Some(rest) = left.checked_sub(bytes) else {
                count.fetch_add(u64::from(counts), Relaxed);
                self.tally.bytes_given_up.fetch_add(bytes, Relaxed);
                return Vec::new();
            };
            *left = rest;
        }
        let piece_bytes = u64::from(dataset.objects.load().piece_bytes());
        let step = (self.carrier.pace.request_bytes(REQUEST_BYTES) / piece_bytes).max(1) as usize;
        let cut = |run: Range<u32>| run.clone().step_by(step).map(move |first| first..run.end.min(first + step as u32));
        let parts = runs.into_iter().flat_map(cut);
        let parts: Vec<_> = parts.filter(|part| dataset.missing(part.clone()).next().is_some()).collect();
        let whole = Whole { object, counts, parts_left: AtomicUsize::new(parts.len()), lost: AtomicBool::new(false) };
        let whole = Arc::new(whole);
        parts.into_iter().map(|pieces| Part { pieces, whole: Arc::clone(&whole) }).collect()
    }

    /// Brings a part in. An error only if nothing comes any more.
    async fn carry(&self, Part { pieces, whole }: Part) -> Result<()> {
        let (carrier, tally) = (&self.carrier, &self.tally);
        let wanted = carrier.dataset.missing_bytes(pieces.clone());
        tally.begin(pieces.clone(), wanted);
        let outcome = carrier.bring(pieces.clone()).await;
        tally.bytes_fetched.store(carrier.fetched_bytes.load(Relaxed), Relaxed);
        let missing = carrier.dataset.missing_bytes(pieces.clone());
        tally.end(&pieces, wanted.saturating_sub(missing), missing);
        let lost = |counts: &[&AtomicU64]| {
            // An object counts once, however many of its parts do not come.
            if !whole.lost.swap(true, Relaxed) && whole.counts {
                for count in counts {
                    count.fetch_add(1, Relaxed);
                }
            }
        };
        let mut verdict = Ok(());
        match outcome {
            Outcome::There => self.failures.store(0, Relaxed),
            Outcome::Declined => lost(&[&tally.files_declined]),
            Outcome::Failed(Error::Closed) => return Err(Error::Closed),
            Outcome::Failed(error @ (Error::NotFound(_) | Error::Stale(_))) => {
                // The origin has answered, and its neighbours may be there.
                self.failures.store(0, Relaxed);
                lost(&[&tally.files_failed, &tally.files_outdated]);
                tally.problem(|| carrier.dataset.objects().path(whole.object), &error);
            }
            Outcome::Failed(error) => {
                lost(&[&tally.files_failed]);
                tally.problem(|| carrier.dataset.objects().path(whole.object), &error);
                let failures = self.failures.fetch_add(1, Relaxed) + 1;
                if failures >= GIVE_UP {
                    let text = format!("gave up after {failures} consecutive failures; the last one: {error}");
                    verdict = Err(Error::Unavailable(text));
                }
            }
        }
        if whole.parts_left.fetch_sub(1, Relaxed) == 1 && !whole.lost.load(Relaxed) && whole.counts {
            tally.files_there.fetch_add(1, Relaxed);
        }
        verdict
    }

    /// Looks again at the end: what counts is what is on the shelves now.
    async fn settle(&self) -> Result<()> {
        let found = self.look().await?;
        let tally = &self.tally;
        // Other nodes may have come or gone meanwhile, and what this one owns with them.
        tally.files.store(found.files, Relaxed);
        tally.bytes.store(found.bytes, Relaxed);
        tally.files_there.store(found.files_there, Relaxed);
        tally.bytes_there.store(found.bytes_there, Relaxed);
        let mut absent = found.files - found.files_there;
        // What was given up and came after all, by a reader, is not absent.
        for count in [&tally.files_failed, &tally.files_too_large, &tally.files_declined] {
            let counted = count.load(Relaxed).min(absent);
            count.store(counted, Relaxed);
            absent -= counted;
        }
        tally.files_evicted.store(absent, Relaxed);
        tally.files_outdated.fetch_min(tally.files_failed.load(Relaxed), Relaxed);
        if tally.files_declined.load(Relaxed) > 0 {
            *tally.declined_because.lock() = self.carrier.dataset.why_declined();
        }
        Ok(())
    }
}

/// The parts of all objects, those of a few neighbours in turn: a file is written by one thread at a time.
fn abreast<T>(count: usize, objects: impl Iterator<Item = Vec<T>>) -> impl Iterator<Item = T> {
    let (mut objects, mut open) = (objects.fuse(), VecDeque::new());
    std::iter::from_fn(move || {
        while open.len() < count
            && let Some(parts) = objects.next()
        {
            open.extend(Some(parts.into_iter()).filter(|parts| parts.len() > 0));
        }
        let mut first = open.pop_front()?;
        let part = first.next();
        open.extend(Some(first).filter(|parts| parts.len() > 0));
        part
    })
}

/// What a look at the shelves found.
#[derive(Debug, Default)]
struct Found {
    files: u64,
    bytes: u64,
    files_there: u64,
    bytes_there: u64,
}

impl Dataset {
    /// The bytes that the tiers could hold of this dataset alone.
    fn capacity_bytes(&self) -> u64 {
        let here = |(space, stock): &(Arc<Space>, Arc<Stock>)| space.tier.quota_bytes().min(stock.cap_bytes());
        self.stocks.iter().map(here).fold(0, u64::saturating_add)
    }

    /// Why the cache keeps things out, for a person.
    fn why_declined(&self) -> String {
        let DatasetConfig { name, policy, .. } = self.config();
        let ill = self.stocks.iter().map(|(space, _)| space).find(|space| space.tier.health() != Health::Ok);
        let capacity = size::human(self.capacity_bytes());
        match ill {
            Some(space) => format!("the tier {} accepts no writes now: see `fodder status`", space.path.display()),
            None => format!(
                "the cache, which may hold {capacity} of {name}, is full, and policy {policy} evicts nothing for \
                 them; increase the cache size or the quota, or make room with `fodder evict`"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_few_objects_come_in_turn_and_each_comes_once() {
        let objects = [vec![10, 11, 12], vec![], vec![20], vec![30, 31], vec![40], vec![50, 51]];
        let all: Vec<i32> = abreast(4, objects.into_iter()).collect();
        assert_eq!(all, [10, 20, 30, 40, 11, 50, 31, 12, 51]);
    }
}
