//! What to bring in next: the trait behind `demand`, `chunk`, `plan`, `pending` and `pack`, and the choice among them.
//!
//! One instance proposes for one dataset, whenever the caller has room for more; the caller fetches, and what was
//! proposed counts as held from then on. Whatever is not proposed is fetched when it is asked for. Nothing here knows
//! bytes, requests or queues, and no call takes more than a bounded number of looks.

pub mod chunk;
#[cfg(any(test, feature = "testing"))]
pub mod conformance;
pub mod demand;
pub mod pack;
pub mod pending;
pub mod plan;

use crate::{
    Policy, Result,
    job::{JobId, Upcoming},
};
use std::{fmt, ops::Range};

/// How items are brought in, as it is written in a configuration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Strategy {
    /// Only what is asked for, when it is.
    Demand,
    /// What plans say, in the order and the time they say it. Without plans it is as `demand`.
    #[default]
    Plan,
    /// Large chunks, one being loaded while the one before is read (Quiver's).
    Chunk {
        /// What a chunk is cut from.
        over: chunk::Over,
    },
    /// Whatever most jobs still need (Seneca's).
    Pending,
    /// Runs of neighbouring items of which most have a low score, read in one go (iCache's).
    Pack,
}

/// How much may be brought in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// The bytes that the dataset may keep.
    pub cache_bytes: u64,
    /// The bytes that may be held for a use that is still to come.
    pub ahead_bytes: u64,
}

impl Strategy {
    /// How it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Demand => "demand",
            Self::Plan => "plan",
            Self::Chunk { .. } => "chunk",
            Self::Pending => "pending",
            Self::Pack => "pack",
        }
    }

    /// What goes with a way to keep, unless somebody chooses otherwise. What the fewest jobs need is brought in on demand,
    /// since jobs there take what is cached first; packs are for jobs that take others for what they asked.
    pub fn beside(policy: Policy) -> Self {
        match policy {
            Policy::Quiver => Self::Chunk { over: chunk::Over::default() },
            Policy::Pending => Self::Demand,
            _ => Self::Plan,
        }
    }

    /// A new instance. Where it chooses at random, `seed` says how.
    pub fn build(self, bounds: Bounds, seed: u64) -> Box<dyn Fetching> {
        match self {
            Self::Demand => Box::new(demand::Demand),
            Self::Plan => Box::new(plan::Ahead::new(bounds.ahead_bytes)),
            Self::Chunk { over } => Box::new(chunk::Chunks::new(over, bounds.cache_bytes / 2, seed)),
            Self::Pending => Box::new(pending::Refill::new(seed)),
            Self::Pack => Box::new(pack::Packs::default()),
        }
    }
}

/// What is proposed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Bring this in.
    Fetch(Fetch),
    /// Nothing was found so far: ask again, there is more to look at.
    Searching,
    /// Nothing, until something changes.
    Nothing,
}

/// Something to bring in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetch {
    /// What to keep, none of it held. In ascending order where it is a stretch.
    pub ids: Vec<u32>,
    /// How many bytes these are.
    pub bytes: u64,
    /// Read all items of this range in one go, though only some of them are to be kept.
    pub through: Option<Range<u32>>,
    /// A chunk begins with it (residency's `NextChunk`).
    pub begins_chunk: bool,
}

impl Next {
    /// One item.
    fn one(id: u32, bytes: u64) -> Self {
        Self::Fetch(Fetch { ids: vec![id], bytes, through: None, begins_chunk: false })
    }
}

/// What fetching sees. Ids are those of one snapshot.
pub trait View {
    /// How many items there are.
    fn items(&self) -> u32;

    /// How many bytes all of them have.
    fn total_bytes(&self) -> u64;

    /// How many bytes an item has.
    fn bytes(&self, id: u32) -> u64;

    /// Whether an item is cached or on its way.
    fn held(&self, id: u32) -> bool;

    /// How many jobs still need an item in the epoch they are in.
    fn pending(&self, _id: u32) -> u32 {
        0
    }

    /// Whether an item's score is low.
    fn is_low(&self, _id: u32) -> bool {
        false
    }

    /// Whether an item lies right behind the one before it in the same object.
    fn adjoins(&self, _id: u32) -> bool {
        true
    }

    /// The jobs that have plans.
    fn planners(&self) -> Vec<JobId> {
        Vec::new()
    }

    /// What a job will ask for: [`Jobs::upcoming`](crate::job::Jobs::upcoming).
    fn upcoming(&self, _job: JobId, _from: u64) -> Option<Result<Upcoming, u64>> {
        None
    }

    /// The progress at which a job will next ask for an item: [`Jobs::place_of`](crate::job::Jobs::place_of).
    fn place_of(&self, _job: JobId, _id: u32) -> Option<u64> {
        None
    }
}

/// Proposes what to bring in. See the conformance suite for what every strategy promises.
pub trait Fetching: Send + fmt::Debug {
    /// What to bring in next, of at most `room_bytes`.
    fn next(&mut self, view: &dyn View, room_bytes: u64) -> Next;

    /// A job was given an item.
    fn taken(&mut self, _id: u32, _view: &dyn View) {}

    /// An item that was proposed could not be fetched, or left the cache.
    fn lost(&mut self, _id: u32, _view: &dyn View) {}

    /// A job has another plan than was known before.
    fn replanned(&mut self) {}

    /// Bytes of memory held.
    fn memory_bytes(&self) -> usize;
}

#[cfg(test)]
mod tests;
