//! What is left of a plan, dealt out to ranks.

use super::{Plan, Rest, Share};
use std::sync::Arc;

/// A plan, what of it is to be given out, and among how many ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deal {
    plan: Arc<Plan>,
    rest: Rest,
    share: Share,
}

/// Whose an item is, and where among its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spot {
    /// The rank.
    pub rank: u32,
    /// The index in the rank's slice.
    pub index: u32,
}

impl Deal {
    /// Deals the rest of a plan out to ranks.
    pub fn new(plan: Arc<Plan>, rest: Rest, share: Share) -> Self {
        Self { plan, rest, share }
    }

    /// All of a plan for one rank.
    pub fn whole(plan: Plan) -> Self {
        let rest = Rest::whole(plan.len());
        Self::new(Arc::new(plan), rest, Share::WHOLE)
    }

    /// The plan.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// The positions that are dealt out.
    pub fn rest(&self) -> &Rest {
        &self.rest
    }

    /// Among how many, and how evenly.
    pub fn share(&self) -> Share {
        self.share
    }

    /// What a rank gets.
    pub fn slice(&self, rank: u32) -> Slice<'_> {
        Slice { deal: self, rank }
    }

    /// Who gets an item, pads aside. None if nobody does.
    pub fn spot_of(&self, id: u32) -> Option<Spot> {
        self.spot_at(self.plan.position_of(id)?)
    }

    /// Who gets the item at a position of the plan. None if nobody does.
    pub fn spot_at(&self, position: u32) -> Option<Spot> {
        let place = self.rest.index_of(position)?;
        let (rank, index) = self.share.holder(place, self.rest.len())?;
        Some(Spot { rank, index })
    }

    /// How many items no rank gets, because they do not divide.
    pub fn dropped(&self) -> u32 {
        self.share.dropped(self.rest.len())
    }
}

/// What one rank sees: its own items, in order, by index.
#[derive(Debug, Clone, Copy)]
pub struct Slice<'a> {
    deal: &'a Deal,
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
    /// Whose it is.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// What it is a part of.
    pub fn deal(&self) -> &'a Deal {
        self.deal
    }

    /// How many items the rank has.
    pub fn len(&self) -> u32 {
        self.deal.share.len(self.rank, self.deal.rest.len())
    }

    /// Whether the rank has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the rank has at an index. None past the end.
    pub fn at(&self, index: u32) -> Option<Place> {
        let Deal { plan, rest, share } = self.deal;
        let (place, pad) = share.place(self.rank, index, rest.len())?;
        let id = rest.at(place).and_then(|position| plan.at(position))?;
        Some(Place { id, pad })
    }

    /// The index at which the rank has an item, pads aside. None if it is not the rank's.
    pub fn index_of(&self, id: u32) -> Option<u32> {
        self.deal.spot_of(id).filter(|spot| spot.rank == self.rank).map(|spot| spot.index)
    }
}
