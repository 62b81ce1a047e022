//! Thread pools for requests that must wait, so that the threads that take the kernel's requests never do.
//!
//! Threads are started on demand and end when they are idle. The queue of a pool is bounded by the kernel, which has one
//! request for each thread of a program and a bounded number of its own. Requests that can wait for different things belong
//! in different pools ([`Pools`]): a stalled origin must not delay a request that the node answers from memory.

use parking_lot::{Condvar, Mutex};
use std::{
    cell::Cell,
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

/// Threads for requests that the node answers from its catalog and its index.
const METADATA_THREADS: usize = 16;

/// Threads for leases of cached files: the node reads a file that it has not verified since its start, which waits for its disk.
const LEASE_THREADS: usize = 16;

/// Threads for reads of leased cache files, which wait for a local disk.
const FILE_THREADS: usize = 32;

/// Threads for requests that may wait for an origin: as many as concurrent requests to one are useful.
pub(crate) const FETCH_THREADS: usize = 64;

/// Threads for reading ahead, for which no program waits longer than a second.
const READAHEAD_THREADS: usize = 16;

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
    /// Runs the work. A panic ends this job only: its reply is dropped on the way, which answers the request with EIO.
    fn run(self) {
        let outer = ARRIVED.replace(Some(self.arrived));
        if catch_unwind(AssertUnwindSafe(self.work)).is_err() {
            tracing::error!("a request panicked; it is answered with an I/O error");
        }
        ARRIVED.set(outer);
    }
}

thread_local! {
    static ARRIVED: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// When what this thread does was asked for. It may have waited for a thread since, and whoever asked has waited with it.
pub(crate) fn arrived() -> Instant {
    ARRIVED.get().unwrap_or_else(Instant::now)
}

/// One pool for each resource that requests wait for, so that none of them can use up the threads of another.
#[derive(Debug)]
pub(crate) struct Pools {
    /// Answered by the node from memory: lookups, listings, attributes.
    pub(crate) metadata: Workers,
    /// Answered by the node's disk at most: leases of cached files, and their verification.
    pub(crate) lease: Workers,
    /// Answered from leased cache files.
    pub(crate) file: Workers,
    /// May wait for the origin: opens of files that are not cached, reads of files that are not leased.
    pub(crate) fetch: Workers,
    /// Reading ahead from the cache.
    pub(crate) readahead: Workers,
}

impl Default for Pools {
    fn default() -> Self {
        Self {
            metadata: Workers::new("fuse-meta", METADATA_THREADS),
            lease: Workers::new("fuse-lease", LEASE_THREADS),
            file: Workers::new("fuse-file", FILE_THREADS),
            fetch: Workers::new("fuse-fetch", FETCH_THREADS),
            readahead: Workers::new("fuse-ahead", READAHEAD_THREADS),
        }
    }
}

/// One pool of threads.
pub(crate) struct Workers {
    name: &'static str,
    max_threads: usize,
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
    /// A pool of up to `max_threads` threads. None is started yet.
    pub(crate) fn new(name: &'static str, max_threads: usize) -> Self {
        Self { name, max_threads, shared: Arc::default() }
    }

    /// Whether the next job would have to wait for a thread.
    pub(crate) fn is_saturated(&self) -> bool {
        let queue = self.shared.queue.lock();
        queue.threads == self.max_threads && queue.idle <= queue.jobs.len()
    }

    /// Does `job` on a thread that may wait. A job that is passed on by a job of another pool keeps its time of arrival.
    pub(crate) fn run(&self, job: impl FnOnce() + Send + 'static) {
        let mut queue = self.shared.queue.lock();
        queue.jobs.push_back(Job { arrived: arrived(), work: Box::new(job) });
        if queue.idle >= queue.jobs.len() || queue.threads == self.max_threads {
            self.shared.more.notify_one();
            return;
        }
        queue.threads += 1;
        drop(queue);
        let shared = Arc::clone(&self.shared);
        let started = thread::Builder::new().name(self.name.into()).stack_size(STACK_BYTES);
        if let Err(error) = started.spawn(move || shared.work()) {
            tracing::warn!(%error, "cannot start a thread; requests wait for the existing ones");
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
        f.debug_struct("Workers").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::sync::{Barrier, mpsc};

    #[test]
    fn what_waits_does_not_hold_up_what_does_not() {
        let workers = Workers::new("test", 64);
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
        let workers = Workers::new("test", 64);
        let barrier = Arc::new(Barrier::new(64 + 1));
        for _ in 0..64 {
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
        let workers = Workers::new("test", 64);
        let (sender, receiver) = mpsc::channel();
        for number in 0..1000 {
            let sender = sender.clone();
            workers.run(move || sender.send(number).unwrap());
        }
        let mut done: Vec<i32> = (0..1000).map(|_| receiver.recv_timeout(Duration::from_secs(20)).unwrap()).collect();
        done.sort_unstable();
        assert_eq!(done, (0..1000).collect::<Vec<_>>());
        assert!(workers.shared.queue.lock().threads <= 64);
    }

    #[test]
    fn a_job_that_panics_costs_the_pool_no_thread() {
        let workers = Workers::new("test", 2);
        let (sender, receiver) = mpsc::channel::<()>();
        for number in 0..20 {
            let sender = sender.clone();
            workers.run(move || {
                // Dropped by the panic, as the reply to a request is.
                let _reply = sender;
                assert!(number < 0, "planted");
            });
        }
        drop(sender);
        let dropped = receiver.recv_timeout(Duration::from_secs(20));
        assert_eq!(dropped, Err(mpsc::RecvTimeoutError::Disconnected), "every request is answered");
        let barrier = Arc::new(Barrier::new(3));
        for _ in 0..2 {
            let barrier = barrier.clone();
            workers.run(move || {
                barrier.wait();
            });
        }
        // Both threads must be there for this to end.
        barrier.wait();
        assert!(workers.shared.queue.lock().threads <= 2);
    }

    #[test]
    fn a_pool_is_saturated_when_every_thread_is_busy() {
        let workers = Workers::new("test", 2);
        let (barrier, (sender, receiver)) = (Arc::new(Barrier::new(3)), mpsc::channel());
        for _ in 0..2 {
            assert!(!workers.is_saturated());
            let (barrier, sender) = (barrier.clone(), sender.clone());
            workers.run(move || {
                sender.send(()).unwrap();
                barrier.wait();
            });
            receiver.recv_timeout(Duration::from_secs(20)).unwrap();
        }
        assert!(workers.is_saturated());
        barrier.wait();
        let deadline = Instant::now() + Duration::from_secs(20);
        while workers.is_saturated() {
            assert!(Instant::now() < deadline, "the threads are idle again");
            thread::yield_now();
        }
    }

    #[test]
    fn a_job_that_another_pool_passes_on_keeps_its_time_of_arrival() {
        let (first, second) = (Workers::new("first", 1), Arc::new(Workers::new("second", 1)));
        let (sender, receiver) = mpsc::channel();
        first.run(move || {
            let own = arrived();
            second.run(move || sender.send((own, arrived())).unwrap());
        });
        let (own, passed_on) = receiver.recv_timeout(Duration::from_secs(20)).unwrap();
        assert_eq!(own, passed_on);
    }
}
