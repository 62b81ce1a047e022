//! What jobs report of the importance of items, and one score for each item from all of them.
//!
//! Reports are collected aside and take effect together. The combination is a pure function over a snapshot of the
//! reports that is cheap to take (chunks are shared until they change), so it runs wherever there is time for it.

mod page;

pub use page::{PAGE_ITEMS, Page};

use super::Scores;
use crate::{Error, Result, plan::Snapshot, residency::signal::UNSCORED};
use std::sync::Arc;

/// Scores are kept and shared in chunks of so many.
const CHUNK: usize = 1_024;

/// Scores that were checked. Making it takes time in proportion to the scores, and can be done before any lock is taken;
/// a job takes a dense one in O(1).
#[derive(Debug, Clone)]
pub struct Report {
    items: u32,
    scores: Checked,
    /// How many chunks it has scores in.
    chunks: usize,
}

#[derive(Debug, Clone)]
enum Checked {
    Dense(Chunks),
    Sparse(Vec<(u32, f32)>),
}

impl Report {
    /// Checks scores of a snapshot of so many items; nothing of them counts if anything is wrong.
    pub fn new(items: u32, scores: Scores<'_>) -> Result<Self> {
        check(items, scores)?;
        Ok(Self::of(
            items,
            match scores {
                Scores::Dense(values) => Checked::Dense((0..).zip(values.iter().copied()).collect()),
                Scores::Sparse { ids, values } => {
                    Checked::Sparse(ids.iter().copied().zip(values.iter().copied()).collect())
                }
            },
        ))
    }

    fn of(items: u32, scores: Checked) -> Self {
        let chunks = match &scores {
            Checked::Dense(chunks) => chunks.held,
            Checked::Sparse(scores) => scores.chunk_by(|a, b| a.0 as usize / CHUNK == b.0 as usize / CHUNK).count(),
        };
        Self { items, scores, chunks }
    }

    /// The same in parts that each take a bounded time to collect: of at most so many scores where they are of some items.
    pub fn in_parts(self, most: usize) -> Vec<Self> {
        match &self.scores {
            Checked::Sparse(scores) if scores.len() > most => {
                scores.chunks(most.max(1)).map(|part| Self::of(self.items, Checked::Sparse(part.to_vec()))).collect()
            }
            _ => vec![self],
        }
    }

    /// How many items the snapshot has that it is for.
    pub(super) fn items(&self) -> u32 {
        self.items
    }

    /// How many bytes it can add to what a job holds.
    pub(super) fn growth_bytes(&self) -> usize {
        self.chunks * size_of::<[f32; CHUNK]>()
    }
}

/// The reports of one job.
#[derive(Debug, Default)]
pub(super) struct Book {
    /// What was reported, taking effect or not yet.
    collected: Chunks,
    /// What takes effect.
    effective: Chunks,
    /// Whether the two differ.
    pending: bool,
}

/// A score for some of the items, NaN for the others: 4 bytes an item, where any of its chunk has one.
#[derive(Debug, Clone, Default)]
struct Chunks {
    chunks: Vec<Option<Arc<[f32; CHUNK]>>>,
    held: usize,
}

impl Book {
    /// Collects a report: a later score of an item replaces an earlier one.
    pub(super) fn collect(&mut self, report: Report) {
        match report.scores {
            Checked::Dense(chunks) => self.collected = chunks,
            Checked::Sparse(scores) => self.collected.extend(scores),
        }
        self.pending = true;
    }

    /// Lets what was collected take effect; whether that changes anything.
    pub(super) fn settle(&mut self) -> bool {
        if self.pending {
            self.effective = self.collected.clone();
        }
        std::mem::take(&mut self.pending)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.effective.held == 0
    }

    /// The most bytes it can hold: both sets may differ in every chunk.
    pub(super) fn heap_bytes(&self) -> usize {
        let table = (self.collected.chunks.capacity() + self.effective.chunks.capacity()) * size_of::<usize>();
        table + (self.collected.held + self.effective.held) * size_of::<[f32; CHUNK]>()
    }
}

impl Extend<(u32, f32)> for Chunks {
    fn extend<T: IntoIterator<Item = (u32, f32)>>(&mut self, scores: T) {
        scores.into_iter().for_each(|(id, value)| self.set(id, value));
    }
}

impl FromIterator<(u32, f32)> for Chunks {
    fn from_iter<T: IntoIterator<Item = (u32, f32)>>(scores: T) -> Self {
        let mut chunks = Self::default();
        chunks.extend(scores);
        chunks
    }
}

