//! `approx`: a cached item may stand in for a missing one, within bounds.
//!
//! Substitutes come from residency's own proposal or, taking turns, from the cached items of the class. At most
//! `max_fraction` of an epoch's deliveries are substitutes, shared among the ranks, so that ranks on
//! different nodes keep the bound without speaking to each other. No item is delivered more than
//! `max_repeats` times an epoch, its own turn (which is kept for it) included and pads not. Without a plan every item is
//! expected to be asked for once, so that a delivery is reserved for each. When nothing suits, it is as strict.

use super::{
    Approximation, Kind, Look, Served, Serving, Spent,
    pool::{Pool, Verdict},
    strict::Cursors,
};
use crate::{
    plan::{Deal, Plan, Slice, Spot},
    residency::IdSet,
};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The state of `approx`.
#[derive(Debug)]
pub struct Approx {
    bounds: Approximation,
    plan: Arc<Plan>,
    given: Cursors,
    /// How many substitutes each rank may still get.
    allowed: Box<[u32]>,
    /// How many items were asked for by id, and how many of them others answered.
    asked: Asked,
    stood_in: FxHashMap<u32, u32>,
    pool: Pool,
}

#[derive(Debug, Default)]
struct Asked {
    items: u64,
    substitutions: u64,
    /// Items that were delivered because they were asked for.
    delivered: IdSet,
    /// How often such an item was delivered again: few are.
    repeats: FxHashMap<u32, u32>,
}

impl Asked {
    /// An item answers a request for itself.
    fn deliver(&mut self, id: u32) -> Served {
        if !self.delivered.insert(id) {
            let repeats = self.repeats.entry(id).or_default();
            *repeats = repeats.saturating_add(1);
        }
        Served::planned(id)
    }

    /// How often an item has answered requests for itself.
    fn deliveries(&self, id: u32) -> u32 {
        let repeats = self.repeats.get(&id).copied().unwrap_or_default();
        u32::from(self.delivered.contains(id)).saturating_add(repeats)
    }

    fn heap_bytes(&self) -> usize {
        self.delivered.heap_bytes() + self.repeats.capacity() * (2 * size_of::<u32>() + 1)
    }
}

impl Approx {
    /// An epoch in which nothing was given yet since `spent`.
    pub fn new(bounds: Approximation, deal: &Deal, spent: &Spent) -> Self {
        let budget = (bounds.max_fraction * f64::from(deal.plan().len())) as u64;
        let left = budget.saturating_sub(spent.substitutions);
        let world = u64::from(deal.share().world());
        // What is left, divided among the ranks so that nothing of it is lost to rounding.
        let part = |rank| (left * (rank + 1) / world - left * rank / world) as u32;
        Self {
            bounds,
            plan: Arc::clone(deal.plan()),
            given: Cursors::new(deal),
            allowed: (0..world).map(part).collect(),
            asked: Asked::default(),
            stood_in: spent.stood_in.iter().map(|(&id, &times)| (id, times)).collect(),
            pool: Pool::default(),
        }
    }

    /// The class in which a substitute for an item is looked for. None: there is none.
    fn class(&self, label: Option<u32>) -> Option<Option<u32>> {
        match (self.bounds.same_class, label) {
            (false, _) => Some(None),
            (true, Some(label)) => Some(Some(label)),
            (true, None) => None,
        }
    }

    /// Another item for one that is not cached, if any suits.
    fn substitute(&mut self, asked: u32, look: &dyn Look) -> Option<u32> {
        let class = self.class(look.label(asked))?;
        let alike = look
            .stand_in(asked)
            .filter(|&id| self.class(look.label(id)) == Some(class) && self.judge(id, asked, look) == Verdict::Take);
        let mut pool = std::mem::take(&mut self.pool);
        let found = alike.or_else(|| pool.pick(class, |id| self.judge(id, asked, look)));
        self.pool = pool;
        *self.stood_in.entry(found?).or_default() += 1;
        found
    }

