//! The loop over a trace: each request hits or is offered to the policy, as an engine would do it.

use super::{Future, Tally, Trace};
use crate::residency::{
    Residency,
    phantom::Phantom,
    signal::{Ids, NEVER, Signal},
};

/// What a policy is told beside hits and misses. Telling costs time, so that each is told what it heeds.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cues<'a> {
    /// What items are worth.
    pub scores: bool,
    /// Before each request, when its item is asked for next.
    pub future: Option<&'a Future>,
    /// What an epoch will ask for when it begins, and that each item was consumed.
    pub plans: bool,
    /// That the next chunk begins, each time that half of the cache was filled anew.
    pub chunks: bool,
}

/// Runs a policy over a trace in a cache of `capacity_bytes`. It is compiled for each policy by itself, which is felt
/// at fifty nanoseconds a request.
pub fn replay<R: Residency + ?Sized>(policy: &mut R, trace: &Trace, capacity_bytes: u64, cues: Cues<'_>) -> Tally {
    let mut cache = Phantom::new(capacity_bytes);
    let mut teller = Teller::new(trace, cues, capacity_bytes);
    let mut tally = Tally::default();
    for (at, &id) in trace.requests.iter().enumerate() {
        if teller.speaks {
            teller.tell(policy, at, id);
        }
        let hit = cache.contains(id);
        if hit {
            policy.hit(id);
        } else if cache.offer(policy, id, |id| trace.sizes.of(id), |_| {}) {
            teller.loaded_bytes += u64::from(trace.sizes.of(id));
        }
        if at >= trace.skip {
            tally.count(hit, trace.sizes.of(id));
        }
    }
    tally
}

/// How often, in requests, a policy may settle what signals have left to do, and by how many steps.
pub(super) const SETTLE_EVERY: usize = 64;

/// Who sends the signals.
struct Teller<'a> {
    trace: &'a Trace,
    cues: Cues<'a>,
    speaks: bool,
    epochs_begun: usize,
    scores_sent: usize,
    chunk_bytes: u64,
    /// What came in since the last chunk began.
    loaded_bytes: u64,
}

impl<'a> Teller<'a> {
    fn new(trace: &'a Trace, cues: Cues<'a>, capacity_bytes: u64) -> Self {
        let speaks = cues.future.is_some() || cues.plans || cues.chunks || cues.scores;
        Self {
            trace,
            cues,
            speaks,
            epochs_begun: 0,
            scores_sent: 0,
            chunk_bytes: (capacity_bytes / 2).max(1),
            loaded_bytes: 0,
        }
    }

    /// Says what there is to say before the request at `at`.
    fn tell<R: Residency + ?Sized>(&mut self, policy: &mut R, at: usize, id: u32) {
        if self.cues.scores
            && let Some(scores) = self.trace.scores.get(self.scores_sent)
            && scores.at == at
        {
            self.scores_sent += 1;
            policy.signal(Signal::Scores(scores.by_id.clone()));
        }
        if self.cues.plans {
            self.tell_plan(policy, at, id);
        }
        if let Some(future) = self.cues.future {
            policy.signal(Signal::NextUse { id, at: future.next(at).map_or(NEVER, u64::from) });
        }
        if self.cues.chunks && self.loaded_bytes >= self.chunk_bytes {
            self.loaded_bytes = 0;
            policy.signal(Signal::NextChunk);
        }
        if at.is_multiple_of(SETTLE_EVERY) {
            policy.settle(SETTLE_EVERY);
        }
    }

    fn tell_plan<R: Residency + ?Sized>(&mut self, policy: &mut R, at: usize, id: u32) {
        let epochs = &self.trace.epochs;
        if epochs.get(self.epochs_begun) == Some(&at) {
            self.epochs_begun += 1;
            let end = epochs.get(self.epochs_begun).copied().unwrap_or(self.trace.requests.len());
            policy.signal(Signal::Planned(Ids::Listed(&self.trace.requests[at..end])));
        }
        policy.signal(Signal::Consumed(id));
    }
}
