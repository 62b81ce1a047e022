//! `semantic` against a naive model of it, its score, and how keys stand for others.

use super::super::{conformance, heap::scattered};
use super::*;

#[derive(Debug, Clone, Copy)]
struct Held {
    id: u32,
    bytes: u32,
    uses: u32,
    is_key: bool,
    /// Whether it was given its place in the next order.
    moved: bool,
}

/// Residents in no order. Worth and likeness are the policy's own pure functions; what is compared is who goes.
#[derive(Debug, Default)]
struct Naive {
    arithmetic: Semantic,
    held: Vec<Held>,
    now: Likeness,
    next: Option<Likeness>,
    queued: Option<Likeness>,
    /// Ids below this were moved.
    moved: u32,
    /// Ids that were ever resident are below this.
    end: u32,
}

impl Naive {
    fn likeness(&self, moved: bool) -> &Likeness {
        if moved { self.next.as_ref().unwrap() } else { &self.now }
    }

    fn is_moved(&self, id: u32) -> bool {
        self.next.is_some() && id < self.moved
    }

    fn worth(&self, id: u32, uses: u32, moved: bool) -> Worth {
        self.arithmetic.worth(self.likeness(moved), id, uses)
    }

    fn least(&self, is_key: bool) -> Option<Held> {
        let order = |held: &Held| {
            let last = (held.uses, Reverse(held.bytes), scattered(held.id));
            if is_key { (None, last) } else { (Some((held.moved, self.worth(held.id, held.uses, held.moved))), last) }
        };
        self.held.iter().copied().filter(|held| held.is_key == is_key).min_by_key(order)
    }

    fn bytes(&self, of: impl Fn(&Held) -> bool) -> u32 {
        self.held.iter().filter(|held| of(held)).map(|held| held.bytes).sum()
    }

    fn keys_are_over(&self) -> bool {
        self.bytes(|held| held.is_key) > self.bytes(|_| true) / 10
    }

    fn step(&mut self) {
        if self.moved < self.end {
            self.moved += 1;
            let next = self.next.clone().unwrap();
            for held in self.held.iter_mut().filter(|held| held.id == self.moved - 1) {
                *held = Held { uses: held.uses / 2, is_key: next.is_key(held.id), moved: true, ..*held };
            }
        } else {
            self.now = self.next.take().unwrap();
            self.held.iter_mut().for_each(|held| held.moved = false);
            self.next = self.queued.take();
            self.moved = 0;
        }
    }
}

impl Residency for Naive {
    fn hit(&mut self, id: u32) {
        self.held.iter_mut().filter(|held| held.id == id).for_each(|held| held.uses += 1);
    }

    fn admit(&mut self, id: u32, _bytes: u32, room: bool) -> bool {
        if room {
            true
        } else if self.likeness(self.is_moved(id)).is_key(id) {
            !self.keys_are_over() || self.least(true).is_some_and(|least| least.uses == 0)
        } else {
            let worth = |least: Held| self.worth(least.id, least.uses, least.moved);
            let surpasses = |least: Held| self.worth(id, 1, least.moved) > worth(least);
            self.stand_in(id).is_none() && self.least(false).is_none_or(surpasses)
        }
    }

    fn victim(&mut self, _pressure: Pressure) -> Option<u32> {
        let (key, other) = (self.least(true), self.least(false));
        let victim = if self.keys_are_over() { key } else { other.or(key) };
        victim.map(|held| held.id)
    }

    fn inserted(&mut self, id: u32, bytes: u32) {
        let moved = self.is_moved(id);
        self.held.push(Held { id, bytes, uses: 1, is_key: self.likeness(moved).is_key(id), moved });
        self.end = self.end.max(id + 1);
    }

    fn removed(&mut self, id: u32) {
        self.held.retain(|held| held.id != id);
    }

