//! Threads for what must wait, so that the threads that take the kernel's requests never do.
//!
//! Started when they are needed and ended when they are not. What waits for a thread is bounded by the kernel, which has
//! one request for each thread of a program and a bounded number of its own.

use parking_lot::{Condvar, Mutex};
use std::{
    cell::Cell,
    collections::VecDeque,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

/// Threads at a time: as many as requests to an origin are useful.
const MAX_THREADS: usize = 64;

/// How long a thread waits for more work.
const IDLE: Duration = Duration::from_secs(10);

/// Enough for a read of the node, with room.
const STACK_BYTES: usize = 512 << 10;

/// Something to do, and when it came.
struct Job {
    arrived: Instant,
    work: Box<dyn FnOnce() + Send>,
}

impl Job {
    fn run(self) {
        ARRIVED.set(Some(self.arrived));
        (self.work)();
        ARRIVED.set(None);
    }
}

thread_local! {
    static ARRIVED: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// When what this thread does was asked for. It may have waited for a thread since, and whoever asked has waited with it.
pub(crate) fn arrived() -> Instant {
    ARRIVED.get().unwrap_or_else(Instant::now)
}

/// The threads.
#[derive(Default)]
pub(crate) struct Workers {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    more: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
}

impl Workers {
    /// Does `job` on a thread that may wait.
    pub(crate) fn run(&self, job: impl FnOnce() + Send + 'static) {
        let mut queue = self.shared.queue.lock();
        queue.jobs.push_back(Job { arrived: Instant::now(), work: Box::new(job) });
        if queue.idle >= queue.jobs.len() || queue.threads == MAX_THREADS {
            self.shared.more.notify_one();
            return;
        }
        queue.threads += 1;
        drop(queue);
        let shared = Arc::clone(&self.shared);
        let started = thread::Builder::new().name("fuse-wait".into()).stack_size(STACK_BYTES);
        if let Err(error) = started.spawn(move || shared.work()) {
            tracing::warn!(%error, "cannot start a thread; requests wait for those that there are");
            let mut queue = self.shared.queue.lock();
            queue.threads -= 1;
            // With no thread at all nobody would ever answer: this one does.
            let job = if queue.threads == 0 { queue.jobs.pop_front() } else { None };
            drop(queue);
            if let Some(job) = job {
                job.run();
            }
        }
    }
}

impl Shared {
    fn work(&self) {
        // Whoever started this thread may be bound to one processor and wait its turn; this one does not.
        crate::transport::roam();
        let mut queue = self.queue.lock();
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                drop(queue);
                job.run();
                queue = self.queue.lock();
                continue;
            }
            queue.idle += 1;
            let timed_out = self.more.wait_for(&mut queue, IDLE).timed_out();
            queue.idle -= 1;
            if timed_out && queue.jobs.is_empty() {
                queue.threads -= 1;
                return;
            }
        }
    }
}

impl std::fmt::Debug for Workers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workers").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::sync::{Barrier, mpsc};

    #[test]
    fn what_waits_does_not_hold_up_what_does_not() {
        let workers = Workers::default();
        let barrier = Arc::new(Barrier::new(9));
        let (sender, receiver) = mpsc::channel();
        for _ in 0..8 {
            let (barrier, sender) = (barrier.clone(), sender.clone());
            workers.run(move || {
                barrier.wait();
                sender.send(1).unwrap();
            });
        }
        let quick = sender.clone();
        workers.run(move || quick.send(2).unwrap());
        assert_eq!(receiver.recv_timeout(Duration::from_secs(20)), Ok(2));
        barrier.wait();
        let rest: u32 = (0..8).map(|_| receiver.recv_timeout(Duration::from_secs(20)).unwrap()).sum();
        assert_eq!(rest, 8);
    }

    #[test]
    fn what_has_waited_for_a_thread_knows_since_when() {
        let workers = Workers::default();
        let barrier = Arc::new(Barrier::new(MAX_THREADS + 1));
        for _ in 0..MAX_THREADS {
            let barrier = barrier.clone();
            workers.run(move || {
                barrier.wait();
            });
        }
        let (sender, receiver) = mpsc::channel();
        workers.run(move || sender.send(arrived()).unwrap());
        let queued = Instant::now();
        barrier.wait();
        assert!(receiver.recv_timeout(Duration::from_secs(20)).unwrap() <= queued);
    }

    #[test]
    fn more_work_than_threads_is_done_in_turn() {
        let workers = Workers::default();
        let (sender, receiver) = mpsc::channel();
        for number in 0..1000 {
            let sender = sender.clone();
            workers.run(move || sender.send(number).unwrap());
        }
        let mut done: Vec<i32> = (0..1000).map(|_| receiver.recv_timeout(Duration::from_secs(20)).unwrap()).collect();
        done.sort_unstable();
        assert_eq!(done, (0..1000).collect::<Vec<_>>());
        assert!(workers.shared.queue.lock().threads <= MAX_THREADS);
    }
}
