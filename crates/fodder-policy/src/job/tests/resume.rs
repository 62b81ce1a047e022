//! Checkpoints: going on elsewhere, going back, and being in several places at once.

use super::*;
use crate::ledger::Checkpoint;
use std::{collections::BTreeSet, sync::Arc};

fn resume(jobs: &mut Jobs, job: JobId, rank: Option<u32>, world: u32, checkpoint: &[u8]) -> Result<Resumed> {
    jobs.resume(Resume { job, rank, world, start: Start::default(), checkpoint, ids: None }, NOW)
}

#[test]
fn a_job_goes_on_with_exactly_the_rest_on_another_number_of_ranks() {
    let mut jobs = jobs();
    let job = started(&mut jobs, "a", 4);
    let mut seen: BTreeSet<u32> = (0..4).flat_map(|rank| consume(&mut jobs, job, rank, 0..1)).collect();
    batch(&mut jobs, job, 2, 1, 10);
    let checkpoint = jobs.checkpoint(job).unwrap();
    assert!(checkpoint.len() < 100);
    let resumed = resume(&mut jobs, job, None, 3, &checkpoint).unwrap();
    assert_eq!((resumed.epoch, resumed.left), (0, 60), "what was not acknowledged is given out again");
    assert_eq!(resumed.effects.iter().map(|effect| plan_of(effect).1.len()).collect::<Vec<_>>(), [50, 60]);
    for rank in 0..3 {
        for id in consume(&mut jobs, resumed.job, rank, 0..3) {
            assert!(seen.insert(id), "item {id} came twice");
        }
    }
    assert_eq!(seen.len(), 100);
    assert!(jobs.audit(resumed.job, 0).unwrap().is_exact());
}

#[test]
fn ranks_of_the_run_before_are_refused() {
    let mut jobs = jobs();
    let job = started(&mut jobs, "a", 2);
    let checkpoint = jobs.checkpoint(job).unwrap();
    let resumed = resume(&mut jobs, job, None, 2, &checkpoint).unwrap();
    assert!(text(ask(&mut jobs, job, 0, 0, 1)).contains("belongs to the earlier run and should stop"));
    assert!(matches!(jobs.acknowledge(job, 0, 0, 0, NOW), Err(Error::Conflict(_))));
    assert!(matches!(jobs.checkpoint(job), Err(Error::Conflict(_))));
    assert_eq!(jobs.find("a"), Some(resumed.job));
}

#[test]
fn every_rank_may_say_that_the_job_resumes() {
    let mut jobs = jobs();
    let job = started(&mut jobs, "a", 2);
    consume(&mut jobs, job, 0, 0..2);
    let checkpoint = jobs.checkpoint(job).unwrap();
    let first = resume(&mut jobs, job, Some(0), 2, &checkpoint).unwrap();
    consume(&mut jobs, first.job, 0, 0..1);
    // The second comes later, and still knows the job by the id that it had.
    let second = resume(&mut jobs, job, Some(1), 2, &checkpoint).unwrap();
    assert_eq!((second.job, second.left, second.effects), (first.job, 80, vec![]));
    // A rank that says it once more has started again, and so has the job.
    let third = resume(&mut jobs, first.job, Some(1), 2, &checkpoint).unwrap();
    assert_ne!(third.job, first.job);
    assert_eq!(resume(&mut jobs, job, Some(0), 2, &checkpoint).unwrap().job, third.job);
    assert_eq!(jobs.audit(third.job, 0).unwrap().consumed, 20);
}

#[test]
fn what_is_replayed_after_a_roll_back_is_no_duplicate() {
    let mut jobs = jobs();
    let job = started(&mut jobs, "a", 1);
    consume(&mut jobs, job, 0, 0..2);
    let old = jobs.checkpoint(job).unwrap();
    consume(&mut jobs, job, 0, 2..10);
    jobs.begin(job, 0, 1, Order::Seed(5), NOW).unwrap();
    let resumed = resume(&mut jobs, job, None, 1, &old).unwrap();
    assert_eq!((resumed.epoch, resumed.left), (0, 80));
    assert_eq!(consume(&mut jobs, resumed.job, 0, 0..9).len(), 80);
    let audit = jobs.begin(resumed.job, 0, 1, Order::Seed(5), NOW).unwrap().audit.unwrap();
    assert!(audit.is_exact());
    assert_eq!(audit.consumed, 100);
}

