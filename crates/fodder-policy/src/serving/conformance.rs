//! What every serving mode promises, as one suite: `conformance::check(&|deal| Box::new(MyMode::new(deal)))`.
//!
//! A generated job is served while generated items come into the cache and go, and every delivery is held against the
//! plan. The suite knows nothing of how a mode chooses; each mode tests its own rule on [`deliveries`].

use super::{Kind, Look, Served, Serving};
use crate::plan::{Deal, Slice, Spot, generate};
use proptest::{prelude::*, test_runner::TestRunner};
use std::collections::BTreeSet;

/// How a mode is made for the tests.
pub type Build<'a> = &'a dyn Fn(&Deal) -> Box<dyn Serving>;

/// Something that happens while a job is served.
#[derive(Debug, Clone, Copy)]
pub enum Event {
    /// A rank asks.
    Next(u32),
    /// An item comes into the cache.
    Insert(u32),
    /// An item leaves the cache.
    Evict(u32),
}

/// One delivery and what was so at that moment.
#[derive(Debug)]
pub struct Delivery<'a> {
    /// The answer.
    pub served: Served,
    /// To whom.
    pub slice: Slice<'a>,
    /// How many answers the rank had before.
    pub ordinal: u32,
    /// What the cache held.
    pub cached: &'a BTreeSet<u32>,
}

impl Delivery<'_> {
    /// Where the rank's slice has the item that was asked, pads aside.
    pub fn index(&self) -> Option<u32> {
        if self.served.kind == Kind::Pad { None } else { self.slice.index_of(self.served.asked) }
    }
}

/// A cache of a test: items have one of three labels, every seventh has none.
struct Cache<'a>(&'a BTreeSet<u32>);

impl Look for Cache<'_> {
    fn cached(&self, id: u32) -> bool {
        self.0.contains(&id)
    }

    fn label(&self, id: u32) -> Option<u32> {
        label(id)
    }
}

/// The label of an item in these tests.
pub fn label(id: u32) -> Option<u32> {
    (!id.is_multiple_of(7)).then_some(id % 3)
}

/// A dealt plan and what happens while it is served, before the ranks ask for all that is left.
pub fn cases() -> impl Strategy<Value = (Deal, Vec<Event>)> {
    generate::deals().prop_flat_map(|deal| {
        let items = deal.plan().snapshot().items.max(1);
        let event = prop_oneof![
            3 => (0..deal.share().world()).prop_map(Event::Next),
            2 => (0..items).prop_map(Event::Insert),
            1 => (0..items).prop_map(Event::Evict),
        ];
        (Just(deal), prop::collection::vec(event, 0..300))
    })
}

