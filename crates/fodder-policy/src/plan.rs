//! The order in which a job asks for items in one epoch, and how ranks share it.
//!
//! A [`Plan`] is the whole epoch's order: seeded (a hundred bytes at any size) or listed. A [`Rest`] says what of it is
//! still to be given out, a [`Share`] among how many ranks, and a [`Deal`] is all three: from it each rank sees its
//! [`Slice`]. Nothing here knows of caches, batches or time.

mod deal;
#[cfg(any(test, feature = "testing"))]
pub mod generate;
mod listed;
mod needed;
mod rest;
mod share;

pub use deal::{Deal, Place, Slice, Spot};
pub use needed::Needed;
pub use rest::Rest;
pub use share::{Share, Uneven};

use crate::{Result, permutation::Permutation};
use listed::Listed;
use std::sync::Arc;

/// A sealed listing of a dataset, as far as plans care: which one it is and how many items it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Snapshot {
    /// Tells it from every other snapshot (part of its hash). Checkpoints name it.
    pub fingerprint: u64,
    /// How many items it has; their ids are the numbers below.
    pub items: u32,
}

/// How a job says in which order it will ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// Every item once, permuted by this seed and the number of the epoch.
    Seed(u64),
    /// These items in this order, each at most once. They need not be all: importance sampling selects.
    Ids(Arc<[u32]>),
}

/// The order of one epoch.
#[derive(Debug, Clone)]
pub struct Plan {
    snapshot: Snapshot,
    epoch: u64,
    order: Kept,
}

/// The order, ready to be looked up in both directions.
#[derive(Debug, Clone)]
enum Kept {
    Seeded { seed: u64, permutation: Permutation },
    Listed(Arc<Listed>),
}

impl Plan {
    /// Plans an epoch. A list with an id twice, or with one that the snapshot does not have, is refused; to find that out
    /// takes time in proportion to its length.
    pub fn new(snapshot: Snapshot, epoch: u64, order: Order) -> Result<Self> {
        let order = match order {
            Order::Seed(seed) => Kept::Seeded { seed, permutation: Permutation::new(snapshot.items, seed, epoch) },
            Order::Ids(ids) => Kept::Listed(Arc::new(Listed::new(snapshot.items, ids)?)),
        };
        Ok(Self { snapshot, epoch, order })
    }

    /// The snapshot it is about.
    pub fn snapshot(&self) -> Snapshot {
        self.snapshot
    }

    /// The epoch it is for.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// How many items are planned.
    pub fn len(&self) -> u32 {
        match &self.order {
            Kept::Seeded { permutation, .. } => permutation.len(),
            Kept::Listed(listed) => listed.ids().len() as u32,
        }
    }

    /// Whether nothing is planned.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The item at a position. None past the end.
    pub fn at(&self, position: u32) -> Option<u32> {
        match &self.order {
            Kept::Seeded { permutation, .. } => permutation.at(position),
            Kept::Listed(listed) => listed.ids().get(position as usize).copied(),
        }
    }

    /// The position of an item. None if it is not planned.
    pub fn position_of(&self, id: u32) -> Option<u32> {
        match &self.order {
            Kept::Seeded { permutation, .. } => permutation.position_of(id),
            Kept::Listed(listed) => listed.position_of(id),
        }
    }

    /// Whether an item is planned: cheaper than to ask where.
    pub fn contains(&self, id: u32) -> bool {
        match &self.order {
            Kept::Seeded { permutation, .. } => id < permutation.len(),
            Kept::Listed(listed) => listed.contains(id),
        }
    }

    /// The seed, if it is by seed.
    pub fn seed(&self) -> Option<u64> {
        match self.order {
            Kept::Seeded { seed, .. } => Some(seed),
            Kept::Listed(_) => None,
        }
    }

    /// The ids in order, if they were listed.
    pub fn ids(&self) -> Option<&Arc<[u32]>> {
        match &self.order {
            Kept::Seeded { .. } => None,
            Kept::Listed(listed) => Some(listed.ids()),
        }
    }

    /// How it was given.
    pub fn order(&self) -> Order {
        match &self.order {
            Kept::Seeded { seed, .. } => Order::Seed(*seed),
            Kept::Listed(listed) => Order::Ids(Arc::clone(listed.ids())),
        }
    }

    /// Whether it is what an order gives.
    pub fn follows(&self, order: &Order) -> bool {
        match order {
            Order::Seed(seed) => self.seed() == Some(*seed),
            Order::Ids(ids) => self.ids().is_some_and(|mine| Arc::ptr_eq(mine, ids) || mine == ids),
        }
    }

    /// Whether both were given alike, for the same epoch. Lists are compared by their fingerprints.
    pub fn is_like(&self, other: &Self) -> bool {
        let kind = |plan: &Self| (plan.epoch, plan.seed(), plan.fingerprint(), plan.ids().map(|ids| ids.len()));
        kind(self) == kind(other)
    }

    /// Tells this order from others: the seed, or a hash of the list.
    pub fn fingerprint(&self) -> u64 {
        match &self.order {
            Kept::Seeded { seed, .. } => *seed,
            Kept::Listed(listed) => listed.fingerprint(),
        }
    }

    /// The plan of the epoch after it, where that is known already: a seed plans all epochs.
    pub fn following(&self) -> Option<Self> {
        let order = Order::Seed(self.seed()?);
        Self::new(self.snapshot, self.epoch.checked_add(1)?, order).ok()
    }

    /// Bytes it holds on the heap.
    pub fn heap_bytes(&self) -> usize {
        match &self.order {
            Kept::Seeded { .. } => 0,
            Kept::Listed(listed) => listed.heap_bytes(),
        }
    }
}

impl PartialEq for Plan {
    /// Whether both give the same order of the same items.
    fn eq(&self, other: &Self) -> bool {
        self.snapshot == other.snapshot && self.is_like(other)
    }
}

impl Eq for Plan {}

#[cfg(test)]
mod tests;
