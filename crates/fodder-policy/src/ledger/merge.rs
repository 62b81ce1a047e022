//! What others say of the ledger: stints are told, learnt and begun, so that every node's ledger is about all ranks.

use super::{
    Lane, Ledger,
    codec::damaged,
    stint::{Slip, Stint, StintId, Writer},
};
use crate::{
    Error, Result,
    plan::{Deal, Slice},
    serving::Spent,
};

/// How many stints one rank may have in an epoch, and how many nodes may be read from by id.
const MAX_STINTS: usize = 256;

/// What a slip told that was not known.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct News {
    /// Positions of the plan that are consumed.
    pub(crate) consumed: Vec<u32>,
    /// Indices of the rank's slice that it has consumed elsewhere.
    pub(crate) taken: Vec<u32>,
    /// Substitutes that it has seen elsewhere.
    pub(crate) spent: Spent,
}

impl Ledger {
    /// From now on what is written here is told apart by this salt from what other nodes write.
    pub fn signed(mut self, salt: u64) -> Self {
        self.salt = salt;
        self
    }

    /// What writers have consumed, to be learnt elsewhere: of one rank, or of all; only what has changed here since it was
    /// last asked for so, or everything.
    pub(crate) fn slips(&mut self, rank: Option<u32>, only_news: bool) -> Vec<Slip> {
        let wanted = |writer: &Writer| rank.is_none() || writer.rank == rank;
        let stints = self.stints.iter_mut().filter(|(writer, stint)| wanted(writer) && (stint.untold || !only_news));
        let told = stints.map(|(&writer, stint)| {
            stint.untold &= !only_news;
            Slip { writer, state: stint.encode() }
        });
        told.collect()
    }

    /// Whether something has changed here since it was last told.
    pub(crate) fn has_news(&self) -> bool {
        self.stints.values().any(|stint| stint.untold)
    }

    /// Takes over what a writer has consumed, as somebody else tells it. Idempotent, and the same in any order.
    pub(crate) fn learn(&mut self, deal: &Deal, slip: &Slip) -> Result<News> {
        let slice = match slip.writer.rank {
            Some(rank) if rank as usize >= self.lanes.len() => return Err(damaged()),
            rank => rank.map(|rank| deal.slice(rank)),
        };
        let bound = slice.map_or(deal.rest().len(), |slice| slice.len());
        let told = Stint::decode(&slip.state, bound, deal.plan().snapshot())?;
        if !self.stints.contains_key(&slip.writer) && self.stints_of(slip.writer.rank).count() >= MAX_STINTS {
            return Err(Error::Full(format!("one rank was at more than {MAX_STINTS} nodes in an epoch")));
        }
        let stint = self.stints.entry(slip.writer).or_insert_with(|| Stint { untold: false, ..Stint::new(bound) });
        let taken = stint.taken.missing(&told.taken);
        let mut consumed = Vec::new();
        for &index in &taken {
            stint.taken.insert(index);
            match position(deal, slice, index) {
                Some(position) if self.consumed.insert(position) => consumed.push(position),
                Some(_) => {}
                None => stint.pads += 1,
            }
        }
        Ok(News { consumed, taken, spent: stint.join(&told) })
    }

    /// Whether anything is known of a writer.
    pub(crate) fn knows(&self, writer: &Writer) -> bool {
        self.stints.contains_key(writer)
    }

    /// A rank has consumed these items, though it never heard that its node took note: in the stint that it was in then.
    pub(crate) fn claim(&mut self, deal: &Deal, rank: u32, stint: StintId, ids: &[u32]) -> Result<News> {
        let (slice, writer) = (deal.slice(rank), Writer { rank: Some(rank), stint });
        let mut told = Stint::new(slice.len());
        for &id in ids {
            told.taken.insert(index_of(&slice, id).ok_or_else(|| {
                Error::Invalid(format!("item {id} does not belong to rank {rank} in this epoch: report only items that were delivered to it"))
            })?);
        }
        let news = self.learn(deal, &Slip { writer, state: told.encode() })?;
        self.stints.entry(writer).and_modify(|stint| stint.untold = true);
        Ok(news)
    }

