//! A schedule: what happens when, from a seed; and what must be so after it.

use crate::{
    rank::{Rank, Stand},
    world::{Dice, ITEMS, SNAPSHOT, World},
};
use fodder_policy::{
    job::{Introduction, Start, Telling},
    ledger::Checkpoint,
    plan::{Order, Plan, Uneven},
    serving::Mode,
};
use std::collections::BTreeMap;

/// How a simulated job runs.
#[derive(Debug, Clone)]
pub(crate) struct Schedule {
    pub(crate) seed: u64,
    pub(crate) nodes: usize,
    pub(crate) ranks: u32,
    pub(crate) epochs: u64,
    pub(crate) mode: Mode,
    pub(crate) uneven: Uneven,
    pub(crate) steps: usize,
    /// Whether anything goes wrong.
    pub(crate) faults: bool,
    /// Whether ranks that move show what they have consumed.
    pub(crate) receipts: bool,
    /// How often the job goes back to a checkpoint, at most.
    pub(crate) resumes: u64,
}

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// Consumptions in the last epoch beyond the first of each item.
    pub(crate) consumed_again: u64,
    /// What the audits say of that.
    pub(crate) duplicates: u64,
}

impl Schedule {
    pub(crate) fn faulty(seed: u64) -> Self {
        let mut dice = Dice(seed);
        let mode = [Mode::Strict, Mode::Reorder { window: 9 }][dice.below(2)];
        let uneven = [Uneven::Pad, Uneven::Exact][dice.below(2)];
        let (nodes, ranks) = (2 + dice.below(4), 1 + dice.below(6) as u32);
        let (faults, receipts, resumes) = (true, true, if dice.percent(60) { u64::MAX } else { 0 });
        Self { seed, nodes, ranks, epochs: 2, mode, uneven, steps: 400, faults, receipts, resumes }
    }

    pub(crate) fn calm(seed: u64) -> Self {
        Self { faults: false, resumes: 0, epochs: 3, ..Self::faulty(seed) }
    }

    /// The job is started again once.
    pub(crate) fn resumed(seed: u64) -> Self {
        Self { resumes: 1, ..Self::faulty(seed) }
    }
}

/// A job and everything that is true of it.
struct Story<'a> {
    schedule: &'a Schedule,
    world: World,
    ranks: Vec<Rank>,
    introduction: Introduction,
    /// How often each item of each epoch was consumed, in the line of runs that led here.
    times: BTreeMap<(u64, u32), u64>,
    saved: Vec<(Vec<u8>, u64)>,
    /// How often the job was started again.
    attempts: u64,
}

/// Runs a schedule to its end, and checks what must be so.
pub(crate) fn run(schedule: &Schedule) -> Told {
    // What is consumed and never acknowledged, nobody but a receipt can tell of.
    let loss = if schedule.faults && schedule.receipts { 15 } else { 0 };
    let world = World::new(schedule.nodes, loss, Dice(schedule.seed ^ 0x5eed));
    let introduction = Introduction {
        mode: schedule.mode,
        world: schedule.ranks,
        uneven: schedule.uneven,
        ..Introduction::new("train")
    };
    let ranks = (0..schedule.ranks).map(|rank| Rank::new(rank, rank as usize % schedule.nodes, 0, None)).collect();
    let mut story =
        Story { schedule, world, ranks, introduction, times: BTreeMap::new(), saved: Vec::new(), attempts: 0 };
    for _ in 0..schedule.steps {
        story.anything();
    }
    story.finish()
}

