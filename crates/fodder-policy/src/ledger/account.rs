//! What was consumed in an epoch, and how: the part of a ledger that checkpoints carry.

use super::stint::Stint;
use crate::{bits::Bits, serving::Spent};
use std::collections::BTreeMap;

/// What an epoch's end showed.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Audit {
    /// Items of the plan.
    pub planned: u64,
    /// Planned items that were acknowledged, themselves or by a substitute.
    pub consumed: u64,
    /// Acknowledgements of an item that had been consumed already. What a rolled-back job replays is not among them.
    pub duplicates: u64,
    /// Planned items that were never acknowledged and were not meant to be left out.
    pub omissions: u64,
    /// Deliveries of [`Kind::Pad`].
    pub pads: u64,
    /// Items that an uneven world of ranks left out on purpose.
    pub dropped: u64,
    /// Items that were answered by another.
    pub substitutions: u64,
    /// The furthest that an item was delivered from its place, in items of its rank.
    pub displacement_max: u64,
    /// The mean distance from their places of all planned deliveries.
    pub displacement_mean: f64,
}

impl Audit {
    /// Whether every planned item was consumed exactly once.
    pub fn is_exact(&self) -> bool {
        self.duplicates == 0 && self.omissions == 0
    }
}

/// What was consumed, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Account {
    /// Positions of the plan.
    pub(super) consumed: Bits,
    pub(super) tally: Tally,
    /// How often each item stood in for others.
    pub(super) stood_in: BTreeMap<u32, u32>,
}

/// How many of what. Counts saturate: those of a checkpoint may be anything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Deliveries that were not pads.
    pub(super) deliveries: u64,
    pub(super) duplicates: u64,
    pub(super) pads: u64,
    pub(super) substitutions: u64,
    pub(super) displacement_sum: u64,
    pub(super) displacement_max: u64,
}

/// What an account was when the ranks that are now at work began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Base {
    pub(super) consumed: u32,
    pub(super) tally: Tally,
}

impl Account {
    /// Nothing consumed of a plan of this length.
    pub(super) fn new(planned: u32) -> Self {
        Self { consumed: Bits::new(planned), tally: Tally::default(), stood_in: BTreeMap::new() }
    }

    /// Takes over what ranks elsewhere have consumed since the same base: both had that, and only that, in common.
    pub(super) fn merge(&mut self, other: &Self, base: Base) {
        let both = self.consumed.union(&other.consumed);
        self.tally = self.tally.plus(other.tally.minus(base.tally));
        self.tally.duplicates = self.tally.duplicates.saturating_add(u64::from(both.saturating_sub(base.consumed)));
        for (&id, &times) in &other.stood_in {
            // Those of the base are counted twice, so that the bound on repeats errs to the safe side.
            let mine = self.stood_in.entry(id).or_default();
            *mine = mine.saturating_add(times);
        }
    }

    pub(super) fn spent(&self) -> Spent {
        Spent { substitutions: self.tally.substitutions, stood_in: self.stood_in.clone() }
    }
}

/// What it comes to, if so many items were left out on purpose.
pub(super) fn audit(consumed: &Bits, tally: Tally, dropped: u32) -> Audit {
    let (planned, consumed) = (consumed.bound(), consumed.count());
    Audit {
        planned: planned.into(),
        consumed: consumed.into(),
        duplicates: tally.duplicates,
        omissions: (planned - consumed).saturating_sub(dropped).into(),
        pads: tally.pads,
        dropped: dropped.into(),
        substitutions: tally.substitutions,
        displacement_max: tally.displacement_max,
        displacement_mean: tally.displacement_sum as f64 / tally.deliveries.max(1) as f64,
    }
}

impl Tally {
    /// With what one writer has consumed.
    pub(super) fn with(self, stint: &Stint) -> Self {
        self.plus(Self {
            deliveries: stint.firsts().saturating_add(stint.repeats),
            duplicates: stint.repeats,
            pads: stint.pads,
            substitutions: stint.substitutions,
            displacement_sum: stint.displacement_sum,
            displacement_max: stint.displacement_max,
        })
    }

    fn plus(self, other: Self) -> Self {
        Self {
            displacement_max: self.displacement_max.max(other.displacement_max),
            ..self.each(other, u64::saturating_add)
        }
    }

    fn minus(self, other: Self) -> Self {
        Self { displacement_max: self.displacement_max, ..self.each(other, u64::saturating_sub) }
    }

    fn each(self, other: Self, with: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            deliveries: with(self.deliveries, other.deliveries),
            duplicates: with(self.duplicates, other.duplicates),
            pads: with(self.pads, other.pads),
            substitutions: with(self.substitutions, other.substitutions),
            displacement_sum: with(self.displacement_sum, other.displacement_sum),
            displacement_max: with(self.displacement_max, other.displacement_max),
        }
    }
}
