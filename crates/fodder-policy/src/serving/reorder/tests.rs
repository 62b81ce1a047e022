//! `reorder` against a list from which the answer is taken by the rule, word for word.

#![allow(clippy::unwrap_used)]

use super::{super::conformance, *};
use crate::plan::{Order, Plan, Snapshot};
use proptest::prelude::*;
use std::{cell::Cell, collections::BTreeSet};

const WINDOWS: [u32; 6] = [0, 1, 2, 7, 50, u32::MAX];

fn whole(items: u32) -> Deal {
    Deal::whole(Plan::new(Snapshot { fingerprint: 0, items }, 0, Order::Seed(3)).unwrap())
}

#[test]
fn it_keeps_what_every_mode_promises() {
    for window in WINDOWS {
        conformance::check(&|deal| Box::new(Reorder::new(window, deal)));
    }
}

#[test]
fn the_answer_is_the_first_cached_item_of_the_window_or_the_first() {
    for window in WINDOWS {
        conformance::run(|deal, events| {
            let left = |rank| -> Vec<u32> { (0..deal.slice(rank).len()).collect() };
            let mut lists: Vec<Vec<u32>> = (0..deal.share().world()).map(left).collect();
            let mut reorder = Reorder::new(window, &deal);
            conformance::deliveries(&mut reorder, &deal, &events, &mut BTreeSet::new(), |_, delivery| {
                let list = &mut lists[delivery.slice.rank() as usize];
                let cached = |index: &u32| {
                    let place = delivery.slice.at(*index).unwrap();
                    !place.pad && delivery.cached.contains(&place.id)
                };
                let position = list.iter().take(window as usize).position(cached).unwrap_or(0);
                let expected = delivery.slice.at(list.remove(position)).unwrap();
                prop_assert_eq!(delivery.served.served, expected.id);
                Ok(())
            })
        });
    }
}

#[test]
fn nothing_comes_more_than_the_window_before_its_place() {
    for window in WINDOWS {
        conformance::run(|deal, events| {
            let mut reorder = Reorder::new(window, &deal);
            conformance::deliveries(&mut reorder, &deal, &events, &mut BTreeSet::new(), |_, delivery| {
                let early = delivery.index().map_or(0, |index| index.saturating_sub(delivery.ordinal));
                prop_assert!(early < window.max(1));
                Ok(())
            })
        });
    }
}

#[test]
fn an_epoch_looks_at_each_item_a_bounded_number_of_times_whatever_the_window() {
    let deal = whole(100_000);
    let looks = Cell::new(0u64);
    let look = |id: u32| {
        looks.set(looks.get() + 1);
        id.is_multiple_of(5)
    };
    let mut reorder = Reorder::new(u32::MAX, &deal);
    while reorder.next(&deal.slice(0), &look).is_some() {}
    assert!(looks.get() <= 2 * 100_000, "{} looks", looks.get());
}

#[test]
fn an_answer_from_an_empty_cache_looks_at_no_more_than_its_bound() {
    let deal = whole(1_000_000);
    let looks = Cell::new(0);
    let mut reorder = Reorder::new(u32::MAX, &deal);
    let served = reorder.next(&deal.slice(0), &|_| {
        looks.set(looks.get() + 1);
        false
    });
    assert_eq!(served.unwrap().kind, Kind::Planned);
    assert_eq!(looks.get(), LOOKS);
}

#[test]
fn a_notice_that_never_came_costs_no_wrong_item() {
    let deal = whole(10);
    let mut reorder = Reorder::new(10, &deal);
    let slice = deal.slice(0);
    let (first, last) = (slice.at(0).unwrap().id, slice.at(9).unwrap().id);
    // The whole window is seen empty; then an item is said to come, and goes without a word.
    assert_eq!(reorder.next(&slice, &|_| false), Some(Served::planned(first)));
    reorder.inserted(last, None, deal.spot_of(last));
    let second = slice.at(1).unwrap().id;
    assert_eq!(reorder.next(&slice, &|_| false), Some(Served::planned(second)));
}

#[test]
fn it_costs_little_more_than_two_bits_an_item() {
    let deal = whole(1_000_000);
    let mut reorder = Reorder::new(u32::MAX, &deal);
    reorder.next(&deal.slice(0), &|_| false);
    (0..1_000_000).for_each(|id| reorder.inserted(id, None, deal.spot_of(id)));
    assert!(reorder.memory_bytes() < 1_000_000 * 2 * 12 / 80, "{} bytes", reorder.memory_bytes());
}
