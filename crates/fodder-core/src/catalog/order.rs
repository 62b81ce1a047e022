//! A sequence of slots: as runs of consecutive ones where that is smaller, else one by one.
//!
//! A first listing in path order is one run; a refresh that changes a few objects breaks it into a few.

use super::{
    file::{FileWriter, MappedFile},
    packed::{self, Packed},
};
use crate::{Result, id::ObjectSlot};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What must be known beside the sections to open an order.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Shape {
    len: u32,
    /// How many runs; None: slots one by one.
    runs: Option<u32>,
}

/// A sequence of slots.
#[derive(Debug, Clone)]
pub(super) enum Order {
    /// `len` slots from the first on.
    Run { first: u32, len: u32 },
    /// Where each run starts in the sequence, and the slot it starts with; few enough to be searched on the heap.
    Runs { starts: Arc<[u32]>, slots: Arc<[u32]>, len: u32 },
    /// Every slot.
    Each { slots: Packed },
}

/// Runs are worth it if they have as many slots on average: then they are a byte a slot.
const SLOTS_A_RUN: usize = 8;

/// Writes the sections `id` and `id + 1`.
pub(super) fn write(file: &mut FileWriter, id: u32, slots: &[u32]) -> Result<Shape> {
    let begins = |index: &usize| *index == 0 || slots[index - 1].checked_add(1) != Some(slots[*index]);
    let runs: Vec<usize> = (0..slots.len()).filter(begins).take(slots.len() / SLOTS_A_RUN + 2).collect();
    let len = slots.len() as u32;
    if runs.len() > 1 && runs.len() > slots.len() / SLOTS_A_RUN {
        let width = packed::width(u64::from(slots.iter().copied().max().unwrap_or(0)));
        file.section(id + 1, |out| {
            packed::begin(out, width)?;
            slots.iter().try_for_each(|slot| packed::put(out, width, u64::from(*slot)))
        })?;
        return Ok(Shape { len, runs: None });
    }
    let starts: Vec<u64> = runs.iter().map(|start| *start as u64).collect();
    let firsts: Vec<u64> = runs.iter().map(|start| u64::from(slots[*start])).collect();
    file.section(id, |out| packed::column(out, &starts))?;
    file.section(id + 1, |out| packed::column(out, &firsts))?;
    Ok(Shape { len, runs: Some(runs.len() as u32) })
}

impl Order {
    pub(super) fn open(file: &Arc<MappedFile>, id: u32, shape: Shape) -> Option<Self> {
        let Some(runs) = shape.runs else {
            return Some(Self::Each { slots: Packed::open(file.section(id + 1), shape.len as usize)? });
        };
        let starts = Packed::open(file.section(id), runs as usize)?;
        let slots = Packed::open(file.section(id + 1), runs as usize)?;
        Some(match runs {
            0 => Self::Run { first: 0, len: 0 },
            1 => Self::Run { first: slots.get(0) as u32, len: shape.len },
            _ => Self::Runs { starts: starts.to_heap(), slots: slots.to_heap(), len: shape.len },
        })
    }

    pub(super) fn len(&self) -> u32 {
        match self {
            Self::Run { len, .. } | Self::Runs { len, .. } => *len,
            Self::Each { slots } => slots.len() as u32,
        }
    }

    /// Bytes it has on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            Self::Runs { starts, .. } => 8 * starts.len(),
            _ => 0,
        }
    }

    /// The slot at a position, which is below `len`.
    #[inline]
    pub(super) fn get(&self, index: u32) -> ObjectSlot {
        ObjectSlot(match self {
            Self::Run { first, .. } => first + index,
            Self::Runs { starts, slots, .. } => {
                let run = starts.partition_point(|start| *start <= index) - 1;
                slots[run] + (index - starts[run])
            }
            Self::Each { slots } => slots.get(index as usize) as u32,
        })
    }

    /// The position of a slot, where that is known without a search: a first listing is one run.
    pub(super) fn position_in_run(&self, slot: ObjectSlot) -> Option<u32> {
        match self {
            Self::Run { first, len } => slot.0.checked_sub(*first).filter(|position| position < len),
            Self::Runs { .. } | Self::Each { .. } => None,
        }
    }

    /// The slots from a position on; steps inside a run cost nothing.
    pub(super) fn from(&self, index: u32) -> impl Iterator<Item = ObjectSlot> + '_ {
        let (mut run, mut slot, mut left) = (0, 0, 0);
        (index..self.len()).map(move |index| {
            match self {
                Self::Runs { starts, slots, len } if left == 0 => {
                    run = if run == 0 { starts.partition_point(|start| *start <= index) } else { run + 1 };
                    let end = starts.get(run).copied().unwrap_or(*len);
                    (slot, left) = (slots[run - 1] + (index - starts[run - 1]), end - index);
                }
                Self::Runs { .. } => {}
                _ => return self.get(index),
            }
            (slot, left) = (slot + 1, left - 1);
            ObjectSlot(slot - 1)
        })
    }

    /// The first position at which `before` is no longer true; it is true for a front part of the sequence.
    pub(super) fn partition_point(&self, mut before: impl FnMut(ObjectSlot) -> bool) -> u32 {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if before(self.get(middle)) { low = middle + 1 } else { high = middle }
        }
        low
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{super::file::Kind, *};
    use proptest::prelude::*;

    fn round_trip(slots: &[u32]) -> Order {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("order.cat");
        let mut writer = FileWriter::create(&path, Kind::Snapshot).unwrap();
        let shape = write(&mut writer, 3, slots).unwrap();
        writer.finish().unwrap();
        let order = Order::open(&MappedFile::open(&path, Kind::Snapshot).unwrap(), 3, shape).unwrap();
        let back: Vec<u32> = (0..order.len()).map(|index| order.get(index).0).collect();
        assert_eq!(back, slots);
        for start in 0..=order.len() {
            assert!(order.from(start).map(|slot| slot.0).eq(slots[start as usize..].iter().copied()), "from {start}");
        }
        order
    }

    #[test]
    fn consecutive_slots_are_one_run() {
        assert!(matches!(round_trip(&[5, 6, 7, 8]), Order::Run { first: 5, len: 4 }));
        assert!(matches!(round_trip(&[]), Order::Run { len: 0, .. }));
        let broken: Vec<u32> = (0..20).chain(40..60).chain(20..30).collect();
        assert!(matches!(round_trip(&broken), Order::Runs { .. }));
        assert!(matches!(round_trip(&[3, 2, 1]), Order::Each { .. }));
        assert!(matches!(round_trip(&[u32::MAX, 0]), Order::Each { .. }));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_sequence_survives_the_round_trip(runs in prop::collection::vec((0u32..1000, 1u32..20), 0..20)) {
            let slots: Vec<u32> = runs.iter().flat_map(|(first, len)| *first..first + len * 3).collect();
            round_trip(&slots);
        }
    }
}
