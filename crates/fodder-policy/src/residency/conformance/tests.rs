//! The suite itself is tried: it passes a right policy and finds each fault of a wrong one.

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
    NeverSettles,
    LetsTheGoneAnswer,
    HeedsHitsInSecret,
}

impl Residency for Faulty {
    fn hit(&mut self, id: u32) {
        if self.fault == Fault::HeedsHitsInSecret && self.residents.contains(&id) {
            self.removed(id);
            self.residents.push(id);
        }
    }
    fn heeds_hits(&self) -> bool {
        false
    }
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
    fn settle(&mut self, _steps: usize) -> bool {
        self.fault == Fault::NeverSettles
    }
    fn stand_in(&self, id: u32) -> Option<u32> {
        (self.fault == Fault::LetsTheGoneAnswer).then_some(id)
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
    for fault in [
        Fault::DeclinesToYield,
        Fault::NamesTheGone,
        Fault::ChangesItsMind,
        Fault::CountsTwice,
        Fault::RefusesAll,
        Fault::NeverSettles,
        Fault::LetsTheGoneAnswer,
        Fault::HeedsHitsInSecret,
    ] {
        assert!(!passes(fault), "{fault:?} was not found");
    }
}
