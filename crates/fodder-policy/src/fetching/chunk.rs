//! `chunk`: two chunks of half the cache, one being read while the other is loaded (Quiver's).
//!
//! Chunks are cut from the ids, in stretches that lie together in storage and in a random order of stretches; or from the
//! plan of the first job that has one. The next chunk begins when this one is loaded and the one before is nearly used
//! up: jobs should then be answered in another order than planned, with whatever is there.

use super::{Fetch, Fetching, Next, View};
use crate::{job::JobId, permutation::Permutation, residency::IdSet};
use std::ops::Range;

/// What a chunk is cut from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Over {
    /// Stretches of neighbouring items.
    #[default]
    Ids,
    /// The next planned items.
    Plan,
}

/// How many items one call looks at.
const LOOKS: u32 = 4_096;

/// The most bytes of one proposal.
const PART_BYTES: u64 = 8 << 20;

/// A chunk is used up when no more than one in so many of its items are left.
const LEFT_OVER: usize = 10;

/// The state of `chunk`: a bit an item for each of two chunks.
#[derive(Debug)]
pub struct Chunks {
    over: Over,
    chunk_bytes: u64,
    seed: u64,
    /// The chunk that is loaded, or being loaded.
    loading: Chunk,
    /// The one before it.
    reading: Chunk,
    /// What is left of the stretch of ids that chunks are cut from now, and how many stretches have begun.
    stretch: Range<u32>,
    stretches: u64,
    /// Where whose plan is walked on, as a progress.
    job: Option<JobId>,
    cursor: u64,
    /// How many items were looked at since one was to be loaded.
    barren: u32,
}

/// The items of a chunk that are still to be used.
#[derive(Debug, Default)]
struct Chunk {
    unused: IdSet,
    items: usize,
    bytes: u64,
    is_whole: bool,
}

impl Chunk {
    fn add(&mut self, id: u32, bytes: u64) {
        self.unused.insert(id);
        self.items += 1;
        self.bytes += bytes;
    }

    fn is_used_up(&self) -> bool {
        self.unused.len() <= self.items / LEFT_OVER
    }
}

impl Chunks {
    /// Nothing loaded yet; chunks have so many bytes, and `seed` orders them.
    pub fn new(over: Over, chunk_bytes: u64, seed: u64) -> Self {
        let none = || Chunk { is_whole: true, ..Chunk::default() };
        Self {
            over,
            chunk_bytes,
            seed,
            loading: none(),
            reading: none(),
            stretch: 0..0,
            stretches: 0,
            job: None,
            cursor: 0,
            barren: 0,
        }
    }

    /// Begins the next chunk, if it is time; whether a chunk is being loaded.
    fn turn(&mut self, view: &dyn View) -> bool {
        if !self.loading.is_whole {
            return true;
        }
        if !self.reading.is_used_up() {
            return false;
        }
        if self.over == Over::Ids && self.stretch.is_empty() {
            self.stretch = self.next_stretch(view);
            self.stretches += 1;
        }
        self.reading = std::mem::take(&mut self.loading);
        true
    }

    /// The ids that chunks are cut from next, about as many as fill one: each stretch once, in an order that is new each
    /// round.
    fn next_stretch(&self, view: &dyn View) -> Range<u32> {
        let (items, total) = (view.items(), view.total_bytes().max(1));
        let fitting = u128::from(items) * u128::from(self.chunk_bytes) / u128::from(total);
        let width = fitting.clamp(1, items.max(1).into()) as u32;
        let count = items.div_ceil(width).max(1);
        let (round, position) = (self.stretches / u64::from(count), self.stretches % u64::from(count));
        let order = Permutation::new(count, self.seed, round);
        let start = order.at(position as u32).unwrap_or_default() * width;
        start..start.saturating_add(width).min(items)
    }

    /// The next item of the chunk that is being loaded.
    fn candidate(&mut self, view: &dyn View) -> Candidate {
        match self.over {
            Over::Ids => self.stretch.next().map_or(Candidate::Whole, Candidate::Item),
            Over::Plan => self.planned(view),
        }
    }

    fn planned(&mut self, view: &dyn View) -> Candidate {
        let job = view.planners().into_iter().next();
        if self.job != job {
            (self.job, self.cursor) = (job, 0);
        }
        match job.and_then(|job| view.upcoming(job, self.cursor)) {
            Some(Ok(next)) => {
                self.cursor = next.progress + 1;
                Candidate::Item(next.id)
            }
            Some(Err(further)) => {
                self.cursor = further;
                Candidate::Further
            }
            None => Candidate::Unknown,
        }
    }

    /// Takes back the last candidate: its turn is later.
    fn put_back(&mut self) {
        match self.over {
            Over::Ids => self.stretch.start -= 1,
            Over::Plan => self.cursor -= 1,
        }
    }

    /// Loads a part of the chunk; and whether there is more of it to look at.
    fn load(&mut self, view: &dyn View, room_bytes: u64) -> (Vec<u32>, u64, bool) {
        let has_plans = !view.planners().is_empty();
        let (mut ids, mut part) = (Vec::new(), 0);
        for _ in 0..LOOKS {
            let id = match self.candidate(view) {
                Candidate::Item(id) if view.held(id) || (has_plans && view.pending(id) == 0) => continue,
                Candidate::Item(id) => id,
                Candidate::Further => continue,
                Candidate::Whole => {
                    self.loading.is_whole = true;
                    return (ids, part, true);
                }
                Candidate::Unknown => return (ids, part, false),
            };
            let bytes = view.bytes(id);
            let is_full = self.loading.items > 0 && self.loading.bytes + bytes > self.chunk_bytes;
            let is_enough = part + bytes > room_bytes || (!ids.is_empty() && part + bytes > PART_BYTES);
            if is_full || is_enough {
                self.put_back();
                self.loading.is_whole = is_full;
                return (ids, part, is_full);
            }
            self.loading.add(id, bytes);
            ids.push(id);
            part += bytes;
        }
        (ids, part, true)
    }
}

/// Where the loading of a chunk is.
enum Candidate {
    /// At this item.
    Item(u32),
    /// Past a stretch of which nothing is to be loaded.
    Further,
    /// At the end of the chunk.
    Whole,
    /// At the end of the plan, as far as it is known.
    Unknown,
}

impl Fetching for Chunks {
    fn next(&mut self, view: &dyn View, room_bytes: u64) -> Next {
        if !self.turn(view) {
            return Next::Nothing;
        }
        let begins_chunk = self.loading.items == 0;
        let (ids, bytes, has_more) = self.load(view, room_bytes);
        if !ids.is_empty() {
            self.barren = 0;
            return Next::Fetch(Fetch { ids, bytes, through: None, begins_chunk });
        }
        self.barren = self.barren.saturating_add(LOOKS);
        if has_more && self.barren <= view.items().saturating_mul(2).saturating_add(LOOKS) {
            return Next::Searching;
        }
        self.barren = 0;
        Next::Nothing
    }

    fn taken(&mut self, id: u32, view: &dyn View) {
        if view.pending(id) == 0 {
            self.lost(id, view);
        }
    }

    fn lost(&mut self, id: u32, _view: &dyn View) {
        self.loading.unused.remove(id);
        self.reading.unused.remove(id);
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.loading.unused.heap_bytes() + self.reading.unused.heap_bytes()
    }
}

#[cfg(test)]
mod tests;