impl Chunks {
    fn set(&mut self, id: u32, value: f32) {
        let (chunk, place) = (id as usize / CHUNK, id as usize % CHUNK);
        if chunk >= self.chunks.len() {
            self.chunks.resize(chunk + 1, None);
        }
        let held = &mut self.held;
        let chunk = self.chunks[chunk].get_or_insert_with(|| {
            *held += 1;
            Arc::new([f32::NAN; CHUNK])
        });
        Arc::make_mut(chunk)[place] = value;
    }

    fn get(&self, id: u32) -> f32 {
        let chunk = self.chunks.get(id as usize / CHUNK).and_then(Option::as_deref);
        chunk.map_or(f32::NAN, |chunk| chunk[id as usize % CHUNK])
    }

    fn iter(&self) -> impl Iterator<Item = (u32, f32)> + '_ {
        let bases = (0u32..).step_by(CHUNK);
        bases.zip(&self.chunks).flat_map(|(base, chunk)| {
            let values = chunk.iter().flat_map(|chunk| chunk.iter());
            (base..).zip(values.copied()).filter(|(_, value)| !value.is_nan())
        })
    }
}

fn check(items: u32, scores: Scores<'_>) -> Result<()> {
    let (ids, values) = match scores {
        Scores::Dense(values) => (None, values),
        Scores::Sparse { ids, values } => (Some(ids), values),
    };
    let expected = ids.map_or(items as usize, <[u32]>::len);
    if values.len() != expected {
        return Err(Error::Invalid(format!(
            "{} scores were reported for {expected} items: report one score for each {}",
            values.len(),
            if ids.is_some() { "of the ids" } else { "item of the snapshot, or name the ids" }
        )));
    }
    if let Some(id) = ids.and_then(|ids| ids.iter().find(|&&id| id >= items)) {
        return Err(Error::Invalid(format!(
            "a score was reported for item {id}, but the snapshot has {items} items, numbered from 0"
        )));
    }
    if let Some(place) = values.iter().position(|value| !value.is_finite()) {
        let id = ids.map_or(place as u32, |ids| ids[place]);
        return Err(Error::Invalid(format!(
            "the score of item {id} is {}: report finite numbers, and leave out items without one",
            values[place]
        )));
    }
    Ok(())
}

/// The scores of all jobs that take effect at one moment. Independent of the jobs from then on.
#[derive(Debug, Clone)]
pub struct Reported {
    snapshot: Snapshot,
    jobs: Vec<(f32, Chunks)>,
}

impl Reported {
    pub(super) fn new<'a>(snapshot: Snapshot, books: impl Iterator<Item = (f32, &'a Book)>) -> Self {
        let jobs = books.filter(|(_, book)| !book.is_empty()).map(|(weight, book)| (weight, book.effective.clone()));
        Self { snapshot, jobs: jobs.collect() }
    }

    /// The snapshot whose items they are for.
    pub fn snapshot(&self) -> Snapshot {
        self.snapshot
    }

    /// One score an item: the mean over jobs, by weight, of where the item ranks among those that the job scored
    /// (above 0, at most 1). Ranks and not values, since losses of different jobs do not compare. Items that nobody
    /// scored are worth [`UNSCORED`]. It sorts once for each job.
    pub fn combine(&self) -> Arc<[f32]> {
        let mut sums = vec![(0.0f32, 0.0f32); self.snapshot.items as usize];
        for (weight, scores) in &self.jobs {
            let mut order: Vec<u64> = scores.iter().map(|(id, value)| ascending(value) << 32 | u64::from(id)).collect();
            order.sort_unstable();
            let total = order.len() as f32;
            let mut ranked = 0;
            // Items of the same score share the highest rank among them.
            for same in order.chunk_by(|a, b| a >> 32 == b >> 32) {
                ranked += same.len();
                for &entry in same {
                    if let Some((sum, weights)) = sums.get_mut(entry as u32 as usize) {
                        *sum += weight * (ranked as f32 / total);
                        *weights += weight;
                    }
                }
            }
        }
        sums.into_iter().map(|(sum, weights)| if weights > 0.0 { sum / weights } else { UNSCORED }).collect()
    }
}

/// A number that orders as the score does; both zeros are the same.
fn ascending(value: f32) -> u64 {
    let bits = (value + 0.0).to_bits();
    u64::from(if bits >> 31 == 0 { bits | 1 << 31 } else { !bits })
}

#[cfg(test)]
mod tests;
