//! Which cells of a group file are in use, and by which object. Bookkeeping only: it knows no file and no lock.

use std::collections::BTreeSet;

const FREE: u32 = u32::MAX;
const RESERVED: u32 = u32::MAX - 1;

/// The cells of one group file. The last one is never free once [`Cells::trim`] has been called.
#[derive(Debug, Default)]
pub(in crate::tier) struct Cells {
    /// By cell: the slot of the object that it holds, or one of the marks above.
    owners: Vec<u32>,
    free: BTreeSet<u32>,
    /// Cells whose space is charged: at least as many as there are.
    charged: u32,
}

/// An object that is to be moved to another cell, which is reserved for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::tier) struct Move {
    pub(in crate::tier) slot: u32,
    pub(in crate::tier) from: u32,
    pub(in crate::tier) to: u32,
}

/// What became of a cell that the index remembers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::tier) enum Claim {
    Granted,
    /// It is remembered for this object too: one of the two is out of date.
    TakenBy(u32),
}

impl Cells {
    /// How many cells the file has, used and free.
    pub(in crate::tier) fn len(&self) -> u32 {
        self.owners.len() as u32
    }

    pub(in crate::tier) fn free(&self) -> u32 {
        self.free.len() as u32
    }

    /// Cells whose space is charged.
    pub(in crate::tier) fn charged(&self) -> u32 {
        self.charged
    }

    pub(in crate::tier) fn set_charged(&mut self, charged: u32) {
        self.charged = charged;
    }

    /// Reserves a free cell.
    pub(in crate::tier) fn reserve_free(&mut self) -> Option<u32> {
        let cell = self.free.pop_first()?;
        self.owners[cell as usize] = RESERVED;
        Some(cell)
    }

    /// Adds a cell and reserves it; None if there are as many as can be numbered.
    pub(in crate::tier) fn append(&mut self) -> Option<u32> {
        let cell = u32::try_from(self.owners.len()).ok().filter(|&cell| cell < RESERVED)?;
        self.owners.push(RESERVED);
        Some(cell)
    }

    /// A reserved cell now holds an object.
    pub(in crate::tier) fn assign(&mut self, cell: u32, slot: u32) {
        self.owners[cell as usize] = slot;
    }

    /// The object of a cell was moved to another. Until that is durable, this one is not free.
    pub(in crate::tier) fn leave(&mut self, cell: u32) {
        self.owners[cell as usize] = RESERVED;
    }

    /// A cell is free again.
    pub(in crate::tier) fn release(&mut self, cell: u32) {
        // None of a dataset that was removed meanwhile.
        if let Some(owner) = self.owners.get_mut(cell as usize) {
            *owner = FREE;
            self.free.insert(cell);
        }
    }

    /// Removes free cells from the end.
    pub(in crate::tier) fn trim(&mut self) {
        while self.owners.last() == Some(&FREE) {
            self.owners.pop();
            self.free.remove(&self.len());
        }
    }

    /// The next step towards a file without free cells: the last object before the cell `end` goes to the first free cell. None if
    /// no free cell precedes it.
    pub(in crate::tier) fn next_move(&mut self, end: u32) -> Option<Move> {
        let before = &self.owners[..self.owners.len().min(end as usize)];
        let from = before.iter().rposition(|&owner| owner < RESERVED)? as u32;
        let slot = self.owners[from as usize];
        self.free.first().filter(|&&to| to < from)?;
        Some(Move { slot, from, to: self.reserve_free()? })
    }

    /// The objects that have a cell.
    pub(in crate::tier) fn slots(&self) -> Vec<u32> {
        self.owners.iter().copied().filter(|&slot| slot < RESERVED).collect()
    }

