//! docs/POLICIES.md speaks of every policy, and its figures are the simulator's.

use fodder_policy::{
    Policy,
    sim::{Study, Workload, study::Contender, workload::Kind},
};

const DOCUMENT: &str = include_str!("../../../docs/POLICIES.md");

/// The figures in the row of a contender.
fn row(name: &str) -> Vec<f64> {
    let line = DOCUMENT.lines().find(|line| line.starts_with(&format!("| `{name}` |"))).expect("a row for everyone");
    line.split('|').filter_map(|cell| cell.trim().parse().ok()).collect()
}

#[test]
fn every_policy_has_a_section_of_a_screen_at_most() {
    for policy in Policy::ALL {
        let heading = format!("\n### `{policy}`\n");
        let (_, after) = DOCUMENT.split_once(&heading).unwrap_or_else(|| panic!("{policy} has no section"));
        let section = after.split("\n#").next().unwrap_or_default();
        assert!(section.lines().count() <= 24, "the section of {policy} is longer than a screen");
        assert!(section.contains("**Use it**") && section.contains("**Not**"), "{policy}: when, and when not?");
    }
}

#[test]
fn the_figures_are_the_simulators() {
    let contenders: Vec<_> = Policy::ALL.into_iter().map(Contender::Policy).chain([Contender::Belady]).collect();
    let columns = [
        (Kind::Uniform, 0.2),
        (Kind::Uniform, 0.4),
        (Kind::Sbp { beta: 0.33 }, 0.2),
        (Kind::Sbp { beta: 1.0 }, 0.2),
        (Kind::Zipf { alpha: 1.0 }, 0.2),
    ];
    for (column, (kind, cached)) in columns.into_iter().enumerate() {
        let workload = Workload { kind, items: 20_000, epochs: 24, skip: 6, seed: 1 };
        let study = Study::of_workload(workload).expect("a workload that can be");
        for contender in &contenders {
            let (written, seen) = (row(contender.name())[column], study.run(*contender, cached).hit_ratio());
            let name = contender.name();
            assert!((written - seen).abs() < 0.002, "column {column}: {name} hits {seen:.3}, {written} is written");
        }
    }
}
