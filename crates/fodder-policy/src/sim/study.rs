//! One workload or trace under many policies and cache sizes. Every run is independent of the others and only reads
//! what it was made of, so that a caller may run as many at once as it has cores.

use super::{
    Cues, Future, Sizes, Tally, Trace, Workload, belady::belady, bound::SpaceTime, jobs, replay, workload::Kind,
};
use crate::{
    Result,
    residency::{Policy, Residency, lfu, lru, minio, s3fifo, sieve},
};

/// What is simulated.
#[derive(Debug)]
pub struct Study {
    workload: Option<Workload>,
    trace: Trace,
    future: Future,
    /// For traces with sizes, of which counting alone gives no bound and Belady none either.
    space_time: Option<SpaceTime>,
}

/// Who is put to the test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Contender {
    /// The optimum, of which each job keeps to its plan.
    Belady,
    /// A policy that a node may have.
    Policy(Policy),
}

impl Contender {
    /// How it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Belady => "belady",
            Self::Policy(policy) => policy.name(),
        }
    }
}

impl Study {
    /// Of a synthetic workload.
    pub fn of_workload(workload: Workload) -> Result<Self> {
        workload.check()?;
        let trace = workload.trace();
        Ok(Self { future: Future::of(&trace), trace, workload: Some(workload), space_time: None })
    }

    /// Of a trace.
    pub fn of_trace(trace: Trace) -> Self {
        let future = Future::of(&trace);
        let space_time = matches!(trace.sizes, Sizes::Each(_)).then(|| SpaceTime::of(&trace, &future));
        Self { trace, future, workload: None, space_time }
    }

    /// The trace behind it.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Who is worth trying: every policy that is told here what it lives on, and Belady.
    pub fn usual_contenders(&self) -> Vec<Contender> {
        let told = |policy: &Policy| match policy {
            Policy::Importance => !self.trace.scores.is_empty(),
            Policy::Pending => self.has_plans(),
            // They live on chunks and likenesses, which no trace has.
            Policy::Quiver | Policy::Semantic => false,
            _ => true,
        };
        Policy::ALL.into_iter().filter(told).map(Contender::Policy).chain([Contender::Belady]).collect()
    }

    fn has_plans(&self) -> bool {
        !self.trace.epochs.is_empty() || self.workload.as_ref().is_some_and(|workload| workload.jobs() > 1)
    }

    /// Runs a contender in a cache that holds the share `cached` of all items.
    pub fn run(&self, contender: Contender, cached: f64) -> Tally {
        let capacity_bytes = self.trace.capacity_bytes(cached);
        match contender {
            Contender::Belady => belady(&self.trace, &self.future, capacity_bytes),
            Contender::Policy(policy) => self.run_policy(policy, capacity_bytes),
        }
    }

    /// The greatest hit ratio that any contender can have in such a cache: by counting where the workload allows it;
    /// else Belady's own, which is the optimum for items of one size; else by space and time.
    pub fn bound(&self, cached: f64) -> f64 {
        let counted = self.workload.as_ref().and_then(|workload| workload.bound(cached, &self.trace));
        let capacity_bytes = self.trace.capacity_bytes(cached);
        counted.unwrap_or_else(|| match &self.space_time {
            Some(space_time) => space_time.hit_ratio(capacity_bytes),
            None => belady(&self.trace, &self.future, capacity_bytes).hit_ratio(),
        })
    }

    fn run_policy(&self, policy: Policy, capacity_bytes: u64) -> Tally {
        if let Some(workload) = self.workload.as_ref().filter(|workload| matches!(workload.kind, Kind::Jobs { .. })) {
            let next_uses = self.cues(policy).future.is_some();
            let tally = jobs::run(&mut *policy.build(), workload, capacity_bytes, next_uses);
            return tally.expect("the jobs of a checked workload are not refused");
        }
        let none = Cues::default();
        match policy {
            // The quick ones are compiled into the loop, which is felt at tens of nanoseconds a request.
            Policy::Lru => self.replay(&mut lru::Lru::default(), capacity_bytes, none),
            Policy::Lfu => self.replay(&mut lfu::Lfu::default(), capacity_bytes, none),
            Policy::Sieve => self.replay(&mut sieve::Sieve::default(), capacity_bytes, none),
            Policy::S3Fifo => self.replay(&mut s3fifo::S3Fifo::default(), capacity_bytes, none),
            Policy::Minio => self.replay(&mut minio::Minio::default(), capacity_bytes, none),
            _ => self.replay(&mut *policy.build(), capacity_bytes, self.cues(policy)),
        }
    }

    /// What a policy is told.
    fn cues(&self, policy: Policy) -> Cues<'_> {
        let none = Cues::default();
        match policy {
            Policy::Minio | Policy::Lru | Policy::Lfu | Policy::Sieve | Policy::S3Fifo => none,
            Policy::Importance | Policy::Semantic => Cues { scores: true, ..none },
            Policy::Quiver => Cues { chunks: true, ..none },
            Policy::Pending => Cues { plans: true, ..none },
            Policy::Plan => Cues { future: Some(&self.future), ..none },
            // Nobody can plan what is asked for at random.
            Policy::Auto => {
                let plans = self.has_plans();
                Cues { scores: true, plans, future: plans.then_some(&self.future), ..none }
            }
        }
    }

    fn replay<R: Residency + ?Sized>(&self, policy: &mut R, capacity_bytes: u64, cues: Cues<'_>) -> Tally {
        replay(policy, &self.trace, capacity_bytes, cues)
    }
}
