//! `importance` against a naive model of it, and what it does while new scores take effect.

use super::super::{conformance, heap::scattered, signal::UNSCORED};
use super::*;
use std::collections::BTreeSet;

#[derive(Debug, Clone, Copy)]
struct Ranked {
    id: u32,
    bytes: u32,
    /// Whether it was given its place in the next order.
    moved: bool,
}

/// Residents in no order; the low region by arrival.
#[derive(Debug, Default)]
struct Naive {
    ranked: Vec<Ranked>,
    low: Vec<(u32, u32)>,
    packed: BTreeSet<u32>,
    now: Vec<f32>,
    next: Option<Vec<f32>>,
    queued: Option<Vec<f32>>,
    /// Ids below this were moved.
    moved: u32,
    /// Ids that were ever ranked are below this.
    end: u32,
}

impl Naive {
    fn score(&self, id: u32, moved: bool) -> f32 {
        let scores = if moved { self.next.as_ref().unwrap() } else { &self.now };
        let score = scores.get(id as usize).copied().unwrap_or(UNSCORED);
        if score.is_finite() { score } else { 0.0 }
    }

    /// Those not moved before those moved, the lowest score first, of equal ones the largest, of equal ones the first.
    fn least(&self) -> Option<Ranked> {
        self.ranked.iter().copied().min_by(|a, b| {
            let scores = self.score(a.id, a.moved).total_cmp(&self.score(b.id, b.moved));
            a.moved.cmp(&b.moved).then(scores).then(b.bytes.cmp(&a.bytes)).then(scattered(a.id).cmp(&scattered(b.id)))
        })
    }

    fn step(&mut self) {
        if self.moved < self.end {
            let id = self.moved;
            self.ranked.iter_mut().filter(|ranked| ranked.id == id).for_each(|ranked| ranked.moved = true);
            self.moved += 1;
        } else {
            self.now = self.next.take().unwrap();
            self.ranked.iter_mut().for_each(|ranked| ranked.moved = false);
            self.next = self.queued.take();
            self.moved = 0;
        }
    }
}

impl Residency for Naive {
    fn hit(&mut self, _id: u32) {}

    fn admit(&mut self, id: u32, _bytes: u32, room: bool) -> bool {
        let surpasses = |least: Ranked| self.score(id, least.moved) > self.score(least.id, least.moved);
        room || self.packed.contains(&id) || self.least().is_none_or(surpasses)
    }

    fn victim(&mut self, _pressure: Pressure) -> Option<u32> {
        let low_bytes: u32 = self.low.iter().map(|(_, bytes)| bytes).sum();
        let bytes: u32 = self.ranked.iter().map(|ranked| ranked.bytes).sum::<u32>() + low_bytes;
        let low = self.low.first().map(|&(id, _)| id);
        let least = self.least().map(|least| least.id);
        if low_bytes > bytes / 10 { low } else { least.or(low) }
    }

    fn inserted(&mut self, id: u32, bytes: u32) {
        if self.packed.remove(&id) {
            self.low.push((id, bytes));
        } else {
            self.ranked.push(Ranked { id, bytes, moved: self.next.is_some() && id < self.moved });
            self.end = self.end.max(id + 1);
        }
    }

    fn removed(&mut self, id: u32) {
        self.ranked.retain(|ranked| ranked.id != id);
        self.low.retain(|&(other, _)| other != id);
    }

    fn signal(&mut self, signal: Signal<'_>) {
        match signal {
            Signal::Scores(scores) if self.ranked.is_empty() => {
                (self.now, self.next, self.queued, self.moved) = (scores.to_vec(), None, None, 0);
            }
            Signal::Scores(scores) if self.next.is_some() => self.queued = Some(scores.to_vec()),
            Signal::Scores(scores) => self.next = Some(scores.to_vec()),
            Signal::Packed(ids) => {
                let resident = |id| self.ranked.iter().any(|r| r.id == id) || self.low.iter().any(|low| low.0 == id);
                self.packed.extend(ids.iter().copied().filter(|&id| !resident(id)));
            }
            _ => {}
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

    fn len(&self) -> usize {
        self.ranked.len() + self.low.len()
    }

    fn memory_bytes(&self) -> usize {
        self.len()
    }
}

#[test]
fn it_keeps_what_every_policy_promises() {
    conformance::check(&|| Box::<Importance>::default());
}

#[test]
fn a_million_requests_evict_what_is_worth_least() {
    conformance::agrees(&|| Box::<Importance>::default(), &|| Box::<Naive>::default());
}

#[test]
fn it_costs_four_bytes_an_id_and_sixteen_a_resident() {
    let mut importance = Importance::default();
    (0..1_000_000).step_by(4).for_each(|id| importance.inserted(id, 1));
    assert!(importance.memory_bytes() <= 8_000_000 * 9 / 8 + 1_000, "{} bytes", importance.memory_bytes());
}

fn holding(ids: &[u32], scores: &[f32]) -> Importance {
    let mut importance = Importance::default();
    importance.signal(Signal::Scores(scores.into()));
    ids.iter().for_each(|&id| importance.inserted(id, 1));
    importance
}

#[test]
fn a_newcomer_comes_in_only_if_it_is_worth_more_than_the_least() {
    let mut importance = holding(&[0, 1], &[0.5, 0.7, 0.5, 0.6, f32::NAN, f32::INFINITY]);
    assert_eq!(importance.victim(Pressure::Newcomer), Some(0));
    assert_eq!([2, 3, 4, 5, 6].map(|id| importance.admit(id, 1, false)), [false, true, false, false, true]);
    assert!(importance.admit(4, 1, true), "with room everyone may");
}

#[test]
fn the_old_order_holds_until_the_last_has_moved() {
    let mut importance = holding(&[0, 1, 2, 3], &[0.1, 0.2, 0.3, 0.4]);
    importance.signal(Signal::Scores([0.4, 0.3, 0.2, 0.1].as_slice().into()));
    let mut victims = vec![importance.victim(Pressure::Newcomer)];
    while importance.settle(1) {
        victims.push(importance.victim(Pressure::Newcomer));
    }
    assert_eq!(victims, [0, 1, 2, 3, 3].map(Some));
    assert_eq!(importance.victim(Pressure::Newcomer), Some(3));
}

#[test]
fn a_pack_lives_in_a_region_that_gives_way_when_it_is_over_its_share() {
    let scores: Vec<f32> = (0..21).map(|id| 0.5 + id as f32 / 100.0).collect();
    let mut importance = holding(&(0..21).collect::<Vec<_>>(), &scores);
    importance.signal(Signal::Packed(&[30, 31, 32]));
    let victims = [30, 31, 32].map(|id| {
        assert!(importance.admit(id, 1, false));
        let victim = importance.victim(Pressure::Newcomer).unwrap();
        importance.removed(victim);
        importance.inserted(id, 1);
        victim
    });
    assert_eq!(victims, [0, 1, 2]);
    assert_eq!(importance.victim(Pressure::Newcomer), Some(30), "three of twenty-one are more than a tenth");
    importance.removed(30);
    assert_eq!(importance.victim(Pressure::Newcomer), Some(3));
}

#[test]
fn without_a_region_a_pack_is_ranked_like_everyone() {
    let mut importance = Importance::new(Settings { low_region: Share::NONE });
    importance.signal(Signal::Packed(&[1]));
    importance.inserted(0, 1);
    assert!(!importance.admit(1, 1, false));
}
