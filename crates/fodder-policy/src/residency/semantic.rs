//! `semantic`: keep what differs from its kind, and of what is alike one for all (SpiderCache's). For jobs that
//! report embeddings and take a like sample of the same class for the one they asked for.
//!
//! An id that answers for its neighbours is a key. Keys live in a region of their own, the least used first to go;
//! the others in a heap by score and use. 8 bytes an id and 20 a resident, O(log n). How neighbours are found is not
//! known here.

use super::{
    Pressure, Residency,
    heap::Heap,
    share::Share,
    signal::{NO_KEY, Signal, unscore},
    turnover::Turnover,
    worth::{Worth, score},
};
use std::{cmp::Reverse, collections::BTreeSet, sync::Arc};

/// What can be set about `semantic`.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Links of each embedding in the graph of neighbours (HNSW's M).
    pub m: u32,
    /// Candidates that are looked at while the graph is built and searched (HNSW's ef).
    pub ef: u32,
    /// Neighbours that are asked for.
    pub k: u32,
    /// How alike two samples must be to be neighbours; see [`similarity`].
    pub similarity: Share,
    /// The share of the resident bytes that keys may take from the others. What they hold above it goes first.
    pub homophily_region: Share,
    /// How much a use adds to a score; 0: nothing.
    pub use_weight: Share,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            m: 8,
            ef: 100,
            k: 500,
            similarity: Share::percent(98),
            homophily_region: Share::percent(10),
            use_weight: Share::percent(10),
        }
    }
}

/// How alike two samples are whose embeddings are so far apart: 1 for the same, towards 0 with the distance.
pub fn similarity(distance: f32) -> f32 {
    (-0.01 * distance).exp()
}

/// The score of a sample with so many neighbours of its own class and of others, among `k` that were asked for.
/// Highest where its own class is rare around it and others are common: there is the most to learn.
pub fn semantic_score(same: u32, other: u32, k: u32) -> f32 {
    let rare = (1.0 / (f64::from(same) + 1.0)).ln_1p();
    (rare + f64::from(other) / f64::from(k.max(1))).ln_1p() as f32
}

/// What is known of the likeness of ids.
#[derive(Debug, Clone, Default)]
struct Likeness {
    scores: Arc<[f32]>,
    keys: Arc<[u32]>,
}

impl Likeness {
    /// The key that answers for an id; itself if it is one.
    fn key(&self, id: u32) -> Option<u32> {
        self.keys.get(id as usize).copied().filter(|&key| key != NO_KEY)
    }

    fn is_key(&self, id: u32) -> bool {
        self.key(id) == Some(id)
    }

    /// Nothing is known any more of some ids, and none of them answers for another.
    fn forget(&mut self, ids: &[u32]) {
        unscore(&mut self.scores, ids);
        let gone: BTreeSet<u32> = ids.iter().copied().collect();
        let is_gone = |id: usize, key: u32| key != NO_KEY && (gone.contains(&(id as u32)) || gone.contains(&key));
        if self.keys.iter().enumerate().any(|(id, key)| is_gone(id, *key)) {
            let keys = self.keys.iter().enumerate();
            self.keys = keys.map(|(id, key)| if is_gone(id, *key) { NO_KEY } else { *key }).collect();
        }
    }
}

/// Where a resident that is no key stands: the least goes first, of equal worth the largest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Standing {
    /// Of the scores it was judged by.
    generation: u32,
    worth: Worth,
    resident: Resident,
}

/// What is kept of a resident: the order of the keys among themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Resident {
    /// How often it was asked for, its first time included; half of it is forgotten whenever scores or neighbours
    /// change.
    uses: u32,
    bytes: Reverse<u32>,
}

/// The state of `semantic`.
#[derive(Debug, Default)]
pub struct Semantic {
    settings: Settings,
    likeness: Turnover<Likeness>,
    /// Residents that are no keys.
    others: Heap<Standing>,
    keys: Heap<Resident>,
    /// Bytes of all residents, keys among them.
    bytes: u64,
    key_bytes: u64,
}

impl Semantic {
    /// A new, empty instance.
    pub fn new(settings: Settings) -> Self {
        Self { settings, ..Self::default() }
    }

    fn is_resident(&self, id: u32) -> bool {
        self.others.contains(id) || self.keys.contains(id)
    }

    /// What an id is worth that was used so often. Scores are not negative: one that is counts as 0.
    fn worth(&self, likeness: &Likeness, id: u32, uses: u32) -> Worth {
        let weight = 1.0 + f64::from(self.settings.use_weight) * f64::from(uses).ln_1p();
        Worth::from(score(&likeness.scores, id).max(0.0) * weight as f32)
    }

