//! `lru`: evict what was used longest ago. Right for changing working sets, wrong for epochs over more data
//! than fits, where it evicts everything just before it is needed again.
//!
//! A doubly linked list threaded through one array over the ids: 8 bytes an id, every operation O(1).

use super::{Pressure, Residency};

/// Where the list ends. Never an id: there are at most `u32::MAX` pieces, so the greatest id is one less.
const END: u32 = u32::MAX;

/// The neighbours of one id in the list.
#[derive(Debug, Clone, Copy)]
struct Link {
    /// The next more recently used id. An id that is not resident is its own neighbour, which none in the list is.
    newer: u32,
    /// The next less recently used id.
    older: u32,
}

/// The state of `lru`.
#[derive(Debug)]
pub struct Lru {
    links: Vec<Link>,
    newest: u32,
    oldest: u32,
    len: usize,
}

impl Default for Lru {
    fn default() -> Self {
        Self { links: Vec::new(), newest: END, oldest: END, len: 0 }
    }
}

impl Lru {
    fn is_resident(&self, id: u32) -> bool {
        self.links.get(id as usize).is_some_and(|link| link.newer != id)
    }

    /// Makes room for `id`, with an eighth of slack instead of the usual doubling.
    fn grow(&mut self, id: u32) {
        let len = id as usize + 1;
        if len > self.links.capacity() {
            self.links.reserve_exact(len + len / 8 - self.links.len());
        }
        for id in self.links.len() as u32..len as u32 {
            self.links.push(Link { newer: id, older: id });
        }
    }

    fn push_newest(&mut self, id: u32) {
        self.links[id as usize] = Link { newer: END, older: self.newest };
        match self.newest {
            END => self.oldest = id,
            newest => self.links[newest as usize].newer = id,
        }
        self.newest = id;
    }

    fn unlink(&mut self, id: u32) {
        let Link { newer, older } = self.links[id as usize];
        match newer {
            END => self.newest = older,
            newer => self.links[newer as usize].older = older,
        }
        match older {
            END => self.oldest = newer,
            older => self.links[older as usize].newer = newer,
        }
    }
}

impl Residency for Lru {
    fn hit(&mut self, id: u32) {
        if self.newest != id && self.is_resident(id) {
            self.unlink(id);
            self.push_newest(id);
        }
    }

    fn admit(&mut self, _id: u32, _bytes: u32, _room: bool) -> bool {
        true
    }

    fn victim(&mut self, _pressure: Pressure) -> Option<u32> {
        (self.oldest != END).then_some(self.oldest)
    }

    fn inserted(&mut self, id: u32, _bytes: u32) {
        if !self.is_resident(id) {
            if id as usize >= self.links.len() {
                self.grow(id);
            }
            self.push_newest(id);
            self.len += 1;
        }
    }

    fn removed(&mut self, id: u32) {
        if self.is_resident(id) {
            self.unlink(id);
            self.links[id as usize] = Link { newer: id, older: id };
            self.len -= 1;
        }
    }

    fn len(&self) -> usize {
        self.len
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.links.capacity() * size_of::<Link>()
    }
}

#[cfg(test)]
mod tests {
    use super::super::conformance::{self, Event};
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    #[test]
    fn it_keeps_what_every_policy_promises() {
        conformance::check(&|| Box::<Lru>::default());
    }

    #[test]
    fn it_costs_eight_bytes_an_id_and_little_slack() {
        let mut lru = Lru::default();
        (0..1_000_000).for_each(|id| lru.inserted(id, 1));
        assert!(lru.memory_bytes() <= 9_100_000, "{} bytes", lru.memory_bytes());
    }

    proptest! {
        #[test]
        fn the_victim_is_the_front_of_a_naive_queue(events in conformance::events()) {
            let (mut lru, mut queue) = (Lru::default(), VecDeque::new());
            for event in events {
                event.tell(&mut lru);
                let position = queue.iter().position(|&id| id == event.id());
                match (event, position) {
                    (Event::Hit(id), Some(position)) => {
                        queue.remove(position);
                        queue.push_back(id);
                    }
                    (Event::Inserted(id, _), None) => queue.push_back(id),
                    (Event::Removed(_), Some(position)) => drop(queue.remove(position)),
                    _ => {}
                }
                prop_assert_eq!(lru.victim(Pressure::Newcomer), queue.front().copied());
                prop_assert_eq!(lru.victim(Pressure::Yield), queue.front().copied());
            }
            while let Some(id) = queue.pop_front() {
                prop_assert_eq!(lru.victim(Pressure::Yield), Some(id));
                lru.removed(id);
            }
            prop_assert_eq!(lru.victim(Pressure::Yield), None);
        }

        #[test]
        fn everyone_is_admitted(id: u32, bytes: u32, room: bool) {
            prop_assert!(Lru::default().admit(id, bytes, room));
        }
    }
}
