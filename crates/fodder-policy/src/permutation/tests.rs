//! The order is a bijection, is frozen, and looks random.

#![allow(clippy::unwrap_used)]

use super::*;
use proptest::prelude::*;

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