    /// Whether keys hold more than their share.
    fn keys_are_over(&self) -> bool {
        self.key_bytes > self.settings.homophily_region.of(self.bytes)
    }

    /// Puts an id where it belongs.
    fn place(&mut self, id: u32, resident: Resident) {
        let (generation, likeness) = self.likeness.of(id);
        self.bytes += u64::from(resident.bytes.0);
        if likeness.is_key(id) {
            self.key_bytes += u64::from(resident.bytes.0);
            self.keys.set(id, resident);
        } else {
            let worth = self.worth(likeness, id, resident.uses);
            self.others.set(id, Standing { generation, worth, resident });
        }
    }

    /// Takes an id out, wherever it is.
    fn take(&mut self, id: u32) -> Option<Resident> {
        let other = self.others.remove(id).map(|standing| standing.resident);
        let resident = other.or_else(|| {
            let key = self.keys.remove(id)?;
            self.key_bytes -= u64::from(key.bytes.0);
            Some(key)
        })?;
        self.bytes -= u64::from(resident.bytes.0);
        Some(resident)
    }

    /// A key may take a place in the region while there is any, or that of a key which nobody used for a while.
    fn admits_key(&self) -> bool {
        !self.keys_are_over() || self.keys.first().is_some_and(|(least, _)| least.uses == 0)
    }

    /// Another must be worth more than the least of its like, and have no key here that answers for it.
    fn admits_other(&self, id: u32) -> bool {
        let surpasses = |least: Standing| self.worth(self.likeness.order(least.generation), id, 1) > least.worth;
        self.stand_in(id).is_none() && self.others.first().is_none_or(|(least, _)| surpasses(least))
    }
}

impl Residency for Semantic {
    fn hit(&mut self, id: u32) {
        let used = |resident: Resident| Resident { uses: resident.uses.saturating_add(1), ..resident };
        if let Some(standing) = self.others.key(id) {
            let resident = used(standing.resident);
            let worth = self.worth(self.likeness.order(standing.generation), id, resident.uses);
            self.others.set(id, Standing { worth, resident, ..standing });
        } else if let Some(resident) = self.keys.key(id) {
            self.keys.set(id, used(resident));
        }
    }

    fn heeds_neighbours(&self) -> bool {
        true
    }

    fn admit(&mut self, id: u32, _bytes: u32, room: bool) -> bool {
        room || if self.likeness.of(id).1.is_key(id) { self.admits_key() } else { self.admits_other(id) }
    }

    fn victim(&mut self, _pressure: Pressure) -> Option<u32> {
        let key = self.keys.first().map(|(_, id)| id);
        let other = self.others.first().map(|(_, id)| id);
        if self.keys_are_over() { key.or(other) } else { other.or(key) }
    }

    fn inserted(&mut self, id: u32, bytes: u32) {
        if !self.is_resident(id) {
            self.place(id, Resident { uses: 1, bytes: Reverse(bytes) });
        }
    }

    fn removed(&mut self, id: u32) {
        self.take(id);
    }

    fn forget(&mut self, ids: &[u32]) {
        self.likeness.orders_mut().for_each(|likeness| likeness.forget(ids));
    }

    fn signal(&mut self, signal: Signal<'_>) {
        let newest = self.likeness.newest();
        let likeness = match signal {
            Signal::Scores(scores) => Likeness { scores, keys: Arc::clone(&newest.keys) },
            Signal::Neighbours(keys) => Likeness { scores: Arc::clone(&newest.scores), keys },
            _ => return,
        };
        self.likeness.begin(likeness, self.is_empty());
    }

    fn settle(&mut self, steps: usize) -> bool {
        for _ in 0..steps {
            if !self.likeness.is_going_on() {
                break;
            }
            let moved = self.likeness.step(self.others.end().max(self.keys.end()));
            if let Some((id, resident)) = moved.and_then(|id| Some((id, self.take(id)?))) {
                self.place(id, Resident { uses: resident.uses / 2, ..resident });
            }
        }
        self.likeness.is_going_on()
    }

    fn stand_in(&self, id: u32) -> Option<u32> {
        self.likeness.of(id).1.key(id).filter(|&key| key != id && self.is_resident(key))
    }

    fn len(&self) -> usize {
        self.others.len() + self.keys.len()
    }

    /// Scores and neighbours are their sender's, who shares them among all who need them.
    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.others.heap_bytes() + self.keys.heap_bytes()
    }
}

#[cfg(test)]
mod tests;
