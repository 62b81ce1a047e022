//! The sample of accesses, shared by all who read. Who is not in the sample takes no lock, and nobody waits for it.

use fodder_policy::advise::AccessSample;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A sample that many threads record into.
#[derive(Debug)]
pub(super) struct Sampler {
    /// Who hashes below this is sampled: a copy, to look at without the lock.
    threshold: AtomicU64,
    sample: Mutex<AccessSample>,
}

impl Default for Sampler {
    fn default() -> Self {
        let sample = AccessSample::default();
        Self { threshold: AtomicU64::new(sample.threshold()), sample: Mutex::new(sample) }
    }
}

impl Sampler {
    /// A piece of so many bytes was read. While another thread records, this one is left out: a sample bears that, and a
    /// warm read does not bear waiting.
    #[inline]
    pub(super) fn record(&self, piece: u32, bytes: impl FnOnce() -> u32) {
        if AccessSample::is_sampled(piece, self.threshold.load(Relaxed))
            && let Some(mut sample) = self.sample.try_lock()
        {
            sample.record(piece, bytes());
            self.threshold.store(sample.threshold(), Relaxed);
        }
    }

    /// The sample so far.
    pub(super) fn sample(&self) -> AccessSample {
        self.sample.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_falls_out_of_the_sample_is_no_longer_looked_at() {
        let sampler = Sampler::default();
        (0..100_000).for_each(|piece| sampler.record(piece, || 10));
        assert!(sampler.threshold.load(Relaxed) < u64::MAX / 4);
        assert_eq!(sampler.threshold.load(Relaxed), sampler.sample().threshold());
        let asked = (0..100_000).filter(|piece| {
            let mut asked = false;
            sampler.record(*piece, || {
                asked = true;
                10
            });
            asked
        });
        assert!((4_000..20_000).contains(&asked.count()));
    }
}
