//! Plans and deals for tests that generate their cases.

use super::{Deal, Order, Plan, Rest, Share, Snapshot, Uneven};
use crate::bits::Bits;
use proptest::{prelude::*, sample::subsequence};
use std::sync::Arc;

/// A plan over fewer than 200 items, by a seed or by a list of some of them.
pub fn plans() -> impl Strategy<Value = Plan> {
    let order = |items: u32| {
        let ids = subsequence((0..items).collect::<Vec<_>>(), 0..=items as usize).prop_shuffle();
        prop_oneof![any::<u64>().prop_map(Order::Seed), ids.prop_map(|ids| Order::Ids(ids.into()))]
    };
    (0u32..200).prop_flat_map(move |items| (Just(items), 0u64..9, order(items))).prop_map(|(items, epoch, order)| {
        Plan::new(Snapshot { fingerprint: 7, items }, epoch, order).expect("the ids are some of the items")
    })
}

/// A plan of which some positions were consumed before, dealt out to fewer than 9 ranks.
pub fn deals() -> impl Strategy<Value = Deal> {
    let uneven = prop_oneof![Just(Uneven::Pad), Just(Uneven::Drop), Just(Uneven::Exact)];
    (plans(), 1u32..9, uneven).prop_flat_map(|(plan, world, uneven)| {
        let positions: Vec<u32> = (0..plan.len()).collect();
        let consumed = prop_oneof![Just(vec![]), subsequence(positions, 0..=plan.len() as usize)];
        let share = Share::new(world, uneven).expect("there is a rank");
        (Just(plan), consumed, Just(share)).prop_map(|(plan, consumed, share)| {
            let mut taken = Bits::new(plan.len());
            for position in consumed {
                taken.insert(position);
            }
            Deal::new(Arc::new(plan), Rest::without(&taken), share)
        })
    })
}
