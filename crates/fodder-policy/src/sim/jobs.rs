//! Several jobs over one cache, run by the machine that answers jobs in a node.
//!
//! What a job takes next may depend on what is cached, so that there is no trace to replay: each turn asks for a batch
//! of one, and the policy is told of plans, of what was consumed and of next uses as a node tells it.

use super::{Tally, Workload, replay::SETTLE_EVERY, workload::Kind};
use crate::{
    Result,
    job::{Answer, BatchRequest, Effect, Introduction, JobId, Jobs, Settings},
    plan::{Needed, Order, Snapshot, Uneven},
    residency::{
        Residency,
        phantom::Phantom,
        signal::{Ids, Signal},
    },
    serving::Mode,
};
use std::time::Duration;

/// The one snapshot.
const SNAPSHOT: u64 = 0;
/// How long a round of turns takes. Only comparisons depend on it.
const ROUND: Duration = Duration::from_millis(1);

/// Runs the jobs of a workload in a cache of `capacity_bytes`. Next uses are looked up where `next_uses` says that the
/// policy heeds them: that takes most of the time.
pub(super) fn run(
    policy: &mut dyn Residency,
    workload: &Workload,
    capacity_bytes: u64,
    next_uses: bool,
) -> Result<Tally> {
    let mut crew = Crew::new(workload)?;
    let mut cache = Phantom::new(capacity_bytes);
    let mut tally = Tally::default();
    for (at, turn) in workload.turns().enumerate() {
        let id = crew.take(turn, &cache, policy)?;
        if next_uses {
            policy.signal(Signal::NextUse { id, at: crew.jobs.next_use(SNAPSHOT, id) });
        }
        let hit = cache.contains(id);
        if hit {
            policy.hit(id);
        } else if cache.offer(policy, id, |_| 1, |gone| crew.jobs.evicted(SNAPSHOT, gone)) {
            crew.jobs.inserted(SNAPSHOT, id, None);
        }
        if at >= workload.skipped() {
            tally.count(hit, 1);
        }
        if at.is_multiple_of(SETTLE_EVERY) {
            policy.settle(SETTLE_EVERY);
        }
    }
    Ok(tally)
}

/// All jobs, and where each is.
struct Crew<'a> {
    workload: &'a Workload,
    jobs: Jobs,
    places: Vec<Place>,
    now: Duration,
}

/// Where a job is.
#[derive(Debug, Clone, Copy)]
struct Place {
    job: JobId,
    epoch: u32,
    /// How many items of the epoch it has had, of how many.
    taken: u32,
    items: u32,
}

impl<'a> Crew<'a> {
    /// Introduces the jobs of a workload. None has begun an epoch.
    fn new(workload: &'a Workload) -> Result<Self> {
        let window = match workload.kind {
            Kind::Jobs { window, .. } => window,
            _ => 0,
        };
        let mode = if window == 0 { Mode::Strict } else { Mode::Reorder { window } };
        let snapshot = Snapshot { fingerprint: SNAPSHOT, items: workload.items };
        let settings = Settings { max_jobs: workload.jobs(), ..Settings::default() };
        let mut jobs = Jobs::new(snapshot, settings, 0);
        let introduce = |number: usize| {
            let introduction = Introduction {
                name: number.to_string(),
                mode,
                world: 1,
                uneven: Uneven::default(),
                weight: 1.0,
                lease: Some(Duration::MAX),
                in_step: None,
            };
            let job = jobs.introduce(introduction, Duration::ZERO)?;
            Ok(Place { job, epoch: 0, taken: 0, items: 0 })
        };
        let places = (0..workload.jobs()).map(introduce).collect::<Result<_>>()?;
        Ok(Self { workload, jobs, places, now: Duration::ZERO })
    }

    /// A job takes its next item, and the policy is told what follows from that.
    fn take(&mut self, turn: usize, cache: &Phantom, policy: &mut dyn Residency) -> Result<u32> {
        if self.places[turn].taken == self.places[turn].items {
            self.begin(turn, policy)?;
        }
        let Place { job, epoch, taken, .. } = self.places[turn];
        let (epoch, number) = (u64::from(epoch), u64::from(taken));
        let request = BatchRequest { job, epoch, rank: 0, number, count: 1 };
        let answer = self.jobs.next_batch(request, &|id| cache.contains(id), self.now)?;
        let Answer::Batch { items, effects } = answer else { unreachable!("only jobs in step wait for each other") };
        self.jobs.acknowledge(job, epoch, 0, number, self.now)?;
        self.places[turn].taken += 1;
        tell(policy, &effects);
        let id = items[0].served;
        if turn == 0 {
            self.now += ROUND;
        }
        Ok(id)
    }

    /// A job begins its next epoch; the first one it has partly behind it.
    fn begin(&mut self, turn: usize, policy: &mut dyn Residency) -> Result<()> {
        let place = &mut self.places[turn];
        let is_first = place.items == 0;
        place.epoch += u32::from(!is_first);
        let number = turn as u32;
        let order = if is_first {
            Order::Ids(self.workload.order(number, 0).skip(self.workload.head_start(number)).collect())
        } else {
            Order::Seed(self.workload.seed_of(number))
        };
        let begun = self.jobs.begin(place.job, 0, u64::from(place.epoch), order, self.now)?;
        debug_assert!(begun.audit.is_none_or(|audit| audit.is_exact()), "an epoch was not exactly once: {begun:?}");
        (place.taken, place.items) = (0, begun.items);
        tell(policy, &begun.effects);
        Ok(())
    }
}

/// Passes on to the policy what should happen elsewhere.
fn tell(policy: &mut dyn Residency, effects: &[Effect]) {
    let listed = |needed: &Needed| needed.iter().collect::<Vec<u32>>();
    for effect in effects {
        match effect {
            Effect::Planned(needed) if needed.is_everything() => {
                policy.signal(Signal::Planned(Ids::Below(needed.len())));
            }
            Effect::Planned(needed) => policy.signal(Signal::Planned(Ids::Listed(&listed(needed)))),
            Effect::Dropped(needed) => policy.signal(Signal::Dropped(&listed(needed))),
            Effect::Consumed(id) => policy.signal(Signal::Consumed(*id)),
            // Of jobs in step, of which there are none here.
            Effect::Stage(_) | Effect::Release(_) => {}
        }
    }
}
