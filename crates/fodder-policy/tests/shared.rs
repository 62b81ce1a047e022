//! Jobs that share one cache, through the machine that the engine runs: hit ratios are those of the literature's rule, and
//! every job still gets every item exactly once.

#![allow(clippy::unwrap_used)]

use fodder_policy::{
    Policy, Pressure, Residency, Signal,
    job::{Answer, BatchRequest, Effect, Introduction, JobId, Jobs, Settings},
    plan::{Order, Snapshot},
    residency::signal::Ids,
    serving::Mode,
};
use std::{collections::BTreeSet, time::Duration};

const ITEMS: u32 = 2_000;
const CACHED: usize = 400;
const SNAPSHOT: Snapshot = Snapshot { fingerprint: 1, items: ITEMS };
const NOW: Duration = Duration::ZERO;

/// Jobs, a cache of a fifth of the items, and the residency `pending` over it.
struct Node {
    jobs: Jobs,
    residency: Box<dyn Residency>,
    cached: BTreeSet<u32>,
}

/// How far a job is.
struct Run {
    job: JobId,
    seed: u64,
    epoch: u64,
    number: u64,
}

impl Node {
    fn new() -> Self {
        let jobs = Jobs::new(SNAPSHOT, Settings::default(), 1);
        Self { jobs, residency: Policy::Pending.build(), cached: BTreeSet::new() }
    }

    fn signal(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Planned(needed) if needed.is_everything() => {
                    self.residency.signal(Signal::Planned(Ids::Below(ITEMS)));
                }
                Effect::Consumed(id) => self.residency.signal(Signal::Consumed(id)),
                other => panic!("{other:?} does not happen here"),
            }
        }
    }

    fn start(&mut self, name: &str, seed: u64, mode: Mode) -> Run {
        let job = self.jobs.introduce(Introduction { mode, ..Introduction::new(name) }, NOW).unwrap();
        let mut run = Run { job, seed, epoch: 0, number: 0 };
        self.begin(&mut run);
        run
    }

    /// Begins the job's epoch, and holds the one before to its promise.
    fn begin(&mut self, run: &mut Run) {
        let begun = self.jobs.begin(run.job, 0, run.epoch, Order::Seed(run.seed), NOW).unwrap();
        assert!(begun.audit.is_none_or(|audit| audit.is_exact()), "{:?}", begun.audit);
        self.signal(begun.effects);
        run.number = 0;
    }

    /// The job takes its next item, into the next epoch after the last; whether it was cached.
    fn step(&mut self, run: &mut Run) -> bool {
        loop {
            let request = BatchRequest { job: run.job, epoch: run.epoch, rank: 0, number: run.number, count: 1 };
            let answer = self.jobs.next_batch(request, &|id| self.cached.contains(&id), NOW).unwrap();
            let Answer::Batch { items, effects } = answer else { panic!("nobody is in step") };
            if let Some(item) = items.first() {
                self.signal(effects);
                self.jobs.acknowledge(run.job, run.epoch, 0, run.number, NOW).unwrap();
                run.number += 1;
                return self.read(item.served);
            }
            run.epoch += 1;
            self.begin(run);
        }
    }

    fn read(&mut self, id: u32) -> bool {
        if self.cached.contains(&id) {
            self.residency.hit(id);
            return true;
        }
        let room = self.cached.len() < CACHED;
        if !self.residency.admit(id, 1, room) {
            return false;
        }
        if !room {
            let Some(victim) = self.residency.victim(Pressure::Newcomer) else { return false };
            self.residency.removed(victim);
            self.cached.remove(&victim);
            self.jobs.evicted(SNAPSHOT.fingerprint, victim);
        }
        self.residency.inserted(id, 1);
        self.cached.insert(id);
        self.jobs.inserted(SNAPSHOT.fingerprint, id, None);
        false
    }
}

/// The hit ratio of three jobs that take turns, with so many requests each.
fn hit_ratio(window: u32, rates: [u32; 3]) -> f64 {
    let mut node = Node::new();
    let mut runs = [0, 1, 2].map(|seed| node.start(&format!("job {seed}"), seed, Mode::Reorder { window }));
    // Each begins a third of an epoch further into its first one.
    for (run, behind) in runs.iter_mut().zip(0u32..) {
        for _ in 0..behind * ITEMS / 3 {
            node.step(run);
        }
    }
    let (mut requests, mut hits) = (0, 0);
    while requests < 5 * 3 * ITEMS {
        for (run, rate) in runs.iter_mut().zip(rates) {
            for _ in 0..rate {
                let hit = node.step(run);
                requests += 1;
                hits += u32::from(hit && requests > 2 * 3 * ITEMS);
            }
        }
    }
    f64::from(hits) / f64::from(requests - 2 * 3 * ITEMS)
}

#[test]
fn three_jobs_hit_as_often_as_the_rule_says() {
    let figures = [
        (0, [1, 1, 1], 0.329),
        (ITEMS / 20, [1, 1, 1], 0.404),
        (ITEMS / 5, [1, 1, 1], 0.608),
        (ITEMS, [1, 1, 1], 0.733),
        (ITEMS / 5, [1, 1, 2], 0.562),
        (ITEMS, [1, 1, 2], 0.600),
    ];
    for (window, rates, figure) in figures {
        let ratio = hit_ratio(window, rates);
        assert!((ratio - figure).abs() < 0.02, "window {window}, rates {rates:?}: {ratio:.3} and not {figure}");
    }
}
