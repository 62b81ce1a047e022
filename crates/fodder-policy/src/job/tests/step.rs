//! Jobs in step: each item is staged once and released when every one of them has taken it.

use super::*;
use std::collections::BTreeMap;

fn in_step(jobs: &mut Jobs, name: &str, world: u32) -> JobId {
    let introduction = Introduction { world, in_step: Some("group".into()), ..Introduction::new(name) };
    let job = introduce(jobs, introduction);
    (0..world).for_each(|rank| drop(jobs.begin(job, rank, 0, Order::Seed(5), NOW).unwrap()));
    job
}

/// Counts stagings and releases, and knows what is staged.
#[derive(Debug, Default)]
struct Stage {
    staged: BTreeMap<u32, u32>,
    released: BTreeMap<u32, u32>,
}

impl Stage {
    fn note(&mut self, effects: &[Effect]) {
        for effect in effects {
            match effect {
                Effect::Stage(id) => *self.staged.entry(*id).or_default() += 1,
                Effect::Release(id) => *self.released.entry(*id).or_default() += 1,
                _ => {}
            }
        }
    }
}

#[test]
fn each_item_is_staged_once_until_every_job_took_it() {
    let mut jobs = jobs();
    let all = [in_step(&mut jobs, "a", 1), in_step(&mut jobs, "b", 1), in_step(&mut jobs, "c", 2)];
    let mut stage = Stage::default();
    for number in 0..10 {
        stage.note(&batch(&mut jobs, all[0], 0, number, 10).1);
        stage.note(&batch(&mut jobs, all[1], 0, number, 10).1);
        assert!(stage.released.len() as u64 <= 10 * number);
        (0..2).for_each(|rank| stage.note(&batch(&mut jobs, all[2], rank, number, 5).1));
        assert_eq!(stage.released.len() as u64, 10 * (number + 1));
    }
    assert_eq!(stage.staged.len(), 100);
    assert!(stage.staged.values().chain(stage.released.values()).all(|&times| times == 1));
}

#[test]
fn a_job_that_is_too_far_ahead_waits_for_the_one_behind() {
    let mut jobs = Jobs::new(SNAPSHOT, Settings { max_staged: 25, ..Settings::default() }, 1);
    let [fast, slow] = [in_step(&mut jobs, "fast", 1), in_step(&mut jobs, "slow", 1)];
    batch(&mut jobs, fast, 0, 0, 10);
    batch(&mut jobs, fast, 0, 1, 10);
    assert_eq!(ask(&mut jobs, fast, 0, 2, 10), Ok(Answer::Wait { behind: slow }));
    assert_eq!(batch(&mut jobs, fast, 0, 1, 10).0.len(), 10, "what was given is given again");
    batch(&mut jobs, slow, 0, 0, 10);
    batch(&mut jobs, fast, 0, 2, 10);
    assert_eq!(ask(&mut jobs, fast, 0, 3, 10), Ok(Answer::Wait { behind: slow }));
    jobs.leave(slow, NOW).unwrap();
    batch(&mut jobs, fast, 0, 3, 10);
}

#[test]
fn a_job_waits_for_the_one_behind_when_what_is_staged_has_too_many_bytes() {
    // An item of these tests has 100 bytes.
    let mut jobs = Jobs::new(SNAPSHOT, Settings { max_staged_bytes: 1_500, ..Settings::default() }, 1);
    let [fast, slow] = [in_step(&mut jobs, "fast", 1), in_step(&mut jobs, "slow", 1)];
    batch(&mut jobs, fast, 0, 0, 10);
    batch(&mut jobs, fast, 0, 1, 10);
    assert_eq!(ask(&mut jobs, fast, 0, 2, 1), Ok(Answer::Wait { behind: slow }));
    batch(&mut jobs, slow, 0, 0, 10);
    batch(&mut jobs, fast, 0, 2, 10);
    assert_eq!(ask(&mut jobs, fast, 0, 3, 1), Ok(Answer::Wait { behind: slow }));
    jobs.leave(slow, NOW).unwrap();
    batch(&mut jobs, fast, 0, 3, 10);
}

