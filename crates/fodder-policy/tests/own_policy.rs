//! A policy of one's own, outside the crate: the ten lines of docs/POLICIES.md pass the suite and serve a job.

use fodder_policy::{
    Pressure, Residency,
    residency::conformance,
    sim::{Cues, Workload, replay, workload::Kind},
};
use std::collections::BTreeSet;

include!("own_policy/lowest.rs");

const TEN_LINES: &str = include_str!("own_policy/lowest.rs");
const DOCUMENT: &str = include_str!("../../../docs/POLICIES.md");

#[test]
fn ten_lines_are_a_policy() {
    assert_eq!(TEN_LINES.lines().count(), 10);
    assert!(DOCUMENT.contains(TEN_LINES), "docs/POLICIES.md shows other lines");
    conformance::check(&|| Box::<Lowest>::default());
}

#[test]
fn the_simulator_runs_it_like_any_other() {
    let job = Workload { kind: Kind::Uniform, items: 1_000, epochs: 6, skip: 2, seed: 1 };
    let tally = replay(&mut Lowest::default(), &job.trace(), 200, Cues::default());
    assert_eq!(tally.hit_ratio(), 0.2, "the two hundred lowest of a thousand stay");
}
