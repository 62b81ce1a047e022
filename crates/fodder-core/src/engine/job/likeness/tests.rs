//! Neighbours against a search that looks at every pair.

#![allow(clippy::unwrap_used)]

use super::super::{Embeddings, embedding::Collected};
use super::*;
use crate::id::SnapshotId;
use fodder_policy::job::JobId;
use std::sync::Arc;

/// Points of `classes` clusters that lie far apart, so many each.
fn clusters(classes: u32, each: u32) -> Arc<Points> {
    let ids: Vec<u32> = (0..classes * each).collect();
    let near = |id: u32, n: u32| (id * 7 + n * 13) as f32 % 10.0 / 100.0;
    let point = |id: u32| (0..4).map(move |n| (id / each * 100) as f32 + near(id, n));
    let values: Vec<f32> = ids.iter().flat_map(|id| point(*id)).collect();
    let mut collected = Collected::default();
    let given = Embeddings { ids: &ids, dimension: 4, values: &values };
    collected.report(JobId(1), (SnapshotId([0; 16]), u64::from(classes * each)), given, |_| true).unwrap();
    collected.fall_due();
    collected.take_due().unwrap()
}

fn settings(k: u32) -> Settings {
    Settings { k, ..Settings::default() }
}

#[test]
fn scores_are_those_of_all_pairs() {
    let points = clusters(3, 40);
    // Every tenth point is of another class than those around it.
    let label = |row: usize| Some(if row.is_multiple_of(10) { 9 } else { row as u32 / 40 });
    let found = find(&points, &settings(50), label, || true).unwrap().unwrap();
    for row in 0..points.len() {
        let distance = |other: usize| -> f32 {
            points.row(row).iter().zip(points.row(other)).map(|(a, b)| (a - b) * (a - b)).sum()
        };
        let near = |other: &usize| *other != row && similarity(distance(*other)) >= 0.98;
        let near: Vec<usize> = (0..points.len()).filter(near).collect();
        let same = near.iter().filter(|other| label(**other) == label(row)).count() as u32;
        assert_eq!(found.scores[row], semantic_score(same, near.len() as u32 - same, 50), "row {row}");
    }
}

#[test]
fn one_of_those_that_are_alike_answers_for_all_of_its_class() {
    let points = clusters(3, 20);
    let found = find(&points, &settings(50), |row| Some(row as u32 / 20), || true).unwrap().unwrap();
    for class in found.keys.chunks(20) {
        let key = class[0].unwrap();
        assert!(class.iter().all(|other| *other == Some(key)), "{class:?}");
        assert_eq!(found.keys[key as usize], Some(key));
    }
    let alone = find(&points, &settings(50), |row| Some(row as u32), || true).unwrap().unwrap();
    assert!(alone.keys.iter().all(Option::is_none), "nothing is of the same class");
}

#[test]
fn it_ends_when_it_is_told_to() {
    assert_eq!(find(&clusters(2, 10), &settings(5), |_| None, || false).unwrap(), None);
}
