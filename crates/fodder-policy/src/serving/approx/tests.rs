//! The bounds of `approx`, one by one.

#![allow(clippy::unwrap_used)]

use super::{super::conformance, *};
use crate::plan::{Order, Snapshot};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const BOUNDS: [Approximation; 5] = [
    Approximation { max_fraction: 0.0, same_class: false, max_repeats: 5 },
    Approximation { max_fraction: 0.1, same_class: true, max_repeats: 2 },
    Approximation { max_fraction: 0.5, same_class: false, max_repeats: 1 },
    Approximation { max_fraction: 0.5, same_class: true, max_repeats: 5 },
    Approximation { max_fraction: 1.0, same_class: false, max_repeats: 2 },
];

fn whole(items: u32, order: Order) -> Deal {
    Deal::whole(Plan::new(Snapshot { fingerprint: 0, items }, 0, order).unwrap())
}

/// A cache that holds the even items; labels are the item modulo 10.
struct Evens;

impl Look for Evens {
    fn cached(&self, id: u32) -> bool {
        id.is_multiple_of(2)
    }

    fn label(&self, id: u32) -> Option<u32> {
        Some(id % 10)
    }
}

#[test]
fn it_keeps_what_every_mode_promises() {
    for bounds in BOUNDS {
        conformance::check(&|deal| Box::new(Approx::new(bounds, deal, &Spent::default())));
    }
}

#[test]
fn no_bound_is_ever_exceeded() {
    for bounds in BOUNDS {
        conformance::run(|deal, events| {
            let mut approx = Approx::new(bounds, &deal, &Spent::default());
            let mut substitutions = 0u32;
            let mut times = BTreeMap::<u32, u32>::new();
            conformance::deliveries(&mut approx, &deal, &events, &mut BTreeSet::new(), |_, delivery| {
                let Served { asked, served, kind } = delivery.served;
                if kind == Kind::Substituted {
                    substitutions += 1;
                    prop_assert!(!bounds.same_class || conformance::label(asked) == conformance::label(served));
                    prop_assert!(!bounds.same_class || conformance::label(asked).is_some());
                }
                if kind != Kind::Pad {
                    *times.entry(served).or_default() += 1;
                }
                Ok(())
            })?;
            prop_assert!(f64::from(substitutions) <= bounds.max_fraction * f64::from(deal.plan().len()));
            prop_assert!(times.values().all(|&times| times <= bounds.max_repeats));
            Ok(())
        });
    }
}

#[test]
fn the_budget_is_used_up_and_then_it_is_strict() {
    let deal = whole(1_000, Order::Seed(1));
    let bounds = Approximation { max_fraction: 0.2, same_class: false, max_repeats: 2 };
    let mut approx = Approx::new(bounds, &deal, &Spent::default());
    let slice = deal.slice(0);
    let kinds: Vec<Kind> = std::iter::from_fn(|| approx.next(&slice, &Evens)).map(|served| served.kind).collect();
    let substituted = kinds.iter().filter(|&&kind| kind == Kind::Substituted).count();
    assert_eq!(substituted, 200);
    let last = kinds.iter().rposition(|&kind| kind == Kind::Substituted).unwrap();
    assert!(last < 500, "there were enough to stand in early, yet the last did at {last}");
}

#[test]
fn ranks_share_the_budget_without_losing_any() {
    for world in [1, 3, 8, 200] {
        let whole = whole(100, Order::Seed(1));
        let share = crate::plan::Share::new(world, crate::plan::Uneven::Pad).unwrap();
        let deal = Deal::new(Arc::clone(whole.plan()), whole.rest().clone(), share);
        let bounds = Approximation { max_fraction: 0.07, ..Approximation::default() };
        let spent = Spent { substitutions: 2, ..Spent::default() };
        assert_eq!(Approx::new(bounds, &deal, &spent).allowed.iter().sum::<u32>(), 5, "{world} ranks");
    }
}

#[test]
fn what_a_checkpoint_remembers_counts() {
    let deal = whole(10, Order::Ids([1, 3, 5, 7, 9].into()));
    let bounds = Approximation { max_fraction: 1.0, same_class: false, max_repeats: 1 };
    let spent = Spent { substitutions: 3, stood_in: [(0, 1), (2, 1)].into() };
    let mut approx = Approx::new(bounds, &deal, &spent);
    (0..10).step_by(2).for_each(|id| approx.inserted(id, None, None));
    let served: Vec<Served> = std::iter::from_fn(|| approx.next(&deal.slice(0), &Evens)).collect();
    let others: BTreeSet<u32> = served.iter().filter(|s| s.kind == Kind::Substituted).map(|s| s.served).collect();
    assert_eq!(others.len(), 2, "five may be replaced, three were");
    assert!(others.is_subset(&[4, 6, 8].into()), "{others:?}");
}

