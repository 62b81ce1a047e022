//! A cache without bytes: who is resident and how many bytes that is. It asks the policy what an engine would ask it,
//! in the same order.

use super::Sizes;
use crate::residency::{Pressure, Residency};

/// Who is resident.
#[derive(Debug)]
pub(super) struct Cache<'a> {
    residents: Vec<u64>,
    sizes: &'a Sizes,
    used_bytes: u64,
    capacity_bytes: u64,
}

impl<'a> Cache<'a> {
    pub(super) fn new(items: u32, sizes: &'a Sizes, capacity_bytes: u64) -> Self {
        Self { residents: vec![0; (items as usize).div_ceil(64)], sizes, used_bytes: 0, capacity_bytes }
    }

    #[inline]
    pub(super) fn contains(&self, id: u32) -> bool {
        self.residents[id as usize / 64] >> (id % 64) & 1 == 1
    }

    #[inline]
    fn turn(&mut self, id: u32) {
        self.residents[id as usize / 64] ^= 1 << (id % 64);
    }

    /// A missed item could be kept: asks the policy, and makes room as it says. Whether it was kept; `went` is told
    /// who made room.
    #[inline]
    pub(super) fn offer<R: Residency + ?Sized>(&mut self, policy: &mut R, id: u32, mut went: impl FnMut(u32)) -> bool {
        let bytes = self.sizes.of(id);
        let needed = self.used_bytes + u64::from(bytes);
        let fits_ever = u64::from(bytes) <= self.capacity_bytes;
        if !fits_ever || !policy.admit(id, bytes, needed <= self.capacity_bytes) {
            return false;
        }
        while self.used_bytes + u64::from(bytes) > self.capacity_bytes {
            let Some(victim) = policy.victim(Pressure::Newcomer) else { return false };
            policy.removed(victim);
            self.turn(victim);
            self.used_bytes -= u64::from(self.sizes.of(victim));
            went(victim);
        }
        policy.inserted(id, bytes);
        self.turn(id);
        self.used_bytes += u64::from(bytes);
        true
    }
}
