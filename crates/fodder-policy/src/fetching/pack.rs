//! `pack`: low-score items brought in together, by one long read instead of many short ones (iCache's packs).
//!
//! Goes through the items in the order in which they lie in storage. A pack is a run of neighbours in one object that
//! begins and ends with a wanted item (of low score, and not held), and of which most bytes are wanted; the others are
//! read and let go.

use super::{Fetch, Fetching, Next, View};

/// How many items one call looks at, and at most as many again to finish a pack.
const LOOKS: usize = 4_096;

/// The most bytes of a pack, read or kept.
const PACK_BYTES: u64 = 8 << 20;

/// The least wanted items in a pack: fewer are better fetched one by one, when they are asked for.
const LEAST: usize = 4;

/// The state of `pack`: where the next run may begin.
#[derive(Debug, Default)]
pub struct Packs {
    hand: u32,
    /// How many items were looked at since the last pack.
    barren: usize,
}

/// A run while it is being looked for.
#[derive(Debug, Default)]
struct Run {
    /// The wanted items so far, and their bytes.
    ids: Vec<u32>,
    wanted_bytes: u64,
    /// All items so far, and their bytes.
    items: usize,
    bytes: u64,
}

impl Run {
    fn push(&mut self, id: u32, bytes: u64, wanted: bool) {
        self.items += 1;
        self.bytes += bytes;
        if wanted {
            self.ids.push(id);
            self.wanted_bytes += bytes;
        }
    }

    /// Whether most bytes are wanted. When they are not any more, the run ends, and the next begins behind it: one that
    /// began within it and went on would be better without its first part.
    fn is_dense(&self) -> bool {
        self.wanted_bytes * 2 > self.bytes
    }

    /// Up to its last wanted item it is dense, since unwanted ones only thin it out.
    fn into_fetch(self) -> Option<Fetch> {
        let through = *self.ids.first()?..self.ids.last()? + 1;
        let is_worth_it = self.ids.len() >= LEAST;
        let fetch = Fetch { ids: self.ids, bytes: self.wanted_bytes, through: Some(through), begins_chunk: false };
        is_worth_it.then_some(fetch)
    }
}

impl Packs {
    /// The run that begins at the hand, which is at a wanted item; the hand goes behind it.
    fn run(&mut self, view: &dyn View, room_bytes: u64) -> Run {
        let mut run = Run::default();
        let first = self.hand;
        for id in first..view.items() {
            let bytes = view.bytes(id);
            let is_cut = run.items == LOOKS || (id > first && !view.adjoins(id));
            if is_cut || run.bytes + bytes > PACK_BYTES.min(room_bytes) {
                break;
            }
            run.push(id, bytes, is_wanted(view, id));
            self.hand = id + 1;
            if !run.is_dense() {
                break;
            }
        }
        // An item that does not fit at all is left to those who ask for it.
        self.hand = self.hand.max(first + 1);
        run
    }
}

fn is_wanted(view: &dyn View, id: u32) -> bool {
    view.is_low(id) && !view.held(id)
}

impl Fetching for Packs {
    fn next(&mut self, view: &dyn View, room_bytes: u64) -> Next {
        let items = view.items();
        let mut looked = 0;
        while looked < LOOKS.min(items as usize) {
            if self.hand >= items {
                self.hand = 0;
            }
            looked += 1;
            if !is_wanted(view, self.hand) {
                self.hand += 1;
                continue;
            }
            let run = self.run(view, room_bytes);
            looked += run.items;
            if let Some(fetch) = run.into_fetch() {
                self.barren = 0;
                return Next::Fetch(fetch);
            }
        }
        self.barren += looked;
        if self.barren <= 2 * items as usize {
            return Next::Searching;
        }
        self.barren = 0;
        Next::Nothing
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>()
    }
}

#[cfg(test)]
mod tests;
