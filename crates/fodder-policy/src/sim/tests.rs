//! The published figures, reproduced: 20,000 items of one size, 24 epochs, of which 6 are not counted.

#![allow(clippy::unwrap_used)]

use super::{Study, Workload, study::Contender, workload::Kind};
use crate::Policy::{self, *};

const BELADY: Contender = Contender::Belady;

impl From<Policy> for Contender {
    fn from(policy: Policy) -> Self {
        Self::Policy(policy)
    }
}

fn study(kind: Kind) -> Study {
    Study::of_workload(Workload { kind, items: 20_000, epochs: 24, skip: 6, seed: 1 }).unwrap()
}

fn jobs(rates: [u32; 3], window: f64) -> Study {
    let window = (window * 4_000.0) as u32;
    let kind = Kind::Jobs { rates: rates.into(), window };
    Study::of_workload(Workload { kind, items: 4_000, epochs: 8, skip: 2, seed: 1 }).unwrap()
}

fn reproduces<C: Into<Contender> + Copy>(study: &Study, cached: f64, within: f64, figures: &[(C, f64)]) {
    let bound = study.bound(cached);
    for &(contender, published) in figures {
        let contender = contender.into();
        let seen = study.run(contender, cached).hit_ratio();
        let name = contender.name();
        assert!((seen - published).abs() <= within, "{name} hits {seen:.3}, published is {published}");
        assert!(seen <= bound + 1e-9, "{name} hits {seen:.4}, and {bound:.4} is the bound");
    }
}

#[test]
fn uniform_epochs_hit_as_published() {
    let study = study(Kind::Uniform);
    reproduces(&study, 0.2, 0.01, &[(Lru, 0.022), (Sieve, 0.124), (S3Fifo, 0.152), (Minio, 0.2)]);
    reproduces(&study, 0.4, 0.01, &[(Lru, 0.094), (Sieve, 0.322), (S3Fifo, 0.188), (Minio, 0.4)]);
    reproduces(&study, 0.2, 0.01, &[(BELADY, 0.2)]);
    reproduces(&study, 0.4, 0.01, &[(BELADY, 0.4)]);
}

#[test]
fn mildly_selective_epochs_hit_as_published() {
    let study = study(Kind::Sbp { beta: 0.33 });
    let policies = [(Lru, 0.030), (Sieve, 0.138), (S3Fifo, 0.178), (Minio, 0.214), (Importance, 0.256)];
    reproduces(&study, 0.2, 0.01, &policies);
    reproduces(&study, 0.2, 0.01, &[(BELADY, 0.266)]);
}

#[test]
fn strongly_selective_epochs_hit_as_published() {
    let study = study(Kind::Sbp { beta: 1.0 });
    let policies = [(Lru, 0.059), (Sieve, 0.210), (S3Fifo, 0.239), (Minio, 0.266), (Importance, 0.361)];
    reproduces(&study, 0.2, 0.01, &policies);
    reproduces(&study, 0.2, 0.01, &[(BELADY, 0.401)]);
}

#[test]
fn plan_is_belady() {
    for kind in [Kind::Uniform, Kind::Sbp { beta: 0.33 }, Kind::Zipf { alpha: 1.0 }, Kind::Shards { items: 100 }] {
        let study = Study::of_workload(Workload { kind, items: 2_000, epochs: 12, skip: 2, seed: 1 }).unwrap();
        for cached in [0.01, 0.2, 0.7] {
            assert_eq!(study.run(Plan.into(), cached), study.run(BELADY, cached), "{study:?}");
        }
    }
}

#[test]
fn jobs_of_one_rate_hit_as_published() {
    for (window, published) in [(0.0, 0.329), (0.05, 0.404), (0.2, 0.608), (1.0, 0.733)] {
        reproduces(&jobs([1, 1, 1], window), 0.2, 0.02, &[(Pending, published)]);
    }
    reproduces(&jobs([1, 1, 1], 0.0), 0.2, 0.02, &[(Lru, 0.140), (Minio, 0.198)]);
    reproduces(&jobs([1, 1, 1], 0.0), 0.2, 0.02, &[(BELADY, 0.496)]);
}

#[test]
fn jobs_of_which_one_is_twice_as_fast_hit_as_published() {
    for (window, published) in [(0.0, 0.315), (0.05, 0.392), (0.2, 0.562), (1.0, 0.600)] {
        reproduces(&jobs([1, 1, 2], window), 0.2, 0.02, &[(Pending, published)]);
    }
}

#[test]
fn the_plans_of_several_jobs_come_close_to_belady() {
    let study = jobs([1, 1, 2], 0.0);
    let (plan, belady) = (study.run(Plan.into(), 0.2).hit_ratio(), study.run(BELADY, 0.2).hit_ratio());
    assert!(plan <= belady && plan >= belady - 0.02, "plan hits {plan:.3}, belady {belady:.3}");
}
