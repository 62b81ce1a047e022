//! Plans against lists, and ranks against the whole: nothing is lost and nothing given twice but pads.

#![allow(clippy::unwrap_used)]

use super::{
    generate::{deals, plans},
    *,
};
use proptest::prelude::*;

fn snapshot(items: u32) -> Snapshot {
    Snapshot { fingerprint: 7, items }
}

fn listed(items: u32, ids: &[u32]) -> Result<Plan> {
    Plan::new(snapshot(items), 0, Order::Ids(ids.into()))
}

proptest! {
    #[test]
    fn positions_and_ids_of_a_plan_are_each_others_inverse(plan in plans()) {
        for position in 0..plan.len() {
            let id = plan.at(position).unwrap();
            prop_assert!(plan.contains(id));
            prop_assert_eq!(plan.position_of(id), Some(position));
        }
        let planned = (0..plan.snapshot().items + 2).filter(|&id| plan.position_of(id).is_some());
        prop_assert_eq!(planned.count() as u32, plan.len());
        prop_assert_eq!(plan.at(plan.len()), None);
    }

    #[test]
    fn ranks_get_the_rest_in_turn(deal in deals()) {
        let rest: Vec<u32> = deal.rest().iter().map(|position| deal.plan().at(position).unwrap()).collect();
        let world = deal.share().world();
        let slices: Vec<Vec<Place>> = (0..world)
            .map(|rank| (0..deal.slice(rank).len()).map(|index| deal.slice(rank).at(index).unwrap()).collect())
            .collect();
        let even = slices.iter().all(|slice| slice.len() == slices[0].len());
        prop_assert!(even || deal.share().uneven() == Uneven::Exact);
        prop_assert_eq!(deal.slice(world).len(), 0);
        let turns = slices.iter().map(Vec::len).max().unwrap();
        let dealt: Vec<Place> = (0..turns).flat_map(|turn| slices.iter().filter_map(move |slice| slice.get(turn))).copied().collect();
        let own: Vec<u32> = dealt.iter().filter(|place| !place.pad).map(|place| place.id).collect();
        let kept = rest.len() - deal.dropped() as usize;
        prop_assert_eq!(&own[..], &rest[..kept]);
        let pads: Vec<u32> = dealt.iter().filter(|place| place.pad).map(|place| place.id).collect();
        prop_assert!(pads.iter().eq(rest.iter().cycle().take(pads.len())));
        prop_assert!(pads.len() < world as usize);
        prop_assert!(pads.is_empty() || deal.share().uneven() == Uneven::Pad);
    }

    #[test]
    fn a_spot_is_where_a_rank_finds_the_item(deal in deals()) {
        for id in 0..deal.plan().snapshot().items {
            let found = deal.spot_of(id);
            for rank in 0..deal.share().world() {
                let slice = deal.slice(rank);
                let index = (0..slice.len()).find(|&index| slice.at(index) == Some(Place { id, pad: false }));
                prop_assert_eq!(slice.index_of(id), index);
                prop_assert_eq!(found.filter(|spot| spot.rank == rank).map(|spot| spot.index), index);
            }
        }
    }
}

#[test]
fn a_list_with_an_id_twice_is_refused() {
    let message = listed(9, &[3, 8, 3]).unwrap_err().to_string();
    assert_eq!(message, "the plan has item 3 at positions 0 and 2: an epoch asks for an item at most once");
}

#[test]
fn a_list_with_an_unknown_id_is_refused() {
    for items in [0, 3] {
        let message = listed(items, &[items]).unwrap_err().to_string();
        assert!(message.starts_with(&format!("the plan asks for item {items} at position 0")), "{message}");
    }
}

#[test]
fn a_plan_knows_how_it_was_given() {
    let orders = [Order::Seed(4), Order::Seed(5), Order::Ids([4, 2, 8].into()), Order::Ids([4, 8, 2].into())];
    let plans: Vec<Plan> = orders.iter().map(|order| Plan::new(snapshot(9), 0, order.clone()).unwrap()).collect();
    for (plan, order) in plans.iter().zip(&orders) {
        assert_eq!(plan.order(), *order);
        for (other, given) in plans.iter().zip(&orders) {
            assert_eq!(plan == other, order == given);
            assert_eq!(plan.follows(given), order == given);
        }
        let elsewhere = Plan::new(snapshot(10), 0, order.clone()).unwrap();
        assert!(plan.is_like(&elsewhere) && *plan != elsewhere);
        assert!(!plan.is_like(&Plan::new(snapshot(9), 1, order.clone()).unwrap()));
    }
}

#[test]
fn a_share_of_no_ranks_is_refused() {
    assert!(matches!(Share::new(0, Uneven::Pad), Err(crate::Error::Invalid(_))));
}

#[test]
fn a_seeded_plan_costs_a_hundred_bytes_at_any_size() {
    let plan = Plan::new(snapshot(u32::MAX), 3, Order::Seed(1)).unwrap();
    assert!(size_of::<Plan>() + plan.heap_bytes() <= 100, "{}", size_of::<Plan>());
    assert_eq!(plan.position_of(plan.at(u32::MAX - 1).unwrap()), Some(u32::MAX - 1));
}

#[test]
fn a_listed_plan_costs_little_more_than_eight_bytes_an_id() {
    let ids: Vec<u32> = (0..100_000).map(|id| id * 10).collect();
    let plan = listed(1_000_000, &ids).unwrap();
    assert!(plan.heap_bytes() < 8 * 100_000 + 1_000_000 / 7 + 200, "{}", plan.heap_bytes());
}

#[test]
fn the_largest_world_of_the_largest_plan_does_not_overflow() {
    for uneven in [Uneven::Pad, Uneven::Drop, Uneven::Exact] {
        for world in [1, 3, u32::MAX - 1, u32::MAX] {
            let share = Share::new(world, uneven).unwrap();
            let last = share.len(0, u32::MAX) - 1;
            let (place, pad) = share.place(0, last, u32::MAX).unwrap();
            assert_eq!(share.holder(place, u32::MAX), Some((0, last)));
            assert!(!pad);
        }
    }
}

#[test]
fn a_seed_knows_the_epoch_after_and_a_list_does_not() {
    let plan = Plan::new(snapshot(50), 3, Order::Seed(1)).unwrap();
    assert_eq!(plan.following(), Some(Plan::new(snapshot(50), 4, Order::Seed(1)).unwrap()));
    assert_eq!(listed(9, &[1]).unwrap().following(), None);
}
