//! One epoch of one job: what is dealt, who answers, what is noted.

use super::{BatchRequest, Effect, Upcoming, pace::Pace};
use crate::{
    Error, Result,
    bits::Bits,
    ledger::{Audit, Checkpoint, Ledger, News, Slip, StintId},
    plan::{Deal, Needed, Plan, Rest},
    serving::{Kind, Look, Mode, Served, Serving, Spent},
};
use std::sync::Arc;

/// How many batches ahead of the next one a rank may ask for: its workers, and what each of them prefetches.
const MAX_AHEAD: u64 = 1_024;

/// How many planned items that were given already one look ahead passes over.
const MAX_PASSED: u32 = 4_096;

/// Items that were consumed elsewhere and are told one by one; more are told as a whole.
const MAX_SINGLE: usize = 4_096;

/// An epoch that ranks are in.
#[derive(Debug)]
pub(super) struct Epoch {
    pub(super) deal: Deal,
    pub(super) ledger: Ledger,
    pub(super) serving: Box<dyn Serving>,
    /// The order of the epoch after it, where the plan says.
    following: Option<Plan>,
    /// How many items the job had planned before this epoch's first.
    start: u64,
    /// How many of its items were given out.
    given: u64,
    /// The ranks that have begun it.
    present: Bits,
}

/// What a request for a batch brought.
#[derive(Debug)]
pub(super) struct Given {
    /// The answer.
    pub(super) items: Arc<[Served]>,
    /// The planned items that were given out by it, and were not before.
    pub(super) consumed: Vec<u32>,
}

impl Epoch {
    /// An epoch from its beginning. What the epoch before has learnt of the cache is kept.
    pub(super) fn new(deal: Deal, mode: Mode, before: Option<&mut Self>, start: u64) -> Self {
        let serving = match before {
            Some(before) => before.serving.successor(&deal),
            None => mode.build(&deal, &Spent::default()),
        };
        Self::with(Ledger::new(&deal), serving, deal, start)
    }

    /// An epoch from a checkpoint; the deal is what that left.
    pub(super) fn resume(deal: Deal, mode: Mode, checkpoint: Checkpoint, start: u64) -> Self {
        let serving = mode.build(&deal, &checkpoint.spent());
        Self::with(Ledger::resume(checkpoint, &deal), serving, deal, start)
    }

    fn with(ledger: Ledger, serving: Box<dyn Serving>, deal: Deal, start: u64) -> Self {
        let (following, present) = (deal.plan().following(), Bits::new(deal.share().world()));
        Self { deal, ledger, serving, following, start, given: 0, present }
    }

    /// What is written here is told apart by this salt from what other nodes write.
    pub(super) fn signed(mut self, salt: u64) -> Self {
        self.ledger = self.ledger.signed(salt);
        self
    }

    /// Which epoch it is.
    pub(super) fn number(&self) -> u64 {
        self.deal.plan().epoch()
    }

    /// How far the job is: its number of items before this epoch, and those that were given in it.
    pub(super) fn progress(&self) -> u64 {
        self.start + self.given
    }

    /// How many items of it were consumed before a resume, or given since.
    pub(super) fn done(&self) -> u64 {
        u64::from(self.deal.plan().len() - self.deal.rest().len()) + self.given
    }

    /// How many items the job has planned up to this epoch's last.
    pub(super) fn end(&self) -> u64 {
        self.start + u64::from(self.deal.rest().len())
    }

    /// A rank has begun it; whether all have.
    pub(super) fn arrive(&mut self, rank: u32) -> bool {
        self.present.insert(rank);
        self.is_full()
    }

    /// A rank is at this node. If it was elsewhere since it was last here, what was given to it here and is not consumed will
    /// be given out again.
    pub(super) fn attend(&mut self, rank: u32, left: Option<StintId>) -> Result<Option<Effect>> {
        let given_up = self.ledger.attend(&self.deal, rank, left)?;
        Ok(given_up.and_then(|given_up| self.give_again(rank, given_up)))
    }

