//! `quiver`: the cache holds chunks of the dataset; while one is being read the next is loaded in place of the one
//! read before it (Kumar and Sivathanu, FAST '20). For jobs that take any sample that is there; without
//! chunks it is minio.
//!
//! One list by arrival and two marks in it: 4 bytes an id and 5 a resident, every operation O(1).

use super::{
    Pressure, Residency,
    list::{END, Links, List},
    signal::Signal,
};

/// The state of `quiver`.
#[derive(Debug)]
pub struct Quiver {
    links: Links,
    /// Residents by their arrival: what is retired, the chunk being read, the chunk being loaded.
    residents: List,
    /// The oldest that is not retired, or [`END`].
    kept: u32,
    /// The oldest of the chunk being loaded, or [`END`].
    loading: u32,
    len: usize,
}

impl Default for Quiver {
    fn default() -> Self {
        Self { links: Links::default(), residents: List::default(), kept: END, loading: END, len: 0 }
    }
}

impl Quiver {
    /// The retired one that came first.
    fn retired(&self) -> Option<u32> {
        self.links.first(&self.residents).filter(|&oldest| oldest != self.kept)
    }
}

impl Residency for Quiver {
    fn hit(&mut self, _id: u32) {}

    fn heeds_hits(&self) -> bool {
        false
    }

    fn admit(&mut self, _id: u32, _bytes: u32, room: bool) -> bool {
        room || self.retired().is_some()
    }

    /// Only what is retired goes for a newcomer.
    fn victim(&mut self, pressure: Pressure) -> Option<u32> {
        match pressure {
            Pressure::Newcomer => self.retired(),
            Pressure::Yield => self.links.first(&self.residents),
        }
    }

    fn inserted(&mut self, id: u32, _bytes: u32) {
        if !self.links.contains(id) {
            self.links.push_newest(&mut self.residents, id);
            for mark in [&mut self.kept, &mut self.loading] {
                if *mark == END {
                    *mark = id;
                }
            }
            self.len += 1;
        }
    }

    fn removed(&mut self, id: u32) {
        if self.links.contains(id) {
            let newer = self.links.newer(id);
            for mark in [&mut self.kept, &mut self.loading] {
                if *mark == id {
                    *mark = newer;
                }
            }
            self.links.unlink(&mut self.residents, id);
            self.len -= 1;
        }
    }

    fn signal(&mut self, signal: Signal<'_>) {
        if let Signal::NextChunk = signal {
            self.kept = self.loading;
            self.loading = END;
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

    /// Residents by arrival, with the chunk they came in; the chunk being loaded.
    #[derive(Debug, Default)]
    struct Naive(Vec<(u32, u32)>, u32);

    impl Residency for Naive {
        fn hit(&mut self, _id: u32) {}
        fn admit(&mut self, _id: u32, _bytes: u32, room: bool) -> bool {
            room || self.victim(Pressure::Newcomer).is_some()
        }
        fn victim(&mut self, pressure: Pressure) -> Option<u32> {
            let goes = |chunk| pressure == Pressure::Yield || chunk + 1 < self.1;
            self.0.iter().find(|&&(_, chunk)| goes(chunk)).map(|&(id, _)| id)
        }
        fn inserted(&mut self, id: u32, _bytes: u32) {
            self.0.push((id, self.1));
        }
        fn removed(&mut self, id: u32) {
            self.0.retain(|&(other, _)| other != id);
        }
        fn signal(&mut self, signal: Signal<'_>) {
            self.1 += u32::from(matches!(signal, Signal::NextChunk));
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
        conformance::check(&|| Box::<Quiver>::default());
    }

    #[test]
    fn a_million_requests_evict_only_chunks_that_were_read() {
        conformance::agrees(&|| Box::<Quiver>::default(), &|| Box::<Naive>::default());
    }

    #[test]
    fn a_chunk_stays_while_the_next_is_loaded_and_goes_for_the_one_after_it() {
        let mut quiver = Quiver::default();
        quiver.inserted(0, 1);
        quiver.signal(Signal::NextChunk);
        quiver.inserted(1, 1);
        assert_eq!(quiver.victim(Pressure::Newcomer), None);
        quiver.signal(Signal::NextChunk);
        assert_eq!(quiver.victim(Pressure::Newcomer), Some(0));
    }

    #[test]
    fn it_costs_nine_bytes_a_resident_and_little_slack() {
        let mut quiver = Quiver::default();
        (0..1_000_000).for_each(|id| quiver.inserted(id, 1));
        assert!(quiver.memory_bytes() <= 9_000_000 * 9 / 8 + 4_000, "{} bytes", quiver.memory_bytes());
    }
}
