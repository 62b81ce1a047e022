//! Epochs: plans, batches, acknowledgements, and how ranks turn from one to the next.

use super::*;
use crate::residency::signal::NEVER;
use std::collections::BTreeSet;

#[test]
fn an_epoch_gives_every_item_once_and_is_audited_when_it_is_left() {
    let mut jobs = jobs();
    let job = started(&mut jobs, "a", 1);
    let given: BTreeSet<u32> = consume(&mut jobs, job, 0, 0..10).into_iter().collect();
    assert_eq!(given.len(), 100);
    assert_eq!(batch(&mut jobs, job, 0, 10, 10), (vec![], vec![]), "after the end there is nothing");
    jobs.acknowledge(job, 0, 0, 10, NOW).unwrap();
    let begun = jobs.begin(job, 0, 1, Order::Seed(5), NOW).unwrap();
    let audit = begun.audit.unwrap();
    assert!(audit.is_exact());
    assert_eq!((audit.planned, audit.consumed), (100, 100));
    assert_eq!(begun.effects.len(), 1, "nothing was left to drop");
    assert_eq!(jobs.audit(job, 0), Ok(audit));
}

#[test]
fn beginning_and_giving_say_what_is_needed_and_what_no_more() {
    let mut jobs = jobs();
    let job = introduce(&mut jobs, Introduction { world: 2, ..Introduction::new("a") });
    let begun = jobs.begin(job, 0, 0, Order::Ids([4, 2, 8].into()), NOW).unwrap();
    assert_eq!(begun.items, 2);
    assert_eq!(begun.effects.iter().map(plan_of).collect::<Vec<_>>(), [("planned", vec![4, 2, 8])]);
    let joined = jobs.begin(job, 1, 0, Order::Ids([4, 2, 8].into()), NOW).unwrap();
    assert_eq!((joined.items, joined.effects), (2, vec![]));
    let (items, effects) = batch(&mut jobs, job, 1, 0, 9);
    assert_eq!(items, [2, 4], "the second is a pad");
    assert_eq!(effects, [Effect::Consumed(2)], "and so nobody's need ends with it");
    assert_eq!(batch(&mut jobs, job, 1, 0, 9), (vec![2, 4], vec![]), "the same again changes nothing");
    assert_eq!([jobs.pending(7, 4), jobs.pending(7, 2), jobs.pending(7, 5)], [1, 0, 0]);
}

#[test]
fn ranks_that_plan_differently_are_told() {
    let mut jobs = jobs();
    let job = introduce(&mut jobs, Introduction { world: 2, ..Introduction::new("a") });
    jobs.begin(job, 0, 3, Order::Seed(5), NOW).unwrap();
    for other in [Order::Seed(6), Order::Ids([1].into())] {
        assert!(text(jobs.begin(job, 1, 3, other, NOW)).contains("give the same seed or ids on every rank"));
    }
    assert!(text(jobs.begin(job, 2, 3, Order::Seed(5), NOW)).contains("no rank 2: the job has 2 ranks"));
    assert!(text(jobs.begin(job, 1, 1, Order::Seed(5), NOW)).contains("epoch 1 of job \"a\" is over"));
    let unplanned = jobs.next_batch(BatchRequest { job, epoch: 4, rank: 0, number: 0, count: 1 }, &|_| false, NOW);
    assert!(text(unplanned).contains("epoch 4 of job \"a\" has not begun"));
}

#[test]
fn a_plan_may_be_made_before_it_is_begun() {
    let mut jobs = jobs();
    let job = introduce(&mut jobs, Introduction { world: 2, ..Introduction::new("a") });
    let ids: std::sync::Arc<[u32]> = [4, 2, 8].into();
    let plan = |snapshot, ids| std::sync::Arc::new(crate::plan::Plan::new(snapshot, 0, Order::Ids(ids)).unwrap());
    assert_eq!(jobs.begin_with(job, 0, plan(SNAPSHOT, ids.clone()), NOW).unwrap().items, 2);
    assert!(text(jobs.begin_with(job, 1, plan(SNAPSHOT, [4, 8, 2].into()), NOW)).contains("another plan"));
    // The other rank's was made when the dataset had been refreshed; the epoch stays on its snapshot.
    let newer = Snapshot { fingerprint: 8, items: 150 };
    jobs.refreshed(newer);
    assert_eq!(jobs.begin_with(job, 1, plan(newer, ids), NOW).unwrap().items, 2);
    assert_eq!(jobs.pending(7, 4), 1);
    // And a plan that was made before a refresh is made anew for the epoch that begins after it.
    let seeded = crate::plan::Plan::new(SNAPSHOT, 1, Order::Seed(5)).unwrap();
    assert_eq!(jobs.begin_with(job, 0, seeded.into(), NOW).unwrap().items, 75);
}

