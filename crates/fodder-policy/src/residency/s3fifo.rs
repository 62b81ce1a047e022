//! `s3fifo`: newcomers wait in a small queue and pass into the main one if they are hit more than once; those who
//! leave the small queue are remembered for a while, and go to the main one if they come back (Yang et al., SOSP '23).
//! Keeps what is used once away from what is used often; an epoch uses everything once.
//!
//! Two rings, a byte of state and a number: 5 bytes an id and 8 a resident. Every operation is O(1) amortised: each
//! step towards a victim takes back one hit.

use super::{Pressure, Residency, dense::Dense, ring::Ring};

/// The small queue gives way while it holds more than one part in this many of the resident bytes.
const SMALL_PART: u64 = 10;

/// Hits it takes to pass from the small queue into the main one.
const PROMOTED_AT: u8 = 2;

/// Where an id is; of a resident, also how often it was hit there, up to 3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct State(u8);

impl State {
    const OUT: Self = Self(0);
    /// Left the small queue and may be remembered.
    const GHOST: Self = Self(1);
    /// Asked for while it was remembered.
    const RECALLED: Self = Self(2);
    /// In the small queue, not hit. The next three: hit.
    const SMALL: Self = Self(4);
    /// In the main queue, not hit. The next three: hit.
    const MAIN: Self = Self(8);

    fn is_resident(self) -> bool {
        self >= Self::SMALL
    }

    fn is_main(self) -> bool {
        self >= Self::MAIN
    }

    fn hits(self) -> u8 {
        self.0 & 3
    }
}

/// One of the queues.
#[derive(Debug, Default)]
struct Queue {
    /// By arrival, with their bytes.
    members: Ring<u32>,
    bytes: u64,
}

/// The state of `s3fifo`.
#[derive(Debug, Default)]
pub struct S3Fifo {
    states: Dense<State>,
    /// Of a resident: its slot in its queue. Of a ghost: how many had left the small queue when it had.
    numbers: Dense<u32>,
    small: Queue,
    main: Queue,
    /// How many have left the small queue, modulo 2^32.
    left: u32,
    len: usize,
}

impl S3Fifo {
    fn state(&self, id: u32) -> State {
        self.states.get(id).unwrap_or(State::OUT)
    }

    fn set_state(&mut self, id: u32, state: State) {
        *self.states.entry(id, State::OUT) = state;
    }

    /// Puts an id at the end of the queue that its state says.
    fn enter(&mut self, id: u32, bytes: u32, state: State) {
        let queue = if state.is_main() { &mut self.main } else { &mut self.small };
        queue.bytes += u64::from(bytes);
        queue.members.push(id, bytes, |id, slot| *self.numbers.entry(id, 0) = slot);
        self.set_state(id, state);
    }

    /// Takes a resident out of its queue, and gives its bytes.
    fn leave(&mut self, id: u32) -> u32 {
        let queue = if self.state(id).is_main() { &mut self.main } else { &mut self.small };
        let bytes = queue.members.remove(id, || self.numbers.get(id).expect("a resident has a slot"));
        queue.bytes -= u64::from(bytes);
        bytes
    }

    /// Whether an id left the small queue so short a time ago that it is remembered: as many are as the main queue
    /// would hold.
    fn is_remembered(&self, id: u32) -> bool {
        let remembered = self.len - self.len.div_ceil(SMALL_PART as usize);
        let is_recent = |left: u32| (self.left.wrapping_sub(left) as usize) < remembered;
        self.state(id) == State::GHOST && self.numbers.get(id).is_some_and(is_recent)
    }
}

impl Residency for S3Fifo {
    fn hit(&mut self, id: u32) {
        if let Some(state) = self.states.get_mut(id).filter(|state| state.is_resident() && state.hits() < 3) {
            state.0 += 1;
        }
    }

    fn admit(&mut self, id: u32, _bytes: u32, _room: bool) -> bool {
        // What makes room for it would push it out of memory before it is here.
        if self.is_remembered(id) {
            self.set_state(id, State::RECALLED);
        }
        true
    }

    /// Moves on those who earned it until the one who is next did not.
    fn victim(&mut self, _pressure: Pressure) -> Option<u32> {
        loop {
            let small_first = self.small.bytes * SMALL_PART > self.small.bytes + self.main.bytes;
            let next_small = self.small.members.first().filter(|_| small_first || self.main.members.is_empty());
            let id = next_small.or_else(|| self.main.members.first())?;
            let state = self.state(id);
            let onward = match (state.is_main(), state.hits()) {
                (false, PROMOTED_AT..) => State::MAIN,
                (true, 1..) => State(state.0 - 1),
                _ => return Some(id),
            };
            let bytes = self.leave(id);
            self.enter(id, bytes, onward);
        }
    }

    fn inserted(&mut self, id: u32, bytes: u32) {
        let state = self.state(id);
        if !state.is_resident() {
            let returns = state == State::RECALLED || self.is_remembered(id);
            self.enter(id, bytes, if returns { State::MAIN } else { State::SMALL });
            self.len += 1;
        }
    }

    fn removed(&mut self, id: u32) {
        let state = self.state(id);
        if state.is_resident() {
            self.leave(id);
            self.len -= 1;
            if state.is_main() {
                self.set_state(id, State::OUT);
            } else {
                self.left = self.left.wrapping_add(1);
                *self.numbers.entry(id, 0) = self.left;
                self.set_state(id, State::GHOST);
            }
        }
    }

    fn forget(&mut self, ids: &[u32]) {
        for &id in ids {
            if let Some(state) = self.states.get_mut(id).filter(|state| !state.is_resident()) {
                *state = State::OUT;
            }
        }
    }

    fn len(&self) -> usize {
        self.len
    }

    fn memory_bytes(&self) -> usize {
        let queues = self.small.members.heap_bytes() + self.main.members.heap_bytes();
        size_of::<Self>() + self.states.heap_bytes() + self.numbers.heap_bytes() + queues
    }
}

#[cfg(test)]
mod tests;
