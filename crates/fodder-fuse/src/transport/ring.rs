//! Rings of io_uring that are shared with the kernel: a request arrives in memory of ours, and its answer goes with the
//! same call that waits for the next.
//!
//! The kernel has a queue for each processor, and gives a request to the queue of the processor it was made on. A thread
//! for each processor serves its queue there, so that who asks and who answers need not wake another processor. The rings
//! are made before the kernel is told of them, so that a machine that forbids them is served by the device.

mod queue;
mod slot;

use super::{cpu, spawn};
use crate::{
    kernel::{Device, Handler},
    node::Node,
    wire::request::{Head, Operation},
};
use queue::Queue;
use slot::RingReply;
use std::{
    io,
    sync::{Arc, mpsc},
};

/// Requests that can be under way in one queue. A request that waits for the origin keeps its slot until it is answered, and
/// the kernel holds back all further requests of that processor, metadata too, when no slot is left. A slot costs address
/// space, and memory only once it is used: the kernel takes the slot that was used last first.
const MAX_DEPTH: usize = 256;

/// Requests under way in all queues together, by which a machine with many processors has fewer in each.
const MAX_SLOTS: usize = 1024;

/// However many processors there are: as many as the threads that wait for an origin.
const MIN_DEPTH: usize = 64;

/// Slots in one ring, which serves the queues of several processors where this process may not use all: the kernel takes
/// 32,768 entries.
const MAX_RING_SLOTS: usize = 16_383;

/// Slots in each of so many queues, which are served by so many threads.
fn depth(queues: usize, threads: usize) -> usize {
    let served = queues.div_ceil(threads.max(1)) + 1;
    (MAX_SLOTS / queues.max(1)).clamp(MIN_DEPTH, MAX_DEPTH).min(MAX_RING_SLOTS / served).max(1)
}

/// Who takes requests.
type Take = Arc<dyn Fn(Head, Operation<'_>, RingReply) + Send + Sync>;

/// What a thread is told when the kernel was greeted.
struct Start {
    device: Arc<Device>,
    take: Take,
    /// Whether the kernel took the ring.
    outcome: mpsc::Sender<io::Result<()>>,
}

/// Threads with rings that the kernel does not know yet. Dropped, they end.
pub(super) struct Prepared {
    threads: Vec<mpsc::Sender<Start>>,
}

impl Prepared {
    /// Makes the rings; an error if this machine does not allow them.
    pub(super) fn new() -> io::Result<Self> {
        let (cpus, queues) = (cpu::usable(), cpu::possible());
        let depth = depth(queues, cpus.len());
        let mut threads = Vec::new();
        for (number, cpu) in cpus.iter().copied().enumerate() {
            // Those of processors that this process may not use, or that are not there now, are served by one that is.
            let others = (0..queues).filter(|queue| !cpus.contains(queue) && queue % cpus.len() == number);
            let served: Vec<u16> = [cpu].into_iter().chain(others).map(|queue| queue as u16).collect();
            let (sender, receiver) = mpsc::channel::<Start>();
            let (made, outcome) = mpsc::channel();
            spawn(format!("fuse-ring-{cpu}"), move || {
                cpu::stay_on(cpu);
                cpu::wait_its_turn();
                let queue = match Queue::new(&served, depth) {
                    Ok(queue) => queue,
                    Err(error) => return drop(made.send(Err(error))),
                };
                let _ = made.send(Ok(()));
                if let Ok(start) = receiver.recv() {
                    queue.serve(&start);
                }
            })?;
            outcome.recv().map_err(io::Error::other)??;
            threads.push(sender);
        }
        Ok(Self { threads })
    }

    /// Gives the rings to the kernel.
    pub(super) fn start<N: Node>(self, device: &Arc<Device>, handler: &Arc<Handler<N>>) -> io::Result<()> {
        let handler = Arc::clone(handler);
        let take: Take = Arc::new(move |head, operation, reply| handler.handle(head, operation, reply));
        let (outcome, outcomes) = mpsc::channel();
        for thread in &self.threads {
            let start = Start { device: Arc::clone(device), take: Arc::clone(&take), outcome: outcome.clone() };
            thread.send(start).map_err(io::Error::other)?;
        }
        drop(outcome);
        self.threads.iter().try_for_each(|_| outcomes.recv().map_err(io::Error::other)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_deep_enough_for_readers_that_wait_and_rings_are_no_larger_than_the_kernel_allows() {
        assert_eq!(depth(2, 2), MAX_DEPTH);
        assert_eq!(depth(128, 128), MIN_DEPTH);
        for (queues, threads) in [(1_usize, 1_usize), (512, 1), (1024, 3), (8192, 1)] {
            let most = (queues.div_ceil(threads) + 1) * depth(queues, threads);
            assert!((1..=MAX_RING_SLOTS).contains(&most), "{queues} queues, {threads} threads: {most}");
        }
    }
}