    /// A rank is here: from now on its batches are noted in a stint of this node. If it was at another node since it was
    /// last here, it begins anew: what had been delivered here and is not consumed is given up, and returned. A rank that was
    /// done when it had `left` this stint is back in another one.
    pub(crate) fn attend(&mut self, deal: &Deal, rank: u32, left: Option<StintId>) -> Result<Option<Vec<u32>>> {
        let (before, last) = (self.lane(rank)?.stint, self.last_stint(rank));
        if before.is_some() && before == last && left != last {
            return Ok(None);
        }
        let stint = self.next_stint(deal, rank)?;
        if before.is_none() || before == last {
            self.lane_mut(rank)?.stint = Some(stint);
            return Ok(None);
        }
        self.begin_anew(deal, rank, stint).map(Some)
    }

    /// A rank begins anew here, whether it was elsewhere or not: as [`attend`](Self::attend).
    pub(crate) fn restart(&mut self, deal: &Deal, rank: u32) -> Result<Option<Vec<u32>>> {
        let lane = self.lane(rank)?;
        if lane.next_number() == 0 && lane.stint.is_some() && lane.stint == self.last_stint(rank) {
            return Ok(None);
        }
        let stint = self.next_stint(deal, rank)?;
        self.begin_anew(deal, rank, stint).map(Some)
    }

    fn next_stint(&mut self, deal: &Deal, rank: u32) -> Result<StintId> {
        let last = self.last_stint(rank).map_or(0, |last| last.ordinal);
        let ordinal = last.checked_add(1).filter(|_| self.stints_of(Some(rank)).count() < 2 * MAX_STINTS);
        let ordinal = ordinal.ok_or_else(|| {
            Error::Full(format!("rank {rank} was at too many nodes in this epoch: resume the job from a checkpoint"))
        })?;
        let stint = StintId { ordinal, salt: self.salt };
        self.stints.insert(Writer { rank: Some(rank), stint }, Stint::new(deal.slice(rank).len()));
        Ok(stint)
    }

    fn begin_anew(&mut self, deal: &Deal, rank: u32, stint: StintId) -> Result<Vec<u32>> {
        let before = std::mem::replace(self.lane_mut(rank)?, Lane::of(stint));
        self.unacknowledged -= before.unacknowledged().count() as u64;
        let slice = deal.slice(rank);
        Ok(before.unacknowledged().filter_map(|item| index_of(&slice, item.asked)).collect())
    }

    /// Whether a rank has consumed what its slice has at an index, at any node.
    pub(crate) fn has_taken(&self, rank: u32, index: u32) -> bool {
        self.stints_of(Some(rank)).any(|(_, stint)| stint.taken.contains(index))
    }

    /// The stint that a rank is in at this node.
    pub(crate) fn stint_here(&self, rank: u32) -> Option<StintId> {
        self.lane(rank).ok()?.stint
    }

    /// The newest stint of a rank, at whatever node.
    pub(crate) fn last_stint(&self, rank: u32) -> Option<StintId> {
        self.stints_of(Some(rank)).next_back().map(|(writer, _)| writer.stint)
    }

    fn stints_of(&self, rank: Option<u32>) -> impl DoubleEndedIterator<Item = (&Writer, &Stint)> {
        self.stints.range(span(rank))
    }
}

/// All stints of a rank.
fn span(rank: Option<u32>) -> std::ops::RangeInclusive<Writer> {
    let stint = |number: u32| StintId { ordinal: number, salt: if number == 0 { 0 } else { u64::MAX } };
    Writer { rank, stint: stint(0) }..=Writer { rank, stint: stint(u32::MAX) }
}

/// The position of the plan that an index of a slice means, or of all that is dealt out. None for a pad.
fn position(deal: &Deal, slice: Option<Slice<'_>>, index: u32) -> Option<u32> {
    match slice {
        None => deal.rest().at(index),
        Some(slice) => {
            let (place, pad) = deal.share().place(slice.rank(), index, deal.rest().len())?;
            deal.rest().at(place).filter(|_| !pad)
        }
    }
}

/// Where a rank's slice has an item, its pad included, which comes last.
pub(super) fn index_of(slice: &Slice<'_>, id: u32) -> Option<u32> {
    slice.index_of(id).or_else(|| {
        let last = slice.len().checked_sub(1)?;
        slice.at(last).filter(|place| place.pad && place.id == id).map(|_| last)
    })
}

#[cfg(test)]
mod tests;