#[test]
fn a_plan_that_is_refused_leaves_the_epoch_before_open() {
    let mut jobs = jobs();
    let job = started(&mut jobs, "a", 1);
    consume(&mut jobs, job, 0, 0..5);
    for wrong in [[1, 1], [1, 100]] {
        assert!(matches!(jobs.begin(job, 0, 1, Order::Ids(wrong.into()), NOW), Err(Error::Invalid(_))));
    }
    consume(&mut jobs, job, 0, 5..10);
    assert!(jobs.audit(job, 0).unwrap().is_exact());
}

#[test]
fn ranks_turn_the_epoch_each_in_its_time() {
    let mut jobs = jobs();
    let job = started(&mut jobs, "a", 2);
    consume(&mut jobs, job, 0, 0..5);
    consume(&mut jobs, job, 1, 0..3);
    let first = jobs.begin(job, 0, 1, Order::Seed(5), NOW).unwrap();
    assert_eq!(first.audit, None, "the other rank is still in the epoch");
    let next = BatchRequest { job, epoch: 1, rank: 0, number: 0, count: 5 };
    assert!(matches!(jobs.next_batch(next, &|_| false, NOW), Ok(Answer::Batch { items, .. }) if items.len() == 5));
    consume(&mut jobs, job, 1, 3..5);
    let last = jobs.begin(job, 1, 1, Order::Seed(5), NOW).unwrap();
    assert!(last.audit.unwrap().is_exact());
    assert_eq!(jobs.begin(job, 1, 1, Order::Seed(5), NOW).unwrap().audit, None, "it was told");
    assert!(text(jobs.acknowledge(job, 0, 1, 4, NOW)).contains("epoch 0 of job \"a\" is over"));
}

#[test]
fn a_rank_that_asks_without_a_word_has_turned_too() {
    let mut jobs = jobs();
    let job = started(&mut jobs, "a", 2);
    jobs.begin(job, 0, 1, Order::Seed(5), NOW).unwrap();
    let request = BatchRequest { job, epoch: 1, rank: 1, number: 0, count: 5 };
    let Ok(Answer::Batch { effects, .. }) = jobs.next_batch(request, &|_| false, NOW) else { panic!("it is open") };
    assert!(matches!(plan_of(&effects[5]), ("dropped", left) if left.len() == 100));
    assert_eq!(jobs.audit(job, 0).unwrap().omissions, 100);
}

#[test]
fn what_a_rank_skips_is_an_omission_and_is_dropped() {
    let mut jobs = jobs();
    let job = started(&mut jobs, "a", 1);
    consume(&mut jobs, job, 0, 0..6);
    batch(&mut jobs, job, 0, 6, 10);
    let begun = jobs.begin(job, 0, 1, Order::Seed(5), NOW).unwrap();
    let audit = begun.audit.unwrap();
    assert_eq!((audit.omissions, audit.duplicates, audit.is_exact()), (40, 0, false));
    let dropped: Vec<_> = begun.effects.iter().map(plan_of).filter(|(kind, _)| *kind == "dropped").collect();
    assert_eq!(dropped.len(), 1);
    assert_eq!(dropped[0].1.len(), 30, "the ten that were given and not acknowledged are needed no more either");
}

