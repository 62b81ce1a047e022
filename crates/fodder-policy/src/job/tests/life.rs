//! Introductions, leases, leaving, scores and bounds.

use super::*;
use crate::serving::Approximation;
use std::sync::Arc;

#[test]
fn every_rank_may_introduce_the_job() {
    let mut jobs = jobs();
    let job = introduce(&mut jobs, Introduction::new("a"));
    assert_eq!(introduce(&mut jobs, Introduction::new("a")), job);
    assert_ne!(introduce(&mut jobs, Introduction::new("b")), job);
    assert_eq!(jobs.find("a"), Some(job));
    assert_eq!(jobs.find("c"), None);
    let other = Introduction { world: 2, ..Introduction::new("a") };
    assert!(text(jobs.introduce(other, NOW)).contains("with other settings (ranks: 1, mode: strict)"));
}

#[test]
fn wrong_introductions_are_refused() {
    let mut jobs = jobs();
    let base = || Introduction::new("a");
    let nan = Approximation { max_fraction: f64::NAN, ..Approximation::default() };
    let wrong = [
        (Introduction { name: String::new(), ..base() }, "1 to 256 bytes"),
        (Introduction { name: "x".repeat(257), ..base() }, "1 to 256 bytes"),
        (Introduction { world: 0, ..base() }, "1 to 16384 ranks"),
        (Introduction { world: u32::MAX, ..base() }, "1 to 16384 ranks"),
        (Introduction { weight: f32::NAN, ..base() }, "must be above 0"),
        (Introduction { weight: -1.0, ..base() }, "must be above 0"),
        (Introduction { mode: Mode::Approx(nan), ..base() }, "max_fraction"),
        (
            Introduction { mode: Mode::Reorder { window: 9 }, in_step: Some("g".into()), ..base() },
            "use the mode strict",
        ),
    ];
    for (introduction, expected) in wrong {
        let message = text(jobs.introduce(introduction, NOW));
        assert!(message.contains(expected), "{message}");
    }
    assert_eq!(jobs.status(NOW).len(), 0);
}

#[test]
fn ten_thousand_introductions_meet_a_bound_and_leave_others_alone() {
    let mut jobs = jobs();
    let first = started(&mut jobs, "first", 1);
    consume(&mut jobs, first, 0, 0..3);
    let refused = (0..10_000).filter(|number| jobs.introduce(Introduction::new(format!("job {number}")), NOW).is_err());
    assert_eq!(refused.count(), 10_000 - 1_023);
    assert!(text(jobs.introduce(Introduction::new("one more"), NOW)).contains("end jobs that are done"));
    consume(&mut jobs, first, 0, 3..10);
    assert!(jobs.audit(first, 0).unwrap().is_exact());
    assert_eq!(introduce(&mut jobs, Introduction::new("first")), first);
}

#[test]
fn a_job_that_vanishes_is_forgotten_after_its_lease() {
    let mut jobs = jobs();
    let lease = Some(Duration::from_secs(60));
    let silent = introduce(&mut jobs, Introduction { lease, ..Introduction::new("silent") });
    let alive = introduce(&mut jobs, Introduction { lease, ..Introduction::new("alive") });
    jobs.begin(silent, 0, 0, Order::Seed(5), NOW).unwrap();
    consume(&mut jobs, silent, 0, 0..2);
    jobs.renew(alive, NOW + Duration::from_secs(50)).unwrap();
    assert_eq!(jobs.expire(NOW + Duration::from_secs(60)), []);
    let gone = jobs.expire(NOW + Duration::from_secs(61));
    assert_eq!(gone.len(), 1);
    assert_eq!((gone[0].job, &*gone[0].name), (silent, "silent"));
    assert_eq!(gone[0].audit.unwrap().consumed, 20);
    let (kind, ids) = plan_of(&gone[0].effects[0]);
    assert_eq!((kind, ids.len()), ("dropped", 80));
    let told = text(ask(&mut jobs, silent, 0, 2, 10));
    assert!(told.contains("its lease ran out") && told.ends_with("introduce it again"), "{told}");
    assert_ne!(introduce(&mut jobs, Introduction::new("silent")), silent);
    jobs.renew(alive, NOW).unwrap();
}