    /// A rank begins anew at this node: as [`attend`](Self::attend).
    pub(super) fn restart(&mut self, rank: u32) -> Result<Option<Effect>> {
        let given_up = self.ledger.restart(&self.deal, rank)?;
        Ok(given_up.and_then(|given_up| self.give_again(rank, given_up)))
    }

    /// What was given to a rank, at these indices of its slice, is to be given again unless it is consumed.
    fn give_again(&mut self, rank: u32, given_up: Vec<u32>) -> Option<Effect> {
        let (ledger, slice) = (&self.ledger, self.deal.slice(rank));
        self.serving.restart(&slice, &|index| ledger.has_taken(rank, index));
        let mut others = Bits::new(self.deal.plan().len());
        others.insert_range(0..others.bound());
        let mut again = 0;
        for index in given_up.into_iter().filter(|index| !ledger.has_taken(rank, *index)) {
            if let Some(place) = slice.at(index).filter(|place| !place.pad) {
                again += u64::from(self.deal.plan().position_of(place.id).is_some_and(|at| others.remove(at)));
            }
        }
        self.given = self.given.saturating_sub(again);
        let again = (again > 0).then(|| Needed::new(Arc::clone(self.deal.plan()), Rest::without(&others)));
        again.map(Effect::Planned)
    }

    /// Takes over what others say that ranks have consumed; how many of them cannot be read.
    /// New writers may take so much memory.
    pub(super) fn learn(&mut self, slips: &[Slip], mut room_bytes: usize, effects: &mut Vec<Effect>) -> u64 {
        let mut refused = 0;
        for slip in slips {
            if !self.ledger.knows(&slip.writer) {
                let items = slip.writer.rank.map_or(self.deal.rest().len(), |rank| self.deal.slice(rank).len());
                let needed = items as usize / 8 + 256;
                if needed > room_bytes {
                    refused += 1;
                    continue;
                }
                room_bytes -= needed;
            }
            match self.ledger.learn(&self.deal, slip) {
                Ok(news) => self.note(slip.writer.rank, news, effects),
                Err(_) => refused += 1,
            }
        }
        refused
    }

    /// What a job needs that has not been given yet.
    pub(super) fn needed(&self) -> Effect {
        let left = self.ledger.undelivered(self.deal.plan());
        Effect::Planned(Needed::new(Arc::clone(self.deal.plan()), left))
    }

    /// A rank has consumed items of which it does not know whether its node took note.
    pub(super) fn claim(&mut self, rank: u32, stint: StintId, ids: &[u32], effects: &mut Vec<Effect>) -> Result<()> {
        let news = self.ledger.claim(&self.deal, rank, stint, ids)?;
        self.note(Some(rank), news, effects);
        Ok(())
    }

    /// Ranks have consumed items elsewhere: nobody needs them from here.
    fn note(&mut self, rank: Option<u32>, news: News, effects: &mut Vec<Effect>) {
        let plan = Arc::clone(self.deal.plan());
        let is_new = |position: &u32| self.deal.spot_at(*position).is_none_or(|spot| !self.serving.is_given(spot));
        let new: Vec<u32> = news.consumed.into_iter().filter(is_new).collect();
        let positions = if rank.is_none() { new.clone() } else { Vec::new() };
        self.given += new.len() as u64;
        if new.len() > MAX_SINGLE {
            let mut others = Bits::new(plan.len());
            others.insert_range(0..plan.len());
            for position in new {
                others.remove(position);
            }
            effects.push(Effect::Dropped(Needed::new(plan, Rest::without(&others))));
        } else {
            effects.extend(new.into_iter().filter_map(|position| plan.at(position)).map(Effect::Consumed));
        }
        let Some(rank) = rank else {
            // Consumed by id: no rank may be given it in a batch any more.
            positions.into_iter().for_each(|position| self.skip(position));
            return;
        };
        self.present.insert(rank);
        self.serving.spend(rank, &news.spent);
        let slice = self.deal.slice(rank);
        news.taken.into_iter().for_each(|index| self.serving.skip(&slice, index));
    }

