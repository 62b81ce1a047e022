//! A policy beside a naive model of it: a million requests to a cache of items of many sizes, the same answers.
//!
//! The model is a policy too, written for clarity: vectors that are searched from end to end. The cache is driven as
//! an engine does it: what was admitted lands later, while others are asked for; pieces are lost; space
//! is owed to others; signals come in between.

use super::Hint;
use crate::residency::{
    Pressure, Residency,
    signal::{NEVER, NO_KEY},
};
use proptest::{prelude::*, test_runner::TestRunner};
use std::collections::BTreeMap;

const CASES: u32 = 250;
const REQUESTS: usize = 4_000;

/// Checks that a policy never lets its cache grow over its quota, never evicts what is not there, and answers like
/// its model; panics with a small cache that shows otherwise.
pub fn agrees(policy: &dyn Fn() -> Box<dyn Residency>, model: &dyn Fn() -> Box<dyn Residency>) {
    let config = ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() };
    let caches = (any::<u64>().no_shrink(), 2u32..40, 1u64..60);
    let outcome = TestRunner::new(config)
        .run(&caches, |(seed, ids, quota_bytes)| Drive::new(policy(), model(), seed, ids, quota_bytes).run());
    if let Err(broken) = outcome {
        panic!("(seed, ids, quota): {broken}");
    }
}

/// A cache that two policies decide for.
struct Drive {
    policy: Box<dyn Residency>,
    model: Box<dyn Residency>,
    random: Random,
    ids: u32,
    quota_bytes: u64,
    /// Who is resident, with its bytes.
    residents: BTreeMap<u32, u32>,
    used_bytes: u64,
    /// Who was admitted and has not landed.
    flights: Vec<u32>,
}

impl Drive {
    fn new(policy: Box<dyn Residency>, model: Box<dyn Residency>, seed: u64, ids: u32, quota_bytes: u64) -> Self {
        let (residents, flights) = (BTreeMap::new(), Vec::new());
        Self { policy, model, random: Random(seed), ids, quota_bytes, residents, used_bytes: 0, flights }
    }

    fn run(&mut self) -> Result<(), TestCaseError> {
        for _ in 0..REQUESTS {
            self.request()?;
            match self.random.below(40) {
                0 => self.lose(),
                1 => drop(self.evict(Pressure::Yield)?),
                2 => self.settle()?,
                3..6 => self.hint(),
                _ => {}
            }
            if self.flights.len() > 3 || self.random.below(3) > 0 {
                self.land()?;
            }
            prop_assert!(self.used_bytes <= self.quota_bytes);
            prop_assert_eq!(self.policy.len(), self.residents.len());
        }
        while !self.residents.is_empty() {
            self.evict(Pressure::Yield)?;
        }
        prop_assert!(self.policy.is_empty());
        Ok(())
    }

    /// An id is asked for. Low ones are asked for more often.
    fn request(&mut self) -> Result<(), TestCaseError> {
        let id = self.random.below(self.ids).min(self.random.below(self.ids));
        if self.random.below(2) == 0 {
            let at = [self.random.below(50).into(), NEVER][usize::from(self.random.below(8) == 0)];
            self.tell(&Hint::NextUse(id, at));
        }
        if self.residents.contains_key(&id) {
            self.policy.hit(id);
            self.model.hit(id);
        } else if !self.flights.contains(&id) {
            let bytes = self.bytes(id);
            let room = self.used_bytes + u64::from(bytes) <= self.quota_bytes;
            let admitted = self.policy.admit(id, bytes, room);
            prop_assert_eq!(admitted, self.model.admit(id, bytes, room), "admitting {}, room {}", id, room);
            self.flights.extend(admitted.then_some(id));
        }
        Ok(())
    }

    /// Someone who was admitted arrives, and others make room for it if they can.
    fn land(&mut self) -> Result<(), TestCaseError> {
        if self.flights.is_empty() {
            return Ok(());
        }
        let id = self.flights.remove(self.random.below(self.flights.len() as u32) as usize);
        let bytes = self.bytes(id);
        while self.used_bytes + u64::from(bytes) > self.quota_bytes {
            if u64::from(bytes) > self.quota_bytes || !self.evict(Pressure::Newcomer)? {
                return Ok(());
            }
        }
        self.policy.inserted(id, bytes);
        self.model.inserted(id, bytes);
        self.residents.insert(id, bytes);
        self.used_bytes += u64::from(bytes);
        Ok(())
    }

    /// Whether someone went.
    fn evict(&mut self, pressure: Pressure) -> Result<bool, TestCaseError> {
        let victim = self.policy.victim(pressure);
        prop_assert_eq!(victim, self.model.victim(pressure), "{:?} among {:?}", pressure, self.residents);
        let Some(id) = victim else { return Ok(false) };
        let bytes = self.residents.remove(&id);
        prop_assert!(bytes.is_some(), "{} is not there", id);
        self.used_bytes -= bytes.map_or(0, u64::from);
        self.policy.removed(id);
        self.model.removed(id);
        Ok(true)
    }

    /// A piece turns out damaged, or somebody reports one that has gone already.
    fn lose(&mut self) {
        let id = self.random.below(self.ids);
        self.used_bytes -= self.residents.remove(&id).map_or(0, u64::from);
        self.policy.removed(id);
        self.model.removed(id);
    }

    fn settle(&mut self) -> Result<(), TestCaseError> {
        let steps = self.random.below(10) as usize;
        prop_assert_eq!(self.policy.settle(steps), self.model.settle(steps), "after {} steps", steps);
        Ok(())
    }

    fn hint(&mut self) {
        let hint = match self.random.below(8) {
            0 => Hint::Scores(self.list(|random, _| random.score())),
            1 => Hint::PlannedBelow(self.random.below(self.ids + 2)),
            2 => Hint::Planned(self.list(Random::below)),
            3 | 4 => Hint::Consumed(self.random.below(self.ids + 2)),
            5 => Hint::Dropped(self.list(Random::below)),
            6 => [Hint::NextChunk, Hint::Packed(self.list(Random::below))][self.random.below(2) as usize].clone(),
            _ => Hint::Neighbours(self.list(|random, ids| match random.below(4) {
                0 => NO_KEY,
                _ => random.below(ids) & !3,
            })),
        };
        self.tell(&hint);
    }

    fn tell(&mut self, hint: &Hint) {
        hint.tell(&mut *self.policy);
        hint.tell(&mut *self.model);
    }

    /// Up to as many values as there are ids, and a few more.
    fn list<T>(&mut self, value: impl Fn(&mut Random, u32) -> T) -> Vec<T> {
        let len = self.random.below(self.ids + 4);
        (0..len).map(|_| value(&mut self.random, self.ids)).collect()
    }

    /// Sizes from 1 to 5; an object that changes has another id, so an id's size does not change.
    fn bytes(&self, id: u32) -> u32 {
        1 + id * 7 % 5
    }
}

/// Small random numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, end: u32) -> u32 {
        (self.next() >> 32) as u32 % end
    }

    /// Few values, so that many are alike; some that are no scores.
    fn score(&mut self) -> f32 {
        match self.below(20) {
            0 => f32::NAN,
            1 => f32::INFINITY,
            2 => -1.5,
            other => (other / 3) as f32 / 2.0,
        }
    }
}
