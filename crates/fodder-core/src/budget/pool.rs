//! Buffers that were given back, to be used again. Knows no permits: who takes a buffer has paid for it.

use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Shorter buffers are left to the allocator.
const LEAST_BYTES: usize = 32 << 10;
/// A buffer is longer than it has to be by less than one so-manieth of the next power of two, so that few sizes are kept.
const STEPS: usize = 16;

/// Buffers that nobody uses. Fresh memory costs page faults, memory that is not fresh is set to zero first, and an allocator
/// that gets large buffers back from many threads keeps more than the budget allows. Never holds more than is free of the
/// budget.
#[derive(Debug, Default)]
pub(super) struct Pool(Mutex<Idle>);

#[derive(Debug, Default)]
struct Idle {
    /// By their lengths, which are sizes of [`size_for`].
    buffers: BTreeMap<usize, Vec<Vec<u8>>>,
    bytes: usize,
}

impl Idle {
    fn take(&mut self, size: usize) -> Option<Vec<u8>> {
        let buffers = self.buffers.get_mut(&size)?;
        let buffer = buffers.pop();
        if buffers.is_empty() {
            self.buffers.remove(&size);
        }
        self.bytes -= buffer.as_ref().map_or(0, Vec::len);
        buffer
    }
}

/// How long a buffer is that has room for so many bytes.
fn size_for(len: usize) -> usize {
    if len < LEAST_BYTES { len } else { len.next_multiple_of(len.next_power_of_two() / STEPS) }
}

impl Pool {
    /// A buffer with room for `len` bytes, when so much of the budget is free. What is in it is arbitrary.
    pub(super) fn take(&self, len: usize, free: usize) -> Vec<u8> {
        let size = size_for(len);
        let mut idle = self.0.lock();
        if let Some(buffer) = idle.take(size) {
            return buffer;
        }
        while idle.bytes > free
            && let Some(largest) = idle.buffers.last_key_value().map(|(size, _)| *size)
        {
            idle.take(largest);
        }
        drop(idle);
        vec![0; size]
    }

    pub(super) fn give_back(&self, buffer: Vec<u8>) {
        if buffer.len() >= LEAST_BYTES {
            let mut idle = self.0.lock();
            idle.bytes += buffer.len();
            idle.buffers.entry(buffer.len()).or_default().push(buffer);
        }
    }

    /// How many bytes lie idle.
    #[cfg(test)]
    pub(super) fn idle_bytes(&self) -> usize {
        self.0.lock().bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn files_of_about_one_length_share_buffers() {
        let pool = Pool::default();
        let first = pool.take(100 << 10, usize::MAX);
        let address = first.as_ptr();
        pool.give_back(first);
        let second = pool.take((100 << 10) + 17, usize::MAX);
        assert_eq!(second.as_ptr(), address);
        assert_eq!(pool.idle_bytes(), 0);
    }

    proptest! {
        #[test]
        fn every_buffer_has_room_little_more_than_asked_and_what_is_idle_is_bounded(
            lengths in prop::collection::vec(1usize..5 << 20, 1..60), free in 0usize..64 << 20,
        ) {
            let pool = Pool::default();
            for len in &lengths {
                let buffer = pool.take(*len, free);
                prop_assert!(buffer.len() >= *len && buffer.len() <= len + len / 8);
                prop_assert!(size_for(buffer.len()) == buffer.len(), "a buffer that comes back is found again");
                prop_assert!(pool.idle_bytes() <= free + (6 << 20), "what was given back since may lie beside it");
                pool.give_back(buffer);
            }
            let idle = pool.0.lock();
            let counted: usize = idle.buffers.values().flatten().map(Vec::len).sum();
            prop_assert_eq!(counted, idle.bytes);
        }
    }
}
