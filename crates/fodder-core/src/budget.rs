//! The one memory budget for bytes on their way: fetched, being written to a tier, being sent to a reader.
//!
//! A permit travels with the bytes it pays for and is given back when the last reference to them is dropped,
//! so that what the budget says is in use is what is in use. A reader takes all it will need in one step,
//! before it holds anything: whoever holds memory never waits for more, and nobody waits in a circle.

mod pool;

use crate::{Error, Result};
use bytes::Bytes;
use pool::Pool;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::SeqCst, fence},
};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// A bound on memory that many readers share, first come, first served.
#[derive(Debug, Clone)]
pub struct Budget(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    free: Arc<Semaphore>,
    total_bytes: u64,
    pool: Pool,
    ebb: Ebb,
}

impl Shared {
    fn used_bytes(&self) -> u64 {
        self.total_bytes - self.free.available_permits() as u64
    }
}

/// Those who wait until less is in use. They are woken only when one of them can go on.
#[derive(Debug, Default)]
struct Ebb {
    /// One more than what may be in use for the first of them to go on; 0 if nobody waits.
    mark: AtomicU64,
    reached: Notify,
}

impl Ebb {
    /// Somebody waits until no more than so much is in use.
    fn await_at(&self, used_bytes: u64) {
        self.mark.fetch_max(used_bytes + 1, SeqCst);
        fence(SeqCst);
    }

    /// So much is in use now. Either who begins to wait sees that memory came back, or it is seen here that they wait.
    fn at(&self, used_bytes: impl FnOnce() -> u64) {
        fence(SeqCst);
        let mark = self.mark.load(SeqCst);
        if mark > 0 && used_bytes() < mark {
            self.mark.store(0, SeqCst);
            self.reached.notify_waiters();
        }
    }
}

impl Budget {
    /// A budget of so many bytes.
    pub fn new(total_bytes: u64) -> Self {
        let total_bytes = total_bytes.min(Semaphore::MAX_PERMITS as u64);
        let free = Arc::new(Semaphore::new(total_bytes as usize));
        Self(Arc::new(Shared { free, total_bytes, pool: Pool::default(), ebb: Ebb::default() }))
    }

    /// All of it.
    pub fn total_bytes(&self) -> u64 {
        self.0.total_bytes
    }

    /// What is in use now.
    pub fn used_bytes(&self) -> u64 {
        self.0.used_bytes()
    }

    /// Waits for its turn and takes `bytes`. The caller holds no other permit, or it may wait for itself.
    pub async fn acquire(&self, bytes: u64) -> Result<Permit> {
        let wanted = self.checked(bytes)?;
        // Also who gives up while waiting may give back what was already set aside for it.
        let giving_back = GivingBack(Arc::clone(&self.0));
        let held = Arc::clone(&self.0.free).acquire_many_owned(wanted).await.map_err(|_| Error::Closed)?;
        Ok(Permit { held, giving_back })
    }

    /// Takes `bytes` if they are free now and nobody waits.
    pub fn try_acquire(&self, bytes: u64) -> Option<Permit> {
        let wanted = self.checked(bytes).ok()?;
        let held = Arc::clone(&self.0.free).try_acquire_many_owned(wanted).ok()?;
        Some(Permit { held, giving_back: GivingBack(Arc::clone(&self.0)) })
    }

    /// Takes `bytes` that nobody else needs: waits until no more than one `part`th of the budget is then in use, or
    /// nothing else is. Never holds up those who wait for their turn.
    pub async fn acquire_spare(&self, bytes: u64, part: u64) -> Result<Permit> {
        self.checked(bytes)?;
        let most_used = (self.0.total_bytes / part.max(1)).saturating_sub(bytes);
        loop {
            let reached = self.0.ebb.reached.notified();
            tokio::pin!(reached);
            reached.as_mut().enable();
            self.0.ebb.await_at(most_used);
            if self.used_bytes() <= most_used
                && let Some(permit) = self.try_acquire(bytes)
            {
                return Ok(permit);
            }
            reached.await;
        }
    }

    fn checked(&self, bytes: u64) -> Result<u32> {
        u32::try_from(bytes).ok().filter(|_| bytes <= self.0.total_bytes).ok_or_else(|| {
            Error::Invalid(format!("{bytes} bytes at once exceed the memory budget of {} bytes", self.0.total_bytes))
        })
    }
}

/// A part of the budget, given back when dropped.
#[derive(Debug)]
pub struct Permit {
    held: OwnedSemaphorePermit,
    /// Dropped after it, as fields are in their order.
    giving_back: GivingBack,
}

/// Tells those who wait for it that memory was given back.
#[derive(Debug)]
struct GivingBack(Arc<Shared>);