    /// Gives a cell to the object for which the index remembers it. The cell must exist in the file, and
    /// [`Cells::claimed`] follows the last claim.
    pub(in crate::tier) fn claim(&mut self, cell: u32, slot: u32) -> Claim {
        if self.len() <= cell {
            self.owners.resize(cell as usize + 1, FREE);
        }
        match &mut self.owners[cell as usize] {
            owner if *owner == FREE => *owner = slot,
            &mut owner => return Claim::TakenBy(owner),
        }
        Claim::Granted
    }

    /// All cells that the index remembers were claimed: the others are free.
    pub(in crate::tier) fn claimed(&mut self) {
        let free = |(cell, &owner): (usize, &u32)| (owner == FREE).then_some(cell as u32);
        self.free = self.owners.iter().enumerate().filter_map(free).collect();
        self.trim();
        self.charged = self.len();
    }

    pub(in crate::tier) fn memory_bytes(&self) -> usize {
        // A node of the set has room for eleven and is two thirds full.
        self.owners.capacity() * size_of::<u32>() + self.free.len() * 2 * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[derive(Debug, Clone)]
    enum Step {
        Insert,
        Release(usize),
        Compact,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            3 => Just(Step::Insert),
            2 => any::<usize>().prop_map(Step::Release),
            1 => Just(Step::Compact),
        ];
        prop::collection::vec(step, 0..200)
    }

    proptest! {
        #[test]
        fn no_cell_has_two_objects_and_compaction_leaves_no_free_one(steps in steps()) {
            let (mut cells, mut model, mut next) = (Cells::default(), BTreeMap::new(), 0);
            for step in steps {
                match step {
                    Step::Insert => {
                        let cell = cells.reserve_free().or_else(|| cells.append()).unwrap();
                        cells.assign(cell, next);
                        prop_assert!(model.insert(cell, next).is_none());
                        next += 1;
                    }
                    Step::Release(at) => {
                        if let Some(&cell) = model.keys().nth(at % model.len().max(1)) {
                            model.remove(&cell);
                            cells.release(cell);
                        }
                    }
                    Step::Compact => {
                        let (mut end, mut left) = (u32::MAX, Vec::new());
                        while let Some(Move { slot, from, to }) = cells.next_move(end) {
                            prop_assert!(to < from && from < end);
                            prop_assert_eq!(model.remove(&from), Some(slot));
                            prop_assert!(model.insert(to, slot).is_none());
                            cells.assign(to, slot);
                            cells.leave(from);
                            left.push(from);
                            end = from;
                        }
                        left.into_iter().for_each(|cell| cells.release(cell));
                        cells.trim();
                        prop_assert_eq!((cells.len(), cells.free()), (model.len() as u32, 0));
                    }
                }
                prop_assert_eq!(cells.len() - cells.free(), model.len() as u32);
                let mut slots = cells.slots();
                slots.sort_unstable();
                let mut expected: Vec<u32> = model.values().copied().collect();
                expected.sort_unstable();
                prop_assert_eq!(slots, expected);
            }
        }
    }

    #[test]
    fn a_reserved_cell_is_neither_moved_nor_cut_off() {
        let mut cells = Cells::default();
        let [first, last] = [cells.append().unwrap(), cells.append().unwrap()];
        cells.release(first);
        assert_eq!(cells.next_move(u32::MAX), None);
        cells.trim();
        assert_eq!((cells.len(), cells.free()), (2, 1));
        cells.assign(last, 7);
        assert_eq!(cells.next_move(1), None);
        assert_eq!(cells.next_move(u32::MAX), Some(Move { slot: 7, from: 1, to: 0 }));
    }

    #[test]
    fn a_cell_that_two_objects_claim_is_told_of() {
        let mut cells = Cells::default();
        assert_eq!(cells.claim(2, 5), Claim::Granted);
        assert_eq!(cells.claim(2, 6), Claim::TakenBy(5));
        assert_eq!(cells.claim(0, 7), Claim::Granted);
        cells.claimed();
        assert_eq!((cells.len(), cells.free(), cells.charged()), (3, 1, 3));
        assert_eq!(cells.reserve_free(), Some(1));
    }
}
