//! What the counts of a dataset come to: one definition of a hit, for whoever shows one.

use crate::v1::DatasetStats;

impl DatasetStats {
    /// Reads that a tier of the node answered with what was asked for, also where that had been fetched ahead of its first
    /// reader. Substitutes are none.
    pub fn hits(&self) -> u64 {
        self.hits_mem + self.hits_ssd + self.hits_hdd + self.prefetched
    }

    /// All reads that were answered.
    pub fn reads(&self) -> u64 {
        self.hits() + self.substituted + self.joined + self.peer + self.origin + self.bypass
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_fetched_ahead_is_hit_and_what_is_substituted_or_waited_for_is_not() {
        let hit = DatasetStats { hits_mem: 1, hits_ssd: 2, hits_hdd: 4, prefetched: 8, ..Default::default() };
        assert_eq!((hit.hits(), hit.reads()), (15, 15));
        let other = DatasetStats { substituted: 1, joined: 2, peer: 4, origin: 8, bypass: 16, failed: 32, ..hit };
        assert_eq!((other.hits(), other.reads()), (15, 15 + 31));
    }
}
