//! Jobs as scenarios, told from the side of those who call.

#![allow(clippy::unwrap_used)]

mod epoch;
mod life;
mod list;
mod model;
mod nodes;
mod resume;
mod step;

use super::*;
use crate::{
    plan::{Needed, Uneven},
    serving::{Kind, Mode},
};

const SNAPSHOT: Snapshot = Snapshot { fingerprint: 7, items: 100 };
const NOW: Duration = Duration::from_secs(1_000);

fn jobs() -> Jobs {
    Jobs::new(SNAPSHOT, Settings::default(), 1)
}

fn introduce(jobs: &mut Jobs, introduction: Introduction) -> JobId {
    jobs.introduce(introduction, NOW).unwrap()
}

/// A job of so many ranks in its epoch 0 by seed 5.
fn started(jobs: &mut Jobs, name: &str, world: u32) -> JobId {
    let job = introduce(jobs, Introduction { world, ..Introduction::new(name) });
    (0..world).for_each(|rank| drop(jobs.begin(job, rank, 0, Order::Seed(5), NOW).unwrap()));
    job
}

fn ask(jobs: &mut Jobs, job: JobId, rank: u32, number: u64, count: u32) -> Result<Answer> {
    jobs.next_batch(BatchRequest { job, epoch: 0, rank, number, count }, &Nothing, NOW)
}

/// A cache that has nothing, of items of a hundred bytes each.
struct Nothing;

impl Look for Nothing {
    fn cached(&self, _id: u32) -> bool {
        false
    }

    fn bytes(&self, _id: u32) -> u64 {
        100
    }
}

/// The items that a batch of epoch 0 asks for, and its effects.
fn batch(jobs: &mut Jobs, job: JobId, rank: u32, number: u64, count: u32) -> (Vec<u32>, Vec<Effect>) {
    match ask(jobs, job, rank, number, count).unwrap() {
        Answer::Batch { items, effects } => (items.iter().map(|item| item.asked).collect(), effects),
        Answer::Wait { behind } => panic!("it should wait for {behind}"),
    }
}

/// Takes and acknowledges `batches` batches of 10 from a number on.
fn consume(jobs: &mut Jobs, job: JobId, rank: u32, numbers: std::ops::Range<u64>) -> Vec<u32> {
    let mut all = Vec::new();
    for number in numbers {
        all.extend(batch(jobs, job, rank, number, 10).0);
        jobs.acknowledge(job, 0, rank, number, NOW).unwrap();
    }
    all
}

fn plan_of(effect: &Effect) -> (&'static str, Vec<u32>) {
    let listed = |needed: &Needed| needed.iter().collect();
    match effect {
        Effect::Planned(needed) => ("planned", listed(needed)),
        Effect::Dropped(needed) => ("dropped", listed(needed)),
        Effect::Consumed(id) => ("consumed", vec![*id]),
        Effect::Stage(id) => ("stage", vec![*id]),
        Effect::Release(id) => ("release", vec![*id]),
    }
}

fn text<T: std::fmt::Debug>(result: Result<T>) -> String {
    result.unwrap_err().to_string()
}
