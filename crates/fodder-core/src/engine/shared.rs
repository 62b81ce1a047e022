//! What all datasets of a node share: memory, threads, tasks, and the word to stop.

use super::{demand::Demand, disk::Disk, guess::Bound, peer::Peers, record::Recording};
use crate::{Error, Result, budget::Budget, config::EngineConfig};
use std::{
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};
use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Fetched bytes go to the tiers on these threads.
const WRITE_THREADS: usize = 8;
/// Reads that must wait for a disk do so on these.
const READ_THREADS: usize = 8;

/// Copies that are taken from owners at a time.
const MAX_TAKES: usize = 16;
/// The memory for what other nodes ask for, as a part of the budget, and beside it.
const GIVING_PART: u64 = 4;

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) budget: Budget,
    /// Memory for what other nodes ask for. Theirs alone: two nodes whose readers hold all memory while they wait for each
    /// other would wait in vain.
    pub(super) giving: Budget,
    pub(super) reads: Disk,
    pub(super) writes: Disk,
    /// Promotions and checks: work that nobody waits for.
    pub(super) moves: Disk,
    /// Passes over all items that nobody waits for: plans, scores, likenesses.
    pub(super) mind: Disk,
    /// Readers who wait for an origin.
    pub(super) demand: Demand,
    /// Looking for neighbours, which takes minutes.
    pub(super) likeness: Disk,
    /// How much of what was brought in on a guess may lie unread.
    pub(super) guesses: Arc<Bound>,
    pub(super) tasks: TaskTracker,
    pub(super) closing: CancellationToken,
    pub(super) slow_read: Duration,
    /// What is read is written down.
    pub(super) recording: Option<Arc<Recording>>,
    pub(super) origin_concurrency: usize,
    /// The other nodes, once this one has joined them.
    pub(super) peers: OnceLock<Arc<dyn Peers>>,
    /// Copies that are taken from owners because somebody would have liked to have them here.
    pub(super) takes: Arc<Semaphore>,
}

impl Shared {
    pub(super) fn start(config: &EngineConfig) -> Result<Arc<Self>> {
        Ok(Arc::new(Self {
            budget: Budget::new(config.memory_budget_bytes),
            giving: Budget::new(config.memory_budget_bytes / GIVING_PART),
            reads: Disk::start("read", READ_THREADS, 256)?,
            writes: Disk::start("write", WRITE_THREADS, write_slots(config.memory_budget_bytes))?,
            moves: Disk::start("move", 1, 64)?,
            mind: Disk::start("mind", 1, 64)?,
            demand: Demand::default(),
            likeness: Disk::start("likeness", 1, 64)?,
            guesses: Bound::new(config.readahead_bytes),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
            slow_read: config.slow_read,
            recording: config.record.as_deref().map(Recording::start).transpose()?,
            origin_concurrency: config.origin_concurrency,
            peers: OnceLock::new(),
            takes: Arc::new(Semaphore::new(MAX_TAKES)),
        }))
    }

    /// Runs a task until it ends or the word to stop is given.
    pub(super) fn spawn_until(&self, closing: &CancellationToken, task: impl Future<Output = ()> + Send + 'static) {
        let closing = closing.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                // First, so that nothing is begun once it is given.
                biased;
                () = closing.cancelled() => {}
                () = task => {}
            }
        });
    }

    /// Does something to its end even if its caller goes away, unless the word to stop is given.
    pub(super) async fn to_its_end<T: Send + 'static>(
        &self,
        closing: &CancellationToken,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let (tell, told) = tokio::sync::oneshot::channel();
        self.spawn_until(closing, async move {
            let _ = tell.send(work.await);
        });
        told.await.unwrap_or(Err(Error::Closed))
    }

    /// Finishes what the disk threads have queued, and ends them; those that have not ended by the deadline.
    pub(super) fn close(&self, deadline: Option<Instant>) -> Vec<String> {
        let disks = [&self.likeness, &self.mind, &self.moves, &self.reads, &self.writes];
        let mut left: Vec<String> = disks.iter().filter_map(|disk| disk.close(deadline)).collect();
        if let Some(recording) = &self.recording
            && !recording.close(deadline)
        {
            left.push("the recording".into());
        }
        left
    }
}

/// Pieces that may wait to be written: a disk that does not keep up must not take all memory from the readers.
fn write_slots(memory_budget_bytes: u64) -> usize {
    const LARGEST_PIECE_BYTES: u64 = 1 << 20;
    (memory_budget_bytes / 4 / LARGEST_PIECE_BYTES).clamp(8, 256) as usize
}
