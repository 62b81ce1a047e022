//! The published figures, reproduced: 20,000 items of one size, 24 epochs, of which 6 are not counted.

#![allow(clippy::unwrap_used)]

use super::{
    Study, Workload,
    study::Contender::{self, Belady},
    workload::Kind,
};
use crate::Policy::*;

const LRU: Contender = Contender::Policy(Lru);
const SIEVE: Contender = Contender::Policy(Sieve);
const S3FIFO: Contender = Contender::Policy(S3Fifo);
const MINIO: Contender = Contender::Policy(Minio);
const IMPORTANCE: Contender = Contender::Policy(Importance);

fn study(kind: Kind) -> Study {
    Study::of_workload(Workload { kind, items: 20_000, epochs: 24, skip: 6, seed: 1 }).unwrap()
}

fn reproduces(study: &Study, cached: f64, figures: &[(Contender, f64)], within: f64) {
    let bound = study.bound(cached);
    for &(contender, published) in figures {
        let seen = study.run(contender, cached).hit_ratio();
        let name = contender.name();
        assert!((seen - published).abs() <= within, "{name} hits {seen:.3}, published is {published}");
        assert!(seen <= bound + 1e-9, "{name} hits {seen:.4}, and {bound:.4} is the bound");
    }
}

#[test]
fn uniform_epochs_hit_as_published() {
    let study = study(Kind::Uniform);
    reproduces(&study, 0.2, &[(LRU, 0.022), (SIEVE, 0.124), (S3FIFO, 0.152), (MINIO, 0.2), (Belady, 0.2)], 0.01);
    reproduces(&study, 0.4, &[(LRU, 0.094), (SIEVE, 0.322), (S3FIFO, 0.188), (MINIO, 0.4), (Belady, 0.4)], 0.01);
}

#[test]
fn selective_epochs_hit_as_published() {
    let mild = study(Kind::Sbp { beta: 0.33 });
    reproduces(
        &mild,
        0.2,
        &[(LRU, 0.030), (SIEVE, 0.138), (S3FIFO, 0.178), (MINIO, 0.214), (IMPORTANCE, 0.256), (Belady, 0.266)],
        0.01,
    );
    let strong = study(Kind::Sbp { beta: 1.0 });
    reproduces(
        &strong,
        0.2,
        &[(LRU, 0.059), (SIEVE, 0.210), (S3FIFO, 0.239), (MINIO, 0.266), (IMPORTANCE, 0.361), (Belady, 0.401)],
        0.01,
    );
}

#[test]
fn plan_equals_belady() {
    for kind in [Kind::Uniform, Kind::Sbp { beta: 1.0 }] {
        let study = study(kind);
        assert_eq!(study.run(Contender::Policy(Plan), 0.2), study.run(Belady, 0.2));
    }
}
