//! What waits to be sent, in order. It says when it is full; those who can wait, wait.

use parking_lot::Mutex;
use std::collections::VecDeque;
use tokio::sync::Notify;

/// How many may wait before it is full: with those that one answer causes, 30 MB.
const MOST: usize = 1 << 18;

/// A queue of what waits.
#[derive(Debug)]
pub(super) struct Queue<T> {
    waiting: Mutex<VecDeque<T>>,
    /// There is room again.
    drained: Notify,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { waiting: Mutex::default(), drained: Notify::new() }
    }
}

impl<T> Queue<T> {
    /// Adds what has happened already, and so cannot be refused.
    pub(super) fn extend(&self, more: impl IntoIterator<Item = T>) {
        self.waiting.lock().extend(more);
    }

    /// Takes the first, if it is so.
    pub(super) fn pop_if(&self, is_so: impl Fn(&T) -> bool) -> Option<T> {
        let (first, left) = {
            let mut waiting = self.waiting.lock();
            (waiting.pop_front_if(|first| is_so(first)), waiting.len())
        };
        if first.is_some() && left + 1 == MOST {
            self.drained.notify_waiters();
        }
        first
    }

    /// Whether there is a first, and it is so.
    pub(super) fn is_next(&self, is_so: impl Fn(&T) -> bool) -> bool {
        self.waiting.lock().front().is_some_and(is_so)
    }

    /// Whether nothing should be added that need not be.
    pub(super) fn is_full(&self) -> bool {
        self.waiting.lock().len() >= MOST
    }

    /// Waits until it is not full.
    pub(super) async fn has_room(&self) {
        loop {
            let drained = self.drained.notified();
            tokio::pin!(drained);
            drained.as_mut().enable();
            if !self.is_full() {
                return;
            }
            drained.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::{Context, Waker};

    #[test]
    fn who_can_wait_waits_while_it_is_full() {
        let queue = Queue::default();
        queue.extend(0..=MOST);
        assert!(queue.is_full());
        let mut room = std::pin::pin!(queue.has_room());
        let mut context = Context::from_waker(Waker::noop());
        assert!(room.as_mut().poll(&mut context).is_pending());
        assert_eq!((queue.pop_if(|_| false), queue.pop_if(|_| true)), (None, Some(0)));
        assert!(room.as_mut().poll(&mut context).is_pending());
        assert_eq!(queue.pop_if(|_| true), Some(1));
        assert!(room.as_mut().poll(&mut context).is_ready());
        assert!(!queue.is_full() && queue.is_next(|first| *first == 2));
    }
}
