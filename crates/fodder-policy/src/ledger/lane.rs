//! The batches of one rank that were delivered and not yet acknowledged.

use super::stint::StintId;
use crate::serving::Served;
use std::{collections::VecDeque, sync::Arc};

/// The batches of one rank, by number.
#[derive(Debug, Default)]
pub(super) struct Lane {
    /// The number of the first batch that is kept; those before it were acknowledged.
    first: u64,
    batches: VecDeque<Batch>,
    /// How many items were delivered in all.
    delivered: u32,
    /// Where what it consumes is noted, once the rank is here.
    pub(super) stint: Option<StintId>,
}

/// A batch that was delivered.
#[derive(Debug)]
pub(super) struct Batch {
    /// How many items were asked for.
    pub(super) count: u32,
    pub(super) items: Arc<[Served]>,
    pub(super) displacement: Displacement,
    /// It is kept only because one before it is not acknowledged; its items are not kept.
    pub(super) acknowledged: bool,
}

/// How far the items of a batch were delivered from their places.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Displacement {
    pub(super) sum: u64,
    pub(super) max: u64,
}

impl Displacement {
    pub(super) fn add(&mut self, distance: u32) {
        self.sum += u64::from(distance);
        self.max = self.max.max(u64::from(distance));
    }
}

impl Lane {
    /// Nothing delivered yet in a stint.
    pub(super) fn of(stint: StintId) -> Self {
        Self { stint: Some(stint), ..Self::default() }
    }

    pub(super) fn next_number(&self) -> u64 {
        self.first + self.batches.len() as u64
    }

    pub(super) fn delivered(&self) -> u32 {
        self.delivered
    }

    /// The batch of a number, if it is kept.
    pub(super) fn batch(&self, number: u64) -> Option<&Batch> {
        self.batches.get(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    pub(super) fn push(&mut self, batch: Batch) {
        self.delivered += batch.items.len() as u32;
        self.batches.push_back(batch);
    }

    /// Gives up a batch that is acknowledged; None if it was before.
    pub(super) fn acknowledge(&mut self, number: u64) -> Option<(Arc<[Served]>, Displacement)> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let batch = self.batches.get_mut(index).filter(|batch| !batch.acknowledged)?;
        batch.acknowledged = true;
        let given = (std::mem::take(&mut batch.items), batch.displacement);
        while self.batches.front().is_some_and(|batch| batch.acknowledged) {
            self.batches.pop_front();
            self.first += 1;
        }
        Some(given)
    }

    /// All items that were delivered and not acknowledged.
    pub(super) fn unacknowledged(&self) -> impl Iterator<Item = &Served> {
        self.batches.iter().flat_map(|batch| batch.items.iter())
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let items = self.batches.iter().map(|batch| size_of_val(&*batch.items)).sum::<usize>();
        self.batches.capacity() * size_of::<Batch>() + items
    }
}
