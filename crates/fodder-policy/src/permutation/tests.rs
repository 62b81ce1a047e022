//! The order is a bijection, is frozen, and looks random.

#![allow(clippy::unwrap_used)]

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// How many standard deviations a sum of squared differences lies from what chance gives.
fn deviations(counts: impl Iterator<Item = u32>, expected: f64) -> f64 {
    let squares: Vec<f64> = counts.map(|count| (f64::from(count) - expected).powi(2) / expected).collect();
    let freedom = squares.len() as f64 - 1.0;
    (squares.iter().sum::<f64>() - freedom) / (2.0 * freedom).sqrt()
}

proptest! {
    #[test]
    fn positions_and_ids_are_each_others_inverse(len: u32, seed: u64, epoch: u64, part in 0.0..1.0f64) {
        let permutation = Permutation::new(len, seed, epoch);
        let position = (f64::from(len) * part) as u32;
        let id = permutation.at(position);
        prop_assert_eq!(id.is_some(), position < len);
        prop_assert!(id.is_none_or(|id| id < len && permutation.position_of(id) == Some(position)));
        prop_assert_eq!(permutation.at(len), None);
        prop_assert_eq!(permutation.position_of(len), None);
    }

    #[test]
    fn every_id_comes_exactly_once(len in 0u32..6_000, seed: u64, epoch: u64) {
        let permutation = Permutation::new(len, seed, epoch);
        let mut ids: Vec<u32> = (0..len).map(|position| permutation.at(position).unwrap()).collect();
        ids.sort_unstable();
        prop_assert!(ids.into_iter().eq(0..len));
    }
}

#[test]
fn the_order_is_the_one_that_was_written_down() {
    let decision = include_str!("../../../../docs/decisions/0007-keyed-permutation.md");
    let rows = decision.lines().filter(|line| line.starts_with("| ") && !line.contains('n'));
    let mut checked = 0;
    for row in rows {
        let cells: Vec<Vec<u64>> = row
            .trim_matches('|')
            .split('|')
            .map(|cell| cell.split(',').map(|number| number.trim().parse().unwrap()).collect())
            .collect();
        let [len, seed, epoch, first, last] = &cells[..] else { panic!("{row}") };
        let len = len[0] as u32;
        let permutation = Permutation::new(len, seed[0], epoch[0]);
        let at = |position| u64::from(permutation.at(position).unwrap());
        assert!(first.iter().zip(0..).all(|(id, position)| *id == at(position)), "{row}");
        assert_eq!(at(len - 1), last[0], "{row}");
        checked += 1;
    }
    assert_eq!(checked, 11);
}

#[test]
fn all_orders_of_few_items_are_equally_likely() {
    for len in 2..=6 {
        let orders: u32 = (1..=len).product();
        let mut counts = BTreeMap::<Vec<u32>, u32>::new();
        for epoch in 0..u64::from(orders) * 50 {
            let permutation = Permutation::new(len, 1, epoch);
            *counts.entry((0..len).map(|position| permutation.at(position).unwrap()).collect()).or_default() += 1;
        }
        assert_eq!(counts.len() as u32, orders);
        let far = deviations(counts.into_values(), 50.0);
        assert!(far < 4.0, "{len} items: {far} deviations");
    }
}

#[test]
fn neighbouring_positions_know_nothing_of_each_other() {
    for len in [30u32, 60] {
        let columns = ceil_sqrt(len);
        for step in [1, columns] {
            let mut counts = vec![0; (len * len) as usize];
            for epoch in 0..u64::from(len * (len - 1)) * 20 {
                let permutation = Permutation::new(len, 2, epoch);
                counts[(permutation.at(3).unwrap() * len + permutation.at(3 + step).unwrap()) as usize] += 1;
            }
            let different = (0..len * len).filter(|pair| pair / len != pair % len).map(|pair| counts[pair as usize]);
            let far = deviations(different, 20.0);
            assert!(far < 4.0, "{len} items, {step} apart: {far} deviations");
        }
    }
}

#[test]
fn an_item_comes_at_any_place_equally_often() {
    const LEN: u32 = 100_000;
    for id in [0, 1, 317, LEN / 2, LEN - 1] {
        let mut counts = [0u32; 100];
        for epoch in 0..10_000 {
            let position = Permutation::new(LEN, 3, epoch).position_of(id).unwrap();
            counts[(position / (LEN / 100)) as usize] += 1;
        }
        let far = deviations(counts.into_iter(), 100.0);
        assert!(far < 4.0, "item {id}: {far} deviations");
    }
}

#[test]
fn one_order_of_many_items_is_well_mixed() {
    const LEN: u32 = 100_000;
    let order = |seed, epoch| -> Vec<u32> {
        let permutation = Permutation::new(LEN, seed, epoch);
        (0..LEN).map(|position| permutation.at(position).unwrap()).collect()
    };
    for (seed, epoch) in [(0, 0), (0, 1), (1, 0), (u64::MAX, 3)] {
        let ids = order(seed, epoch);
        // One fixed point and one ascending pair of neighbours are expected, as chance has it.
        assert!((0..).zip(&ids).filter(|(position, id)| position == *id).count() < 8);
        assert!(ids.windows(2).filter(|pair| pair[1] == pair[0] + 1).count() < 8);
        // A tenth of the order holds a tenth of each tenth of the ids.
        let mut counts = [0u32; 100];
        for (position, id) in (0..).zip(&ids) {
            counts[(position / (LEN / 10) * 10 + id / (LEN / 10)) as usize] += 1;
        }
        assert!(deviations(counts.into_iter(), f64::from(LEN / 100)) < 4.0);
        // And has nothing in common with the next epoch's or the next seed's.
        for other in [order(seed, epoch + 1), order(seed ^ 1, epoch)] {
            assert!(ids.iter().zip(&other).filter(|(a, b)| a == b).count() < 8);
        }
    }
}
