//! `minio`: fill, then never evict (CoorDL's). An epoch uses every item once, so each kept item is worth as much
//! as any other; throwing one out for another gains nothing and costs a fetch.
//!
//! Only who is resident is kept: one bit an id and a little over, every operation O(1).

use super::{Pressure, Residency, idset::IdSet};

/// The state of `minio`.
#[derive(Debug, Default)]
pub struct Minio {
    residents: IdSet,
}

impl Residency for Minio {
    fn hit(&mut self, _id: u32) {}

    fn heeds_hits(&self) -> bool {
        false
    }

    fn admit(&mut self, _id: u32, _bytes: u32, room: bool) -> bool {
        room
    }

    /// Nobody goes for a newcomer. Space that must be given back comes from the end of the ids: residents are
    /// worth the same, and neighbours that go together free whole files.
    fn victim(&mut self, pressure: Pressure) -> Option<u32> {
        match pressure {
            Pressure::Newcomer => None,
            Pressure::Yield => self.residents.last(),
        }
    }

    fn inserted(&mut self, id: u32, _bytes: u32) {
        self.residents.insert(id);
    }

    fn removed(&mut self, id: u32) {
        self.residents.remove(id);
    }

    fn len(&self) -> usize {
        self.residents.len()
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.residents.heap_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::super::conformance;
    use super::*;
    use std::collections::BTreeSet;

    /// Who is resident.
    #[derive(Debug, Default)]
    struct Naive(BTreeSet<u32>);

    impl Residency for Naive {
        fn hit(&mut self, _id: u32) {}
        fn admit(&mut self, _id: u32, _bytes: u32, room: bool) -> bool {
            room
        }
        fn victim(&mut self, pressure: Pressure) -> Option<u32> {
            self.0.last().copied().filter(|_| pressure == Pressure::Yield)
        }
        fn inserted(&mut self, id: u32, _bytes: u32) {
            self.0.insert(id);
        }
        fn removed(&mut self, id: u32) {
            self.0.remove(&id);
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
        conformance::check(&|| Box::<Minio>::default());
    }

    #[test]
    fn it_costs_little_more_than_a_bit_an_id() {
        let mut minio = Minio::default();
        (0..1_000_000).for_each(|id| minio.inserted(id, 1));
        assert!(minio.memory_bytes() <= 1_000_000 / 8 * 6 / 5, "{} bytes", minio.memory_bytes());
    }

    #[test]
    fn a_million_requests_fill_it_and_evict_nobody_for_a_newcomer() {
        conformance::agrees(&|| Box::<Minio>::default(), &|| Box::<Naive>::default());
    }
}