#[test]
fn what_matters_is_never_replaced() {
    struct Important;
    impl Look for Important {
        fn cached(&self, id: u32) -> bool {
            Evens.cached(id)
        }
        fn replaceable(&self, id: u32) -> bool {
            id >= 500
        }
    }
    let deal = whole(1_000, Order::Seed(1));
    let bounds = Approximation { max_fraction: 1.0, same_class: false, max_repeats: 9 };
    let mut approx = Approx::new(bounds, &deal, &Spent::default());
    let served: Vec<Served> = std::iter::from_fn(|| approx.next(&deal.slice(0), &Important)).collect();
    assert!(served.iter().all(|served| served.kind == Kind::Planned || served.asked >= 500));
    assert!(served.iter().any(|served| served.kind == Kind::Substituted));
}

#[test]
fn residencys_own_proposal_comes_first() {
    struct Proposing;
    impl Look for Proposing {
        fn cached(&self, id: u32) -> bool {
            Evens.cached(id)
        }
        fn label(&self, id: u32) -> Option<u32> {
            Some(id / 100)
        }
        fn stand_in(&self, id: u32) -> Option<u32> {
            Some(id - 1)
        }
    }
    let deal = whole(200, Order::Seed(1));
    let bounds = Approximation { max_fraction: 1.0, same_class: true, max_repeats: 2 };
    let mut approx = Approx::new(bounds, &deal, &Spent::default());
    for served in std::iter::from_fn(|| approx.next(&deal.slice(0), &Proposing)) {
        assert_eq!(served.served, served.asked - served.asked % 2);
    }
}

#[test]
fn items_asked_for_by_id_are_replaced_in_proportion() {
    let deal = whole(1_000, Order::Ids([].into()));
    let bounds = Approximation { max_fraction: 0.25, same_class: true, max_repeats: 1_000 };
    let mut approx = Approx::new(bounds, &deal, &Spent::default());
    (0..1_000).step_by(2).for_each(|id| approx.inserted(id, Evens.label(id), None));
    let substituted = (0..1_000).filter(|&id| approx.ask(id, &Evens).kind == Kind::Substituted).count();
    assert_eq!(substituted, 0, "an odd item has no cached item of its class");
    let bounds = Approximation { same_class: false, ..bounds };
    let mut approx = Approx::new(bounds, &deal, &Spent::default());
    (0..1_000).step_by(2).for_each(|id| approx.inserted(id, None, None));
    for asked in 1..=1_000 {
        approx.ask(asked - 1, &Evens);
        assert!(approx.asked.substitutions * 4 <= u64::from(asked));
    }
    assert_eq!(approx.asked.substitutions, 250);
}

#[test]
fn the_next_epoch_knows_the_cache_from_the_one_before() {
    let deal = whole(100, Order::Seed(1));
    let bounds = Approximation { max_fraction: 1.0, same_class: false, max_repeats: 2 };
    let mut approx = Approx::new(bounds, &deal, &Spent::default());
    while approx.next(&deal.slice(0), &Evens).is_some() {}
    let mut next = approx.successor(&deal);
    let served: Vec<Served> = std::iter::from_fn(|| next.next(&deal.slice(0), &Evens)).collect();
    assert_eq!(served.iter().filter(|served| served.kind == Kind::Substituted).count(), 50);
}

#[test]
fn an_item_that_is_asked_for_by_id_is_never_delivered_more_often_than_allowed() {
    struct Flagged(bool);
    impl Look for Flagged {
        fn cached(&self, id: u32) -> bool {
            Evens.cached(id)
        }
        fn replaceable(&self, _id: u32) -> bool {
            self.0
        }
    }
    for max_repeats in 1..=4 {
        let deal = whole(100, Order::Ids([].into()));
        let bounds = Approximation { max_fraction: 1.0, same_class: false, max_repeats };
        let mut approx = Approx::new(bounds, &deal, &Spent::default());
        (0..100).step_by(2).for_each(|id| approx.inserted(id, None, None));
        let mut times = BTreeMap::<u32, u32>::new();
        // What may be replaced comes before and after what may not, in two epochs' worth of requests for the odd items.
        let mut ask = |id, replaceable| *times.entry(approx.ask(id, &Flagged(replaceable)).served).or_default() += 1;
        (1..100).step_by(2).for_each(|id| ask(id, true));
        (0..100).step_by(2).for_each(|id| ask(id, false));
        (1..100).step_by(2).filter(|_| max_repeats > 1).for_each(|id| ask(id, true));
        assert!(times.values().all(|&times| times <= max_repeats), "{max_repeats}: {times:?}");
        let stood_in = approx.asked.substitutions;
        assert_eq!(stood_in, u64::from((50 * (max_repeats - 1)).min(100)), "{max_repeats}");
    }
}

#[test]
fn an_item_that_was_asked_for_twice_does_not_stand_in_as_well() {
    let deal = whole(10, Order::Ids([].into()));
    let bounds = Approximation { max_fraction: 1.0, same_class: false, max_repeats: 2 };
    let mut approx = Approx::new(bounds, &deal, &Spent::default());
    approx.ask(4, &Evens);
    approx.ask(4, &Evens);
    assert_eq!(approx.ask(1, &Evens).served, 1);
    assert!(approx.memory_bytes() > size_of::<Approx>());
}