#[test]
fn a_job_that_leaves_drops_what_it_was_not_given() {
    let mut jobs = jobs();
    let job = started(&mut jobs, "a", 2);
    let mut given = batch(&mut jobs, job, 0, 0, 10).0;
    given.extend(batch(&mut jobs, job, 1, 0, 7).0);
    let gone = jobs.leave(job, NOW).unwrap();
    let (kind, mut left) = plan_of(&gone.effects[0]);
    assert_eq!(kind, "dropped");
    left.extend(given);
    left.sort_unstable();
    assert!(left.into_iter().eq(0..100));
    assert!(matches!(jobs.leave(job, NOW), Err(Error::NotFound(_))));
    assert_eq!(jobs.find("a"), None);
}

#[test]
fn a_job_is_done_when_its_last_rank_is_and_a_rank_may_come_back() {
    let mut jobs = jobs();
    let job = started(&mut jobs, "a", 3);
    assert_eq!(jobs.leave_rank(job, 0, NOW), Ok(None));
    assert_eq!(jobs.leave_rank(job, 0, NOW), Ok(None));
    assert_eq!(jobs.leave_rank(job, 1, NOW), Ok(None));
    assert!(text(jobs.leave_rank(job, 3, NOW)).contains("no rank 3"));
    jobs.begin(job, 0, 1, Order::Seed(5), NOW).unwrap();
    assert_eq!(jobs.leave_rank(job, 2, NOW), Ok(None));
    assert_eq!(jobs.find("a"), Some(job));
    assert!(jobs.leave_rank(job, 0, NOW).unwrap().is_some());
    assert_eq!(jobs.find("a"), None);
}

#[test]
fn ranks_of_the_run_before_a_resume_take_nobody_with_them() {
    let mut jobs = jobs();
    let job = started(&mut jobs, "a", 2);
    jobs.leave_rank(job, 0, NOW).unwrap();
    let checkpoint = jobs.checkpoint(job).unwrap();
    let request = Resume { start: Start::default(), job, checkpoint: &checkpoint, world: 2, rank: Some(0), ids: None };
    let resumed = jobs.resume(request, NOW).unwrap().job;
    assert!(matches!(jobs.leave_rank(job, 1, NOW), Err(Error::Conflict(_))));
    assert_eq!(jobs.leave_rank(resumed, 1, NOW), Ok(None));
    assert!(jobs.leave_rank(resumed, 0, NOW).unwrap().is_some());
}

#[test]
fn scores_take_effect_at_the_end_of_the_epoch() {
    let mut jobs = jobs();
    let job = started(&mut jobs, "a", 1);
    let values: Vec<f32> = (0u8..100).map(f32::from).collect();
    jobs.report_scores(job, Scores::Dense(&values), NOW).unwrap();
    assert!(jobs.take_scores(NOW).is_none());
    jobs.begin(job, 0, 1, Order::Seed(5), NOW).unwrap();
    let combined = jobs.take_scores(NOW).unwrap().combine();
    assert!(combined.is_sorted() && combined.len() == 100);
    assert!(jobs.take_scores(NOW).is_none(), "they are taken once");
    jobs.begin(job, 0, 2, Order::Seed(5), NOW).unwrap();
    assert!(jobs.take_scores(NOW).is_none(), "nothing new was reported");
}

#[test]
fn scores_take_effect_at_the_interval_where_one_is_set() {
    let interval = Some(Duration::from_secs(10));
    let mut jobs = Jobs::new(SNAPSHOT, Settings { update_interval: interval, ..Settings::default() }, 1);
    let job = started(&mut jobs, "a", 1);
    assert!(jobs.take_scores(NOW).is_none());
    jobs.report_scores(job, Scores::Sparse { ids: &[4], values: &[0.5] }, NOW).unwrap();
    jobs.begin(job, 0, 1, Order::Seed(5), NOW).unwrap();
    assert!(jobs.take_scores(NOW + Duration::from_secs(9)).is_none());
    assert!(jobs.take_scores(NOW + Duration::from_secs(10)).is_some());
    assert!(jobs.take_scores(NOW + Duration::from_secs(20)).is_none());
}

