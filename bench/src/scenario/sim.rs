//! How fast the simulator runs the list-based policies over a million items, on one core.

use super::Setting;
use crate::{
    contest::{Contestant, alternate},
    outcome::{Line, Target},
};
use anyhow::Result;
use fodder_policy::{
    Policy,
    sim::{Study, Workload, study::Contender, workload::Kind},
};
use std::time::Instant;

/// Millions of requests a second that are asked for.
const ASKED: f64 = 20.0;
const CACHED: f64 = 0.2;
const POLICIES: [Policy; 5] = [Policy::Lru, Policy::Lfu, Policy::Sieve, Policy::S3Fifo, Policy::Minio];

/// Measures it.
pub(super) fn run(setting: &Setting) -> Result<Vec<Line>> {
    let items = setting.choose(1_000_000, 50_000);
    let mut lines = Vec::new();
    for (name, kind) in [("uniform", Kind::Uniform), ("zipf", Kind::Zipf { alpha: 1.0 })] {
        let study = Study::of_workload(Workload { kind, items, epochs: 8, skip: 2, seed: 1 })?;
        let study = &study;
        let mut contestants = POLICIES.map(|policy| Contestant::new(policy.name(), move |_| Ok(speed(study, policy))));
        let speeds = alternate(setting.choose(7, 1), &mut contestants)?;
        for (policy, speeds) in POLICIES.iter().zip(&speeds) {
            let what = format!("{policy} on {name}, {items} items");
            let asked = vec![ASKED; speeds.len()];
            lines.push(Line::of_rounds(what, "M req/s", speeds, "asked for", &asked, Target::AtLeast(1.0)));
        }
    }
    Ok(lines)
}

/// Millions of requests a second.
fn speed(study: &Study, policy: Policy) -> f64 {
    let started = Instant::now();
    std::hint::black_box(study.run(Contender::Policy(policy), CACHED));
    study.trace().requests.len() as f64 / started.elapsed().as_secs_f64() / 1e6
}
