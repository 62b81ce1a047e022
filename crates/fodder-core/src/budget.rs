//! The one memory budget for bytes on their way: fetched, being written to a tier, being sent to a reader.
//!
//! A permit travels with the bytes it pays for and is given back when the last reference to them is dropped,
//! so that what the budget says is in use is what is in use. A reader takes all it will need in one step,
//! before it holds anything: whoever holds memory never waits for more, and nobody waits in a circle.

use crate::{Error, Result};
use bytes::Bytes;
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A bound on memory that many readers share, first come, first served.
#[derive(Debug, Clone)]
pub struct Budget {
    free: Arc<Semaphore>,
    total_bytes: u64,
    pool: Arc<Pool>,
}

/// Buffers that were given back, to be used again: fresh memory costs page faults, and an allocator that gets large
/// buffers back from many threads keeps more than the budget allows. Never holds more than is free of the budget.
#[derive(Debug, Default)]
struct Pool(Mutex<Idle>);

#[derive(Debug, Default)]
struct Idle {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
}

impl Pool {
    /// Whole pieces come by the thousand and in very few sizes. Everything else is left to the allocator.
    fn keeps(len: usize) -> bool {
        len >= 64 << 10 && len.is_power_of_two()
    }

    fn take(&self, len: usize, free: usize) -> Vec<u8> {
        let mut idle = self.0.lock();
        if let Some(at) = idle.buffers.iter().rposition(|buffer| buffer.len() == len) {
            idle.bytes -= len;
            return idle.buffers.swap_remove(at);
        }
        while idle.bytes > free
            && let Some(buffer) = idle.buffers.pop()
        {
            idle.bytes -= buffer.len();
        }
        drop(idle);
        vec![0; len]
    }

    fn give_back(&self, buffer: Vec<u8>) {
        if Self::keeps(buffer.len()) {
            let mut idle = self.0.lock();
            idle.bytes += buffer.len();
            idle.buffers.push(buffer);
        }
    }
}

impl Budget {
    /// A budget of so many bytes.
    pub fn new(total_bytes: u64) -> Self {
        let total_bytes = total_bytes.min(Semaphore::MAX_PERMITS as u64);
        Self { free: Arc::new(Semaphore::new(total_bytes as usize)), total_bytes, pool: Arc::default() }
    }

    /// All of it.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// What is in use now.
    pub fn used_bytes(&self) -> u64 {
        self.total_bytes - self.free.available_permits() as u64
    }

    /// Waits for its turn and takes `bytes`. The caller holds no other permit, or it may wait for itself.
    pub async fn acquire(&self, bytes: u64) -> Result<Permit> {
        let wanted = self.checked(bytes)?;
        let permit = Arc::clone(&self.free).acquire_many_owned(wanted).await.map_err(|_| Error::Closed)?;
        Ok(Permit { held: permit, pool: Arc::clone(&self.pool) })
    }

    /// Takes `bytes` if they are free now and nobody waits.
    pub fn try_acquire(&self, bytes: u64) -> Option<Permit> {
        let wanted = self.checked(bytes).ok()?;
        let held = Arc::clone(&self.free).try_acquire_many_owned(wanted).ok()?;
        Some(Permit { held, pool: Arc::clone(&self.pool) })
    }

    fn checked(&self, bytes: u64) -> Result<u32> {
        u32::try_from(bytes).ok().filter(|_| bytes <= self.total_bytes).ok_or_else(|| {
            Error::Invalid(format!("{bytes} bytes at once exceed the memory budget of {} bytes", self.total_bytes))
        })
    }
}

/// A part of the budget, given back when dropped.
#[derive(Debug)]
pub struct Permit {
    held: OwnedSemaphorePermit,
    pool: Arc<Pool>,
}

impl Permit {
    /// Takes `bytes` out of this permit, or all that is left of it.
    pub fn split(&mut self, bytes: u64) -> Permit {
        let bytes = bytes.min(self.held.num_permits() as u64) as usize;
        let held = self.held.split(bytes).expect("no more is split off than there is");
        Permit { held, pool: Arc::clone(&self.pool) }
    }

    /// A buffer of `len` bytes that this permit pays for. What is in it is arbitrary: fill it before it is shared.
    pub fn buffer(self, len: usize) -> Buffer {
        debug_assert!(self.held.num_permits() >= len, "a buffer is paid for in full");
        let free = self.held.semaphore().available_permits();
        Buffer { bytes: self.pool.take(len, free), permit: Some(self) }
    }
}

/// Memory paid for by the budget.
#[derive(Debug)]
pub struct Buffer {
    bytes: Vec<u8>,
    /// There until dropped.
    permit: Option<Permit>,
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(permit) = self.permit.take() {
            permit.pool.give_back(std::mem::take(&mut self.bytes));
        }
    }
}

impl Buffer {
    /// Gives the memory up and keeps the permit.
    pub fn into_permit(mut self) -> Permit {
        let permit = self.permit.take().expect("there until dropped");
        permit.pool.give_back(std::mem::take(&mut self.bytes));
        permit
    }

    /// Shares the bytes; the budget gets them back with the last reference.
    pub fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsMut<[u8]> for Buffer {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn bytes_are_paid_for_until_the_last_reference_is_dropped() {
        let budget = Budget::new(100);
        let mut permit = budget.acquire(80).await.unwrap();
        let bytes = permit.split(30).buffer(30).freeze();
        drop(permit);
        let part = bytes.slice(5..10);
        drop(bytes);
        assert_eq!(budget.used_bytes(), 30);
        drop(part);
        assert_eq!(budget.used_bytes(), 0);
    }

    #[tokio::test]
    async fn whole_pieces_are_used_again_and_never_held_beyond_what_is_free() {
        let budget = Budget::new(256 << 10);
        let address = {
            let buffer = budget.acquire(128 << 10).await.unwrap().buffer(128 << 10);
            buffer.as_ref().as_ptr() as usize
        };
        let again = budget.acquire(128 << 10).await.unwrap().buffer(128 << 10);
        assert_eq!(again.as_ref().as_ptr() as usize, address);
        drop(again);
        let other = budget.acquire(200 << 10).await.unwrap().buffer(200 << 10);
        assert_eq!(budget.pool.0.lock().bytes, 0, "what is idle makes room");
        drop(other);
    }

    #[tokio::test]
    async fn more_than_there_will_ever_be_is_an_error_and_not_a_wait() {
        let budget = Budget::new(100);
        assert!(matches!(budget.acquire(101).await, Err(Error::Invalid(_))));
        assert!(budget.try_acquire(101).is_none());
    }
}
