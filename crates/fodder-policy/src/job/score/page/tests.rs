//! What a node that was not there comes to know.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::job::{Introduction, Report, Reported, Scores, Settings, Telling};
use proptest::prelude::*;
use std::time::Duration;

const NOW: Duration = Duration::ZERO;

fn snapshot(items: u32) -> Snapshot {
    Snapshot { fingerprint: 1, items }
}

fn jobs(items: u32, salt: u64) -> Jobs {
    Jobs::new(snapshot(items), Settings::default(), salt)
}

/// A node that hears of a job from another.
fn heard_from(there: &mut Jobs, items: u32) -> Jobs {
    let mut here = jobs(items, 2);
    for word in there.words(Telling::All, NOW) {
        here.heed(word, &[snapshot(items)], NOW);
    }
    here
}

fn pull(here: &mut Jobs, there: &Jobs) -> usize {
    let (mut first, mut pages) = (0, 0);
    loop {
        let page = there.scores_from("train", first).unwrap();
        here.fill_scores("train", &page).unwrap();
        pages += 1;
        match page.next {
            Some(next) => first = next,
            None => return pages,
        }
    }
}

fn report(jobs: &mut Jobs, items: u32, scores: &[(u32, f32)]) {
    let (ids, values): (Vec<u32>, Vec<f32>) = scores.iter().copied().unzip();
    let job = jobs.find("train").unwrap();
    jobs.report(job, Report::new(items, Scores::Sparse { ids: &ids, values: &values }).unwrap(), NOW).unwrap();
}

fn combined(jobs: &mut Jobs) -> Option<Vec<f32>> {
    jobs.take_scores(NOW).as_ref().map(Reported::combine).map(|scores| scores.to_vec())
}

/// What would count if everything that was reported took effect.
fn settled(jobs: &mut Jobs) -> Option<Vec<f32>> {
    let job = jobs.find("train").unwrap();
    jobs.apply_scores(job, NOW).unwrap();
    combined(jobs)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn whoever_was_not_there_comes_to_the_same_scores(
        early in prop::collection::vec((0u32..60_000, -5f32..5.0), 0..80),
        late in prop::collection::vec((0u32..60_000, -5f32..5.0), 0..80),
    ) {
        const ITEMS: u32 = 60_000;
        let mut there = jobs(ITEMS, 1);
        let job = there.introduce(Introduction::new("train"), NOW).unwrap();
        report(&mut there, ITEMS, &early);
        there.apply_scores(job, NOW).unwrap();
        let effective = combined(&mut there);
        if !late.is_empty() {
            report(&mut there, ITEMS, &late);
        }
        let mut here = heard_from(&mut there, ITEMS);
        prop_assert_eq!(here.without_scores(), ["train"]);
        prop_assert!(here.scores_from("train", 0).is_none(), "it has nothing to tell yet");
        let pages = pull(&mut here, &there);
        prop_assert!(pages <= (ITEMS as usize).div_ceil(PAGE_ITEMS));
        prop_assert!(here.without_scores().is_empty());
        // What took effect there does here, and what does not yet does not.
        if !early.is_empty() {
            prop_assert_eq!(combined(&mut here), effective);
        }
        if !late.is_empty() {
            prop_assert_eq!(settled(&mut here), settled(&mut there));
        }
    }
}

#[test]
fn what_was_heard_meanwhile_is_newer_and_stays() {
    let mut there = jobs(4, 1);
    there.introduce(Introduction::new("train"), NOW).unwrap();
    report(&mut there, 4, &[(0, 1.0), (1, 9.0), (2, 2.0)]);
    let mut here = heard_from(&mut there, 4);
    // Passed on before the page came.
    report(&mut here, 4, &[(1, 0.5)]);
    pull(&mut here, &there);
    assert_eq!(settled(&mut here).unwrap()[..3], [2.0 / 3.0, 1.0 / 3.0, 1.0]);
}

#[test]
fn a_job_that_nobody_scored_or_that_nobody_knows_any_more_lacks_nothing() {
    let mut there = jobs(4, 1);
    there.introduce(Introduction::new("train"), NOW).unwrap();
    let mut here = heard_from(&mut there, 4);
    assert_eq!(pull(&mut here, &there), 1);
    assert!(here.without_scores().is_empty());
    assert_eq!(combined(&mut here), None);
    let mut alone = heard_from(&mut there, 4);
    alone.has_all_scores("train");
    assert!(alone.without_scores().is_empty());
    // Introduced here: there was nothing before.
    assert!(there.without_scores().is_empty());
}

#[test]
fn pages_that_cannot_be_are_refused_and_change_nothing() {
    let mut there = jobs(4, 1);
    there.introduce(Introduction::new("train"), NOW).unwrap();
    let mut here = heard_from(&mut there, 4);
    let good = Page { snapshot: Some(snapshot(4)), first: 0, collected: vec![1.0; 4], effective: vec![], next: None };
    for bad in [
        Page { snapshot: Some(snapshot(5)), ..good.clone() },
        Page { snapshot: Some(Snapshot { fingerprint: 2, items: 4 }), ..good.clone() },
        Page { first: 1, ..good.clone() },
        Page { first: u32::MAX, ..good.clone() },
        Page { collected: vec![f32::INFINITY], ..good.clone() },
        Page { effective: vec![1.0], ..good.clone() },
    ] {
        assert!(here.fill_scores("train", &bad).is_err(), "{bad:?}");
        assert_eq!((here.without_scores().len(), combined(&mut here)), (1, None));
    }
    here.fill_scores("train", &good).unwrap();
    assert_eq!(combined(&mut here).unwrap(), [1.0; 4]);
    here.fill_scores("a job that is not here", &good).unwrap();
}

#[test]
fn pages_hold_no_more_memory_than_scores_may() {
    let mut there = jobs(1 << 20, 1);
    there.introduce(Introduction::new("train"), NOW).unwrap();
    let settings = Settings { max_memory_bytes: 100_000, ..Settings::default() };
    let mut here = Jobs::new(snapshot(1 << 20), settings, 2);
    for word in there.words(Telling::All, NOW) {
        here.heed(word, &[snapshot(1 << 20)], NOW);
    }
    let collected = vec![1.0; PAGE_ITEMS];
    let page = Page { snapshot: Some(snapshot(1 << 20)), first: 0, collected, effective: vec![], next: None };
    assert!(here.fill_scores("train", &page).is_err());
}
