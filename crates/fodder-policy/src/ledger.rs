//! Which planned items a job has acknowledged as consumed in one epoch.
//!
//! One bitset over the positions of the plan, and for each rank the batches that were delivered and not yet
//! acknowledged. The ledger does not choose items (serving does); it makes what was chosen honest.

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
    /// Deliveries of [`Kind::Pad`](crate::serving::Kind::Pad).
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
