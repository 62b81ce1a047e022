//! What every fetching strategy promises, as one suite: `conformance::check(&|| Box::new(MyStrategy::default()))`.
//!
//! A generated dataset with jobs is fetched into a generated cache while items are taken and lost. The suite knows nothing
//! of how a strategy chooses.

use super::{Fetch, Fetching, Next, View};
use crate::job::{JobId, Upcoming};
use proptest::{prelude::*, test_runner::TestRunner};
use std::{cell::Cell, collections::BTreeSet};

/// The most looks that one call may take.
const MOST_LOOKS: u64 = 50_000;

/// A dataset, a cache and jobs, as a strategy sees them.
#[derive(Debug, Clone)]
pub struct World {
    /// The bytes of each item.
    pub sizes: Vec<u64>,
    /// What is cached or on its way.
    pub held: BTreeSet<u32>,
    /// How many jobs need each item.
    pub pending: Vec<u32>,
    /// The items of low score.
    pub low: BTreeSet<u32>,
    /// The items that begin an object.
    pub first: BTreeSet<u32>,
    /// For each job: its order, how much of it was taken, and how long an item takes it.
    pub plans: Vec<(Vec<u32>, usize, u64)>,
    looks: Cell<u64>,
}

impl World {
    /// So many items of one size, nothing held, no jobs.
    pub fn new(items: u32, size: u64) -> Self {
        let none = BTreeSet::new;
        Self {
            sizes: vec![size; items as usize],
            held: none(),
            pending: vec![0; items as usize],
            low: none(),
            first: none(),
            plans: Vec::new(),
            looks: Cell::new(0),
        }
    }

    /// A job that takes these items, each in so much time. It needs them from now on.
    pub fn plan(&mut self, order: Vec<u32>, each: u64) {
        order.iter().for_each(|&id| self.pending[id as usize] += 1);
        self.plans.push((order, 0, each));
    }

    /// A job takes its next item.
    pub fn take(&mut self, job: usize) -> Option<u32> {
        let (order, taken, _) = self.plans.get_mut(job)?;
        let id = *order.get(*taken)?;
        *taken += 1;
        self.pending[id as usize] -= 1;
        Some(id)
    }

    /// Everything that is proposed until it comes to rest, with so much room each time. It is held from then on.
    pub fn drain(&mut self, fetching: &mut dyn Fetching, room_bytes: u64) -> Vec<Fetch> {
        let mut fetches = Vec::new();
        loop {
            match fetching.next(self, room_bytes) {
                Next::Fetch(fetch) => {
                    self.held.extend(&fetch.ids);
                    fetches.push(fetch);
                }
                Next::Searching => {}
                Next::Nothing => return fetches,
            }
        }
    }

    fn look(&self) {
        self.looks.set(self.looks.get() + 1);
    }
}

impl View for World {
    fn items(&self) -> u32 {
        self.sizes.len() as u32
    }

    fn total_bytes(&self) -> u64 {
        self.sizes.iter().sum()
    }

    fn bytes(&self, id: u32) -> u64 {
        self.sizes[id as usize]
    }

    fn held(&self, id: u32) -> bool {
        self.look();
        self.held.contains(&id)
    }

    fn pending(&self, id: u32) -> u32 {
        self.look();
        self.pending[id as usize]
    }

    fn is_low(&self, id: u32) -> bool {
        self.look();
        self.low.contains(&id)
    }

    fn adjoins(&self, id: u32) -> bool {
        !self.first.contains(&id)
    }

    fn planners(&self) -> Vec<JobId> {
        (0..self.plans.len() as u64).map(JobId).collect()
    }

    fn upcoming(&self, job: JobId, from: u64) -> Option<crate::Result<Upcoming, u64>> {
        self.look();
        let (order, taken, each) = &self.plans[job.0 as usize];
        let progress = from.max(*taken as u64);
        let id = *order.get(progress as usize)?;
        Some(Ok(Upcoming { progress, id, at: progress * each }))
    }

