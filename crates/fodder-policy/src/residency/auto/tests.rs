//! What `auto` chooses, and that it keeps every promise while it changes its mind.

#![allow(clippy::unwrap_used)]

use super::super::conformance;
use super::*;
use crate::sim::{Cues, Sizes, Study, Tally, Trace, Workload, replay, study::Contender, workload::Kind};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// One that judges after few requests.
fn hasty() -> Auto {
    Auto::with(&Settings::default(), Contest::with_windows_of(ALWAYS[0], 2))
}

fn chosen(auto: &Auto) -> Policy {
    auto.explain().unwrap().chosen
}

/// Runs over a trace, and tells no more than hits, misses and scores.
fn run(trace: &Trace, cached: f64) -> (Auto, Tally) {
    let mut auto = Auto::new(&Settings::default());
    let cues = Cues { scores: true, ..Cues::default() };
    let tally = replay(&mut auto, trace, trace.capacity_bytes(cached), cues);
    (auto, tally)
}

#[test]
fn it_keeps_what_every_policy_promises() {
    conformance::check(&|| Box::new(Auto::new(&Settings::default())));
    conformance::check(&|| Box::new(hasty()));
}

#[test]
fn a_million_requests_stay_within_the_quota_though_it_changes_its_mind() {
    // Whom it evicts is what the policy says that it follows; beside another of itself, all of it follows from what it saw.
    conformance::agrees(&|| Box::new(hasty()), &|| Box::new(hasty()));
}

proptest! {
    #[test]
    fn nobody_is_lost_while_residents_are_handed_over(
        ids in prop::collection::btree_set(0u32..2_000, 1..200),
        changes in prop::collection::vec((0usize..ALWAYS.len(), 0usize..40, 0u32..2_000), 1..20),
    ) {
        let mut auto = hasty();
        let mut residents: BTreeSet<u32> = ids;
        residents.iter().for_each(|&id| auto.inserted(id, 7));
        for (next, steps, id) in changes {
            if auto.leaving.is_none() {
                auto.choose(chosen(&auto), ALWAYS[next]);
            }
            auto.settle(steps);
            let gone = auto.victim(Pressure::Yield);
            prop_assert!(gone.is_none_or(|gone| residents.contains(&gone)));
            match gone.filter(|_| id % 2 == 0) {
                Some(gone) => {
                    auto.removed(gone);
                    residents.remove(&gone);
                }
                None => {
                    auto.inserted(id, 7);
                    residents.insert(id);
                }
            }
            prop_assert_eq!(auto.len(), residents.len());
        }
        while auto.settle(1_000) {}
        prop_assert!(auto.leaving.is_none());
        while let Some(gone) = auto.victim(Pressure::Yield) {
            auto.removed(gone);
            prop_assert!(residents.remove(&gone));
        }
        prop_assert!(residents.is_empty());
    }
}

#[test]
fn epochs_are_left_to_minio() {
    let trace = Workload { kind: Kind::Uniform, items: 20_000, epochs: 8, skip: 2, seed: 1 }.trace();
    let (auto, tally) = run(&trace, 0.2);
    assert_eq!(chosen(&auto), Policy::Minio);
    assert!((tally.hit_ratio() - 0.2).abs() < 0.001);
    let shadows = auto.explain().unwrap().shadows;
    assert_eq!((shadows.len(), shadows[0].policy), (ALWAYS.len(), Policy::Minio));
    assert!((shadows[0].hit_ratio - 0.2).abs() < 0.02, "its shadow hits {}", shadows[0].hit_ratio);
}

#[test]
fn a_working_set_that_moves_is_not_left_to_minio() {
    let requests = (0..400_000u32).map(|at| at / 40 + at.wrapping_mul(2_654_435_761) % 1_000).collect();
    let trace = Trace { requests, items: 11_000, skip: 100_000, ..Trace::default() };
    let (auto, tally) = run(&trace, 0.2);
    assert_ne!(chosen(&auto), Policy::Minio);
    assert!(tally.hit_ratio() > 0.9, "it hits {}", tally.hit_ratio());
    let why = auto.explain().unwrap().why;
    assert!(why.contains("its shadow hit") && why.contains("minio, chosen before"), "{why}");
}

#[test]
fn scores_are_followed_once_there_are_any() {
    let trace = Workload { kind: Kind::Sbp { beta: 1.0 }, items: 20_000, epochs: 14, skip: 10, seed: 1 }.trace();
    let (auto, tally) = run(&trace, 0.2);
    assert_eq!(chosen(&auto), Policy::Importance);
    assert!((tally.hit_ratio() - 0.36).abs() < 0.01, "it hits {}", tally.hit_ratio());
}

#[test]
fn bytes_count_and_not_requests() {
    // Every other request is for one of a hundred large items; the others are small, many and never come again. To
    // count requests, or to hold shadows to a number of items, would show no difference.
    let requests: Vec<u32> =
        (0..300_000u32).map(|at| if at % 2 == 0 { at / 2 % 2_000 } else { 2_000 + at / 2 }).collect();
    let sizes: Vec<u32> = (0..152_000).map(|id| if id < 2_000 { 1_000 } else { 10 }).collect();
    let trace = Trace { requests, items: 152_000, sizes: Sizes::Each(sizes.into()), ..Trace::default() };
    let mut auto = Auto::new(&Settings::default());
    let tally = replay(&mut auto, &trace, 1_000_000, Cues::default());
    let shadow = auto.explain().unwrap().shadows[0].hit_ratio;
    assert!((shadow - tally.byte_hit_ratio()).abs() < 0.1, "{shadow} and {}", tally.byte_hit_ratio());
}

#[test]
fn it_hits_within_two_hundredths_of_the_best_on_the_published_traces() {
    let traces = [
        (Kind::Uniform, 0.2, Policy::Minio),
        (Kind::Uniform, 0.4, Policy::Minio),
        (Kind::Sbp { beta: 0.33 }, 0.2, Policy::Plan),
        (Kind::Sbp { beta: 1.0 }, 0.2, Policy::Plan),
    ];
    for (kind, cached, best) in traces {
        let study = Study::of_workload(Workload { kind, items: 20_000, epochs: 24, skip: 6, seed: 1 }).unwrap();
        comes_close(&study, cached, best);
    }
}

/// The best of the others, for each window of jobs that share a cache.
fn comes_close_at_each_window(rates: [u32; 3], best: [Policy; 4]) {
    for (window, best) in [0, 200, 800, 4_000].into_iter().zip(best) {
        let kind = Kind::Jobs { rates: rates.into(), window };
        let study = Study::of_workload(Workload { kind, items: 4_000, epochs: 16, skip: 8, seed: 1 }).unwrap();
        comes_close(&study, 0.2, best);
    }
}

#[test]
fn it_hits_within_two_hundredths_of_the_best_where_jobs_share_a_cache() {
    comes_close_at_each_window([1, 1, 1], [Policy::Plan, Policy::Plan, Policy::Plan, Policy::Pending]);
}

#[test]
fn it_hits_within_two_hundredths_of_the_best_where_one_job_is_twice_as_fast() {
    comes_close_at_each_window([1, 1, 2], [Policy::Plan; 4]);
}

fn comes_close(study: &Study, cached: f64, best: Policy) {
    let hits = |policy| study.run(Contender::Policy(policy), cached).hit_ratio();
    let (auto, best_hits) = (hits(Policy::Auto), hits(best));
    assert!(auto >= best_hits - 0.02, "auto hits {auto:.3}, {best} {best_hits:.3}");
}