impl Drop for GivingBack {
    fn drop(&mut self) {
        self.0.ebb.at(|| self.0.used_bytes());
    }
}

impl Permit {
    /// Takes `bytes` out of this permit, or all that is left of it.
    pub fn split(&mut self, bytes: u64) -> Permit {
        let bytes = bytes.min(self.held.num_permits() as u64) as usize;
        let held = self.held.split(bytes).expect("no more is split off than there is");
        Permit { held, giving_back: GivingBack(Arc::clone(&self.giving_back.0)) }
    }

    /// Bytes that somebody else allocated, and that this permit pays for from now on.
    pub fn pays_for(self: &Arc<Self>, bytes: Bytes) -> Bytes {
        Bytes::from_owner(Paid { bytes, _permit: Arc::clone(self) })
    }

    /// A buffer of `len` bytes that this permit pays for. What is in it is arbitrary: fill it before it is shared.
    pub fn buffer(self, len: usize) -> Buffer {
        debug_assert!(self.held.num_permits() >= len, "a buffer is paid for in full");
        let free = self.held.semaphore().available_permits();
        Buffer { bytes: self.giving_back.0.pool.take(len, free), len, permit: Some(self) }
    }
}

/// Bytes of other origin, and who pays for them.
struct Paid {
    bytes: Bytes,
    _permit: Arc<Permit>,
}

impl AsRef<[u8]> for Paid {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Memory paid for by the budget.
#[derive(Debug)]
pub struct Buffer {
    bytes: Vec<u8>,
    /// How many of them are used: there may be a few more.
    len: usize,
    /// There until dropped.
    permit: Option<Permit>,
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(permit) = self.permit.take() {
            permit.giving_back.0.pool.give_back(std::mem::take(&mut self.bytes));
        }
    }
}

impl Buffer {
    /// Gives the memory up and keeps the permit.
    pub fn into_permit(mut self) -> Permit {
        let permit = self.permit.take().expect("there until dropped");
        permit.giving_back.0.pool.give_back(std::mem::take(&mut self.bytes));
        permit
    }

    /// Shares the bytes; the budget gets them back with the last reference.
    pub fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsMut<[u8]> for Buffer {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.len]
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::{Context, Poll, Waker};

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
        assert_eq!(budget.0.pool.idle_bytes(), 0, "what is idle makes room");
        drop(other);
    }

    #[tokio::test]
    async fn whoever_waits_for_spare_memory_is_woken_when_it_is_spare_for_one_of_them() {
        let budget = Budget::new(100);
        let mut readers = budget.acquire(60).await.unwrap();
        let (mut modest, mut greedy) = (Box::pin(budget.acquire_spare(10, 2)), Box::pin(budget.acquire_spare(40, 2)));
        let mut context = Context::from_waker(Waker::noop());
        assert!(greedy.as_mut().poll(&mut context).is_pending());
        assert!(modest.as_mut().poll(&mut context).is_pending());
        let woken = |budget: &Budget| budget.0.ebb.mark.load(SeqCst) == 0;
        drop(readers.split(15));
        assert!(!woken(&budget), "45 in use are too many for both");
        drop(readers.split(5));
        assert!(woken(&budget));
        assert!(greedy.as_mut().poll(&mut context).is_pending());
        let Poll::Ready(Ok(taken)) = modest.as_mut().poll(&mut context) else { panic!("there are ten to spare") };
        drop(taken);
        assert!(greedy.as_mut().poll(&mut context).is_pending());
        drop(readers);
        assert!(matches!(greedy.as_mut().poll(&mut context), Poll::Ready(Ok(_))));
        assert!(budget.acquire_spare(90, 2).await.is_ok(), "what is more than a part is taken when nothing else is");
    }

    #[tokio::test]
    async fn whoever_gives_up_waiting_wakes_those_who_wait_for_what_is_spare() {
        let budget = Budget::new(100);
        let readers = budget.acquire(60).await.unwrap();
        let mut waiting = Box::pin(budget.acquire(80));
        let mut spare = Box::pin(budget.acquire_spare(10, 2));
        let mut context = Context::from_waker(Waker::noop());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        assert!(spare.as_mut().poll(&mut context).is_pending());
        drop(readers);
        assert_ne!(budget.0.ebb.mark.load(SeqCst), 0, "it is set aside for who has waited");
        drop(waiting);
        assert_eq!(budget.0.ebb.mark.load(SeqCst), 0);
        assert!(matches!(spare.as_mut().poll(&mut context), Poll::Ready(Ok(_))));
    }

    #[tokio::test]
    async fn more_than_there_will_ever_be_is_an_error_and_not_a_wait() {
        let budget = Budget::new(100);
        assert!(matches!(budget.acquire(101).await, Err(Error::Invalid(_))));
        assert!(budget.try_acquire(101).is_none());
    }
}