/// Serves one epoch whole, and calls back at each delivery.
pub fn deliveries(
    serving: &mut dyn Serving,
    deal: &Deal,
    events: &[Event],
    cached: &mut BTreeSet<u32>,
    mut each: impl FnMut(&dyn Serving, Delivery<'_>) -> Result<(), TestCaseError>,
) -> Result<(), TestCaseError> {
    let world = deal.share().world();
    let mut ordinals = vec![0; world as usize];
    let most = (0..world).map(|rank| deal.slice(rank).len()).max().unwrap_or(0);
    let rest = (0..=most).flat_map(|_| (0..world).map(Event::Next));
    for event in events.iter().copied().chain(rest) {
        match event {
            Event::Insert(id) if cached.insert(id) => serving.inserted(id, label(id), deal.spot_of(id)),
            Event::Evict(id) if cached.remove(&id) => serving.evicted(id, deal.spot_of(id)),
            Event::Insert(_) | Event::Evict(_) => {}
            Event::Next(rank) => {
                let slice = deal.slice(rank);
                let ordinal = &mut ordinals[rank as usize];
                let served = serving.next(&slice, &Cache(cached));
                prop_assert_eq!(served.is_some(), *ordinal < slice.len(), "rank {} after {} items", rank, ordinal);
                if let Some(served) = served {
                    each(serving, Delivery { served, slice, ordinal: *ordinal, cached })?;
                    *ordinal += 1;
                }
            }
        }
    }
    Ok(())
}

/// Runs a check on many generated cases; panics with the shortest that breaks it.
pub fn run(check: impl Fn(Deal, Vec<Event>) -> Result<(), TestCaseError>) {
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    if let Err(broken) = TestRunner::new(config).run(&cases(), |(deal, events)| check(deal, events)) {
        panic!("{broken}");
    }
}

/// Checks all promises.
pub fn check(build: Build<'_>) {
    run(|deal, events| {
        let mut serving = build(&deal);
        let mut cached = BTreeSet::new();
        let first = epoch(&mut *serving, &deal, &events, &mut cached)?;
        let mut cached_again = BTreeSet::new();
        let again = epoch(&mut *build(&deal), &deal, &events, &mut cached_again)?;
        prop_assert_eq!(first, again, "the same events gave other answers");
        epoch(&mut *serving.successor(&deal), &deal, &events, &mut cached)?;
        elsewhere(&mut *build(&deal), &deal, &events)
    });
}

/// What ranks have consumed elsewhere is never answered, and everything else is once; also after a rank began anew.
fn elsewhere(serving: &mut dyn Serving, deal: &Deal, events: &[Event]) -> Result<(), TestCaseError> {
    let mut taken: Vec<BTreeSet<u32>> = vec![BTreeSet::new(); deal.share().world() as usize];
    let cached = (0..deal.plan().snapshot().items).filter(|id| id % 3 == 1).collect();
    for event in events {
        match *event {
            Event::Insert(number) | Event::Evict(number) => {
                let slice = deal.slice(number % deal.share().world());
                let index = number / deal.share().world() % slice.len().max(1);
                if index < slice.len() {
                    serving.skip(&slice, index);
                    taken[slice.rank() as usize].insert(index);
                    let spot = Spot { rank: slice.rank(), index };
                    prop_assert!(serving.is_given(spot));
                }
            }
            Event::Next(rank) => drop(serving.next(&deal.slice(rank), &Cache(&cached))),
        }
    }
    for (rank, taken) in (0..).zip(&taken) {
        let slice = deal.slice(rank);
        serving.restart(&slice, &|index| taken.contains(&index));
        for left in (0..slice.len() - taken.len() as u32).rev() {
            prop_assert_eq!(serving.left(&slice), left + 1);
            let served = serving.next(&slice, &Cache(&cached)).expect("some are left");
            let own = slice.index_of(served.asked).filter(|_| served.kind != Kind::Pad);
            prop_assert!(own.is_none_or(|index| !taken.contains(&index)), "item {} was consumed", served.asked);
        }
        prop_assert_eq!(serving.left(&slice), 0);
        prop_assert!(serving.next(&slice, &Cache(&cached)).is_none());
        let mut spots = (0..slice.len()).map(|index| Spot { rank, index });
        prop_assert!(spots.all(|spot| serving.is_given(spot)));
    }
    Ok(())
}

/// One epoch: every place of every slice is answered once, and each answer is what it says it is.
fn epoch(
    serving: &mut dyn Serving,
    deal: &Deal,
    events: &[Event],
    cached: &mut BTreeSet<u32>,
) -> Result<Vec<Served>, TestCaseError> {
    let mut answers = Vec::new();
    let mut given = BTreeSet::new();
    deliveries(serving, deal, events, cached, |serving, delivery| {
        is_what_it_says(&delivery)?;
        answers.push(delivery.served);
        let Some(index) = delivery.index() else { return Ok(()) };
        let spot = Spot { rank: delivery.slice.rank(), index };
        prop_assert!(given.insert((spot.rank, index)), "item {} was given twice", delivery.served.asked);
        prop_assert!(serving.is_given(spot));
        Ok(())
    })?;
    let own = (0..deal.plan().len()).filter_map(|position| deal.spot_at(position));
    prop_assert_eq!(own.map(|spot| (spot.rank, spot.index)).collect::<BTreeSet<_>>(), given);
    Ok(answers)
}

fn is_what_it_says(delivery: &Delivery<'_>) -> Result<(), TestCaseError> {
    let Served { asked, served, kind } = delivery.served;
    let index = delivery.index();
    match kind {
        Kind::Planned => prop_assert_eq!(index, Some(delivery.ordinal)),
        Kind::Reordered => prop_assert!(index.is_some_and(|index| index != delivery.ordinal)),
        Kind::Substituted => {
            prop_assert!(!delivery.cached.contains(&asked), "item {} was cached and yet replaced", asked);
            prop_assert!(delivery.cached.contains(&served), "item {} stood in and was not cached", served);
        }
        Kind::Pad => {
            let pads = (0..delivery.slice.len()).filter_map(|index| delivery.slice.at(index)).filter(|place| place.pad);
            prop_assert!(pads.into_iter().any(|pad| pad.id == asked));
        }
    }
    prop_assert_eq!(kind == Kind::Substituted, asked != served);
    Ok(())
}
