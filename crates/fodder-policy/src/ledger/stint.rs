//! What one writer says was consumed: a rank while one node answered it.
//!
//! Only that rank's consumption makes a stint grow, so any two states of it that nodes have seen compare, and taking the
//! larger of everything is the newer of both, in whatever order and however often they are heard. A rank that goes to
//! another node begins another stint; what both contain it has consumed twice.

use super::codec::{Reader, Writer as Out, damaged};
use crate::{
    Result,
    bits::Bits,
    ledger::checkpoint::{read_bits, write_bits},
    plan::Snapshot,
    serving::Spent,
};
use std::collections::BTreeMap;

/// Tells the stints of one rank apart: the later has the larger ordinal, and of two that did not know of each other each has
/// its own salt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StintId {
    /// One more than that of any stint of the rank that was known when it began.
    pub ordinal: u32,
    /// Of the node that answers, in the run of it.
    pub salt: u64,
}

/// Who consumed: a rank by batches, or whoever reads by id from one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Writer {
    /// None: items were read by id.
    pub rank: Option<u32>,
    /// Which stint of it.
    pub stint: StintId,
}

/// A stint as it is told to others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slip {
    /// Whose.
    pub writer: Writer,
    /// What it says. It can be read by who has the same plan dealt out to the same ranks.
    pub state: Box<[u8]>,
}

/// What a writer has consumed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stint {
    /// Indices of the rank's slice; for what was read by id, of what is dealt out.
    pub(super) taken: Bits,
    /// How many of these are pads.
    pub(super) pads: u64,
    /// Items that were read by id once more, or had been consumed before the ranks began.
    pub(super) repeats: u64,
    pub(super) substitutions: u64,
    pub(super) displacement_sum: u64,
    pub(super) displacement_max: u64,
    /// How often each item stood in for others.
    pub(super) stood_in: BTreeMap<u32, u32>,
    /// It has changed here since it was last told to others.
    pub(super) untold: bool,
}

impl Stint {
    /// Nothing consumed, of so many.
    pub(super) fn new(bound: u32) -> Self {
        Self {
            taken: Bits::new(bound),
            pads: 0,
            repeats: 0,
            substitutions: 0,
            displacement_sum: 0,
            displacement_max: 0,
            stood_in: BTreeMap::new(),
            untold: true,
        }
    }

    /// How many planned items it has consumed for the first time, as far as it knows.
    pub(super) fn firsts(&self) -> u64 {
        u64::from(self.taken.count()).saturating_sub(self.pads)
    }

    /// Takes over what another state of it has beside what was taken; the substitutes that were not known.
    pub(super) fn join(&mut self, other: &Self) -> Spent {
        let mut spent =
            Spent { substitutions: other.substitutions.saturating_sub(self.substitutions), stood_in: BTreeMap::new() };
        for (&id, &times) in &other.stood_in {
            let mine = self.stood_in.entry(id).or_default();
            if times > *mine {
                spent.stood_in.insert(id, times - *mine);
                *mine = times;
            }
        }
        self.repeats = self.repeats.max(other.repeats);
        self.substitutions = self.substitutions.max(other.substitutions);
        self.displacement_sum = self.displacement_sum.max(other.displacement_sum);
        self.displacement_max = self.displacement_max.max(other.displacement_max);
        spent
    }

    /// As bytes: about ten, unless what was consumed is scattered.
    pub(super) fn encode(&self) -> Box<[u8]> {
        let mut out = Out::default();
        for number in [self.repeats, self.substitutions, self.displacement_sum, self.displacement_max] {
            out.number(number);
        }
        write_bits(&mut out, &self.taken);
        out.number(self.stood_in.len() as u64);
        let mut before = 0;
        for (&id, &times) in &self.stood_in {
            out.number((id - before).into());
            out.number(times.into());
            before = id;
        }
        out.0.into()
    }

    /// From bytes, whatever they are. Memory is taken only for what the bound and the snapshot can need.
    pub(super) fn decode(bytes: &[u8], bound: u32, snapshot: Snapshot) -> Result<Self> {
        let mut input = Reader::bare(bytes);
        let mut stint = Self { untold: false, ..Self::new(0) };
        stint.repeats = input.number()?;
        stint.substitutions = input.number()?;
        stint.displacement_sum = input.number()?;
        stint.displacement_max = input.number()?;
        stint.taken = read_bits(&mut input, bound)?;
        let mut id = 0u32;
        for place in 0..input.at_most(snapshot.items)? {
            let step = input.at_most(snapshot.items)?;
            let next = id.checked_add(step).filter(|&id| id < snapshot.items && (place == 0 || step > 0));
            id = next.ok_or_else(damaged)?;
            stint.stood_in.insert(id, input.at_most(u32::MAX)?);
        }
        if input.left() == 0 { Ok(stint) } else { Err(damaged()) }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        size_of::<(Writer, Self)>() + self.taken.heap_bytes() + self.stood_in.len() * 2 * size_of::<(u32, u32)>()
    }
}
