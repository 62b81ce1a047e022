//! `lfu`: evict what was used least often since it came, and of those what was used longest ago. Right where some
//! items are always wanted more than others, wrong where that changes: old fame keeps its place.
//!
//! A list for each number of uses, up to 255: whoever was used more often is in the last one, by its last use.
//! 5 bytes an id and 5 a resident, every operation O(1).

use super::{
    Pressure, Residency,
    dense::Dense,
    list::{Links, List},
};

/// Uses are told apart up to here.
const MOST_USES: u8 = u8::MAX;

/// The state of `lfu`.
#[derive(Debug)]
pub struct Lfu {
    links: Links,
    /// How often each resident was used, its coming included.
    uses: Dense<u8>,
    /// Residents that were used equally often, by their last use.
    lists: [List; MOST_USES as usize + 1],
    /// Nobody was used less often than this.
    least: u8,
    len: usize,
}

impl Default for Lfu {
    fn default() -> Self {
        let lists = [List::default(); MOST_USES as usize + 1];
        Self { links: Links::default(), uses: Dense::default(), lists, least: MOST_USES, len: 0 }
    }
}

impl Lfu {
    /// How often an id was used, if it is resident.
    fn resident_uses(&self, id: u32) -> Option<u8> {
        self.uses.get(id).filter(|_| self.links.contains(id))
    }

    fn enter(&mut self, id: u32, uses: u8) {
        self.links.push_newest(&mut self.lists[usize::from(uses)], id);
        *self.uses.entry(id, 0) = uses;
    }
}

impl Residency for Lfu {
    fn hit(&mut self, id: u32) {
        if let Some(uses) = self.resident_uses(id) {
            self.links.unlink(&mut self.lists[usize::from(uses)], id);
            self.enter(id, uses.saturating_add(1));
        }
    }

    fn admit(&mut self, _id: u32, _bytes: u32, _room: bool) -> bool {
        true
    }

    fn victim(&mut self, _pressure: Pressure) -> Option<u32> {
        while self.least < MOST_USES && self.lists[usize::from(self.least)].is_empty() {
            self.least += 1;
        }
        self.links.first(&self.lists[usize::from(self.least)])
    }

    fn inserted(&mut self, id: u32, _bytes: u32) {
        if !self.links.contains(id) {
            self.enter(id, 1);
            self.least = 1;
            self.len += 1;
        }
    }

    fn removed(&mut self, id: u32) {
        if let Some(uses) = self.resident_uses(id) {
            self.links.unlink(&mut self.lists[usize::from(uses)], id);
            self.len -= 1;
        }
    }

    fn len(&self) -> usize {
        self.len
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.links.heap_bytes() + self.uses.heap_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::super::conformance;
    use super::*;

    /// Residents with their uses, the one used longest ago first.
    #[derive(Debug, Default)]
    struct Naive(Vec<(u32, u64)>);

    impl Residency for Naive {
        fn hit(&mut self, id: u32) {
            if let Some(place) = self.0.iter().position(|&(other, _)| other == id) {
                let (id, uses) = self.0.remove(place);
                self.0.push((id, (uses + 1).min(255)));
            }
        }
        fn admit(&mut self, _id: u32, _bytes: u32, _room: bool) -> bool {
            true
        }
        fn victim(&mut self, _pressure: Pressure) -> Option<u32> {
            self.0.iter().min_by_key(|(_, uses)| uses).map(|&(id, _)| id)
        }
        fn inserted(&mut self, id: u32, _bytes: u32) {
            self.0.push((id, 1));
        }
        fn removed(&mut self, id: u32) {
            self.0.retain(|&(other, _)| other != id);
        }
        fn len(&self) -> usize {
            self.0.len()
        }
        fn memory_bytes(&self) -> usize {
            self.0.len()
        }
    }

    #[test]
    fn it_keeps_what_every_policy_promises() {
        conformance::check(&|| Box::<Lfu>::default());
    }

    #[test]
    fn a_million_requests_evict_what_was_used_least_often() {
        conformance::agrees(&|| Box::<Lfu>::default(), &|| Box::<Naive>::default());
    }

    #[test]
    fn it_costs_ten_bytes_a_resident_and_little_slack() {
        let mut lfu = Lfu::default();
        (0..1_000_000).for_each(|id| lfu.inserted(id, 1));
        assert!(lfu.memory_bytes() <= 10_000_000 * 9 / 8 + 4_000, "{} bytes", lfu.memory_bytes());
    }
}