    fn judge(&self, id: u32, asked: u32, look: &dyn Look) -> Verdict {
        let others = self.stood_in.get(&id).copied().unwrap_or_default();
        if id == asked || !look.may_stand_in(id) {
            Verdict::Gone
        } else if self.own_deliveries(id).saturating_add(others) >= self.bounds.max_repeats {
            Verdict::Spent
        } else {
            Verdict::Take
        }
    }

    /// How many deliveries of an item are its own: those that happened and those that are reserved for it.
    fn own_deliveries(&self, id: u32) -> u32 {
        let planned = u32::from(self.plan.contains(id));
        let reserved = u32::from(self.plan.is_empty());
        planned.saturating_add(self.asked.deliveries(id).max(reserved))
    }

    /// Notes that an item is cached.
    fn learn(&mut self, id: u32, label: Option<u32>) {
        if let Some(class) = self.class(label) {
            self.pool.add(id, class);
        }
    }
}

impl Serving for Approx {
    fn next(&mut self, slice: &Slice<'_>, look: &dyn Look) -> Option<Served> {
        let planned = self.given.next(slice)?;
        if look.cached(planned.asked) {
            self.learn(planned.asked, look.label(planned.asked));
            return Some(planned);
        }
        let rank = slice.rank() as usize;
        if planned.kind == Kind::Pad || self.allowed[rank] == 0 || !look.replaceable(planned.asked) {
            return Some(planned);
        }
        let Some(served) = self.substitute(planned.asked, look) else { return Some(planned) };
        self.allowed[rank] -= 1;
        Some(Served { served, kind: Kind::Substituted, ..planned })
    }

    fn is_given(&self, spot: Spot) -> bool {
        self.given.is_past(spot)
    }

    fn left(&self, slice: &Slice<'_>) -> u32 {
        self.given.left(slice)
    }

    fn skip(&mut self, slice: &Slice<'_>, index: u32) {
        self.given.skip(slice, index);
    }

    fn restart(&mut self, slice: &Slice<'_>, taken: &dyn Fn(u32) -> bool) {
        self.given.restart(slice, taken);
    }

    fn spend(&mut self, rank: u32, spent: &Spent) {
        if let Some(allowed) = self.allowed.get_mut(rank as usize) {
            *allowed = allowed.saturating_sub(u32::try_from(spent.substitutions).unwrap_or(u32::MAX));
        }
        for (&id, &times) in &spent.stood_in {
            let mine = self.stood_in.entry(id).or_default();
            *mine = mine.saturating_add(times);
        }
    }

    /// There is no plan to take the budget from: substitutes stay a share of what was asked for so far.
    fn ask(&mut self, id: u32, look: &dyn Look) -> Served {
        self.asked.items += 1;
        if look.cached(id) {
            self.learn(id, look.label(id));
            return self.asked.deliver(id);
        }
        let budget = (self.bounds.max_fraction * self.asked.items as f64) as u64;
        if self.asked.substitutions >= budget || !look.replaceable(id) {
            return self.asked.deliver(id);
        }
        let Some(served) = self.substitute(id, look) else { return self.asked.deliver(id) };
        self.asked.substitutions += 1;
        Served { asked: id, served, kind: Kind::Substituted }
    }

    fn inserted(&mut self, id: u32, label: Option<u32>, _spot: Option<Spot>) {
        self.learn(id, label);
    }

    fn successor(&mut self, deal: &Deal) -> Box<dyn Serving> {
        let mut next = Self::new(self.bounds, deal, &Spent::default());
        if deal.plan().snapshot() == self.plan.snapshot() {
            next.pool = std::mem::take(&mut self.pool);
            next.pool.renew();
        }
        Box::new(next)
    }

    fn memory_bytes(&self) -> usize {
        let stood_in = self.stood_in.capacity() * (2 * size_of::<u32>() + 1);
        let asked = self.asked.heap_bytes();
        size_of::<Self>()
            + self.given.heap_bytes()
            + size_of_val(&*self.allowed)
            + stood_in
            + asked
            + self.pool.heap_bytes()
    }
}

#[cfg(test)]
mod tests;
