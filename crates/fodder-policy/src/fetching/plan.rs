//! `plan`: what jobs will ask for, in the order in which they will (NoPFS's clairvoyant prefetch).
//!
//! Each job's plan is walked once; what was held when the walk passed it and is lost before its use is gone back for. Of
//! what the plans of several jobs have next, that comes first which is expected to be
//! used first, by the rates at which the jobs were measured. It goes as far ahead as a budget of bytes allows: those that
//! were brought in and are not yet used.

use super::{Fetching, Next, View};
use crate::job::{JobId, Upcoming};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// How many planned items that are held already one call passes over.
const LOOKS: u32 = 4_096;
/// How many places of a plan it remembers to go back to. If there are more it walks from the first of them again.
const MOST_BEHIND: usize = 16_384;

/// The state of `plan`.
#[derive(Debug)]
pub struct Ahead {
    budget_bytes: u64,
    /// What was brought in and is not yet used.
    waiting: FxHashMap<u32, u64>,
    waiting_bytes: u64,
    walks: FxHashMap<JobId, Walk>,
}

/// How far a job's plan was walked.
#[derive(Debug, Default)]
struct Walk {
    /// Its progress.
    cursor: u64,
    /// Places before the cursor whose items were lost since.
    behind: BTreeSet<u64>,
}

impl Walk {
    /// Something is missing at a place.
    fn go_back(&mut self, place: u64) {
        if place < self.cursor {
            self.behind.insert(place);
        }
        if self.behind.len() > MOST_BEHIND {
            self.cursor = self.behind.pop_first().expect("there are many");
            self.behind.clear();
        }
    }
}

impl Ahead {
    /// Nothing brought in yet, of at most so many bytes.
    pub fn new(budget_bytes: u64) -> Self {
        Self { budget_bytes, waiting: FxHashMap::default(), waiting_bytes: 0, walks: FxHashMap::default() }
    }

    /// Walks a job's plan to its next item that is not held. Ends early when `looks` are used up.
    fn missing(&mut self, job: JobId, view: &dyn View, looks: &mut u32) -> Option<Upcoming> {
        let walk = self.walks.entry(job).or_default();
        while *looks > 0 {
            *looks -= 1;
            if let Some(&place) = walk.behind.first() {
                match view.upcoming(job, place) {
                    Some(Ok(next)) if next.progress == place && !view.held(next.id) => return Some(next),
                    _ => walk.behind.pop_first(),
                };
                continue;
            }
            match view.upcoming(job, walk.cursor)? {
                Ok(next) if view.held(next.id) => walk.cursor = next.progress + 1,
                Ok(next) => {
                    walk.cursor = next.progress;
                    return Some(next);
                }
                Err(further) => walk.cursor = further,
            }
        }
        None
    }

    fn used(&mut self, id: u32) {
        if let Some(bytes) = self.waiting.remove(&id) {
            self.waiting_bytes -= bytes;
        }
    }
}

impl Fetching for Ahead {
    fn next(&mut self, view: &dyn View, room_bytes: u64) -> Next {
        let planners = view.planners();
        self.walks.retain(|job, _| planners.contains(job));
        if self.waiting_bytes >= self.budget_bytes {
            return Next::Nothing;
        }
        let mut looks = LOOKS;
        let next: Vec<Upcoming> = planners.into_iter().filter_map(|job| self.missing(job, view, &mut looks)).collect();
        // The first of all is known only when every plan was walked to its own.
        if looks == 0 {
            return Next::Searching;
        }
        let Some(first) = next.into_iter().min_by_key(|next| next.at) else { return Next::Nothing };
        let bytes = view.bytes(first.id);
        // An item larger than the whole budget is still brought in, alone.
        let fits = self.waiting.is_empty() || self.waiting_bytes + bytes <= self.budget_bytes;
        if !fits || bytes > room_bytes {
            return Next::Nothing;
        }
        self.waiting.insert(first.id, bytes);
        self.waiting_bytes += bytes;
        Next::one(first.id, bytes)
    }

    fn taken(&mut self, id: u32, _view: &dyn View) {
        self.used(id);
    }

    fn lost(&mut self, id: u32, view: &dyn View) {
        self.used(id);
        for (job, walk) in &mut self.walks {
            if let Some(place) = view.place_of(*job, id) {
                walk.go_back(place);
            }
        }
    }

    fn replanned(&mut self) {
        self.walks.clear();
    }

    fn memory_bytes(&self) -> usize {
        let waiting = self.waiting.capacity() * (size_of::<(u32, u64)>() + 1);
        let walks = self.walks.capacity() * (size_of::<(JobId, Walk)>() + 1);
        let behind = self.walks.values().map(|walk| walk.behind.len() * 2 * size_of::<u64>()).sum::<usize>();
        size_of::<Self>() + waiting + walks + behind
    }
}

#[cfg(test)]
mod tests;
