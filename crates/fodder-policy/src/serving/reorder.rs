//! `reorder`: each planned item exactly once, cached ones first.
//!
//! The rule: among the next `window` planned items that were not given yet, the first one that is cached; if none is,
//! the first one. So nothing comes more than `window` places before its own, and a missing item waits as long as there
//! are cached ones to give instead of it.
//!
//! Nothing is scanned twice. Each index of a slice is looked at once, when it comes into the window; from then on
//! notices of what came and went keep a set of the cached ones. An item costs O(1) on average, whatever the window.

use super::{Kind, Look, Served, Serving};
use crate::{
    bits::Bits,
    plan::{Deal, Place, Slice, Spot},
    residency::IdSet,
};

/// How many newly planned items one answer looks at before it takes the next planned one instead: the bound of what one
/// request can cost when a large window meets an empty cache.
const LOOKS: usize = 8_192;

/// The state of `reorder`: for each rank two bits an item.
#[derive(Debug)]
pub struct Reorder {
    window: u32,
    lanes: Box<[Lane]>,
}

/// How far one rank is. Indices are those of its slice.
#[derive(Debug)]
struct Lane {
    /// Which were given.
    given: Bits,
    /// The first that was not.
    head: u32,
    /// Those before it have been looked at.
    seen: u32,
    /// Those that have been looked at, are cached, and were not given.
    ready: IdSet,
}

impl Reorder {
    /// Nothing given yet.
    pub fn new(window: u32, deal: &Deal) -> Self {
        let lane = |rank| Lane { given: Bits::new(deal.slice(rank).len()), head: 0, seen: 0, ready: IdSet::default() };
        Self { window, lanes: (0..deal.share().world()).map(lane).collect() }
    }

    fn lane(&mut self, spot: Option<Spot>) -> Option<(&mut Lane, u32)> {
        let spot = spot?;
        self.lanes.get_mut(spot.rank as usize).map(|lane| (lane, spot.index))
    }
}

impl Lane {
    /// Who answers next. None when all were given.
    fn choose(&mut self, slice: &Slice<'_>, window: u32, look: &dyn Look) -> Option<(u32, Place)> {
        let cached = |index| slice.at(index).filter(|place| !place.pad && look.cached(place.id));
        while let Some(index) = self.ready.first() {
            if let Some(place) = cached(index) {
                return Some((index, place));
            }
            self.ready.remove(index);
        }
        // Whatever was given lies before the end of the window, so it holds `window` items that were not.
        let end = self.given.count().saturating_add(window).min(self.given.bound());
        self.seen = self.seen.max(self.head);
        for index in (self.seen..end).take(LOOKS) {
            self.seen = index + 1;
            // What was consumed elsewhere may lie anywhere.
            if let Some(place) = cached(index).filter(|_| !self.given.contains(index)) {
                return Some((index, place));
            }
        }
        slice.at(self.head).map(|place| (self.head, place))
    }

    /// Notes that an index was given; how many had been before it.
    fn give(&mut self, index: u32) -> u32 {
        let ordinal = self.given.count();
        self.given.insert(index);
        self.ready.remove(index);
        self.head = self.given.first_absent(self.head);
        ordinal
    }
}

impl Serving for Reorder {
    fn next(&mut self, slice: &Slice<'_>, look: &dyn Look) -> Option<Served> {
        let lane = self.lanes.get_mut(slice.rank() as usize)?;
        let (index, place) = lane.choose(slice, self.window, look)?;
        let in_place = lane.give(index) == index;
        let kind = match (place.pad, in_place) {
            (true, _) => Kind::Pad,
            (false, true) => Kind::Planned,
            (false, false) => Kind::Reordered,
        };
        Some(Served { asked: place.id, served: place.id, kind })
    }

    fn is_given(&self, spot: Spot) -> bool {
        self.lanes.get(spot.rank as usize).is_some_and(|lane| lane.given.contains(spot.index))
    }

    fn left(&self, slice: &Slice<'_>) -> u32 {
        self.lanes.get(slice.rank() as usize).map_or(0, |lane| lane.given.bound() - lane.given.count())
    }

    fn skip(&mut self, slice: &Slice<'_>, index: u32) {
        if let Some(lane) = self.lanes.get_mut(slice.rank() as usize) {
            lane.give(index);
        }
    }

    fn restart(&mut self, slice: &Slice<'_>, taken: &dyn Fn(u32) -> bool) {
        if let Some(lane) = self.lanes.get_mut(slice.rank() as usize) {
            *lane = Lane { given: Bits::new(slice.len()), head: 0, seen: 0, ready: IdSet::default() };
            for index in (0..slice.len()).filter(|index| taken(*index)) {
                lane.give(index);
            }
        }
    }

    fn inserted(&mut self, _id: u32, _label: Option<u32>, spot: Option<Spot>) {
        if let Some((lane, index)) = self.lane(spot)
            && index < lane.seen
            && !lane.given.contains(index)
        {
            lane.ready.insert(index);
        }
    }

    fn evicted(&mut self, _id: u32, spot: Option<Spot>) {
        if let Some((lane, index)) = self.lane(spot) {
            lane.ready.remove(index);
        }
    }

    fn successor(&mut self, deal: &Deal) -> Box<dyn Serving> {
        Box::new(Self::new(self.window, deal))
    }

    fn memory_bytes(&self) -> usize {
        let lanes = self.lanes.iter().map(|lane| lane.given.heap_bytes() + lane.ready.heap_bytes()).sum::<usize>();
        size_of::<Self>() + size_of_val(&*self.lanes) + lanes
    }
}

#[cfg(test)]
mod tests;
