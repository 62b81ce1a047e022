//! `strict`: what was planned, in the order planned. The default, and what the other modes fall back to.

use super::{Kind, Look, Served, Serving};
use crate::plan::{Deal, Slice, Spot};

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

    fn successor(&mut self, deal: &Deal) -> Box<dyn Serving> {
        Box::new(Self::new(deal))
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.given.heap_bytes()
    }
}

/// How many items each rank was given, where they are given in order.
#[derive(Debug)]
pub(super) struct Cursors(Box<[u32]>);

impl Cursors {
    pub(super) fn new(deal: &Deal) -> Self {
        Self(vec![0; deal.share().world() as usize].into())
    }

    /// The next planned item of a rank.
    pub(super) fn next(&mut self, slice: &Slice<'_>) -> Option<Served> {
        let cursor = self.0.get_mut(slice.rank() as usize)?;
        let place = slice.at(*cursor)?;
        *cursor += 1;
        let kind = if place.pad { Kind::Pad } else { Kind::Planned };
        Some(Served { asked: place.id, served: place.id, kind })
    }

    pub(super) fn is_past(&self, spot: Spot) -> bool {
        self.0.get(spot.rank as usize).is_some_and(|&cursor| spot.index < cursor)
    }

    pub(super) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.0)
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