    fn signal(&mut self, signal: Signal<'_>) {
        let newest = self.queued.as_ref().or(self.next.as_ref()).unwrap_or(&self.now).clone();
        let likeness = match signal {
            Signal::Scores(scores) => Likeness { scores, ..newest },
            Signal::Neighbours(keys) => Likeness { keys, ..newest },
            _ => return,
        };
        if self.held.is_empty() {
            (self.now, self.next, self.queued, self.moved) = (likeness, None, None, 0);
        } else if self.next.is_some() {
            self.queued = Some(likeness);
        } else {
            self.next = Some(likeness);
        }
    }

    fn settle(&mut self, steps: usize) -> bool {
        (0..steps).for_each(|_| {
            if self.next.is_some() {
                self.step()
            }
        });
        self.next.is_some()
    }

    fn stand_in(&self, id: u32) -> Option<u32> {
        let key = self.likeness(self.is_moved(id)).key(id)?;
        self.held.iter().map(|held| held.id).find(|&other| other == key && other != id)
    }

    fn len(&self) -> usize {
        self.held.len()
    }

    fn memory_bytes(&self) -> usize {
        self.len()
    }
}

#[test]
fn it_keeps_what_every_policy_promises() {
    conformance::check(&|| Box::<Semantic>::default());
}

#[test]
fn a_million_requests_evict_by_score_and_use() {
    conformance::agrees(&|| Box::<Semantic>::default(), &|| Box::<Naive>::default());
}

#[test]
fn it_costs_eight_bytes_an_id_and_twenty_a_resident() {
    let mut semantic = Semantic::default();
    let keys: Vec<_> = (0..1_000_000).map(|id| if id % 8 == 0 { id } else { NO_KEY }).collect();
    semantic.signal(Signal::Neighbours(keys.into()));
    (0..1_000_000).step_by(4).for_each(|id| semantic.inserted(id, 1));
    assert!(semantic.memory_bytes() <= 13_000_000 * 9 / 8 + 1_000, "{} bytes", semantic.memory_bytes());
}

#[test]
fn the_score_is_the_published_one() {
    let near = |a: f32, b: f64| assert!((f64::from(a) - b).abs() < 1e-6, "{a} and {b}");
    near(semantic_score(0, 0, 500), (1.0 + 2f64.ln()).ln());
    near(semantic_score(499, 0, 500), (1.0 + (1.0f64 + 1.0 / 500.0).ln()).ln());
    near(semantic_score(3, 250, 500), (1.0 + 1.25f64.ln() + 0.5).ln());
    assert!(semantic_score(u32::MAX, u32::MAX, 0).is_finite());
    near(similarity(0.0), 1.0);
    assert!(similarity(2.0) >= 0.98 && similarity(2.1) < 0.98);
}

/// Three ids of which 0 is the key, and a fourth on its own.
fn with_a_key() -> Semantic {
    let mut semantic = Semantic::default();
    semantic.signal(Signal::Neighbours([0, 0, 0, NO_KEY].as_slice().into()));
    semantic
}

#[test]
fn a_key_answers_for_its_neighbours_while_it_is_here() {
    let mut semantic = with_a_key();
    assert_eq!(semantic.stand_in(1), None);
    semantic.inserted(0, 1);
    assert_eq!([0, 1, 2, 3, 4].map(|id| semantic.stand_in(id)), [None, Some(0), Some(0), None, None]);
    semantic.removed(0);
    assert_eq!(semantic.stand_in(1), None);
}

#[test]
fn whom_a_key_answers_for_takes_nobodys_place() {
    let mut semantic = with_a_key();
    semantic.signal(Signal::Scores([1.0, 9.0, 9.0, 9.0, 0.1].as_slice().into()));
    [0, 4].iter().for_each(|&id| semantic.inserted(id, 1));
    assert_eq!([1, 2, 3].map(|id| semantic.admit(id, 1, false)), [false, false, true]);
}

#[test]
fn a_use_makes_up_for_a_slightly_lower_score() {
    let mut semantic = Semantic::default();
    semantic.signal(Signal::Scores([0.50, 0.51].as_slice().into()));
    (0..2).for_each(|id| semantic.inserted(id, 1));
    assert_eq!(semantic.victim(Pressure::Newcomer), Some(0));
    (0..3).for_each(|_| semantic.hit(0));
    assert_eq!(semantic.victim(Pressure::Newcomer), Some(1));
}
