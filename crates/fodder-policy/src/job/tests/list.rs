//! Epochs that are planned by a list, at a node that has to be given it.

use super::*;
use crate::job::{Lack, Telling, Word};

fn listed() -> Order {
    Order::Ids((0..90).rev().collect())
}

fn tell(from: &mut Jobs, to: &mut Jobs) {
    for word in from.words(Telling::All, NOW) {
        to.heed(Word::decode(&word.encode(), &Settings::default()).unwrap(), &[SNAPSHOT], NOW);
    }
}

/// What one node lacks, brought from another.
fn bring(from: &Jobs, to: &mut Jobs) {
    for lack in to.without_lists() {
        let ids = from.list_of(&lack.job, lack.epoch, lack.fingerprint).unwrap();
        let plan = lack.plan(ids.to_vec()).unwrap();
        to.take_list(&lack, plan);
    }
}

fn two() -> (Jobs, JobId, Jobs) {
    let mut a = Jobs::new(SNAPSHOT, Settings::default(), 1);
    let job = introduce(&mut a, Introduction { world: 2, ..Introduction::new("train") });
    a.begin(job, 0, 0, listed(), NOW).unwrap();
    consume(&mut a, job, 0, 0..2);
    (a, job, Jobs::new(SNAPSHOT, Settings::default(), 2))
}

#[test]
fn a_node_that_is_given_the_list_speaks_of_the_epoch_as_the_others_do() {
    let (mut a, job, mut b) = two();
    tell(&mut a, &mut b);
    let there = b.find("train").unwrap();
    assert!(b.audit(there, 0).is_err(), "it cannot tell which items are meant");
    assert_eq!(b.without_lists().len(), 1);
    bring(&a, &mut b);
    assert!(b.without_lists().is_empty(), "it is asked for once");
    tell(&mut a, &mut b);
    assert_eq!((b.audit(there, 0), b.checkpoint(there)), (a.audit(job, 0), a.checkpoint(job)));
    // And it has the list to give.
    let mut c = Jobs::new(SNAPSHOT, Settings::default(), 3);
    tell(&mut b, &mut c);
    bring(&b, &mut c);
    tell(&mut b, &mut c);
    assert_eq!(c.audit(c.find("train").unwrap(), 0), a.audit(job, 0));
}

#[test]
fn a_run_that_went_on_in_a_listed_epoch_is_there_with_its_list() {
    let (mut a, job, mut b) = two();
    let checkpoint = a.checkpoint(job).unwrap();
    let start = Start { attempt: 3, nonce: 4 };
    let request = Resume { job, rank: Some(0), world: 2, start, checkpoint: &checkpoint, ids: None };
    let job = a.resume(request, NOW).unwrap().job;
    a.begin(job, 0, 0, listed(), NOW).unwrap();
    consume(&mut a, job, 0, 0..1);
    tell(&mut a, &mut b);
    bring(&a, &mut b);
    tell(&mut a, &mut b);
    assert_eq!(b.audit(b.find("train").unwrap(), 0), a.audit(job, 0));
    assert!(b.without_lists().is_empty());
}

#[test]
fn another_list_than_the_one_that_was_named_is_not_taken() {
    let (mut a, _, mut b) = two();
    tell(&mut a, &mut b);
    let lack: Lack = b.without_lists().remove(0);
    for wrong in [Vec::new(), (0..90).collect(), (0..91).rev().collect(), vec![SNAPSHOT.items; 90]] {
        assert!(lack.plan(wrong).is_err());
    }
    assert_eq!(a.list_of("train", 0, lack.fingerprint ^ 1), None);
    assert_eq!(a.list_of("train", 1, lack.fingerprint), None);
    // One that is of no use any more is let go.
    let plan = lack.plan((0..90).rev().collect()).unwrap();
    b.take_list(&Lack { job: "other".into(), ..lack.clone() }, Arc::clone(&plan));
    b.take_list(&Lack { epoch: 7, ..lack.clone() }, plan);
    assert_eq!(b.without_lists(), [lack]);
}

#[test]
fn a_list_for_which_there_is_no_room_is_not_asked_for() {
    let (mut a, _, _) = two();
    let mut small = Jobs::new(SNAPSHOT, Settings { max_memory_bytes: 1_000, ..Settings::default() }, 2);
    tell(&mut a, &mut small);
    assert!(small.find("train").is_some() && small.without_lists().is_empty());
}
