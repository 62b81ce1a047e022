//! A sample of accesses that is always small enough: of the ids whose hash is below a threshold, the last requests. When
//! there are too many ids the threshold falls (SHARDS, Waldspurger et al., FAST 2015).
//!
//! Sampling by id, and not by request, keeps every id's own sequence whole, so that a small cache over the sample does
//! what the large one does over everything.

use crate::{
    permutation::mix,
    sim::{Trace, trace::TraceBuilder},
};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BinaryHeap, VecDeque};

/// How many ids are sampled at most, and how many of their requests are kept.
const MAX_IDS: usize = 1 << 13;
const MAX_REQUESTS: usize = 1 << 17;

/// A bounded sample of one dataset's accesses: about 1.5 MB when it is full.
#[derive(Debug, Clone)]
pub struct AccessSample {
    /// Who hashes below this is sampled.
    threshold: u64,
    /// Those that are, and the same by their hashes, the highest first.
    ids: FxHashSet<u32>,
    by_hash: BinaryHeap<(u64, u32)>,
    /// Their last requests, the oldest first: ids and bytes. Some are of ids that have dropped out since.
    requests: VecDeque<(u32, u32)>,
    max_ids: usize,
    max_requests: usize,
}

impl Default for AccessSample {
    fn default() -> Self {
        Self::with_bounds(MAX_IDS, MAX_REQUESTS)
    }
}

impl AccessSample {
    fn with_bounds(max_ids: usize, max_requests: usize) -> Self {
        Self {
            threshold: u64::MAX,
            ids: FxHashSet::default(),
            by_hash: BinaryHeap::new(),
            requests: VecDeque::new(),
            max_ids,
            max_requests,
        }
    }

    /// An id of so many bytes was asked for. Mostly nothing happens.
    #[inline]
    pub fn record(&mut self, id: u32, bytes: u32) {
        let hash = hash(id);
        if hash < self.threshold {
            self.keep(hash, id, bytes);
        }
    }

    /// Whether an id is sampled while the threshold is such: so that one who shares the sample need not ask it.
    #[inline]
    pub fn is_sampled(id: u32, threshold: u64) -> bool {
        hash(id) < threshold
    }

    /// Who hashes below this is sampled. It only falls.
    pub fn threshold(&self) -> u64 {
        self.threshold
    }

    fn keep(&mut self, hash: u64, id: u32, bytes: u32) {
        if self.ids.insert(id) {
            self.by_hash.push((hash, id));
            if self.ids.len() > self.max_ids
                && let Some((highest, dropped)) = self.by_hash.pop()
            {
                self.ids.remove(&dropped);
                self.threshold = highest;
            }
        }
        if self.requests.len() == self.max_requests {
            self.requests.pop_front();
        }
        self.requests.push_back((id, bytes));
    }

    /// Which share of all ids is sampled.
    pub fn share(&self) -> f64 {
        self.threshold as f64 / u64::MAX as f64
    }

    /// The sampled requests, in order.
    pub fn trace(&self) -> Trace {
        let mut trace = TraceBuilder::default();
        for &(id, bytes) in self.requests.iter().filter(|(id, _)| hash(*id) < self.threshold) {
            trace.request(u64::from(id), Some(bytes));
        }
        trace.build()
    }

    /// The bytes of the ids that the sampled requests ask for, each once and as large as it ever was.
    pub fn bytes(&self) -> u64 {
        let mut sizes = FxHashMap::default();
        for &(id, bytes) in self.requests.iter().filter(|(id, _)| hash(*id) < self.threshold) {
            let size = sizes.entry(id).or_insert(0u32);
            *size = bytes.max(*size);
        }
        sizes.values().map(|&bytes| u64::from(bytes)).sum()
    }

    /// Bytes of memory it holds, about.
    pub fn memory_bytes(&self) -> usize {
        let ids = self.ids.capacity() * 2 * size_of::<u32>() + self.by_hash.capacity() * size_of::<(u64, u32)>();
        size_of::<Self>() + ids + self.requests.capacity() * size_of::<(u32, u32)>()
    }
}

/// Different from the hash by which `auto` watches ids.
fn hash(id: u32) -> u64 {
    mix(u64::from(id) ^ 0x5bd1_e995_0000_0000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_stays_small_and_keeps_whole_sequences() {
        let mut sample = AccessSample::with_bounds(100, 1_000);
        for epoch in 0..50u32 {
            (0..10_000).for_each(|id| sample.record(id, id + epoch));
        }
        assert!((sample.share() - 0.01).abs() < 0.004, "{} is sampled", sample.share());
        let trace = sample.trace();
        assert!(trace.items <= 100 && trace.requests.len() <= 1_000, "{} of {}", trace.requests.len(), trace.items);
        let first: Vec<u32> = trace.requests[..trace.items as usize].to_vec();
        let epochs = trace.requests.chunks_exact(trace.items as usize);
        assert!(epochs.len() >= 9 && epochs.clone().all(|epoch| epoch == first));
        assert!(sample.memory_bytes() < 100_000);
    }

    #[test]
    fn few_ids_are_all_sampled() {
        let mut sample = AccessSample::default();
        [7, 3, 7].into_iter().for_each(|id| sample.record(id, 10));
        assert_eq!((sample.share(), sample.bytes(), sample.trace().requests), (1.0, 20, vec![0, 1, 0]));
        assert_eq!(AccessSample::default().trace().items, 0);
    }
}
