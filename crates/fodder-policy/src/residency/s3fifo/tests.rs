//! `s3fifo` against a naive model of it.

use super::super::conformance;
use super::*;

#[derive(Debug, Clone, Copy)]
struct Resident {
    id: u32,
    bytes: u64,
    hits: u32,
}

/// Two queues by arrival, and those who left the small one lately, in that order. A ghost that returns leaves its slot
/// empty.
#[derive(Debug, Default)]
struct Naive {
    small: Vec<Resident>,
    main: Vec<Resident>,
    ghosts: Vec<Option<u32>>,
    recalled: Vec<u32>,
}

impl Naive {
    /// Takes an id out of the ghosts; whether it was among those still remembered.
    fn recall(&mut self, id: u32) -> bool {
        let remembered = self.len() * 9 / 10;
        let place = self.ghosts.iter().rev().position(|&ghost| ghost == Some(id));
        let found = place.is_some_and(|place| place < remembered);
        if found {
            self.forget(id);
        }
        found
    }

    fn forget(&mut self, id: u32) {
        self.ghosts.iter_mut().filter(|ghost| **ghost == Some(id)).for_each(|ghost| *ghost = None);
    }
}

fn bytes(queue: &[Resident]) -> u64 {
    queue.iter().map(|resident| resident.bytes).sum()
}

impl Residency for Naive {
    fn hit(&mut self, id: u32) {
        for resident in self.small.iter_mut().chain(&mut self.main).filter(|resident| resident.id == id) {
            resident.hits = (resident.hits + 1).min(3);
        }
    }

    fn admit(&mut self, id: u32, _bytes: u32, _room: bool) -> bool {
        if self.recall(id) {
            self.recalled.push(id);
        }
        true
    }

    fn victim(&mut self, _pressure: Pressure) -> Option<u32> {
        while self.len() > 0 {
            let small_bytes = bytes(&self.small);
            if self.main.is_empty() || small_bytes * 10 > small_bytes + bytes(&self.main) {
                if self.small[0].hits < 2 {
                    return Some(self.small[0].id);
                }
                let promoted = self.small.remove(0);
                self.main.push(Resident { hits: 0, ..promoted });
            } else {
                if self.main[0].hits == 0 {
                    return Some(self.main[0].id);
                }
                let spared = self.main.remove(0);
                self.main.push(Resident { hits: spared.hits - 1, ..spared });
            }
        }
        None
    }

    fn inserted(&mut self, id: u32, bytes: u32) {
        let returned = self.recalled.contains(&id) || self.recall(id);
        self.recalled.retain(|&other| other != id);
        self.forget(id);
        let queue = if returned { &mut self.main } else { &mut self.small };
        queue.push(Resident { id, bytes: bytes.into(), hits: 0 });
    }

    fn removed(&mut self, id: u32) {
        if self.small.iter().any(|resident| resident.id == id) {
            self.ghosts.push(Some(id));
            self.ghosts.drain(..self.ghosts.len().saturating_sub(100));
        }
        self.small.retain(|resident| resident.id != id);
        self.main.retain(|resident| resident.id != id);
    }

    fn len(&self) -> usize {
        self.small.len() + self.main.len()
    }

    fn memory_bytes(&self) -> usize {
        self.len()
    }
}

#[test]
fn it_keeps_what_every_policy_promises() {
    conformance::check(&|| Box::<S3Fifo>::default());
}

#[test]
fn a_million_requests_evict_in_the_order_of_the_queues() {
    conformance::agrees(&|| Box::<S3Fifo>::default(), &|| Box::<Naive>::default());
}

#[test]
fn it_costs_five_bytes_an_id_and_eight_a_resident() {
    let mut s3fifo = S3Fifo::default();
    (0..1_000_000).step_by(4).for_each(|id| s3fifo.inserted(id, 1));
    assert!(s3fifo.memory_bytes() <= 7_000_000 * 9 / 8 + 1_000, "{} bytes", s3fifo.memory_bytes());
}

#[test]
fn one_hit_is_not_enough_to_pass_and_two_are() {
    let mut s3fifo = S3Fifo::default();
    (0..3).for_each(|id| s3fifo.inserted(id, 1));
    s3fifo.hit(0);
    assert_eq!(s3fifo.victim(Pressure::Newcomer), Some(0));
    s3fifo.hit(0);
    assert_eq!(s3fifo.victim(Pressure::Newcomer), Some(1));
}

#[test]
fn who_comes_back_in_time_outlives_newcomers() {
    let mut s3fifo = S3Fifo::default();
    (0..10).for_each(|id| s3fifo.inserted(id, 1));
    s3fifo.removed(0);
    assert!(s3fifo.admit(0, 1, true));
    s3fifo.inserted(0, 1);
    (10..18).for_each(|id| s3fifo.inserted(id, 1));
    let victims: Vec<_> = (0..16)
        .filter_map(|_| {
            let victim = s3fifo.victim(Pressure::Newcomer)?;
            s3fifo.removed(victim);
            Some(victim)
        })
        .collect();
    assert!(!victims.contains(&0), "{victims:?}");
}
