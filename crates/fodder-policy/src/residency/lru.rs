//! `lru`: evict what was used longest ago. Right for changing working sets, wrong for epochs over more data
//! than fits, where it evicts everything just before it is needed again.
//!
//! One list: 4 bytes an id and 5 a resident, every operation O(1).

use super::{
    Pressure, Residency,
    list::{Links, List},
};

/// The state of `lru`.
#[derive(Debug, Default)]
pub struct Lru {
    links: Links,
    /// Residents by their last use.
    residents: List,
    len: usize,
}

impl Residency for Lru {
    fn hit(&mut self, id: u32) {
        if self.links.contains(id) {
            self.links.renew(&mut self.residents, id);
        }
    }

    fn admit(&mut self, _id: u32, _bytes: u32, _room: bool) -> bool {
        true
    }

    fn victim(&mut self, _pressure: Pressure) -> Option<u32> {
        self.links.first(&self.residents)
    }

    fn inserted(&mut self, id: u32, _bytes: u32) {
        if !self.links.contains(id) {
            self.links.push_newest(&mut self.residents, id);
            self.len += 1;
        }
    }

    fn removed(&mut self, id: u32) {
        if self.links.contains(id) {
            self.links.unlink(&mut self.residents, id);
            self.len -= 1;
        }
    }

    fn len(&self) -> usize {
        self.len
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.links.heap_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::super::conformance;
    use super::*;

    /// Residents, the one used longest ago first.
    #[derive(Debug, Default)]
    struct Naive(Vec<u32>);

    impl Residency for Naive {
        fn hit(&mut self, id: u32) {
            if self.0.contains(&id) {
                self.0.retain(|&other| other != id);
                self.0.push(id);
            }
        }
        fn admit(&mut self, _id: u32, _bytes: u32, _room: bool) -> bool {
            true
        }
        fn victim(&mut self, _pressure: Pressure) -> Option<u32> {
            self.0.first().copied()
        }
        fn inserted(&mut self, id: u32, _bytes: u32) {
            self.0.push(id);
        }
        fn removed(&mut self, id: u32) {
            self.0.retain(|&other| other != id);
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
        conformance::check(&|| Box::<Lru>::default());
    }

    #[test]
    fn a_million_requests_evict_what_was_used_longest_ago() {
        conformance::agrees(&|| Box::<Lru>::default(), &|| Box::<Naive>::default());
    }

    #[test]
    fn it_costs_nine_bytes_a_resident_and_little_slack() {
        let mut lru = Lru::default();
        (0..1_000_000).for_each(|id| lru.inserted(id, 1));
        assert!(lru.memory_bytes() <= 9_000_000 * 9 / 8 + 4_000, "{} bytes", lru.memory_bytes());
    }
}
