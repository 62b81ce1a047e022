//! How ranks share a sequence: rank r of w takes the places r, r + w, r + 2w …
//!
//! Dealt like cards, because ranks run in step: what all of them have consumed is then a prefix of the plan, whatever
//! their number. It knows places only, not what lies there.

use crate::{Error, Result};

/// What ranks do when a sequence does not divide by their number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Uneven {
    /// Some get items of the beginning once more, so that all get equally many. The audit knows them.
    #[default]
    Pad,
    /// The last few are left out, so that all get equally many. The audit knows them.
    Drop,
    /// Some get one less than others.
    Exact,
}

/// How many ranks share, and how evenly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    world: u32,
    uneven: Uneven,
}

impl Share {
    /// All for one rank.
    pub const WHOLE: Self = Self { world: 1, uneven: Uneven::Exact };

    /// A share for `world` ranks, of which there must be one.
    pub fn new(world: u32, uneven: Uneven) -> Result<Self> {
        match world {
            0 => Err(Error::Invalid("a job has at least 1 rank, not 0".into())),
            _ => Ok(Self { world, uneven }),
        }
    }

    /// How many ranks there are.
    pub fn world(self) -> u32 {
        self.world
    }

    /// What happens to what does not divide.
    pub fn uneven(self) -> Uneven {
        self.uneven
    }

    /// How many of `total` places a rank has.
    pub fn len(self, rank: u32, total: u32) -> u32 {
        match self.uneven {
            _ if rank >= self.world => 0,
            Uneven::Pad => total.div_ceil(self.world),
            Uneven::Drop => total / self.world,
            Uneven::Exact => total.saturating_sub(rank).div_ceil(self.world),
        }
    }

    /// The place in the sequence of a rank's `index`, and whether it is a pad: a place that another rank has as well.
    pub fn place(self, rank: u32, index: u32, total: u32) -> Option<(u32, bool)> {
        if index >= self.len(rank, total) {
            return None;
        }
        let place = u64::from(index) * u64::from(self.world) + u64::from(rank);
        match u32::try_from(place) {
            Ok(place) if place < total => Some((place, false)),
            _ => Some(((place % u64::from(total)) as u32, true)),
        }
    }

    /// Who has a place, and where among its own. None if it is left out.
    pub fn holder(self, place: u32, total: u32) -> Option<(u32, u32)> {
        let (rank, index) = (place % self.world, place / self.world);
        (place < total && index < self.len(rank, total)).then_some((rank, index))
    }

    /// How many of `total` places no rank has.
    pub fn dropped(self, total: u32) -> u32 {
        match self.uneven {
            Uneven::Drop => total % self.world,
            Uneven::Pad | Uneven::Exact => 0,
        }
    }
}
