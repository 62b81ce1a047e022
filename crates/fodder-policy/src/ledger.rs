//! Which planned items a job has acknowledged as consumed in one epoch.
//!
//! One bitset over the positions of the plan, and for each rank the batches that were delivered and not yet
//! acknowledged: asking for one of those again gets the same answer and is no duplicate. What is acknowledged goes into
//! checkpoints; what is not is given out again after a resume. The ledger does not choose items (serving does); it makes
//! what was chosen honest.

mod account;
pub mod checkpoint;
mod codec;
mod lane;

pub use account::Audit;
pub use checkpoint::Checkpoint;

use crate::{
    Error, Result,
    bits::Bits,
    plan::{Deal, Plan, Rest, Slice},
    serving::{Kind, Served},
};
use account::{Account, Base};
use lane::{Batch, Displacement, Lane};
use std::sync::Arc;

/// The ledger of one job and epoch.
#[derive(Debug)]
pub struct Ledger {
    account: Account,
    /// What the account was when these ranks began.
    base: Base,
    lanes: Box<[Lane]>,
    unacknowledged: u64,
}

impl Ledger {
    /// An epoch in which nothing was consumed yet.
    pub fn new(deal: &Deal) -> Self {
        Self::with(Account::new(deal.plan().len()), deal)
    }

    /// An epoch that goes on from a checkpoint; the deal is what that left.
    pub fn resume(checkpoint: Checkpoint, deal: &Deal) -> Self {
        Self::with(checkpoint.into_account(), deal)
    }

    fn with(account: Account, deal: &Deal) -> Self {
        let lanes = (0..deal.share().world()).map(|_| Lane::default()).collect();
        Self { base: account.base(), account, lanes, unacknowledged: 0 }
    }

    /// The number that a rank's next new batch will have.
    pub fn next_number(&self, rank: u32) -> Result<u64> {
        Ok(self.lane(rank)?.next_number())
    }

    /// What was delivered as a batch, if it was. Refuses a batch that was acknowledged, or was asked with another count.
    pub fn given(&self, rank: u32, number: u64, count: u32) -> Result<Option<Arc<[Served]>>> {
        let lane = self.lane(rank)?;
        match lane.batch(number) {
            Some(batch) if !batch.acknowledged && batch.count == count => Ok(Some(Arc::clone(&batch.items))),
            Some(batch) if !batch.acknowledged => Err(Error::Conflict(format!(
                "batch {number} of rank {rank} was asked with {} items and now with {count}: ask again with the same count",
                batch.count
            ))),
            None if number >= lane.next_number() => Ok(None),
            _ => Err(Error::Conflict(format!(
                "batch {number} of rank {rank} was acknowledged as consumed: ask for batch {}",
                lane.next_number()
            ))),
        }
    }

    /// Notes that a rank's next batch was delivered: `count` were asked for, `items` is the answer.
    pub fn deliver(&mut self, slice: &Slice<'_>, count: u32, items: Arc<[Served]>) -> Result<()> {
        let lane = self.lane_mut(slice.rank())?;
        let mut displacement = Displacement::default();
        for (ordinal, item) in (lane.delivered()..).zip(items.iter()) {
            if item.kind == Kind::Reordered {
                let index = slice.index_of(item.asked).unwrap_or(ordinal);
                displacement.add(index.abs_diff(ordinal));
            }
        }
        let len = items.len() as u64;
        lane.push(Batch { count, items, displacement, acknowledged: false });
        self.unacknowledged += len;
        Ok(())
    }

    /// A rank has consumed a batch; false if it had said so before. Refuses a batch that was not delivered.
    pub fn acknowledge(&mut self, plan: &Plan, rank: u32, number: u64) -> Result<bool> {
        let lane = self.lane_mut(rank)?;
        let next = lane.next_number();
        if number >= next {
            return Err(Error::NotFound(format!(
                "batch {number} of rank {rank} was not delivered (the next is {next}): acknowledge what was received"
            )));
        }
        let Some((items, displacement)) = lane.acknowledge(number) else { return Ok(false) };
        self.unacknowledged -= items.len() as u64;
        self.account.consume(plan, &items, displacement);
        Ok(true)
    }

    /// An item was consumed that was not delivered in a batch; false if it had been consumed before, which counts as a
    /// duplicate, or is not planned.
    pub fn consume(&mut self, plan: &Plan, id: u32) -> bool {
        let before = self.account.consumed.count();
        if plan.contains(id) {
            self.account.consume(plan, &[Served::planned(id)], Displacement::default());
        }
        self.account.consumed.count() > before
    }

    /// How many planned items were consumed.
    pub fn consumed(&self) -> u32 {
        self.account.consumed.count()
    }

    /// How many items were delivered and not acknowledged.
    pub fn unacknowledged(&self) -> u64 {
        self.unacknowledged
    }

    /// Whether the item at a position of the plan was consumed.
    pub fn is_consumed(&self, position: u32) -> bool {
        self.account.consumed.contains(position)
    }

    /// How many items a rank was delivered in all.
    pub fn delivered_to(&self, rank: u32) -> Result<u32> {
        Ok(self.lane(rank)?.delivered())
    }

    /// The positions of the plan that were neither consumed nor delivered.
    pub fn undelivered(&self, plan: &Plan) -> Rest {
        let mut taken: Bits = self.account.consumed.clone();
        for item in self.lanes.iter().flat_map(Lane::unacknowledged).filter(|item| item.kind != Kind::Pad) {
            if let Some(position) = plan.position_of(item.asked) {
                taken.insert(position);
            }
        }
        Rest::without(&taken)
    }

    /// What the epoch has come to so far, and at its end what it was.
    pub fn audit(&self, deal: &Deal) -> Audit {
        self.account.audit(deal.dropped())
    }

    /// What is needed to go on from here.
    pub fn checkpoint(&self, plan: &Plan) -> Checkpoint {
        Checkpoint::new(plan, self.account.clone(), self.base)
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> usize {
        let lanes = self.lanes.iter().map(Lane::heap_bytes).sum::<usize>();
        size_of::<Self>() + self.account.heap_bytes() + size_of_val(&*self.lanes) + lanes
    }

    fn lane(&self, rank: u32) -> Result<&Lane> {
        self.lanes.get(rank as usize).ok_or_else(|| no_rank(rank, self.lanes.len()))
    }

    fn lane_mut(&mut self, rank: u32) -> Result<&mut Lane> {
        let world = self.lanes.len();
        self.lanes.get_mut(rank as usize).ok_or_else(|| no_rank(rank, world))
    }
}

fn no_rank(rank: u32, world: usize) -> Error {
    Error::Invalid(format!("there is no rank {rank} in a job of {world} ranks, which are counted from 0"))
}

#[cfg(test)]
mod tests;
