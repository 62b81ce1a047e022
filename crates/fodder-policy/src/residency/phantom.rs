//! A cache without bytes: who would be resident, and how many bytes that would be. It asks a policy what an engine asks
//! it, in the same order. The simulator runs on it, and the shadows of `auto`.

use super::{Pressure, Residency};

/// Who is resident.
#[derive(Debug)]
pub(crate) struct Phantom {
    /// A bit an id.
    residents: Vec<u64>,
    used_bytes: u64,
    capacity_bytes: u64,
}

impl Phantom {
    /// An empty cache.
    pub(crate) fn new(capacity_bytes: u64) -> Self {
        Self { residents: Vec::new(), used_bytes: 0, capacity_bytes }
    }

    /// Whether an id is resident.
    #[inline]
    pub(crate) fn contains(&self, id: u32) -> bool {
        self.residents.get(id as usize / 64).is_some_and(|bits| bits >> (id % 64) & 1 == 1)
    }

    /// A missed id could be kept: asks the policy, and makes room as it says. Whether it was kept; `went` is told who
    /// made room.
    #[inline]
    pub(crate) fn offer<R: Residency + ?Sized>(
        &mut self,
        policy: &mut R,
        id: u32,
        bytes_of: impl Fn(u32) -> u32,
        mut went: impl FnMut(u32),
    ) -> bool {
        let bytes = u64::from(bytes_of(id));
        let room = self.used_bytes + bytes <= self.capacity_bytes;
        if bytes > self.capacity_bytes || !policy.admit(id, bytes as u32, room) {
            return false;
        }
        while self.used_bytes + bytes > self.capacity_bytes {
            let Some(victim) = policy.victim(Pressure::Newcomer) else { return false };
            self.remove(policy, victim, &bytes_of);
            went(victim);
        }
        let word = id as usize / 64;
        if word >= self.residents.len() {
            self.residents.resize(word + 1, 0);
        }
        self.residents[word] |= 1 << (id % 64);
        self.used_bytes += bytes;
        policy.inserted(id, bytes as u32);
        true
    }

    /// Gives the cache another size; whoever does not fit any more goes.
    pub(crate) fn resize(&mut self, policy: &mut dyn Residency, capacity_bytes: u64, bytes_of: impl Fn(u32) -> u32) {
        self.capacity_bytes = capacity_bytes;
        while self.used_bytes > capacity_bytes
            && let Some(victim) = policy.victim(Pressure::Yield)
        {
            self.remove(policy, victim, &bytes_of);
        }
    }

    #[inline]
    fn remove<R: Residency + ?Sized>(&mut self, policy: &mut R, id: u32, bytes_of: impl Fn(u32) -> u32) {
        policy.removed(id);
        self.residents[id as usize / 64] &= !(1 << (id % 64));
        self.used_bytes -= u64::from(bytes_of(id));
    }

    /// Bytes it holds on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.residents.capacity() * size_of::<u64>()
    }
}