#[test]
fn the_job_that_is_furthest_behind_never_waits() {
    let mut jobs = Jobs::new(SNAPSHOT, Settings { max_staged: 10, ..Settings::default() }, 1);
    let [fast, slow] = [in_step(&mut jobs, "fast", 1), in_step(&mut jobs, "slow", 2)];
    batch(&mut jobs, fast, 0, 0, 10);
    // Its second rank is where the other job has not been.
    (0..3).for_each(|number| drop(batch(&mut jobs, slow, 1, number, 3)));
    assert_eq!(ask(&mut jobs, fast, 0, 1, 10), Ok(Answer::Wait { behind: slow }));
}

#[test]
fn what_a_vanished_job_did_not_take_is_released() {
    let mut jobs = jobs();
    let [a, b] = [in_step(&mut jobs, "a", 1), in_step(&mut jobs, "b", 1)];
    let (taken, _) = batch(&mut jobs, a, 0, 0, 30);
    batch(&mut jobs, b, 0, 0, 10);
    jobs.renew(a, NOW + Duration::from_secs(600)).unwrap();
    let gone = jobs.expire(NOW + Duration::from_secs(601));
    let mut released: Vec<u32> =
        gone[0].effects.iter().map(plan_of).filter(|(kind, _)| *kind == "release").flat_map(|(_, ids)| ids).collect();
    let mut expected = taken[10..].to_vec();
    released.sort_unstable();
    expected.sort_unstable();
    assert_eq!(released, expected);
    assert!(!batch(&mut jobs, a, 0, 1, 10).1.iter().any(|effect| matches!(effect, Effect::Stage(_))));
    jobs.leave(a, NOW).unwrap();
    assert!(jobs.groups.is_empty(), "a group ends with its last job");
}

#[test]
fn a_job_that_goes_back_has_items_staged_for_it_again() {
    let mut jobs = jobs();
    let [a, b] = [in_step(&mut jobs, "a", 1), in_step(&mut jobs, "b", 1)];
    let start = jobs.checkpoint(b).unwrap();
    (0..2).for_each(|number| drop(batch(&mut jobs, a, 0, number, 10)));
    (0..2).for_each(|number| drop(batch(&mut jobs, b, 0, number, 10)));
    jobs.resume(Resume { start: Start::default(), job: b, rank: None, world: 1, checkpoint: &start, ids: None }, NOW)
        .unwrap();
    let (items, effects) = batch(&mut jobs, a, 0, 2, 10);
    let staged = effects.iter().filter(|effect| matches!(effect, Effect::Stage(_))).count();
    assert_eq!((items.len(), staged), (10, 10));
}

#[test]
fn the_next_epoch_is_staged_for_those_still_in_this_one() {
    let mut jobs = jobs();
    let [a, b] = [in_step(&mut jobs, "a", 1), in_step(&mut jobs, "b", 1)];
    (0..10).for_each(|number| drop(batch(&mut jobs, a, 0, number, 10)));
    (0..9).for_each(|number| drop(batch(&mut jobs, b, 0, number, 10)));
    jobs.begin(a, 0, 1, Order::Seed(5), NOW).unwrap();
    let request = |job| BatchRequest { job, epoch: 1, rank: 0, number: 0, count: 10 };
    let Answer::Batch { items, effects } = jobs.next_batch(request(a), &|_| false, NOW).unwrap() else {
        panic!("waits")
    };
    assert_eq!(effects.iter().filter(|effect| matches!(effect, Effect::Stage(_))).count(), items.len());
    // The other leaves out its last batch: those are released when it turns.
    let begun = jobs.begin(b, 0, 1, Order::Seed(5), NOW).unwrap();
    assert_eq!(begun.effects.iter().filter(|effect| matches!(effect, Effect::Release(_))).count(), 10);
    let Answer::Batch { effects, .. } = jobs.next_batch(request(b), &|_| false, NOW).unwrap() else { panic!("waits") };
    assert_eq!(effects.iter().filter(|effect| matches!(effect, Effect::Release(_))).count(), 10);
}

#[test]
fn jobs_in_step_must_plan_alike() {
    let mut jobs = jobs();
    in_step(&mut jobs, "a", 1);
    let other = introduce(&mut jobs, Introduction { in_step: Some("group".into()), ..Introduction::new("b") });
    assert!(text(jobs.begin(other, 0, 0, Order::Seed(6), NOW)).contains("jobs in step must use the same seed"));
    jobs.begin(other, 0, 0, Order::Seed(5), NOW).unwrap();
}