    /// Whether a rank has begun it.
    pub(super) fn has(&self, rank: u32) -> bool {
        self.present.contains(rank)
    }

    /// Whether every rank has begun it.
    pub(super) fn is_full(&self) -> bool {
        self.present.count() == self.present.bound()
    }

    /// A rank asks for a batch. Batches before it that nobody has asked for yet are reserved. At most `most` items may have
    /// been delivered and not acknowledged.
    pub(super) fn next_batch(&mut self, request: &BatchRequest, look: &dyn Look, most: u64) -> Result<Given> {
        let BatchRequest { rank, number, count, .. } = *request;
        if let Some(items) = self.ledger.given(rank, number, count)? {
            return Ok(Given { items, consumed: Vec::new() });
        }
        let next = self.ledger.next_number(rank)?;
        let batches = self.room_for(rank, next..=number, count, most)?;
        let mut given = Given { items: Arc::default(), consumed: Vec::new() };
        for _ in 0..batches {
            given.items = self.deliver(rank, count, look)?;
            // After the end there is nothing to remember: the answer stays the same.
            if given.items.is_empty() {
                break;
            }
            given.consumed.extend(given.items.iter().filter(|item| item.kind != Kind::Pad).map(|item| item.asked));
        }
        self.given += given.consumed.len() as u64;
        Ok(given)
    }

    /// How many batches have to be delivered, if they may be.
    fn room_for(&self, rank: u32, numbers: std::ops::RangeInclusive<u64>, count: u32, most: u64) -> Result<u64> {
        let ahead = numbers.end() - numbers.start();
        if count == 0 {
            return Err(Error::Invalid("a batch has at least 1 item, not 0".into()));
        }
        if ahead > MAX_AHEAD {
            return Err(Error::Invalid(format!(
                "rank {rank} requested batch {}, but the next is {}: count batches from 0 in each epoch",
                numbers.end(),
                numbers.start()
            )));
        }
        let left = u64::from(self.serving.left(&self.deal.slice(rank)));
        let wanted = ((ahead + 1) * u64::from(count)).min(left);
        let unacknowledged = self.ledger.unacknowledged();
        if unacknowledged + wanted > most {
            return Err(Error::Full(format!(
                "{unacknowledged} delivered items are not acknowledged, and {wanted} more are requested, but at most \
                 {most} may be outstanding: acknowledge batches when they are consumed"
            )));
        }
        Ok(ahead + 1)
    }

    fn deliver(&mut self, rank: u32, count: u32, look: &dyn Look) -> Result<Arc<[Served]>> {
        let slice = self.deal.slice(rank);
        let ordinal = slice.len() - self.serving.left(&slice);
        let items: Arc<[Served]> = (0..count).map_while(|_| self.serving.next(&slice, look)).collect();
        if !items.is_empty() {
            self.ledger.deliver_from(&slice, ordinal, count, Arc::clone(&items))?;
        }
        Ok(items)
    }

    /// A rank has consumed a batch. One after the end, which was answered with nothing, may be acknowledged too.
    pub(super) fn acknowledge(&mut self, rank: u32, number: u64) -> Result<()> {
        let all_delivered = self.serving.left(&self.deal.slice(rank)) == 0;
        if number >= self.ledger.next_number(rank)? && all_delivered {
            return Ok(());
        }
        self.ledger.acknowledge(&self.deal, rank, number).map(drop)
    }

