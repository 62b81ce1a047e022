//! `strict`: what was planned, in the order planned. The default, and what the other modes fall back to.

use super::{Kind, Look, Served, Serving};
use crate::{
    bits::Bits,
    plan::{Deal, Slice, Spot},
};
use std::collections::BTreeMap;

/// The state of `strict`: how far each rank is.
#[derive(Debug)]
pub struct Strict {
    given: Cursors,
}

impl Strict {
    /// Nothing given yet.
    pub fn new(deal: &Deal) -> Self {
        Self { given: Cursors::new(deal) }
    }
}

impl Serving for Strict {
    fn next(&mut self, slice: &Slice<'_>, _look: &dyn Look) -> Option<Served> {
        self.given.next(slice)
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

    fn successor(&mut self, deal: &Deal) -> Box<dyn Serving> {
        Box::new(Self::new(deal))
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.given.heap_bytes()
    }
}

/// Which items each rank was given, where they are given in order.
#[derive(Debug)]
pub(super) struct Cursors {
    /// The first index that each rank is still to get.
    next: Box<[u32]>,
    /// What ranks have consumed elsewhere beyond that.
    ahead: BTreeMap<u32, Bits>,
}

impl Cursors {
    pub(super) fn new(deal: &Deal) -> Self {
        Self { next: vec![0; deal.share().world() as usize].into(), ahead: BTreeMap::new() }
    }

    /// The next planned item of a rank.
    pub(super) fn next(&mut self, slice: &Slice<'_>) -> Option<Served> {
        let cursor = self.next.get_mut(slice.rank() as usize)?;
        let place = slice.at(*cursor)?;
        *cursor += 1;
        self.advance(slice.rank());
        let kind = if place.pad { Kind::Pad } else { Kind::Planned };
        Some(Served { asked: place.id, served: place.id, kind })
    }

    /// Passes over what the rank has consumed elsewhere.
    fn advance(&mut self, rank: u32) {
        if let (Some(cursor), Some(ahead)) = (self.next.get_mut(rank as usize), self.ahead.get(&rank)) {
            *cursor = ahead.first_absent(*cursor);
        }
    }

    pub(super) fn left(&self, slice: &Slice<'_>) -> u32 {
        let cursor = self.next.get(slice.rank() as usize).copied().unwrap_or(u32::MAX);
        let ahead = self.ahead.get(&slice.rank()).map_or(0, |ahead| ahead.count_from(cursor));
        slice.len().saturating_sub(cursor).saturating_sub(ahead)
    }

    pub(super) fn skip(&mut self, slice: &Slice<'_>, index: u32) {
        let rank = slice.rank();
        let is_to_come = |cursor: &&mut u32| index >= **cursor && index < slice.len();
        let Some(cursor) = self.next.get_mut(rank as usize).filter(is_to_come) else { return };
        match self.ahead.get_mut(&rank) {
            None if index == *cursor => *cursor += 1,
            None => {
                let mut ahead = Bits::new(slice.len());
                ahead.insert(index);
                self.ahead.insert(rank, ahead);
            }
            Some(ahead) => {
                ahead.insert(index);
                self.advance(rank);
            }
        }
    }

    pub(super) fn restart(&mut self, slice: &Slice<'_>, taken: &dyn Fn(u32) -> bool) {
        let Some(cursor) = self.next.get_mut(slice.rank() as usize) else { return };
        *cursor = 0;
        self.ahead.remove(&slice.rank());
        (0..slice.len()).filter(|index| taken(*index)).for_each(|index| self.skip(slice, index));
    }

    pub(super) fn is_past(&self, spot: Spot) -> bool {
        self.next.get(spot.rank as usize).is_some_and(|&cursor| spot.index < cursor)
            || self.ahead.get(&spot.rank).is_some_and(|ahead| ahead.contains(spot.index))
    }

    pub(super) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.next) + self.ahead.values().map(|ahead| 64 + ahead.heap_bytes()).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::{super::conformance, *};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn it_keeps_what_every_mode_promises() {
        conformance::check(&|deal| Box::new(Strict::new(deal)));
    }

    #[test]
    fn it_answers_as_planned_whatever_is_cached() {
        conformance::run(|deal, events| {
            let mut strict = Strict::new(&deal);
            conformance::deliveries(&mut strict, &deal, &events, &mut BTreeSet::new(), |_, delivery| {
                let place = delivery.slice.at(delivery.ordinal).expect("it is the rank's");
                prop_assert_eq!((place.id, place.id), (delivery.served.asked, delivery.served.served));
                Ok(())
            })
        });
    }
}
