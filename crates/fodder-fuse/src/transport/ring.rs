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

/// Requests that can be under way in one queue: those that wait for the node keep their place in it until they are answered.
const MAX_DEPTH: usize = 64;

/// Requests under way in all queues together, by which a machine with many processors has fewer in each.
const MAX_SLOTS: usize = 256;

/// However many processors there are.
const MIN_DEPTH: usize = 4;

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
        let depth = (MAX_SLOTS / queues).clamp(MIN_DEPTH, MAX_DEPTH);
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