    /// Items were consumed that were read by id; those for the first time.
    pub(super) fn consume(&mut self, ids: &[u32]) -> Result<Vec<u32>> {
        let plan = self.deal.plan();
        if let Some(id) = ids.iter().find(|&&id| !plan.contains(id)) {
            let epoch = plan.epoch();
            return Err(Error::Invalid(format!("item {id} is not in the plan of epoch {epoch}: report planned items")));
        }
        let deal = &self.deal;
        let first: Vec<u32> = ids.iter().copied().filter(|&id| self.ledger.consume(deal, id)).collect();
        self.given += first.len() as u64;
        for position in first.iter().filter_map(|id| self.deal.plan().position_of(*id)).collect::<Vec<_>>() {
            self.skip(position);
        }
        Ok(first)
    }

    /// The planned item at a position was consumed by id: it is not given in a batch any more.
    fn skip(&mut self, position: u32) {
        if let Some(spot) = self.deal.spot_at(position) {
            self.serving.skip(&self.deal.slice(spot.rank), spot.index);
        }
    }

    /// Whether every planned item was given or consumed.
    pub(super) fn is_exhausted(&self) -> bool {
        (0..self.deal.share().world()).all(|rank| self.serving.left(&self.deal.slice(rank)) == 0)
    }

    /// Whether the item is planned, and was neither given nor consumed yet.
    pub(super) fn needs(&self, id: u32) -> bool {
        self.deal.plan().position_of(id).is_some_and(|position| self.needs_at(position))
    }

    fn needs_at(&self, position: u32) -> bool {
        let spot = self.deal.spot_at(position);
        spot.is_some_and(|spot| !self.serving.is_given(spot)) && !self.ledger.is_consumed(position)
    }

    /// How many planned items come before the next use of an item, if the plans of this epoch or the next have it.
    pub(super) fn next_use(&self, id: u32) -> Option<u64> {
        let position = self.deal.plan().position_of(id)?;
        if self.needs_at(position) {
            return self.deal.rest().index_of(position).map(|index| self.start + u64::from(index));
        }
        let position = self.following.as_ref()?.position_of(id)?;
        Some(self.end() + u64::from(position))
    }

    /// The first planned item from a progress on that was not given yet, into the next epoch where that is known. A long
    /// stretch of given ones is passed over in several calls: then the answer is where to go on.
    pub(super) fn upcoming(&self, from: u64, pace: &Pace) -> Option<Result<Upcoming, u64>> {
        let upcoming = |progress, id| Ok(Upcoming { progress, id, at: pace.expected(progress) });
        let from = from.max(self.start);
        let rest = self.deal.rest();
        for (passed, progress) in (from..self.end()).enumerate() {
            if passed as u32 == MAX_PASSED {
                return Some(Err(progress));
            }
            let position = rest.at((progress - self.start) as u32)?;
            if self.needs_at(position) {
                return self.deal.plan().at(position).map(|id| upcoming(progress, id));
            }
        }
        let progress = from.max(self.end());
        let position = u32::try_from(progress - self.end()).ok()?;
        self.following.as_ref()?.at(position).map(|id| upcoming(progress, id))
    }

    /// What the job needs from now on.
    pub(super) fn planned(&self) -> Effect {
        Effect::Planned(Needed::new(Arc::clone(self.deal.plan()), self.deal.rest().clone()))
    }

    /// What the job had planned and will not be given any more, if there is any.
    pub(super) fn dropped(&self) -> Option<Effect> {
        let left = self.ledger.undelivered(self.deal.plan());
        (!left.is_empty()).then(|| Effect::Dropped(Needed::new(Arc::clone(self.deal.plan()), left)))
    }

    /// What it has come to so far.
    pub(super) fn audit(&self) -> Audit {
        self.ledger.audit(&self.deal)
    }

    /// Bytes of memory held.
    pub(super) fn memory_bytes(&self) -> usize {
        let deal = self.deal.plan().heap_bytes() + self.deal.rest().heap_bytes();
        size_of::<Self>() + deal + self.ledger.memory_bytes() + self.serving.memory_bytes() + self.present.heap_bytes()
    }
}
