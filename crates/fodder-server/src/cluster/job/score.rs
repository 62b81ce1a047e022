//! Scores that jobs report to this node, on their way to the others.
//!
//! A bounded queue for all of them: where they come faster than others take them, they are dropped, counted and logged.
//! The next report of the same items makes up for that.

use crate::cluster::Peering;
use fodder_api::v1::{JobScores, JobScoresTaken, PeerMessage, peer_message};
use fodder_core::{Engine, Result, job::Scores};
use parking_lot::Mutex;
use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::sync::Notify;

/// Scores in one message.
const PART: usize = 32 << 10;

/// Messages that wait at most: at 256 KiB each, 64 MiB.
const MAX_WAITING: usize = 256;

/// How long one message may take to be heard by all.
const PATIENCE: Duration = Duration::from_secs(5);

/// Scores that wait to be passed on.
#[derive(Debug, Default)]
pub(in crate::cluster) struct Waiting {
    messages: Mutex<VecDeque<JobScores>>,
    some: Notify,
    dropped: AtomicU64,
}

impl Waiting {
    pub(in crate::cluster) fn push(&self, dataset: &str, job: &str, items: u32, scores: Scores<'_>) {
        let head = || JobScores { dataset: dataset.into(), job: job.into(), items, ..JobScores::default() };
        match scores {
            Scores::Dense(values) => {
                for (first, part) in (0u32..).step_by(PART).zip(values.chunks(PART)) {
                    self.add(JobScores { first, scores: part.to_vec(), ..head() });
                }
            }
            Scores::Sparse { ids, values } => {
                for (ids, part) in ids.chunks(PART).zip(values.chunks(PART)) {
                    self.add(JobScores { ids: ids.to_vec(), scores: part.to_vec(), ..head() });
                }
            }
        }
    }

    pub(in crate::cluster) fn push_apply(&self, dataset: &str, job: &str) {
        self.add(JobScores { dataset: dataset.into(), job: job.into(), apply: true, ..JobScores::default() });
    }

    fn add(&self, message: JobScores) {
        let mut messages = self.messages.lock();
        if messages.len() >= MAX_WAITING {
            let dropped = self.dropped.fetch_add(1, Relaxed) + 1;
            if dropped.is_power_of_two() {
                tracing::warn!(dropped, "scores come faster than other nodes take them: some were not passed on");
            }
            return;
        }
        messages.push_back(message);
        self.some.notify_one();
    }

    /// How many messages of them were not passed on.
    pub(in crate::cluster) fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    fn pop(&self) -> Option<JobScores> {
        self.messages.lock().pop_front()
    }
}

impl Peering {
    /// Passes on scores until nobody listens.
    pub async fn spread_scores(self: Arc<Self>, engine: std::sync::Weak<Engine>) {
        while engine.strong_count() > 0 {
            let Some(message) = self.scores.pop() else {
                let _ = tokio::time::timeout(PATIENCE, self.scores.some.notified()).await;
                continue;
            };
            let message = PeerMessage { message: Some(peer_message::Message::Scores(message)) };
            self.tell_each(&message, PATIENCE).await;
        }
    }
}

/// Takes scores that a job has reported to another node.
pub(crate) async fn answer(engine: &Arc<Engine>, said: JobScores) -> Result<JobScoresTaken> {
    let dataset = engine.dataset(&said.dataset)?;
    let take = move || {
        if !said.scores.is_empty() {
            let listed = !said.ids.is_empty();
            let ids = if listed { said.ids } else { (said.first..).take(said.scores.len()).collect() };
            dataset.jobs().heed_scores(&said.job, said.items, Scores::Sparse { ids: &ids, values: &said.scores })?;
        }
        if said.apply { dataset.jobs().heed_apply(&said.job) } else { Ok(()) }
    };
    let taken = tokio::task::spawn_blocking(take).await;
    taken.unwrap_or_else(|error| Err(fodder_core::Error::Internal(error.to_string())))?;
    Ok(JobScoresTaken {})
}
