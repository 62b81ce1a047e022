//! Which planned items a job has acknowledged as consumed in one epoch.
//!
//! One bitset over the positions of the plan; for each rank the batches that were delivered here and not yet
//! acknowledged (asking for one of those again gets the same answer and is no duplicate); and for each writer what it has
//! consumed. A rank is the only one whose consumption changes its stints, so what nodes know of them is merged by union, and
//! counts follow from that. What is acknowledged goes into checkpoints; what is not is given out again after a resume. The
//! ledger does not choose items (serving does); it makes what was chosen honest.

mod account;
pub mod checkpoint;
pub(crate) mod codec;
mod lane;
mod merge;
mod stint;

pub use account::Audit;
pub use checkpoint::Checkpoint;
pub(crate) use merge::News;
pub use stint::{Slip, StintId, Writer};

use crate::{
    Error, Result,
    bits::Bits,
    plan::{Deal, Plan, Rest, Slice},
    serving::{Kind, Served},
};
use account::{Account, Base};
use lane::{Batch, Displacement, Lane};
use std::{collections::BTreeMap, sync::Arc};
use stint::Stint;

/// The ledger of one job and epoch.
#[derive(Debug)]
pub struct Ledger {
    /// Positions of the plan that were consumed by anybody.
    consumed: Bits,
    /// What the account was when these ranks began.
    base: Base,
    base_stood_in: BTreeMap<u32, u32>,
    /// What each writer has consumed since.
    stints: BTreeMap<Writer, Stint>,
    /// Tells what is written here from what is written elsewhere.
    salt: u64,
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
        Self {
            base: Base { consumed: account.consumed.count(), tally: account.tally },
            consumed: account.consumed,
            base_stood_in: account.stood_in,
            stints: BTreeMap::new(),
            salt: 0,
            lanes,
            unacknowledged: 0,
        }
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
                "batch {number} of rank {rank} was requested with a count of {} and now with {count}: use the same count",
                batch.count
            ))),
            None if number >= lane.next_number() => Ok(None),
            _ => Err(Error::Conflict(format!(
                "batch {number} of rank {rank} is already acknowledged: ask for batch {}",
                lane.next_number()
            ))),
        }
    }

    /// Notes that a rank's next batch was delivered: `count` were asked for, `items` is the answer.
    pub fn deliver(&mut self, slice: &Slice<'_>, count: u32, items: Arc<[Served]>) -> Result<()> {
        let ordinal = self.lane(slice.rank())?.delivered();
        self.deliver_from(slice, ordinal, count, items)
    }

    /// The same for a rank that had been given so many items before, here or elsewhere.
    pub(crate) fn deliver_from(
        &mut self,
        slice: &Slice<'_>,
        ordinal: u32,
        count: u32,
        items: Arc<[Served]>,
    ) -> Result<()> {
        if self.lane(slice.rank())?.stint.is_none() {
            self.attend(slice.deal(), slice.rank(), None)?;
        }
        let lane = self.lane_mut(slice.rank())?;
        let mut displacement = Displacement::default();
        for (ordinal, item) in (ordinal..).zip(items.iter()) {
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
    pub fn acknowledge(&mut self, deal: &Deal, rank: u32, number: u64) -> Result<bool> {
        let lane = self.lane_mut(rank)?;
        let next = lane.next_number();
        if number >= next {
            return Err(Error::NotFound(format!(
                "batch {number} of rank {rank} was not delivered (the next is {next}): acknowledge only batches that were received"
            )));
        }
        let stint = lane.stint.expect("what was delivered is noted in a stint");
        let Some((items, displacement)) = lane.acknowledge(number) else { return Ok(false) };
        self.unacknowledged -= items.len() as u64;
        let slice = deal.slice(rank);
        let stint = self.stints.get_mut(&Writer { rank: Some(rank), stint }).expect("a lane's stint is kept");
        for item in items.iter() {
            let first = merge::index_of(&slice, item.asked).is_some_and(|index| stint.taken.insert(index));
            match item.kind {
                Kind::Pad => stint.pads += u64::from(first),
                Kind::Planned | Kind::Reordered | Kind::Substituted => {
                    deal.plan().position_of(item.asked).map(|position| self.consumed.insert(position));
                }
            }
            if item.kind == Kind::Substituted && first {
                stint.substitutions = stint.substitutions.saturating_add(1);
                let times = stint.stood_in.entry(item.served).or_default();
                *times = times.saturating_add(1);
            }
        }
        stint.displacement_sum = stint.displacement_sum.saturating_add(displacement.sum);
        stint.displacement_max = stint.displacement_max.max(displacement.max);
        stint.untold = true;
        Ok(true)
    }

    /// An item was consumed that was not delivered in a batch; false if it had been consumed before, which counts as a
    /// duplicate, or is not planned.
    pub fn consume(&mut self, deal: &Deal, id: u32) -> bool {
        let Some(position) = deal.plan().position_of(id) else { return false };
        let writer = Writer { rank: None, stint: StintId { ordinal: 0, salt: self.salt } };
        let stint = self.stints.entry(writer).or_insert_with(|| Stint::new(deal.rest().len()));
        let first = deal.rest().index_of(position).is_some_and(|index| stint.taken.insert(index));
        stint.repeats = stint.repeats.saturating_add(u64::from(!first));
        stint.untold = true;
        self.consumed.insert(position)
    }

    /// How many planned items were consumed.
    pub fn consumed(&self) -> u32 {
        self.consumed.count()
    }

    /// How many items were delivered and not acknowledged.
    pub fn unacknowledged(&self) -> u64 {
        self.unacknowledged
    }

    /// Whether the item at a position of the plan was consumed.
    pub fn is_consumed(&self, position: u32) -> bool {
        self.consumed.contains(position)
    }

    /// The positions of the plan that were neither consumed nor delivered.
    pub fn undelivered(&self, plan: &Plan) -> Rest {
        let mut taken: Bits = self.consumed.clone();
        for item in self.lanes.iter().flat_map(Lane::unacknowledged).filter(|item| item.kind != Kind::Pad) {
            if let Some(position) = plan.position_of(item.asked) {
                taken.insert(position);
            }
        }
        Rest::without(&taken)
    }

    /// What the epoch has come to so far, and at its end what it was.
    pub fn audit(&self, deal: &Deal) -> Audit {
        account::audit(&self.consumed, self.tally(), deal.dropped())
    }

    /// What is needed to go on from here.
    pub fn checkpoint(&self, plan: &Plan) -> Checkpoint {
        let mut stood_in = self.base_stood_in.clone();
        for (&id, &times) in self.stints.values().flat_map(|stint| &stint.stood_in) {
            let all = stood_in.entry(id).or_default();
            *all = all.saturating_add(times);
        }
        let account = Account { consumed: self.consumed.clone(), tally: self.tally(), stood_in };
        Checkpoint::new(plan, account, self.base)
    }

    /// How many of what, by all writers. What more than one of them has consumed is a duplicate.
    fn tally(&self) -> account::Tally {
        let firsts = self.stints.values().fold(0, |firsts: u64, stint| firsts.saturating_add(stint.firsts()));
        let mut tally = self.stints.values().fold(self.base.tally, account::Tally::with);
        let more = firsts.saturating_sub(u64::from(self.consumed.count().saturating_sub(self.base.consumed)));
        tally.duplicates = tally.duplicates.saturating_add(more);
        tally
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> usize {
        let lanes = self.lanes.iter().map(Lane::heap_bytes).sum::<usize>();
        let stints = self.stints.values().map(Stint::heap_bytes).sum::<usize>();
        let stood_in = self.base_stood_in.len() * 2 * size_of::<(u32, u32)>();
        size_of::<Self>() + self.consumed.heap_bytes() + stood_in + size_of_val(&*self.lanes) + lanes + stints
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
    Error::Invalid(format!("no rank {rank}: the job has {world} ranks, numbered from 0"))
}

#[cfg(test)]
mod tests;