#[test]
fn workers_of_a_rank_may_ask_in_any_order() {
    let mut jobs = jobs();
    let job = started(&mut jobs, "a", 1);
    let (third, effects) = batch(&mut jobs, job, 0, 2, 10);
    assert_eq!(effects.len(), 30, "three batches were reserved");
    let first = batch(&mut jobs, job, 0, 0, 10).0;
    let second = batch(&mut jobs, job, 0, 1, 10).0;
    let straight = {
        let other = started(&mut jobs, "b", 1);
        consume(&mut jobs, other, 0, 0..3)
    };
    assert_eq!([first, second, third].concat(), straight);
}

#[test]
fn wrong_batches_are_refused_and_change_nothing() {
    let mut jobs = jobs();
    let job = started(&mut jobs, "a", 1);
    assert!(text(ask(&mut jobs, job, 0, 0, 0)).contains("at least 1"));
    assert!(text(ask(&mut jobs, job, 0, 5_000, 1)).contains("count batches from 0"));
    assert!(text(ask(&mut jobs, job, 0, u64::MAX, u32::MAX)).contains("count batches from 0"));
    assert!(text(ask(&mut jobs, job, 1, 0, 1)).contains("no rank 1"));
    assert!(text(jobs.acknowledge(job, 0, 0, 0, NOW)).contains("was not delivered"));
    assert_eq!(consume(&mut jobs, job, 0, 0..10).len(), 100);
    assert!(jobs.audit(job, 0).unwrap().is_exact());
}

#[test]
fn a_job_that_never_acknowledges_meets_a_bound() {
    let mut jobs = Jobs::new(SNAPSHOT, Settings { max_unacknowledged: 25, ..Settings::default() }, 1);
    let job = started(&mut jobs, "a", 1);
    batch(&mut jobs, job, 0, 0, 10);
    batch(&mut jobs, job, 0, 1, 10);
    assert!(text(ask(&mut jobs, job, 0, 2, 10)).contains("acknowledge batches when they are consumed"));
    jobs.acknowledge(job, 0, 0, 0, NOW).unwrap();
    batch(&mut jobs, job, 0, 2, 10);
}

#[test]
fn a_batch_counts_for_what_the_epoch_still_has() {
    let mut jobs = Jobs::new(SNAPSHOT, Settings { max_unacknowledged: 100, ..Settings::default() }, 1);
    let job = started(&mut jobs, "a", 1);
    assert_eq!(batch(&mut jobs, job, 0, 0, 1_000).0.len(), 100);
}

#[test]
fn items_may_be_consumed_by_id() {
    let mut jobs = jobs();
    let job = started(&mut jobs, "a", 1);
    let ids: Vec<u32> = (0..100).collect();
    assert_eq!(jobs.consumed(job, 0, &ids[50..], &Nothing, NOW).unwrap().len(), 50);
    assert_eq!((jobs.pending(7, 20), jobs.pending(7, 70)), (1, 0));
    assert_eq!(jobs.upcoming(job, 0).map(|next| next.unwrap().id < 50), Some(true));
    assert_eq!(jobs.consumed(job, 0, &ids[..50], &Nothing, NOW).unwrap().len(), 50);
    assert_eq!(jobs.consumed(job, 0, &[3], &Nothing, NOW), Ok(vec![]));
    assert_eq!(jobs.audit(job, 0).unwrap().duplicates, 1);
    assert!(text(jobs.consumed(job, 0, &[4, 100], &Nothing, NOW)).contains("item 100 is not in the plan"));
    assert_eq!(jobs.audit(job, 0).unwrap().duplicates, 1, "a refused report has no effect");
}

#[test]
fn an_item_that_was_consumed_by_id_is_not_given_in_a_batch() {
    for mode in [Mode::Strict, Mode::Reorder { window: 100 }, Mode::Approx(Default::default())] {
        let mut jobs = jobs();
        let job = jobs.introduce(Introduction { mode, ..Introduction::new("a") }, NOW).unwrap();
        jobs.begin(job, 0, 0, Order::Seed(5), NOW).unwrap();
        jobs.consumed(job, 0, &[3, 40, 99], &Nothing, NOW).unwrap();
        let (items, _) = batch(&mut jobs, job, 0, 0, 100);
        let mut ids = items;
        ids.sort_unstable();
        assert_eq!(ids, (0..100).filter(|id| ![3, 40, 99].contains(id)).collect::<Vec<_>>(), "{mode:?}");
        jobs.acknowledge(job, 0, 0, 0, NOW).unwrap();
        assert!(jobs.audit(job, 0).unwrap().is_exact(), "{mode:?}");
    }
}

