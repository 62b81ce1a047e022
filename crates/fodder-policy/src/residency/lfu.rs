//! `lfu`: evict what was used least often since it came, and of those what was used longest ago. Right where some
//! items are always wanted more than others, wrong where that changes: old fame keeps its place.
//!
//! A linked list for each number of uses that a resident has, and these in a list of their own, so that every
//! operation is O(1): 12 bytes an id.

use super::{
    Pressure, Residency,
    dense::Dense,
    list::{END, Links, List},
};

/// Residents that were used equally often.
#[derive(Debug)]
struct Level {
    uses: u64,
    /// By their last use.
    members: List,
    /// The level with the next fewer uses, or [`END`].
    lower: u32,
    /// The level with the next more uses, or [`END`]. Of a level that is not in use: the next such one.
    higher: u32,
}

/// The state of `lfu`.
#[derive(Debug)]
pub struct Lfu {
    links: Links,
    /// The level of each resident.
    level_of: Dense<u32>,
    levels: Vec<Level>,
    /// The level with the fewest uses, or [`END`].
    lowest: u32,
    /// A level that is not in use, or [`END`].
    spare: u32,
    len: usize,
}

impl Default for Lfu {
    fn default() -> Self {
        let (links, level_of, levels) = (Links::default(), Dense::default(), Vec::new());
        Self { links, level_of, levels, lowest: END, spare: END, len: 0 }
    }
}

impl Lfu {
    fn level(&mut self, level: u32) -> &mut Level {
        &mut self.levels[level as usize]
    }

    /// The level for `uses`, between two neighbours of which the higher may already be it.
    fn level_between(&mut self, lower: u32, higher: u32, uses: u64) -> u32 {
        if higher != END && self.level(higher).uses == uses {
            return higher;
        }
        let level = Level { uses, members: List::default(), lower, higher };
        let index = match self.spare {
            END => {
                self.levels.push(level);
                self.levels.len() as u32 - 1
            }
            spare => {
                self.spare = self.level(spare).higher;
                *self.level(spare) = level;
                spare
            }
        };
        self.join(lower, index);
        self.join(index, higher);
        index
    }

    /// Makes two levels neighbours; either may be [`END`].
    fn join(&mut self, lower: u32, higher: u32) {
        match lower {
            END => self.lowest = higher,
            lower => self.level(lower).higher = higher,
        }
        if higher != END {
            self.level(higher).lower = lower;
        }
    }

    fn enter(&mut self, id: u32, level: u32) {
        self.links.push_newest(&mut self.levels[level as usize].members, id);
        *self.level_of.entry(id, END) = level;
    }

    fn leave(&mut self, id: u32, level: u32) {
        self.links.unlink(&mut self.levels[level as usize].members, id);
        let Level { members, lower, higher, .. } = *self.level(level);
        if members.is_empty() {
            self.join(lower, higher);
            self.level(level).higher = self.spare;
            self.spare = level;
        }
    }

    /// The level of an id, if it is resident.
    fn resident_level(&self, id: u32) -> Option<u32> {
        self.level_of.get(id).filter(|_| self.links.contains(id))
    }
}

impl Residency for Lfu {
    fn hit(&mut self, id: u32) {
        let Some(level) = self.resident_level(id) else { return };
        let Level { uses, higher, .. } = *self.level(level);
        let above = self.level_between(level, higher, uses + 1);
        self.leave(id, level);
        self.enter(id, above);
    }

    fn admit(&mut self, _id: u32, _bytes: u32, _room: bool) -> bool {
        true
    }

    fn victim(&mut self, _pressure: Pressure) -> Option<u32> {
        self.levels.get(self.lowest as usize)?.members.first()
    }

    fn inserted(&mut self, id: u32, _bytes: u32) {
        if !self.links.contains(id) {
            let level = self.level_between(END, self.lowest, 1);
            self.enter(id, level);
            self.len += 1;
        }
    }

    fn removed(&mut self, id: u32) {
        if let Some(level) = self.resident_level(id) {
            self.leave(id, level);
            self.len -= 1;
        }
    }

    fn len(&self) -> usize {
        self.len
    }

    fn memory_bytes(&self) -> usize {
        let levels = self.levels.capacity() * size_of::<Level>();
        size_of::<Self>() + self.links.heap_bytes() + self.level_of.heap_bytes() + levels
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
                self.0.push((id, uses + 1));
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
    fn it_costs_twelve_bytes_an_id_and_little_slack() {
        let mut lfu = Lfu::default();
        (0..1_000_000).for_each(|id| lfu.inserted(id, 1));
        (0..1_000_000).for_each(|id| (0..id % 40).for_each(|_| lfu.hit(id)));
        assert!(lfu.memory_bytes() <= 13_600_000, "{} bytes", lfu.memory_bytes());
    }

    #[test]
    fn levels_that_emptied_are_used_again() {
        let mut lfu = Lfu::default();
        for id in [0, 1] {
            lfu.inserted(id, 1);
            (0..1_000).for_each(|_| lfu.hit(id));
        }
        assert!(lfu.levels.len() <= 4, "{} levels", lfu.levels.len());
    }
}
