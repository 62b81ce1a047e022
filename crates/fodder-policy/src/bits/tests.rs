//! Both sets agree with ordered sets of the standard library.

#![allow(clippy::unwrap_used)]

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn set(bound: u32, numbers: &BTreeSet<u32>) -> Bits {
    let mut bits = Bits::new(bound);
    numbers.iter().for_each(|&number| assert!(bits.insert(number)));
    bits
}

prop_compose! {
    fn numbers()(bound in 1u32..2_000)
        (numbers in prop::collection::btree_set(0..bound, 0..bound as usize), bound in Just(bound)) -> (u32, BTreeSet<u32>) {
        (bound, numbers)
    }
}

proptest! {
    #[test]
    fn a_set_agrees_with_an_ordered_set((bound, numbers) in numbers(), start in 0u32..2_100) {
        let bits = set(bound, &numbers);
        prop_assert_eq!(bits.count() as usize, numbers.len());
        prop_assert!(bits.iter().eq(numbers.iter().copied()));
        prop_assert!((0..bound + 70).all(|number| bits.contains(number) == numbers.contains(&number)));
        let absent = (start..bound).find(|number| !numbers.contains(number)).unwrap_or(bound);
        prop_assert_eq!(bits.first_absent(start), absent);
        prop_assert_eq!(bits.first_present(start), numbers.range(start..).next().copied().unwrap_or(bound));
    }

    #[test]
    fn a_range_is_all_of_its_numbers((bound, numbers) in numbers(), a in 0u32..2_000, b in 0u32..2_000) {
        let (start, end) = (a.min(b).min(bound), a.max(b).min(bound));
        let mut bits = set(bound, &numbers);
        bits.insert_range(start..end);
        let both: BTreeSet<u32> = numbers.iter().copied().chain(start..end).collect();
        prop_assert!(bits.iter().eq(both.iter().copied()));
        prop_assert_eq!(bits.count() as usize, both.len());
    }

    #[test]
    fn a_union_counts_what_was_in_both((bound, mine) in numbers(), theirs in prop::collection::btree_set(0u32..2_000, 0..200)) {
        let theirs = theirs.into_iter().filter(|&number| number < bound).collect();
        let mut bits = set(bound, &mine);
        prop_assert_eq!(bits.union(&set(bound, &theirs)) as usize, mine.intersection(&theirs).count());
        prop_assert!(bits.iter().eq(mine.union(&theirs).copied()));
        prop_assert_eq!(bits.count() as usize, mine.union(&theirs).count());
    }

    #[test]
    fn ranks_and_members_are_each_others_inverse((bound, numbers) in numbers()) {
        let bits = set(bound, &numbers);
        let others: BTreeSet<u32> = (0..bound).filter(|number| !numbers.contains(number)).collect();
        for (ranked, members) in [(Ranked::of(&bits), numbers), (Ranked::absent(&bits), others)] {
            prop_assert_eq!(ranked.count() as usize, members.len());
            prop_assert!(ranked.iter().eq(members.iter().copied()));
            for (rank, &member) in members.iter().enumerate() {
                prop_assert_eq!(ranked.rank(member), Some(rank as u32));
                prop_assert_eq!(ranked.select(rank as u32), Some(member));
            }
            prop_assert_eq!(ranked.select(members.len() as u32), None);
            prop_assert!((0..bound + 70).all(|number| ranked.rank(number).is_some() == members.contains(&number)));
        }
    }
}

#[test]
fn nothing_at_or_past_the_bound_is_taken() {
    for bound in [0, 1, 63, 64, 65, u32::MAX / 1_000] {
        let mut bits = Bits::new(bound);
        assert!(!bits.insert(bound));
        assert!(!bits.insert(u32::MAX));
        assert_eq!((bits.count(), bits.first_absent(0), bits.first_present(0)), (0, 0, bound));
    }
}