#[test]
fn scores_take_effect_when_a_job_says_so() {
    let mut jobs = jobs();
    let job = introduce(&mut jobs, Introduction::new("a"));
    jobs.report_scores(job, Scores::Sparse { ids: &[4], values: &[0.5] }, NOW).unwrap();
    jobs.apply_scores(job, NOW).unwrap();
    assert!(jobs.take_scores(NOW).is_some());
}

#[test]
fn a_job_cannot_report_for_another_and_its_scores_leave_with_it() {
    let mut jobs = jobs();
    let [a, b] = ["a", "b"].map(|name| introduce(&mut jobs, Introduction::new(name)));
    jobs.report_scores(a, Scores::Sparse { ids: &[0, 1], values: &[1.0, 2.0] }, NOW).unwrap();
    jobs.report_scores(b, Scores::Sparse { ids: &[0, 1], values: &[2.0, 1.0] }, NOW).unwrap();
    jobs.apply_scores(a, NOW).unwrap();
    jobs.apply_scores(b, NOW).unwrap();
    assert_eq!(jobs.take_scores(NOW).unwrap().combine()[..2], [0.75, 0.75]);
    jobs.leave(b, NOW).unwrap();
    assert!(matches!(jobs.report_scores(b, Scores::Dense(&[]), NOW), Err(Error::NotFound(_))));
    assert_eq!(jobs.take_scores(NOW).unwrap().combine()[..2], [0.5, 1.0]);
}

#[test]
fn memory_is_bounded_for_plans_and_for_scores() {
    let settings = Settings { max_memory_bytes: 100_000, ..Settings::default() };
    let snapshot = Snapshot { fingerprint: 1, items: 1_000_000 };
    let mut jobs = Jobs::new(snapshot, settings, 1);
    let job = introduce(&mut jobs, Introduction::new("a"));
    let ids: Arc<[u32]> = (0..50_000).collect();
    let refused = jobs.begin(job, 0, 0, Order::Ids(ids), NOW);
    assert!(matches!(&refused, Err(Error::Full(text)) if text.contains("use a seed")), "{refused:?}");
    let refused = jobs.report_scores(job, Scores::Dense(&vec![0.0; 1_000_000]), NOW);
    assert!(matches!(refused, Err(Error::Full(_))), "{refused:?}");
    jobs.report_scores(job, Scores::Sparse { ids: &[1, 2], values: &[0.0; 2] }, NOW).unwrap();
    assert!(jobs.memory_bytes() < 100_000);
}

#[test]
fn a_job_stays_on_its_snapshot_until_its_next_epoch() {
    let mut jobs = jobs();
    let job = started(&mut jobs, "a", 1);
    jobs.refreshed(Snapshot { fingerprint: 8, items: 150 });
    assert_eq!(consume(&mut jobs, job, 0, 0..20).len(), 100);
    assert_eq!(jobs.pending(8, 3), 0);
    let begun = jobs.begin(job, 0, 1, Order::Seed(5), NOW).unwrap();
    assert_eq!(begun.items, 150);
    assert!(begun.audit.unwrap().is_exact());
    assert_eq!(jobs.pending(8, 3), 1);
}

#[test]
fn one_item_may_be_asked_for_outside_of_any_plan() {
    let mut jobs = jobs();
    let bounds = Approximation { max_fraction: 1.0, same_class: false, max_repeats: 100 };
    let job = introduce(&mut jobs, Introduction { mode: Mode::Approx(bounds), ..Introduction::new("a") });
    let look = |id: u32| id == 3;
    assert_eq!(jobs.ask(job, 9, &look, NOW), Ok(Served::planned(9)), "nothing is known to be cached");
    jobs.inserted(7, 3, None);
    assert_eq!(jobs.ask(job, 9, &look, NOW), Ok(Served { asked: 9, served: 3, kind: Kind::Substituted }));
    assert!(text(jobs.ask(job, 100, &look, NOW)).contains("no item 100"));
    let strict = introduce(&mut jobs, Introduction::new("b"));
    assert_eq!(jobs.ask(strict, 9, &look, NOW), Ok(Served::planned(9)));
}
