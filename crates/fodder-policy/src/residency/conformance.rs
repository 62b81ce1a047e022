//! What every residency policy promises, as one suite: `conformance::check(&|| Box::new(MyPolicy::default()))`.
//!
//! Generated events are told to the policy and to a naive set of residents, and compared after each. The suite
//! knows nothing of how a policy chooses; [`agrees`] compares its choices with those of a naive model that
//! the policy's own tests bring along.

mod hint;
mod model;

pub use hint::Hint;
pub use model::agrees;

use super::{Pressure, Residency};
use hint::{FEW_IDS, any_id, id};
use proptest::{prelude::*, test_runner::TestRunner};
use std::collections::BTreeSet;

/// Something a policy is told, or asked.
#[derive(Debug, Clone)]
enum Event {
    Hit(u32),
    Admit(u32, u32, bool),
    Inserted(u32, u32),
    Removed(u32),
    Hint(Hint),
    Settle(usize),
}

impl Event {
    fn tell(&self, policy: &mut dyn Residency) {
        match *self {
            Self::Hit(id) => policy.hit(id),
            Self::Admit(id, bytes, room) => drop(policy.admit(id, bytes, room)),
            Self::Inserted(id, bytes) => policy.inserted(id, bytes),
            Self::Removed(id) => policy.removed(id),
            Self::Hint(ref hint) => hint.tell(policy),
            Self::Settle(steps) => drop(policy.settle(steps)),
        }
    }
}

/// Sequences of events. Some break the caller's side of the contract.
fn events() -> impl Strategy<Value = Vec<Event>> {
    let bytes = || prop_oneof![20 => 1u32..=1 << 20, 1 => Just(0), 1 => Just(u32::MAX)];
    let event = prop_oneof![
        6 => any_id().prop_map(Event::Hit),
        3 => (any_id(), bytes(), any::<bool>()).prop_map(|(id, bytes, room)| Event::Admit(id, bytes, room)),
        6 => (id(), bytes()).prop_map(|(id, bytes)| Event::Inserted(id, bytes)),
        4 => any_id().prop_map(Event::Removed),
        4 => hint::hints().prop_map(Event::Hint),
        2 => (0usize..40).prop_map(Event::Settle),
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
    TestRunner::new(config.clone())
        .run(&events(), |events| heeds_hits_if_it_says_so(build, &events))
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
            Event::Inserted(id, _) => drop(residents.insert(id)),
            Event::Removed(id) => drop(residents.remove(&id)),
            Event::Hit(_) | Event::Admit(..) | Event::Hint(_) | Event::Settle(_) => {}
        }
        answers_hold(policy, &residents)?;
    }
    while let Some(id) = policy.victim(Pressure::Yield) {
        prop_assert!(residents.remove(&id), "{} was named again after it had gone", id);
        policy.removed(id);
        answers_hold(policy, &residents)?;
    }
    prop_assert!(policy.is_empty());
    settles(policy)
}

/// Where it says that hits change nothing, they need not be reported.
fn heeds_hits_if_it_says_so(build: &dyn Fn() -> Box<dyn Residency>, events: &[Event]) -> Result<(), TestCaseError> {
    let (mut told, mut untold) = (build(), build());
    if told.heeds_hits() {
        return Ok(());
    }
    for event in events {
        event.tell(&mut *told);
        if !matches!(event, Event::Hit(_)) {
            event.tell(&mut *untold);
        }
        for pressure in [Pressure::Newcomer, Pressure::Yield] {
            prop_assert_eq!(told.victim(pressure), untold.victim(pressure), "a hit changed who goes");
        }
    }
    Ok(())
}

/// What is left to do comes to an end, in a pass over the ids for each of the few things that can wait.
fn settles(policy: &mut dyn Residency) -> Result<(), TestCaseError> {
    prop_assert!((0..1_000).any(|_| !policy.settle(1_000)), "it never settles");
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
    for stand_in in (0..FEW_IDS).filter_map(|id| policy.stand_in(id)) {
        prop_assert!(residents.contains(&stand_in), "{} answers for another, and is not resident", stand_in);
    }
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
mod tests;
