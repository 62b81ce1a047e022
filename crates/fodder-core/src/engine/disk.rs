//! Threads for work that may wait for a disk, behind bounded queues: nothing asynchronous ever blocks on a file.

use crate::{Error, Result};
use parking_lot::{Condvar, Mutex};
use std::{
    collections::VecDeque,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// How long an offer waits for a place.
const PATIENCE: Duration = Duration::from_secs(1);

type Job = Box<dyn FnOnce() + Send>;

/// A fixed number of threads and a queue that makes its callers wait when it is full.
#[derive(Debug)]
pub(super) struct Disk {
    queue: Arc<Queue>,
    slots: Arc<Semaphore>,
    /// The last offer found no place in time.
    stalled: AtomicBool,
    threads: Mutex<Vec<JoinHandle<()>>>,
    name: String,
}

/// What is to be done. A job wakes one thread, and none if all are at work.
#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    news: Condvar,
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<(Job, OwnedSemaphorePermit)>,
    is_closed: bool,
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").finish_non_exhaustive()
    }
}

impl Queue {
    /// Waits for the next job; None when there will be no more.
    fn next(&self) -> Option<(Job, OwnedSemaphorePermit)> {
        let mut waiting = self.waiting.lock();
        loop {
            let next = waiting.jobs.pop_front();
            if next.is_some() || waiting.is_closed {
                return next;
            }
            self.news.wait(&mut waiting);
        }
    }

    /// There will be no more: threads end when they have done what is here.
    fn close(&self) {
        self.waiting.lock().is_closed = true;
        self.news.notify_all();
    }
}

impl Disk {
    /// Starts `threads` threads that take from a queue of `slots` jobs.
    pub(super) fn start(name: &str, threads: usize, slots: usize) -> Result<Self> {
        let queue = Arc::new(Queue::default());
        let threads = (0..threads)
            .map(|number| {
                let queue = Arc::clone(&queue);
                std::thread::Builder::new().name(format!("{name}-{number}")).spawn(move || {
                    while let Some((job, _slot)) = queue.next() {
                        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(job)).is_err() {
                            tracing::error!("a disk job panicked; the read it belonged to fails");
                        }
                    }
                })
            })
            .collect::<std::io::Result<Vec<_>>>()
            .map_err(|error| Error::Unavailable(format!("cannot start disk threads: {error}")))?;
        Ok(Self {
            queue,
            slots: Arc::new(Semaphore::new(slots)),
            stalled: AtomicBool::new(false),
            threads: Mutex::new(threads),
            name: name.to_owned(),
        })
    }

    /// Waits for a place in the queue, then leaves `job` there.
    pub(super) async fn submit(&self, job: impl FnOnce() + Send + 'static) -> Result<()> {
        let slot = Arc::clone(&self.slots).acquire_owned().await.map_err(|_| Error::Closed)?;
        self.send(Box::new(job), slot)
    }

    /// Waits a moment for a place in the queue and leaves `job` there; false if the disk does not keep up. Once it
    /// does not, nobody waits again until it has caught up.
    pub(super) async fn offer(&self, job: impl FnOnce() + Send + 'static) -> bool {
        let patience = if self.stalled.load(Relaxed) { Duration::ZERO } else { PATIENCE };
        let slot = tokio::time::timeout(patience, Arc::clone(&self.slots).acquire_owned()).await;
        self.stalled.store(slot.is_err(), Relaxed);
        match slot {
            Ok(Ok(slot)) => self.send(Box::new(job), slot).is_ok(),
            _ => false,
        }
    }

    /// Leaves `job` in the queue if there is a place now.
    pub(super) fn try_submit(&self, job: impl FnOnce() + Send + 'static) -> bool {
        match Arc::clone(&self.slots).try_acquire_owned() {
            Ok(slot) => self.send(Box::new(job), slot).is_ok(),
            Err(_) => false,
        }
    }

    /// Runs `work` on a disk thread and waits for what it returns.
    pub(super) async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        let (answer, answered) = oneshot::channel();
        self.submit(move || drop(answer.send(work()))).await?;
        answered.await.map_err(|_| Error::Internal("a disk thread failed".into()))
    }

    /// Finishes what is queued and ends the threads; in words, those that have not ended by the deadline.
    pub(super) fn close(&self, deadline: Option<Instant>) -> Option<String> {
        self.queue.close();
        let threads = std::mem::take(&mut *self.threads.lock());
        let left = super::shutdown::join_until(deadline, threads);
        (left > 0).then(|| format!("thread pool {} ({left} busy)", self.name))
    }

    fn send(&self, job: Job, slot: OwnedSemaphorePermit) -> Result<()> {
        let mut waiting = self.queue.waiting.lock();
        if waiting.is_closed {
            return Err(Error::Closed);
        }
        waiting.jobs.push_back((job, slot));
        drop(waiting);
        self.queue.news.notify_one();
        Ok(())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.queue.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_that_panics_is_an_error_for_its_caller_and_for_nobody_else() {
        let disk = Disk::start("test", 1, 4).unwrap();
        assert!(matches!(disk.run(|| panic!("planted")).await, Err::<(), _>(Error::Internal(_))));
        assert_eq!(disk.run(|| 7).await.unwrap(), 7);
        assert_eq!(disk.close(None), None);
        assert!(matches!(disk.run(|| 7).await, Err(Error::Closed)));
    }

    #[test]
    fn a_thread_that_hangs_is_left_behind_at_the_deadline() {
        let (release, released) = std::sync::mpsc::channel::<()>();
        let (begun, begins) = std::sync::mpsc::channel();
        let disk = Disk::start("test", 2, 4).unwrap();
        assert!(disk.try_submit(move || {
            begun.send(()).unwrap();
            let _ = released.recv();
        }));
        begins.recv().unwrap();
        let left = disk.close(Some(Instant::now() + Duration::from_millis(50)));
        assert_eq!(left.unwrap(), "thread pool test (1 busy)");
        drop(release);
    }

    #[test]
    fn what_is_queued_is_done_before_threads_end_and_they_end_without_being_told() {
        let (sent, done) = std::sync::mpsc::channel();
        let disk = Disk::start("test", 2, 64).unwrap();
        let threads = std::mem::take(&mut *disk.threads.lock());
        for number in 0..64 {
            let sent = sent.clone();
            assert!(disk.try_submit(move || sent.send(number).unwrap()));
        }
        drop((disk, sent));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let mut done: Vec<i32> = done.iter().collect();
        done.sort_unstable();
        assert_eq!(done, (0..64).collect::<Vec<_>>());
    }
}
