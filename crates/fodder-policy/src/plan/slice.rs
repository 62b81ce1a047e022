//! What one rank sees of a plan: its own items, in order, by index.

use super::{Plan, Rest, Share};

/// One rank's part of what is left of a plan. A view: O(1) to make, O(1) or O(log n) to ask.
#[derive(Debug, Clone, Copy)]
pub struct Slice<'a> {
    plan: &'a Plan,
    rest: &'a Rest,
    share: Share,
    rank: u32,
}

/// What a rank has at an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The item.
    pub id: u32,
    /// Whether another rank has it as well: it is there only to make ranks even.
    pub pad: bool,
}

impl<'a> Slice<'a> {
    /// What `rank` has of the rest of a plan.
    pub fn new(plan: &'a Plan, rest: &'a Rest, share: Share, rank: u32) -> Self {
        Self { plan, rest, share, rank }
    }

    /// Whose it is.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// The plan it is a part of.
    pub fn plan(&self) -> &'a Plan {
        self.plan
    }

    /// How many items the rank has.
    pub fn len(&self) -> u32 {
        self.share.len(self.rank, self.rest.len())
    }

    /// Whether the rank has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the rank has at an index. None past the end.
    pub fn at(&self, index: u32) -> Option<Place> {
        let (place, pad) = self.share.place(self.rank, index, self.rest.len())?;
        let id = self.rest.at(place).and_then(|position| self.plan.at(position))?;
        Some(Place { id, pad })
    }

    /// The index at which the rank has an item, pads aside. None if it is not the rank's.
    pub fn index_of(&self, id: u32) -> Option<u32> {
        let place = self.rest.index_of(self.plan.position_of(id)?)?;
        let (rank, index) = self.share.holder(place, self.rest.len())?;
        (rank == self.rank).then_some(index)
    }
}
