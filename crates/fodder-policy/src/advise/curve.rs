//! Hit ratios of other cache sizes and policies, from a sample of accesses: each policy is run over the sample in a cache
//! as much smaller (miniature simulation, Waldspurger et al., ATC 2017).

use super::{AccessSample, Measured};
use crate::{
    Policy,
    sim::{Study, Trace, study::Contender},
};

/// Fewer requests than this for what was asked for before tell nothing.
const FEWEST_REQUESTS: usize = 500;
/// What another policy must hit more to be worth naming.
const MARGIN: f64 = 0.01;
/// Who needs no more than accesses.
const POLICIES: [Policy; 5] = [Policy::Minio, Policy::Lru, Policy::Lfu, Policy::Sieve, Policy::S3Fifo];

/// What a sample tells.
#[derive(Debug)]
pub struct Curves {
    /// None where too little was seen.
    study: Option<Study>,
    /// Of what the cache holds, the part that a cache for the sample holds, as a share of the sampled ids.
    scale: f64,
}

impl Curves {
    /// Makes a sample ready to be asked.
    pub fn of(sample: &AccessSample) -> Self {
        let mut trace = sample.trace();
        // The first time that anybody is asked for is no miss of a cache that was there before.
        trace.skip = trace.requests.len() / 2;
        let study = (again(&trace) >= FEWEST_REQUESTS).then(|| Study::of_trace(trace));
        Self { study, scale: sample.share() / sample.bytes().max(1) as f64 }
    }

    /// The share of bytes that would hit with `cache` times the cache and some policy: what is measured, and the
    /// difference that the sample shows. Before anything was asked for twice hits grow with the cache, as over epochs.
    pub(super) fn hit_ratio(&self, measured: &Measured, cache: f64, policy: Policy) -> f64 {
        let bytes = measured.cache_bytes as f64;
        let seen = measured.hit_ratio.clamp(0.0, 1.0);
        if cache == 1.0 && policy == measured.policy {
            return seen;
        }
        if bytes * cache >= measured.dataset_bytes as f64 {
            return 1.0;
        }
        let change = match (self.run(policy, bytes * cache), self.run(measured.policy, bytes)) {
            (Some(then), Some(now)) => then - now,
            _ if policy == measured.policy => (cache - 1.0) * bytes / measured.dataset_bytes.max(1) as f64,
            _ => 0.0,
        };
        (seen + change).clamp(0.0, 1.0)
    }

    /// The policy that would hit most, if it hits clearly more than the one in use; else that one. None without a sample.
    pub(super) fn best_policy(&self, measured: &Measured) -> Option<Policy> {
        let bytes = measured.cache_bytes as f64;
        let now = self.run(measured.policy, bytes)?;
        let ratios = POLICIES.iter().filter_map(|&policy| Some((self.run(policy, bytes)?, policy)));
        let (most, best) = ratios.max_by(|(a, _), (b, _)| a.total_cmp(b))?;
        // Accesses say nothing against a policy that knows more than accesses.
        let is_better = most > now + MARGIN && POLICIES.contains(&measured.policy);
        Some(if is_better { best } else { measured.policy })
    }

    /// What a policy hits of the sample in a cache of so many bytes, by bytes. What one that lives on scores or plans
    /// would hit cannot be told; between sizes it differs about as minio does.
    fn run(&self, policy: Policy, cache_bytes: f64) -> Option<f64> {
        let policy = if POLICIES.contains(&policy) { policy } else { Policy::Minio };
        let cached = (cache_bytes * self.scale).min(1.0);
        Some(self.study.as_ref()?.run(Contender::Policy(policy), cached).byte_hit_ratio())
    }
}

/// Requests that count and are for something that was asked for before.
fn again(trace: &Trace) -> usize {
    let mut seen = vec![false; trace.items as usize];
    let again = trace.requests.iter().map(|id| std::mem::replace(&mut seen[*id as usize], true));
    again.skip(trace.skip).filter(|again| *again).count()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{epochs, measured};
    use super::*;

    #[test]
    fn over_epochs_hits_grow_with_the_cache_and_no_policy_beats_minio() {
        let curves = Curves::of(&epochs());
        let ratio = |cache, policy| curves.hit_ratio(&measured(), cache, policy);
        for (cache, expected) in [(0.5, 0.1), (1.0, 0.2), (2.0, 0.4), (5.0, 1.0)] {
            let seen = ratio(cache, Policy::Minio);
            assert!((seen - expected).abs() < 0.02, "{cache} times the cache hits {seen}, not {expected}");
        }
        assert!(ratio(1.0, Policy::Lru) < 0.1);
        assert_eq!(curves.best_policy(&measured()), Some(Policy::Minio));
        let lru = Measured { policy: Policy::Lru, hit_ratio: 0.022, ..measured() };
        assert_eq!(curves.best_policy(&lru), Some(Policy::Minio));
        assert!((curves.hit_ratio(&lru, 1.0, Policy::Minio) - 0.2).abs() < 0.02);
    }

    #[test]
    fn without_a_sample_hits_are_taken_to_grow_with_the_cache() {
        let curves = Curves::of(&AccessSample::default());
        assert_eq!(curves.best_policy(&measured()), None);
        let ratios = [0.5, 1.0, 2.0].map(|cache| curves.hit_ratio(&measured(), cache, Policy::Minio));
        assert_eq!(ratios, [0.1, 0.2, 0.4]);
        let whole = Measured { cache_bytes: 6_000_000_000, ..measured() };
        assert_eq!(curves.hit_ratio(&whole, 2.0, Policy::Minio), 1.0);
    }

    #[test]
    fn a_policy_that_knows_more_than_accesses_is_not_talked_out_of() {
        let curves = Curves::of(&epochs());
        let plan = Measured { policy: Policy::Plan, hit_ratio: 0.5, ..measured() };
        assert_eq!(curves.best_policy(&plan), Some(Policy::Plan));
        assert!((curves.hit_ratio(&plan, 2.0, Policy::Plan) - 0.7).abs() < 0.02);
    }
}
