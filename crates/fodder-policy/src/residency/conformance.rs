//! What every residency policy promises, as one suite: `conformance::check(&|| Box::new(MyPolicy::default()))`.
//!
//! Generated events are told to the policy and to a naive set of residents, and compared after each. The suite
//! knows nothing of how a policy chooses; each policy compares its order with a model of its own.

use super::{Pressure, Residency};
use proptest::{prelude::*, test_runner::TestRunner};
use std::collections::BTreeSet;

/// Something a policy is told.
#[derive(Debug, Clone, Copy)]
pub enum Event {
    /// An id was read.
    Hit(u32),
    /// An id of so many bytes became resident.
    Inserted(u32, u32),
    /// An id ceased to be resident.
    Removed(u32),
}

impl Event {
    /// The id it is about.
    pub fn id(self) -> u32 {
        match self {
            Self::Hit(id) | Self::Inserted(id, _) | Self::Removed(id) => id,
        }
    }

    /// Tells it to a policy.
    pub fn tell(self, policy: &mut dyn Residency) {
        match self {
            Self::Hit(id) => policy.hit(id),
            Self::Inserted(id, bytes) => policy.inserted(id, bytes),
            Self::Removed(id) => policy.removed(id),
        }
    }
}

/// Sequences of events over few ids (so that they meet) with a far one now and then (so that ids grow). Events that
/// break the caller's side of the contract are among them.
pub fn events() -> impl Strategy<Value = Vec<Event>> {
    let id = || prop_oneof![20 => 0u32..24, 1 => 0u32..20_000];
    let event = prop_oneof![
        3 => id().prop_map(Event::Hit),
        3 => (id(), 1u32..=1 << 20).prop_map(|(id, bytes)| Event::Inserted(id, bytes)),
        2 => id().prop_map(Event::Removed),
    ];
    prop::collection::vec(event, 1..200)
}

/// A small cache driven as an engine drives it: ids that are asked for, and how many fit.
fn workload() -> impl Strategy<Value = (usize, Vec<u32>)> {
    (1usize..16, prop::collection::vec(0u32..32, 1..300))
}

/// Checks all promises; panics with the shortest sequence that breaks one.
pub fn check(build: &dyn Fn() -> Box<dyn Residency>) {
    if let Err(broken) = find_broken(build) {
        panic!("{broken}");
    }
}

fn find_broken(build: &dyn Fn() -> Box<dyn Residency>) -> Result<(), String> {
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    TestRunner::new(config.clone())
        .run(&events(), |events| follows_events(&mut *build(), &events))
        .map_err(|broken| broken.to_string())?;
    TestRunner::new(config)
        .run(&workload(), |(capacity, asked)| serves_a_cache(&mut *build(), capacity, &asked))
        .map_err(|broken| broken.to_string())
}

/// After any events: it counts right, and answers as [`answers_hold`] says. In the end it can be emptied.
fn follows_events(policy: &mut dyn Residency, events: &[Event]) -> Result<(), TestCaseError> {
    let mut residents = BTreeSet::new();
    answers_hold(policy, &residents)?;
    for event in events {
        event.tell(policy);
        match *event {
            Event::Hit(_) => {}
            Event::Inserted(id, _) => drop(residents.insert(id)),
            Event::Removed(id) => drop(residents.remove(&id)),
        }
        answers_hold(policy, &residents)?;
    }
    while let Some(id) = policy.victim(Pressure::Yield) {
        prop_assert!(residents.remove(&id), "{} was named again after it had gone", id);
        policy.removed(id);
        answers_hold(policy, &residents)?;
    }
    prop_assert!(policy.is_empty());
    Ok(())
}

/// A victim is resident, and the same when asked twice; under `Yield` there is one whenever anyone is resident;
/// counts are right.
fn answers_hold(policy: &mut dyn Residency, residents: &BTreeSet<u32>) -> Result<(), TestCaseError> {
    prop_assert_eq!(policy.len(), residents.len());
    prop_assert_eq!(policy.is_empty(), residents.is_empty());
    for pressure in [Pressure::Newcomer, Pressure::Yield] {
        let victim = policy.victim(pressure);
        prop_assert_eq!(victim, policy.victim(pressure), "asked twice for {:?}", pressure);
        if let Some(id) = victim {
            prop_assert!(residents.contains(&id), "{:?} named {}, which is not resident", pressure, id);
        }
    }
    prop_assert_eq!(policy.victim(Pressure::Yield).is_some(), !residents.is_empty());
    prop_assert_eq!(policy.len(), residents.len(), "asking for a victim does not remove it");
    prop_assert!(policy.memory_bytes() >= residents.len().div_ceil(8), "less than a bit a resident");
    Ok(())
}

/// Driven as an engine does it, it never leaves the cache over its capacity, and an empty cache fills.
fn serves_a_cache(policy: &mut dyn Residency, capacity: usize, asked: &[u32]) -> Result<(), TestCaseError> {
    let mut residents = BTreeSet::new();
    for &id in asked {
        if residents.contains(&id) {
            policy.hit(id);
            continue;
        }
        let room = residents.len() < capacity;
        if !policy.admit(id, 1, room) {
            prop_assert!(!residents.is_empty(), "an empty cache takes anything that fits");
            continue;
        }
        if !room {
            let Some(victim) = policy.victim(Pressure::Newcomer) else { continue };
            policy.removed(victim);
            residents.remove(&victim);
        }
        policy.inserted(id, 1);
        residents.insert(id);
        prop_assert!(residents.len() <= capacity);
        answers_hold(policy, &residents)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A policy with one fault to find.
    #[derive(Debug, Default)]
    struct Faulty {
        fault: Fault,
        residents: Vec<u32>,
        asked: usize,
    }

    #[derive(Debug, Clone, Copy, Default, PartialEq)]
    enum Fault {
        #[default]
        None,
        DeclinesToYield,
        NamesTheGone,
        ChangesItsMind,
        CountsTwice,
        RefusesAll,
    }

    impl Residency for Faulty {
        fn hit(&mut self, _id: u32) {}
        fn admit(&mut self, _id: u32, _bytes: u32, _room: bool) -> bool {
            self.fault != Fault::RefusesAll
        }
        fn victim(&mut self, pressure: Pressure) -> Option<u32> {
            self.asked += 1;
            match self.fault {
                Fault::DeclinesToYield if pressure == Pressure::Yield => None,
                Fault::ChangesItsMind => self.residents.get(self.asked % self.residents.len().max(1)).copied(),
                _ => self.residents.last().copied(),
            }
        }
        fn inserted(&mut self, id: u32, _bytes: u32) {
            if self.fault == Fault::CountsTwice || !self.residents.contains(&id) {
                self.residents.push(id);
            }
        }
        fn removed(&mut self, id: u32) {
            if self.fault == Fault::NamesTheGone {
                self.residents.reverse();
                self.residents.pop();
            } else {
                self.residents.retain(|&other| other != id);
            }
        }
        fn len(&self) -> usize {
            self.residents.len()
        }
        fn memory_bytes(&self) -> usize {
            self.residents.capacity() * size_of::<u32>()
        }
    }

    fn passes(fault: Fault) -> bool {
        find_broken(&|| Box::new(Faulty { fault, ..Faulty::default() })).is_ok()
    }

    #[test]
    fn the_suite_passes_a_right_policy_and_finds_each_fault() {
        assert!(passes(Fault::None));
        for fault in
            [Fault::DeclinesToYield, Fault::NamesTheGone, Fault::ChangesItsMind, Fault::CountsTwice, Fault::RefusesAll]
        {
            assert!(!passes(fault), "{fault:?} was not found");
        }
    }
}
