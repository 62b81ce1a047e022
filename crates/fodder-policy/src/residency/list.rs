//! Lists of ids, threaded through blocks of a cache line each: walking one touches memory nearly in order, which a list
//! with links between ids does not. 4 bytes an id and 5 a member, 21 with the worst of gaps; every operation O(1).
//!
//! Any number of lists may share one set of blocks, since an id is in at most one of them. Which one, the owner knows.
//!
//! Whoever leaves a block leaves a gap. A block that has become nearly empty is joined to a neighbour where both fit into
//! one, so that there are never fewer than three members a block.

use super::dense::{Dense, reserve};

/// Where a list ends. Never an id: there are at most `u32::MAX` pieces, so the greatest id is one less.
pub(super) const END: u32 = u32::MAX;

/// How many ids fit into a block.
const ROOM: usize = 13;

/// A block with fewer members than this is joined to a neighbour, if both fit into one with room to spare.
const FEW: u32 = 5;

/// What a block holds at most after two were joined, or after its gaps were closed instead of adding one.
const SPARE: u32 = 10;

/// Places count this many slots a block, so that block and slot are told apart by bits.
const STRIDE: u32 = 16;

/// The place of an id that is in no list.
const NOWHERE: u32 = u32::MAX;

/// Some neighbouring members of a list, the oldest in the lowest slot.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Block {
    /// The next newer block, or [`END`]. Of a block that is not used: the next of those.
    newer: u32,
    /// The next older block, or [`END`].
    older: u32,
    /// A bit for each slot that has a member.
    taken: u16,
    ids: [u32; ROOM],
}

impl Block {
    fn len(&self) -> u32 {
        self.taken.count_ones()
    }

    /// The oldest member from a slot on.
    fn first_from(&self, slot: u32) -> Option<u32> {
        let taken = u32::from(self.taken) >> slot << slot;
        (taken != 0).then(|| self.ids[taken.trailing_zeros() as usize])
    }

    /// One past the newest member's slot.
    fn end(&self) -> u32 {
        u16::BITS - self.taken.leading_zeros()
    }

    fn members(&self) -> impl Iterator<Item = u32> {
        let without_oldest = |&taken: &u16| Some(taken & (taken - 1)).filter(|&rest| rest != 0);
        let rests = std::iter::successors(Some(self.taken).filter(|&taken| taken != 0), without_oldest);
        rests.map(|rest| self.ids[rest.trailing_zeros() as usize])
    }
}

/// The blocks that lists are threaded through.
#[derive(Debug)]
pub(super) struct Links {
    /// Where each id is.
    places: Dense<u32>,
    blocks: Vec<Block>,
    /// The first block that is not used, or [`END`].
    unused: u32,
}

impl Default for Links {
    fn default() -> Self {
        Self { places: Dense::default(), blocks: Vec::new(), unused: END }
    }
}

/// The two ends of one list.
#[derive(Debug, Clone, Copy)]
pub(super) struct List {
    /// The block with the id that was put in last, or [`END`].
    newest: u32,
    /// The block with the id that was put in first, or [`END`].
    oldest: u32,
}

impl Default for List {
    fn default() -> Self {
        Self { newest: END, oldest: END }
    }
}

impl List {
    /// Whether nobody is in it.
    pub(super) fn is_empty(&self) -> bool {
        self.oldest == END
    }
}

impl Links {
    /// Whether an id is in any list.
    pub(super) fn contains(&self, id: u32) -> bool {
        self.places.get(id).is_some_and(|place| place != NOWHERE)
    }

    /// The id that was put into a list first.
    pub(super) fn first(&self, list: &List) -> Option<u32> {
        self.blocks.get(list.oldest as usize).and_then(|block| block.first_from(0))
    }

    /// The next newer id in the list that `id` is in, or [`END`].
    pub(super) fn newer(&self, id: u32) -> u32 {
        let place = self.places.get(id).expect("an id in a list has a place");
        let block = &self.blocks[(place / STRIDE) as usize];
        let next = block.first_from(place % STRIDE + 1);
        next.or_else(|| self.blocks.get(block.newer as usize)?.first_from(0)).unwrap_or(END)
    }

    /// Puts an id that is in no list at the newest end of one.
    pub(super) fn push_newest(&mut self, list: &mut List, id: u32) {
        let number = self.open_block(list);
        let block = &mut self.blocks[number as usize];
        let slot = block.end();
        block.ids[slot as usize] = id;
        block.taken |= 1 << slot;
        *self.places.entry(id, NOWHERE) = number * STRIDE + slot;
    }

    /// Takes an id out of the list it is in.
    pub(super) fn unlink(&mut self, list: &mut List, id: u32) {
        let place = std::mem::replace(self.places.entry(id, NOWHERE), NOWHERE);
        let number = place / STRIDE;
        let block = &mut self.blocks[number as usize];
        block.taken &= !(1 << (place % STRIDE));
        match block.len() {
            0 => self.drop_block(list, number),
            1..FEW => self.join_neighbours(list, number),
            _ => {}
        }
    }

    /// Moves an id to the newest end of the list it is in.
    pub(super) fn renew(&mut self, list: &mut List, id: u32) {
        self.unlink(list, id);
        self.push_newest(list, id);
    }

