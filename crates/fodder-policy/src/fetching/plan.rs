//! `plan`: what jobs will ask for, in the order in which they will (NoPFS's clairvoyant prefetch).
//!
//! Each job's plan is walked once. Of what the plans of several jobs have next, that comes first which is expected to be
//! used first, by the rates at which the jobs were measured. It goes as far ahead as a budget of bytes allows: those that
//! were brought in and are not yet used.

use super::{Fetching, Next, View};
use crate::job::{JobId, Upcoming};
use rustc_hash::FxHashMap;

/// How many planned items that are held already one call passes over.
const LOOKS: u32 = 4_096;

/// The state of `plan`.
#[derive(Debug)]
pub struct Ahead {
    budget_bytes: u64,
    /// What was brought in and is not yet used.
    waiting: FxHashMap<u32, u64>,
    waiting_bytes: u64,
    /// How far each job's plan was walked, as its progress.
    cursors: FxHashMap<JobId, u64>,
}

impl Ahead {
    /// Nothing brought in yet, of at most so many bytes.
    pub fn new(budget_bytes: u64) -> Self {
        Self { budget_bytes, waiting: FxHashMap::default(), waiting_bytes: 0, cursors: FxHashMap::default() }
    }

    /// Walks a job's plan to its next item that is not held. Ends early when `looks` are used up.
    fn missing(&mut self, job: JobId, view: &dyn View, looks: &mut u32) -> Option<Upcoming> {
        let cursor = self.cursors.entry(job).or_default();
        while *looks > 0 {
            *looks -= 1;
            match view.upcoming(job, *cursor)? {
                Ok(next) if view.held(next.id) => *cursor = next.progress + 1,
                Ok(next) => {
                    *cursor = next.progress;
                    return Some(next);
                }
                Err(further) => *cursor = further,
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
        self.cursors.retain(|job, _| planners.contains(job));
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

    fn lost(&mut self, id: u32) {
        self.used(id);
    }

    fn memory_bytes(&self) -> usize {
        let waiting = self.waiting.capacity() * (size_of::<(u32, u64)>() + 1);
        let cursors = self.cursors.capacity() * (size_of::<(JobId, u64)>() + 1);
        size_of::<Self>() + waiting + cursors
    }
}

#[cfg(test)]
mod tests;
