//! A trace: requests in a fixed order over dense ids, with what is known about the ids.
//!
//! Synthetic ones come from a [`Workload`](super::Workload), others from a node's own recording or from a text. It
//! knows nothing of policies, and of files only their bytes.

mod builder;
mod reader;
mod recorded;
mod text;

pub(crate) use builder::Builder as TraceBuilder;
pub use reader::{Choice, Reader};
pub use recorded::Recorder;
pub use text::Columns;

use std::sync::Arc;

/// The most requests of one trace: their positions are kept in 32 bits, and a billion of them are 4 GB.
pub const MAX_REQUESTS: u64 = 1 << 30;

/// Requests in a fixed order.
#[derive(Debug, Clone, Default)]
pub struct Trace {
    /// Who is asked for, in order.
    pub requests: Vec<u32>,
    /// How many ids there are: each request is below it.
    pub items: u32,
    /// How large the items are.
    pub sizes: Sizes,
    /// How many requests at the front only warm the cache and are not counted.
    pub skip: usize,
    /// What items are worth, where anybody says so, and from when on.
    pub scores: Vec<Scores>,
    /// Where the epochs of the one job behind it begin; empty where there is no such job. An epoch ends where the
    /// next begins, and asks for no item twice.
    pub epochs: Vec<usize>,
}

impl Trace {
    /// The bytes of all items together: a cache of this size misses each item once.
    pub fn total_bytes(&self) -> u64 {
        match &self.sizes {
            Sizes::One => u64::from(self.items),
            Sizes::Each(sizes) => sizes.iter().map(|&bytes| u64::from(bytes)).sum(),
        }
    }

    /// What a cache that holds this share of all items holds in bytes.
    pub fn capacity_bytes(&self, share: f64) -> u64 {
        (self.total_bytes() as f64 * share).round() as u64
    }
}

/// What items are worth from some request on.
#[derive(Debug, Clone)]
pub struct Scores {
    /// Before which request they take effect.
    pub at: usize,
    /// The worth of each id.
    pub by_id: Arc<[f32]>,
}

/// How large items are.
#[derive(Debug, Clone, Default)]
pub enum Sizes {
    /// All alike: one byte stands for an item, and a cache holds so many items.
    #[default]
    One,
    /// The bytes of each id.
    Each(Arc<[u32]>),
}

impl Sizes {
    /// The bytes of an id.
    #[inline]
    pub fn of(&self, id: u32) -> u32 {
        match self {
            Self::One => 1,
            Self::Each(sizes) => sizes[id as usize],
        }
    }
}