#[test]
fn a_cached_item_is_taken_out_of_turn_once_an_epoch() {
    let mut jobs = jobs();
    let job = jobs.introduce(Introduction { mode: Mode::Reorder { window: u32::MAX }, ..Introduction::new("a") }, NOW);
    let job = job.unwrap();
    jobs.begin(job, 0, 0, Order::Seed(5), NOW).unwrap();
    let evens = |id: u32| id.is_multiple_of(2);
    assert_eq!(jobs.take(job, 0, 3, &evens, NOW), Ok(Take::Absent), "it is not cached");
    assert!(matches!(jobs.take(job, 0, 4, &evens, NOW), Ok(Take::Taken(effects)) if effects == [Effect::Consumed(4)]));
    assert_eq!(jobs.take(job, 0, 4, &evens, NOW), Ok(Take::Absent), "it was taken");
    let (items, _) = batch(&mut jobs, job, 0, 0, 99);
    assert!(items.len() == 99 && !items.contains(&4));
    assert_eq!(jobs.take(job, 0, 4, &evens, NOW), Ok(Take::Exhausted));
    assert!(jobs.take(job, 1, 4, &evens, NOW).is_err(), "the next epoch has not begun");
}

#[test]
fn a_plan_tells_when_an_item_is_next_used_this_epoch_and_the_next() {
    let mut jobs = jobs();
    let job = started(&mut jobs, "a", 2);
    let order: Vec<u32> = {
        let plan = crate::plan::Plan::new(SNAPSHOT, 0, Order::Seed(5)).unwrap();
        (0..100).map(|position| plan.at(position).unwrap()).collect()
    };
    let moments: Vec<u64> = order.iter().map(|&id| jobs.next_use(7, id)).collect();
    assert!(moments.is_sorted_by(|a, b| a < b));
    consume(&mut jobs, job, 0, 0..2);
    for (position, &id) in order.iter().enumerate() {
        let given = position % 2 == 0 && position < 40;
        assert_eq!(jobs.next_use(7, id) == moments[position], !given);
        assert!(!given || jobs.next_use(7, id) > moments[99], "it is used again in the next epoch");
    }
    assert_eq!(jobs.next_use(7, 100), NEVER);
    assert_eq!(jobs.next_use(8, 1), NEVER, "another snapshot's items are others");
}

#[test]
fn what_comes_next_can_be_walked_into_the_next_epoch() {
    let mut jobs = jobs();
    let job = started(&mut jobs, "a", 2);
    let given: BTreeSet<u32> = consume(&mut jobs, job, 1, 0..3).into_iter().collect();
    let mut walked = Vec::new();
    let mut from = 0;
    while let Some(Ok(upcoming)) = jobs.upcoming(job, from) {
        assert_eq!(jobs.next_use(7, upcoming.id) == upcoming.at, walked.len() < 70 || given.contains(&upcoming.id));
        from = upcoming.progress + 1;
        walked.push(upcoming.id);
    }
    assert_eq!(walked.len(), 70 + 100);
    assert!(walked[..70].iter().all(|id| !given.contains(id)));
    assert_eq!(walked[70..].iter().collect::<BTreeSet<_>>().len(), 100);
}

#[test]
fn a_long_stretch_of_given_items_is_passed_over_in_steps() {
    let mut jobs = Jobs::new(Snapshot { fingerprint: 7, items: 10_000 }, Settings::default(), 1);
    let job = started(&mut jobs, "a", 1);
    batch(&mut jobs, job, 0, 0, 9_000);
    let mut from = 0;
    let steps = std::iter::from_fn(|| jobs.upcoming(job, from)?.map_err(|next| from = next).err()).count();
    assert_eq!(steps, 2);
    assert_eq!(jobs.upcoming(job, from).unwrap().unwrap().progress, 9_000);
}
