//! `sieve`: a queue by arrival, and a hand that goes over it from the old to the new, sparing once whoever was used
//! since it last came by (Zhang et al., NSDI '24). Simpler than lru and mostly better; for epochs over more data than
//! fits, minio is better still.
//!
//! A list and a bit: 4 bytes and a bit an id, 5 bytes a resident. A hit sets the bit; a victim is found in O(1) amortised, since
//! each step of the hand takes back one hit.

use super::{
    Pressure, Residency,
    dense::Dense,
    list::{END, Links, List},
};

/// The state of `sieve`.
#[derive(Debug)]
pub struct Sieve {
    links: Links,
    /// Residents by their arrival.
    residents: List,
    /// A bit an id: was it used since the hand came by?
    used: Dense<u64>,
    /// Who is looked at next, or [`END`]: the oldest.
    hand: u32,
    len: usize,
}

impl Default for Sieve {
    fn default() -> Self {
        let (links, residents, used) = (Links::default(), List::default(), Dense::default());
        Self { links, residents, used, hand: END, len: 0 }
    }
}

impl Sieve {
    /// Whether an id was used; it is not, from now on.
    fn take_used(&mut self, id: u32) -> bool {
        let word = self.used.entry(id / u64::BITS, 0);
        let bit = 1 << (id % u64::BITS);
        let was_used = *word & bit != 0;
        *word &= !bit;
        was_used
    }
}

impl Residency for Sieve {
    fn hit(&mut self, id: u32) {
        if self.links.contains(id) {
            *self.used.entry(id / u64::BITS, 0) |= 1 << (id % u64::BITS);
        }
    }

    fn admit(&mut self, _id: u32, _bytes: u32, _room: bool) -> bool {
        true
    }

    /// Moves the hand to the first who was not used, where it stays until that one leaves or is used.
    fn victim(&mut self, _pressure: Pressure) -> Option<u32> {
        let oldest = self.links.first(&self.residents)?;
        let mut id = if self.hand == END { oldest } else { self.hand };
        while self.take_used(id) {
            id = match self.links.newer(id) {
                END => oldest,
                newer => newer,
            };
        }
        self.hand = id;
        Some(id)
    }

    fn inserted(&mut self, id: u32, _bytes: u32) {
        if !self.links.contains(id) {
            self.links.push_newest(&mut self.residents, id);
            self.take_used(id);
            self.len += 1;
        }
    }

    fn removed(&mut self, id: u32) {
        if self.links.contains(id) {
            if self.hand == id {
                self.hand = self.links.newer(id);
            }
            self.links.unlink(&mut self.residents, id);
            self.len -= 1;
        }
    }

    fn len(&self) -> usize {
        self.len
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.links.heap_bytes() + self.used.heap_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::super::conformance;
    use super::*;

    /// Residents by arrival, each with whether it was used; where the hand is.
    #[derive(Debug, Default)]
    struct Naive(Vec<(u32, bool)>, usize);

    impl Residency for Naive {
        fn hit(&mut self, id: u32) {
            self.0.iter_mut().filter(|(other, _)| *other == id).for_each(|(_, used)| *used = true);
        }
        fn admit(&mut self, _id: u32, _bytes: u32, _room: bool) -> bool {
            true
        }
        fn victim(&mut self, _pressure: Pressure) -> Option<u32> {
            if self.0.is_empty() {
                return None;
            }
            self.1 %= self.0.len();
            while std::mem::take(&mut self.0[self.1].1) {
                self.1 = (self.1 + 1) % self.0.len();
            }
            Some(self.0[self.1].0)
        }
        fn inserted(&mut self, id: u32, _bytes: u32) {
            self.0.push((id, false));
        }
        fn removed(&mut self, id: u32) {
            if let Some(place) = self.0.iter().position(|&(other, _)| other == id) {
                self.0.remove(place);
                self.1 -= usize::from(place < self.1);
                // Past the newest the hand starts anew, and does not wait for the next newcomer.
                self.1 %= self.0.len().max(1);
            }
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
        conformance::check(&|| Box::<Sieve>::default());
    }

    #[test]
    fn a_million_requests_evict_whom_the_hand_finds_unused() {
        conformance::agrees(&|| Box::<Sieve>::default(), &|| Box::<Naive>::default());
    }

    #[test]
    fn it_costs_nine_bytes_and_a_bit_a_resident() {
        let mut sieve = Sieve::default();
        (0..1_000_000).for_each(|id| sieve.inserted(id, 1));
        assert!(sieve.memory_bytes() <= 9_125_000 * 9 / 8 + 4_000, "{} bytes", sieve.memory_bytes());
    }
}