#[test]
fn a_roll_back_while_ranks_turn_closes_both_epochs() {
    let mut jobs = jobs();
    let job = started(&mut jobs, "a", 2);
    let start = jobs.checkpoint(job).unwrap();
    jobs.begin(job, 0, 1, Order::Seed(5), NOW).unwrap();
    let resumed = resume(&mut jobs, job, None, 2, &start).unwrap();
    let kinds: Vec<_> = resumed.effects.iter().map(|effect| plan_of(effect).0).collect();
    assert_eq!(kinds, ["dropped", "dropped", "planned"]);
    assert_eq!(jobs.pending(7, 3), 1);
    let begun = jobs.begin(resumed.job, 0, 1, Order::Seed(5), NOW).unwrap();
    assert_eq!(begun.effects.len(), 1, "there is no third epoch to close");
}

#[test]
fn a_job_resumes_on_a_node_that_never_knew_it() {
    let mut before = jobs();
    let job = started(&mut before, "a", 2);
    let mut seen: BTreeSet<u32> = consume(&mut before, job, 1, 0..4).into_iter().collect();
    let checkpoint = before.checkpoint(job).unwrap();
    let mut after = Jobs::new(SNAPSHOT, Settings::default(), 2);
    assert!(matches!(resume(&mut after, job, None, 2, &checkpoint), Err(Error::NotFound(_))));
    let job = introduce(&mut after, Introduction { world: 5, ..Introduction::new("a") });
    let resumed = resume(&mut after, job, Some(3), 5, &checkpoint).unwrap();
    seen.extend((0..5).flat_map(|rank| consume(&mut after, resumed.job, rank, 0..2)));
    assert_eq!(seen.len(), 100);
}

#[test]
fn a_listed_plan_is_remembered_or_sent_again() {
    let ids: Arc<[u32]> = (0..100).rev().step_by(3).collect();
    let mut jobs = jobs();
    let job = introduce(&mut jobs, Introduction::new("a"));
    jobs.begin(job, 0, 0, Order::Ids(Arc::clone(&ids)), NOW).unwrap();
    consume(&mut jobs, job, 0, 0..1);
    let checkpoint = jobs.checkpoint(job).unwrap();
    let resumed = resume(&mut jobs, job, None, 1, &checkpoint).unwrap();
    assert_eq!(resumed.left, 24);

    let mut after = Jobs::new(SNAPSHOT, Settings::default(), 2);
    let job = introduce(&mut after, Introduction::new("a"));
    assert!(text(resume(&mut after, job, None, 1, &checkpoint)).contains("send the same list"));
    let request =
        Resume { job, rank: None, world: 1, start: Start::default(), checkpoint: &checkpoint, ids: Some(ids) };
    assert_eq!(after.resume(request, NOW).unwrap().left, 24);
}

#[test]
fn a_checkpoint_of_the_snapshot_that_the_job_is_on_serves_though_there_is_a_newer_one() {
    let mut jobs = jobs();
    let job = started(&mut jobs, "a", 1);
    let checkpoint = jobs.checkpoint(job).unwrap();
    jobs.refreshed(Snapshot { fingerprint: 8, items: 150 });
    let resumed = resume(&mut jobs, job, None, 1, &checkpoint).unwrap();
    assert_eq!(resumed.left, 100);
    jobs.begin(resumed.job, 0, 1, Order::Seed(5), NOW).unwrap();
    assert!(text(resume(&mut jobs, resumed.job, None, 1, &checkpoint)).contains("begin the next epoch"));
}

