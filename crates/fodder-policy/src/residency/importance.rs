//! `importance`: evict what is worth least to the jobs, by the scores they report, and take in only what is worth
//! more (iCache's ISA, HPCA '23). For jobs that sample by importance; without scores it is minio.
//!
//! A heap by score: 4 bytes an id and 16 a resident, O(log n). Low-score ids that come in packs, to answer for others
//! of their kind, would not live long there: they have a region of their own, first come, first gone. It costs a
//! dataset that has packs 4 bytes and a bit an id more, and 24 a resident.

use super::{
    Pressure, Residency,
    heap::Heap,
    idset::IdSet,
    share::Share,
    signal::{Signal, unscore},
    turnover::Turnover,
    worth::{Worth, score},
};
use std::{cmp::Reverse, sync::Arc};

/// What can be set about `importance`.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The share of the resident bytes that packs of low-score ids may take from the others. What they hold above
    /// it goes first.
    pub low_region: Share,
}

impl Default for Settings {
    fn default() -> Self {
        Self { low_region: Share::percent(10) }
    }
}

/// Where a resident stands among the others: the least goes first, of equal worth the largest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Standing {
    /// Of the scores it was judged by.
    generation: u32,
    worth: Worth,
    bytes: Reverse<u32>,
}

/// When a resident of the low region came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    turn: u64,
    bytes: u32,
}

/// The state of `importance`.
#[derive(Debug, Default)]
pub struct Importance {
    settings: Settings,
    scores: Turnover<Arc<[f32]>>,
    residents: Heap<Standing>,
    low: Heap<Turn>,
    /// Ids that were said to come in a pack, and are not here yet.
    packed: IdSet,
    turns: u64,
    /// Bytes of all residents, those of the low region among them.
    bytes: u64,
    low_bytes: u64,
}

impl Importance {
    /// A new, empty instance.
    pub fn new(settings: Settings) -> Self {
        Self { settings, ..Self::default() }
    }

    fn is_resident(&self, id: u32) -> bool {
        self.residents.contains(id) || self.low.contains(id)
    }

    fn standing(&self, id: u32, bytes: Reverse<u32>) -> Standing {
        let (generation, scores) = self.scores.of(id);
        Standing { generation, worth: score(scores, id).into(), bytes }
    }
}

impl Residency for Importance {
    fn hit(&mut self, _id: u32) {}

    fn heeds_hits(&self) -> bool {
        false
    }

    /// A newcomer must be worth more than the least resident, by the scores which that one was judged by.
    fn admit(&mut self, id: u32, _bytes: u32, room: bool) -> bool {
        let surpasses = |least: Standing| Worth::from(score(self.scores.order(least.generation), id)) > least.worth;
        room || self.packed.contains(id) || self.residents.first().is_none_or(|(least, _)| surpasses(least))
    }

    fn victim(&mut self, _pressure: Pressure) -> Option<u32> {
        let low = self.low.first().map(|(_, id)| id);
        let least = self.residents.first().map(|(_, id)| id);
        if self.low_bytes > self.settings.low_region.of(self.bytes) { low.or(least) } else { least.or(low) }
    }

    fn inserted(&mut self, id: u32, bytes: u32) {
        if self.is_resident(id) {
            return;
        }
        self.bytes += u64::from(bytes);
        if self.packed.remove(id) {
            self.low.set(id, Turn { turn: self.turns, bytes });
            self.low_bytes += u64::from(bytes);
            self.turns += 1;
        } else {
            self.residents.set(id, self.standing(id, Reverse(bytes)));
        }
    }

    fn removed(&mut self, id: u32) {
        if let Some(Standing { bytes: Reverse(bytes), .. }) = self.residents.remove(id) {
            self.bytes -= u64::from(bytes);
        } else if let Some(Turn { bytes, .. }) = self.low.remove(id) {
            self.bytes -= u64::from(bytes);
            self.low_bytes -= u64::from(bytes);
        }
    }

    fn forget(&mut self, ids: &[u32]) {
        self.scores.orders_mut().for_each(|scores| unscore(scores, ids));
        for &id in ids {
            self.packed.remove(id);
        }
    }

    fn signal(&mut self, signal: Signal<'_>) {
        match signal {
            Signal::Scores(scores) => self.scores.begin(scores, self.residents.is_empty()),
            Signal::Packed(ids) if self.settings.low_region > Share::NONE => {
                for &id in ids {
                    if !self.is_resident(id) {
                        self.packed.insert(id);
                    }
                }
            }
            _ => {}
        }
    }

    fn settle(&mut self, steps: usize) -> bool {
        for _ in 0..steps {
            if !self.scores.is_going_on() {
                break;
            }
            let moved = self.scores.step(self.residents.end());
            if let Some((id, old)) = moved.and_then(|id| Some((id, self.residents.key(id)?))) {
                self.residents.set(id, self.standing(id, old.bytes));
            }
        }
        self.scores.is_going_on()
    }

    fn len(&self) -> usize {
        self.residents.len() + self.low.len()
    }

    /// The scores are their sender's, who shares them among all who need them.
    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.residents.heap_bytes() + self.low.heap_bytes() + self.packed.heap_bytes()
    }
}

#[cfg(test)]
mod tests;