    /// Bytes it holds on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.places.heap_bytes() + self.blocks.capacity() * size_of::<Block>()
    }

    /// The newest block of a list, which has room at its end.
    fn open_block(&mut self, list: &mut List) -> u32 {
        match self.blocks.get(list.newest as usize) {
            Some(newest) if newest.end() < ROOM as u32 => list.newest,
            Some(newest) if newest.len() <= ROOM as u32 / 2 => {
                self.fill(list.newest, *newest, None);
                list.newest
            }
            _ => self.add_block(list),
        }
    }

    /// Adds an empty block at the newest end of a list.
    fn add_block(&mut self, list: &mut List) -> u32 {
        let block = Block { newer: END, older: list.newest, taken: 0, ids: [END; ROOM] };
        let number = match self.unused {
            END => {
                let number = self.blocks.len() as u32;
                assert!(number < NOWHERE / STRIDE, "a policy keeps at most a billion residents");
                reserve(&mut self.blocks, number as usize + 1);
                self.blocks.push(block);
                number
            }
            number => {
                self.unused = std::mem::replace(&mut self.blocks[number as usize], block).newer;
                number
            }
        };
        match list.newest {
            END => list.oldest = number,
            newest => self.blocks[newest as usize].newer = number,
        }
        list.newest = number;
        number
    }

    /// Takes a block out of its list.
    fn drop_block(&mut self, list: &mut List, number: u32) {
        let Block { newer, older, .. } = self.blocks[number as usize];
        match newer {
            END => list.newest = older,
            newer => self.blocks[newer as usize].older = older,
        }
        match older {
            END => list.oldest = newer,
            older => self.blocks[older as usize].newer = newer,
        }
        self.blocks[number as usize].newer = self.unused;
        self.unused = number;
    }

    /// Makes one block of a block and a neighbour, if they hold few enough.
    fn join_neighbours(&mut self, list: &mut List, number: u32) {
        let block = self.blocks[number as usize];
        for (older, newer) in [(number, block.newer), (block.older, number)] {
            let (Some(&first), Some(&second)) = (self.blocks.get(older as usize), self.blocks.get(newer as usize))
            else {
                continue;
            };
            if first.len() + second.len() <= SPARE {
                self.fill(newer, first, Some(second));
                return self.drop_block(list, older);
            }
        }
    }

    /// Gives a block the members of one or two, without gaps.
    fn fill(&mut self, number: u32, older: Block, newer: Option<Block>) {
        let block = &mut self.blocks[number as usize];
        let mut len = 0;
        for id in older.members().chain(newer.iter().flat_map(Block::members)) {
            block.ids[len as usize] = id;
            *self.places.entry(id, NOWHERE) = number * STRIDE + len;
            len += 1;
        }
        block.taken = (1 << len) - 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn members(links: &Links, list: &List) -> Vec<u32> {
        let after = |&id: &u32| Some(links.newer(id)).filter(|&newer| newer != END);
        std::iter::successors(links.first(list), after).collect()
    }

    impl Links {
        fn blocks_in_use(&self) -> usize {
            let after = |&number: &u32| Some(self.blocks[number as usize].newer).filter(|&newer| newer != END);
            let unused = std::iter::successors(Some(self.unused).filter(|&number| number != END), after).count();
            self.blocks.len() - unused
        }
    }

    #[test]
    fn gaps_take_little_memory() {
        let (mut links, mut list) = (Links::default(), List::default());
        (0..1_000_000).for_each(|id| links.push_newest(&mut list, id));
        let full = links.blocks_in_use();
        (0..1_000_000).filter(|id| id % 10 > 0).for_each(|id| links.unlink(&mut list, id));
        assert!(links.blocks_in_use() < full / 4, "{} of {full} blocks", links.blocks_in_use());
        assert_eq!(members(&links, &list), (0..1_000_000).step_by(10).collect::<Vec<_>>());
    }

    proptest! {
        #[test]
        fn two_lists_over_one_array_agree_with_two_vectors(
            steps in prop::collection::vec((0usize..2, 0u32..150, any::<bool>()), 1..600),
        ) {
            let mut links = Links::default();
            let (mut lists, mut models) = ([List::default(); 2], [Vec::new(), Vec::new()]);
            for (which, id, renew) in steps {
                match models.iter().position(|model: &Vec<u32>| model.contains(&id)) {
                    None => {
                        links.push_newest(&mut lists[which], id);
                        models[which].push(id);
                    }
                    Some(holder) => {
                        models[holder].retain(|&other| other != id);
                        if renew {
                            links.renew(&mut lists[holder], id);
                            models[holder].push(id);
                        } else {
                            links.unlink(&mut lists[holder], id);
                        }
                    }
                }
                for (list, model) in lists.iter().zip(&models) {
                    prop_assert_eq!(&members(&links, list), model);
                    prop_assert_eq!(list.is_empty(), model.is_empty());
                }
                let members = models.concat().len();
                prop_assert!(links.blocks_in_use() <= members / 3 + 4, "{members} members");
                for id in 0..160 {
                    prop_assert_eq!(links.contains(id), models.concat().contains(&id));
                }
            }
        }
    }
}