#[test]
fn wrong_resumes_change_nothing() {
    let mut jobs = jobs();
    let job = started(&mut jobs, "a", 2);
    assert!(matches!(jobs.checkpoint(JobId(0)), Err(Error::NotFound(_))));
    let checkpoint = jobs.checkpoint(job).unwrap();
    assert!(matches!(resume(&mut jobs, job, None, 1, b"junk"), Err(Error::Corrupt(_))));
    assert!(matches!(resume(&mut jobs, job, None, 0, &checkpoint), Err(Error::Invalid(_))));
    assert!(matches!(resume(&mut jobs, job, None, u32::MAX, &checkpoint), Err(Error::Invalid(_))));
    assert!(matches!(resume(&mut jobs, job, Some(2), 2, &checkpoint), Err(Error::Invalid(_))));
    assert_eq!(jobs.find("a"), Some(job));
    (0..2).for_each(|rank| drop(consume(&mut jobs, job, rank, 0..5)));
    assert!(jobs.audit(job, 0).unwrap().is_exact());
    let idle = introduce(&mut jobs, Introduction::new("b"));
    assert!(text(jobs.checkpoint(idle)).contains("is not in an epoch"));
}

#[test]
fn a_checkpoint_that_was_read_beforehand_resumes_alike() {
    let mut jobs = jobs();
    let job = introduce(&mut jobs, Introduction::new("a"));
    let ids: Arc<[u32]> = (0..100).rev().collect();
    jobs.begin(job, 0, 0, Order::Ids(Arc::clone(&ids)), NOW).unwrap();
    consume(&mut jobs, job, 0, 0..3);
    let bytes = jobs.checkpoint(job).unwrap();
    let request = |ids| Resume { job, rank: None, world: 2, start: Start::default(), checkpoint: &bytes, ids };
    let other = Snapshot { fingerprint: 8, items: 100 };
    assert!(Prepared::new(&request(Some((0..100).collect())), &[SNAPSHOT]).is_err(), "it is of another list");
    assert!(Prepared::new(&request(Some(Arc::clone(&ids))), &[other]).is_err());
    let prepared = Prepared::new(&request(Some(Arc::clone(&ids))), &[other, SNAPSHOT]).unwrap();
    let resumed = jobs.resume_with(request(Some(ids)), prepared, NOW).unwrap();
    assert_eq!((resumed.was, resumed.snapshot, resumed.epoch, resumed.left), (job, SNAPSHOT, 0, 70));
    assert_eq!(batch(&mut jobs, resumed.job, 0, 0, 3).0, [69, 67, 65]);
    // The list need not come again while the job has it.
    let prepared = Prepared::new(&request(None), &[SNAPSHOT]).unwrap();
    let again = jobs.resume_with(request(None), prepared, NOW).unwrap();
    assert_eq!((again.was, again.left), (resumed.job, 70));
    // Of a snapshot that is not the dataset's any more it goes on if it is on it, or if the dataset has that one still.
    jobs.refreshed(other);
    let prepared = Prepared::new(&request(None), &jobs.snapshots_of(job).unwrap()).unwrap();
    assert_eq!(jobs.resume_with(request(None), prepared, NOW).unwrap().snapshot, SNAPSHOT);
    let fresh = introduce(&mut jobs, Introduction::new("b"));
    let elsewhere = Resume { job: fresh, ..request(None) };
    assert!(Prepared::new(&elsewhere, &jobs.snapshots_of(fresh).unwrap()).is_err());
    assert_eq!(Checkpoint::snapshot_of(&bytes), Some(SNAPSHOT));
    let ids = Some((0..100).rev().collect());
    let prepared = Prepared::new(&Resume { ids, ..elsewhere.clone() }, &[other, SNAPSHOT]).unwrap();
    let resumed = jobs.resume_with(elsewhere, prepared, NOW).unwrap();
    assert_eq!((resumed.snapshot, resumed.left), (SNAPSHOT, 70));
}
