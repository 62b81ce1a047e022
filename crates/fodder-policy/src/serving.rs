//! Which item answers: the trait behind `strict`, `reorder` and `approx`, and the choice among them.
//!
//! One instance serves one epoch of one job. It sees the rest of the plan and hints about the cache, never bytes. It
//! does not remember batches (the ledger does), and what it has served it never takes back.

pub mod approx;
#[cfg(any(test, feature = "testing"))]
pub mod conformance;
mod pool;
pub mod reorder;
pub mod strict;

use crate::{
    Error, Result,
    plan::{Deal, Slice, Spot},
};
use std::{collections::BTreeMap, fmt};

/// How a job wants to be answered, as it is written in a configuration.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Mode {
    /// What was planned, in the order planned.
    #[default]
    Strict,
    /// Each planned item exactly once an epoch, cached ones first.
    Reorder {
        /// How many of the planned items that are still to come are looked at for a cached one. Nothing is served more
        /// than this many places before its own; 0 and 1 are as strict.
        window: u32,
    },
    /// A cached item may stand in for a missing one.
    Approx(Approximation),
}

/// The bounds of substitution.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Approximation {
    /// The largest share of an epoch's deliveries that may be substitutes, from 0 to 1.
    pub max_fraction: f64,
    /// Whether a substitute must have the label of the item it stands in for.
    pub same_class: bool,
    /// How often one item may be delivered in an epoch, its own turn included.
    pub max_repeats: u32,
}

impl Default for Approximation {
    fn default() -> Self {
        Self { max_fraction: 0.1, same_class: true, max_repeats: 2 }
    }
}

/// How a delivery relates to the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The planned item at its place.
    Planned,
    /// The planned item before or after its place.
    Reordered,
    /// Another item stands in for the planned one.
    Substituted,
    /// An item that was planned once is given once more, so that every rank gets equally many.
    Pad,
}

/// One answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Served {
    /// The planned item.
    pub asked: u32,
    /// The item that answers.
    pub served: u32,
    /// How the two relate.
    pub kind: Kind,
}

impl Served {
    /// The planned item at its place.
    pub fn planned(id: u32) -> Self {
        Self { asked: id, served: id, kind: Kind::Planned }
    }
}

/// What substitutes an epoch has seen before an instance takes over: the memory that a checkpoint carries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spent {
    /// How many items were answered by another.
    pub substitutions: u64,
    /// How often each item stood in for others.
    pub stood_in: BTreeMap<u32, u32>,
}

/// A look into the cache and the catalog. All of it is a hint: a wrong answer costs a miss, never a wrong item.
pub trait Look {
    /// Whether an item can be read without asking the origin.
    fn cached(&self, id: u32) -> bool;

    /// Whether an item may be read in another's place: it is cached, and stays so.
    fn may_stand_in(&self, id: u32) -> bool {
        self.cached(id)
    }

    /// How many bytes an item has.
    fn bytes(&self, _id: u32) -> u64 {
        0
    }

    /// The label of an item, where the layout has one.
    fn label(&self, _id: u32) -> Option<u32> {
        None
    }

    /// Whether another item may stand in for this one. A job that samples by importance says no for what matters.
    fn replaceable(&self, _id: u32) -> bool {
        true
    }

    /// The cached item that is most like this one, where residency knows.
    fn stand_in(&self, _id: u32) -> Option<u32> {
        None
    }
}

impl<F: Fn(u32) -> bool> Look for F {
    fn cached(&self, id: u32) -> bool {
        self(id)
    }
}

impl Mode {
    /// How it is called.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Reorder { .. } => "reorder",
            Self::Approx(_) => "approx",
        }
    }

    /// An instance for the epoch that is dealt out.
    pub fn build(&self, deal: &Deal, spent: &Spent) -> Box<dyn Serving> {
        match *self {
            Self::Strict => Box::new(strict::Strict::new(deal)),
            Self::Reorder { window } => Box::new(reorder::Reorder::new(window, deal)),
            Self::Approx(bounds) => Box::new(approx::Approx::new(bounds, deal, spent)),
        }
    }

    /// Refuses bounds that mean nothing.
    pub fn check(&self) -> Result<()> {
        let Self::Approx(bounds) = self else { return Ok(()) };
        if !(0.0..=1.0).contains(&bounds.max_fraction) {
            return Err(Error::Invalid(format!(
                "max_fraction must be a share from 0 to 1, not {}",
                bounds.max_fraction
            )));
        }
        if bounds.max_repeats == 0 {
            return Err(Error::Invalid("max_repeats must be at least 1, not 0".into()));
        }
        Ok(())
    }
}

/// Answers the ranks of a job in one epoch. See the conformance suite for what every mode promises.
///
/// All slices and spots that one instance is told of are of one [`Deal`].
pub trait Serving: Send + fmt::Debug {
    /// The next answer for the rank whose slice this is; None when it has had everything.
    fn next(&mut self, slice: &Slice<'_>, look: &dyn Look) -> Option<Served>;

    /// Whether the planned item at a spot has been answered, by itself or by another.
    fn is_given(&self, spot: Spot) -> bool;

    /// How many answers a rank is still to get.
    fn left(&self, slice: &Slice<'_>) -> u32;

    /// A rank has consumed what its slice has at an index, though it was not answered here: it is never answered.
    fn skip(&mut self, slice: &Slice<'_>, index: u32);

    /// A rank begins anew: what was answered and is not among the `taken` indices will be answered again.
    fn restart(&mut self, slice: &Slice<'_>, taken: &dyn Fn(u32) -> bool);

    /// A rank has seen substitutes that were not chosen here.
    fn spend(&mut self, _rank: u32, _spent: &Spent) {}

    /// An answer to one item that is asked for by its id and not by the plan.
    fn ask(&mut self, id: u32, _look: &dyn Look) -> Served {
        Served::planned(id)
    }

    /// An item came into the cache: its label, where the layout has one, and its spot, where the plan has it.
    fn inserted(&mut self, _id: u32, _label: Option<u32>, _spot: Option<Spot>) {}

    /// An item left the cache.
    fn evicted(&mut self, _id: u32, _spot: Option<Spot>) {}

    /// The instance for the epoch after this one, with what is worth keeping of what this one has learnt of the cache.
    fn successor(&mut self, deal: &Deal) -> Box<dyn Serving>;

    /// Bytes of memory it holds.
    fn memory_bytes(&self) -> usize;
}

#[cfg(test)]
mod tests;
