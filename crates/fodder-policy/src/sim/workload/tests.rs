//! What each workload asks for.

#![allow(clippy::unwrap_used)]

use super::*;

fn workload(kind: Kind) -> Workload {
    Workload { kind, items: 1_000, epochs: 6, skip: 2, seed: 5 }
}

fn epochs(trace: &Trace) -> Vec<Vec<u32>> {
    let ends = trace.epochs.iter().skip(1).copied().chain([trace.requests.len()]);
    trace.epochs.iter().zip(ends).map(|(&start, end)| trace.requests[start..end].to_vec()).collect()
}

fn sorted(mut ids: Vec<u32>) -> Vec<u32> {
    ids.sort_unstable();
    ids
}

#[test]
fn a_uniform_epoch_asks_for_every_item_once_in_an_order_of_its_own() {
    let trace = workload(Kind::Uniform).trace();
    let epochs = epochs(&trace);
    assert_eq!((epochs.len(), trace.skip), (6, 2_000));
    assert!(epochs.iter().all(|epoch| sorted(epoch.clone()) == (0..1_000).collect::<Vec<_>>()));
    assert_ne!(epochs[0], epochs[1]);
    assert_eq!(trace.requests, workload(Kind::Uniform).trace().requests, "the seed decides");
    let other = Workload { seed: 6, ..workload(Kind::Uniform) };
    assert_ne!(trace.requests, other.trace().requests);
}

#[test]
fn selection_keeps_items_by_their_score() {
    let many = Workload { items: 20_000, ..workload(Kind::Sbp { beta: 1.0 }) };
    let trace = many.trace();
    let scores = &trace.scores[0].by_id;
    let mean = |ids: &[u32]| ids.iter().map(|&id| f64::from(scores[id as usize])).sum::<f64>() / ids.len() as f64;
    for epoch in epochs(&trace) {
        assert!((epoch.len() as f64 / 20_000.0 - 0.5).abs() < 0.02, "{} of 20,000 selected", epoch.len());
        assert!((mean(&epoch) - 2.0 / 3.0).abs() < 0.01, "their mean score is {}", mean(&epoch));
        let distinct = sorted(epoch.clone()).windows(2).all(|pair| pair[0] < pair[1]);
        assert!(distinct, "an item was asked for twice");
    }
    assert!(scores.iter().all(|score| (0.0..=1.0).contains(score)));
}

#[test]
fn shards_are_read_whole_and_in_order() {
    let trace = workload(Kind::Shards { items: 300 }).trace();
    for epoch in epochs(&trace) {
        assert_eq!(sorted(epoch.clone()).len(), 1_000);
        let breaks = epoch.windows(2).filter(|pair| pair[0] + 1 != pair[1]).count();
        assert!(breaks <= 3 && epoch.iter().any(|id| id % 300 == 0), "{breaks} jumps between 4 shards");
    }
}

#[test]
fn popular_items_are_asked_for_more_often() {
    let trace = workload(Kind::Zipf { alpha: 1.0 }).trace();
    let mut counts = vec![0; 1_000];
    trace.requests.iter().for_each(|&id| counts[id as usize] += 1);
    counts.sort_unstable();
    assert!(counts[999] > 500 && counts[0] < 10, "{} and {}", counts[999], counts[0]);
    assert_eq!((trace.requests.len(), trace.skip), (6_000, 2_000));
}

#[test]
fn jobs_take_turns_by_their_rates_each_in_an_order_of_its_own() {
    let jobs = Workload { items: 8, ..workload(Kind::Jobs { rates: vec![1, 2], window: 0 }) };
    let trace = jobs.trace();
    assert_eq!((trace.requests.len(), trace.skip), (8 * 6 * 2, 8 * 2 * 2));
    let of = |job| trace.requests.iter().enumerate().filter(move |(at, _)| usize::from(at % 3 > 0) == job);
    let first: Vec<u32> = of(0).map(|(_, &id)| id).collect();
    let second: Vec<u32> = of(1).map(|(_, &id)| id).collect();
    assert_eq!(first[..8], jobs.order(0, 0).collect::<Vec<_>>());
    assert_eq!(first[8..16], jobs.order(0, 1).collect::<Vec<_>>());
    assert_eq!(second[..4], jobs.order(1, 0).skip(4).collect::<Vec<_>>());
    assert_eq!(second[4..12], jobs.order(1, 1).collect::<Vec<_>>());
}

#[test]
fn numbers_that_mean_nothing_are_refused() {
    let refused = |workload: &Workload| workload.check().unwrap_err().to_string();
    let usual = workload(Kind::Uniform);
    assert_eq!(usual.check(), Ok(()));
    assert!(refused(&Workload { items: 0, ..usual.clone() }).contains("at least one item"));
    assert_eq!(refused(&Workload { skip: 6, ..usual.clone() }), "skipping 6 of 6 epochs leaves nothing to count");
    assert!(refused(&Workload { items: u32::MAX, epochs: u32::MAX, ..usual }).contains("use fewer items or epochs"));
    for kind in [
        Kind::Sbp { beta: f64::NAN },
        Kind::Sbp { beta: -1.0 },
        Kind::Zipf { alpha: f64::INFINITY },
        Kind::Shards { items: 0 },
        Kind::Jobs { rates: vec![], window: 0 },
        Kind::Jobs { rates: vec![1, 0], window: 0 },
    ] {
        assert!(workload(kind.clone()).check().is_err(), "{kind:?}");
    }
}