impl Story<'_> {
    /// One thing happens.
    fn anything(&mut self) {
        let (nodes, faults) = (self.world.nodes.len(), self.schedule.faults);
        let node = self.world.dice.below(nodes);
        match self.world.dice.below(100) {
            0..60 => {
                let rank = self.world.dice.below(self.ranks.len());
                self.step(rank);
            }
            60..75 => self.world.arrive(),
            75..83 => self.world.spread(node, Telling::News),
            83..86 => self.world.spread(node, Telling::All),
            86..90 => self.save(node),
            90..92 if faults && self.schedule.receipts => {
                self.world.crash(node);
                for rank in self.ranks.iter_mut().filter(|rank| rank.node == node) {
                    rank.go_to(self.world.dice.below(nodes), self.schedule.receipts);
                }
            }
            92..94 if faults => (0..nodes).for_each(|node| self.world.sides[node] = self.world.dice.below(2) as u8),
            94..96 => self.world.sides.fill(0),
            96..98 if faults => {
                let rank = self.world.dice.below(self.ranks.len());
                self.ranks[rank].go_to(node, self.schedule.receipts);
            }
            98 if self.attempts < self.schedule.resumes => self.resume(),
            _ => {}
        }
    }

    fn step(&mut self, rank: usize) {
        let last = self.schedule.epochs - 1;
        // Ranks leave together, as those of a training job do.
        let done = |rank: &Rank| rank.epoch == last && matches!(rank.stand, Stand::Finished(_) | Stand::Left);
        // Those that are done wait for the others, and none is two epochs ahead of another.
        let slowest = self.ranks.iter().map(|rank| rank.epoch).min();
        let must_wait = matches!(self.ranks[rank].stand, Stand::Finished(_)) && slowest < Some(self.ranks[rank].epoch);
        if done(&self.ranks[rank]) || must_wait {
            return;
        }
        let deed = self.ranks[rank].step(&mut self.world, &self.introduction, last);
        let epoch = self.ranks[rank].epoch;
        for id in deed.consumed {
            let times = self.times.entry((epoch, id)).or_default();
            *times += 1;
            assert!(*times == 1 || !self.schedule.receipts, "item {id} of epoch {epoch} came to rank {rank} twice");
        }
        if let Some(why) = deed.superseded {
            assert!(self.attempts < self.schedule.resumes, "nobody has resumed since: {why}");
            self.resume();
        }
    }

    /// A node where a rank is at work writes a checkpoint: never of what was not consumed.
    fn save(&mut self, node: usize) {
        self.world.exchange(node);
        let Some(job) = self.world.nodes[node].find("train") else { return };
        let Ok(bytes) = self.world.nodes[node].checkpoint(job) else { return };
        let (checkpoint, consumed) = read(&bytes);
        // One that is of a run that is over is of no use; the trainer writes those of the run that it is in.
        let is_of_this_run = self.ranks.iter().any(|rank| match rank.stand {
            Stand::Begun(id) | Stand::Finished(id) => rank.node == node && id == job,
            Stand::New | Stand::Left => false,
        });
        if is_of_this_run && self.schedule.receipts {
            let epoch = checkpoint.epoch();
            assert!(consumed.iter().all(|id| self.times.contains_key(&(epoch, *id))), "it was not consumed");
            self.saved.push((bytes, epoch));
        }
    }

    /// The job dies, and goes on from some checkpoint on some number of ranks.
    fn resume(&mut self) {
        let Some((bytes, epoch)) = self.saved.get(self.world.dice.below(self.saved.len())).cloned() else { return };
        let (_, consumed) = read(&bytes);
        self.times.retain(|(of, _), _| *of < epoch);
        self.times.extend(consumed.into_iter().map(|id| ((epoch, id), 1)));
        self.saved.retain(|(_, of)| *of <= epoch);
        let world = 1 + self.world.dice.below(6) as u32;
        self.introduction.world = world;
        self.attempts += 1;
        let attempt = self.attempts;
        let nodes = self.world.nodes.len();
        let rank = |rank| {
            let start = Start { attempt, nonce: self.world.dice.roll() };
            Rank::new(rank, self.world.dice.below(nodes), epoch, Some((bytes.clone(), start)))
        };
        self.ranks = (0..world).map(rank).collect();
    }

    /// Everything is well again: the job comes to its end, and every node says how it was.
    fn finish(mut self) -> Told {
        self.world.loss = 0;
        let last = self.schedule.epochs - 1;
        let finished = |rank: &Rank| rank.epoch == last && matches!(rank.stand, Stand::Finished(_));
        for _ in 0..100_000 {
            self.world.sides.fill(0);
            if self.ranks.iter().all(finished) {
                // A rank that had nothing left to ask for has not heard that the job began again.
                self.world.settle();
                let is_late =
                    |rank: &Rank| rank.stand != Stand::Finished(self.world.nodes[rank.node].find("train").unwrap());
                if !self.ranks.iter().any(is_late) {
                    break;
                }
                assert!(self.attempts < self.schedule.resumes, "nobody has resumed since");
                self.resume();
            }
            let rank = self.world.dice.below(self.ranks.len());
            self.step(rank);
        }
        assert!(self.ranks.iter().all(finished), "the job does not come to its end");
        self.world.settle();
        let told = self.compare(last);
        for rank in &mut self.ranks {
            rank.step(&mut self.world, &self.introduction, last);
        }
        self.world.settle();
        assert!(self.world.nodes.iter().all(|node| node.find("train").is_none()), "it has left");
        told
    }

    fn compare(&self, epoch: u64) -> Told {
        let audits: Vec<_> = self
            .world
            .nodes
            .iter()
            .map(|node| {
                let job = node.find("train").expect("every node has heard of it");
                node.audit(job, epoch).expect("every node is in the last epoch")
            })
            .collect();
        assert!(audits.iter().all(|audit| *audit == audits[0]), "{audits:?}");
        let times = || self.times.iter().filter(|((of, _), _)| *of == epoch).map(|(_, times)| *times);
        let told = Told { consumed_again: times().map(|times| times - 1).sum(), duplicates: audits[0].duplicates };
        assert_eq!(audits[0].consumed, times().count() as u64);
        if self.schedule.receipts {
            assert_eq!(times().count(), ITEMS as usize, "every rank has had everything");
            assert!(audits[0].is_exact(), "{:?}", audits[0]);
        }
        if !self.schedule.faults {
            self.compare_statuses();
        }
        told
    }

    /// The epochs before went exactly too, and every node has seen so.
    fn compare_statuses(&self) {
        for node in &self.world.nodes {
            let status = node.status(self.world.now).pop().expect("the job is there");
            let last = status.last.expect("an epoch was closed");
            assert!(last.is_exact(), "{last:?}");
            assert_eq!((last.consumed, status.consumed), (u64::from(ITEMS), ITEMS));
        }
    }
}

/// A checkpoint, and the items that it says were consumed.
fn read(bytes: &[u8]) -> (Checkpoint, Vec<u32>) {
    let checkpoint = Checkpoint::decode(bytes, SNAPSHOT).expect("nodes write well");
    let plan = Plan::new(SNAPSHOT, checkpoint.epoch(), Order::Seed(5)).expect("a seed plans anything");
    let rest: Vec<u32> = checkpoint.rest().iter().collect();
    let consumed = (0..plan.len()).filter(|position| rest.binary_search(position).is_err());
    let consumed = consumed.filter_map(|position| plan.at(position)).collect();
    (checkpoint, consumed)
}