    fn place_of(&self, job: JobId, id: u32) -> Option<u64> {
        let (order, taken, _) = &self.plans[job.0 as usize];
        let left = order.iter().enumerate().skip(*taken);
        left.into_iter().find(|(_, other)| **other == id).map(|(place, _)| place as u64)
    }
}

/// Something that happens between proposals.
#[derive(Debug, Clone, Copy)]
enum Event {
    /// A proposal is asked for, with so much room.
    Next(u64),
    /// A job takes its next item.
    Take(usize),
    /// An item leaves the cache.
    Lose(u32),
}

fn worlds() -> impl Strategy<Value = World> {
    let ids = |items: u32| prop::collection::btree_set(0..items, 0..items as usize);
    let plan = |items: u32| (Just((0..items).collect::<Vec<_>>()).prop_shuffle(), 1u64..4);
    (1u32..120).prop_flat_map(move |items| {
        let sizes = prop::collection::vec(1u64..2 << 20, items as usize);
        (sizes, ids(items), ids(items), ids(items), prop::collection::vec(plan(items), 0..3)).prop_map(
            |(sizes, held, low, first, plans)| {
                let mut world = World { held, low, first, sizes, ..World::new(0, 0) };
                world.pending = vec![0; world.sizes.len()];
                plans.into_iter().for_each(|(order, each)| world.plan(order, each));
                world
            },
        )
    })
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        4 => (0u64..32 << 20).prop_map(Event::Next),
        3 => (0usize..3).prop_map(Event::Take),
        1 => (0u32..120).prop_map(Event::Lose),
    ];
    prop::collection::vec(event, 0..200)
}

/// Checks all promises; panics with the shortest case that breaks one.
pub fn check(build: &dyn Fn() -> Box<dyn Fetching>) {
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    let run = |(world, events): (World, Vec<Event>)| follows(&mut *build(), world, &events);
    if let Err(broken) = TestRunner::new(config).run(&(worlds(), events()), run) {
        panic!("{broken}");
    }
}

fn follows(fetching: &mut dyn Fetching, mut world: World, events: &[Event]) -> Result<(), TestCaseError> {
    for &event in events {
        match event {
            Event::Next(room) => {
                world.looks.set(0);
                let next = fetching.next(&world, room);
                prop_assert!(world.looks.get() <= MOST_LOOKS, "{} looks", world.looks.get());
                if let Next::Fetch(fetch) = next {
                    is_sound(&fetch, &world, room)?;
                    world.held.extend(fetch.ids);
                }
            }
            Event::Take(job) => {
                if let Some(id) = world.take(job) {
                    fetching.taken(id, &world);
                }
            }
            Event::Lose(id) => {
                if world.held.remove(&id) {
                    fetching.lost(id, &world);
                }
            }
        }
    }
    // With nothing else happening, it comes to rest.
    for _ in 0..1_000 {
        match fetching.next(&world, u64::MAX) {
            Next::Fetch(fetch) => world.held.extend(fetch.ids),
            Next::Searching => {}
            Next::Nothing => return Ok(()),
        }
    }
    Err(TestCaseError::fail("it never came to rest"))
}

/// Ids that exist, once each and not held; their bytes, which fit; and a range that holds them.
fn is_sound(fetch: &Fetch, world: &World, room: u64) -> Result<(), TestCaseError> {
    let ids: BTreeSet<u32> = fetch.ids.iter().copied().collect();
    prop_assert!(!ids.is_empty());
    prop_assert_eq!(ids.len(), fetch.ids.len());
    prop_assert!(ids.iter().all(|id| (*id as usize) < world.sizes.len() && !world.held.contains(id)));
    prop_assert_eq!(fetch.bytes, ids.iter().map(|&id| world.sizes[id as usize]).sum::<u64>());
    prop_assert!(fetch.bytes <= room);
    if let Some(through) = &fetch.through {
        prop_assert_eq!(ids.first(), Some(&through.start));
        prop_assert_eq!(ids.last(), Some(&(through.end - 1)));
    }
    Ok(())
}
