//! What jobs report to this node, on its way to the others.
//!
//! A bounded queue: what comes faster than others take it is dropped, counted and logged. The next report of the same items
//! makes up for that.

use crate::cluster::Peering;
use fodder_api::v1::{PeerMessage, peer_message::Message};
use fodder_core::Engine;
use parking_lot::Mutex;
use std::{
    collections::VecDeque,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::sync::Notify;

/// Messages that wait at most: at 256 KiB each, 64 MiB.
const MAX_WAITING: usize = 256;

/// How long one message may take to be heard by all.
const PATIENCE: Duration = Duration::from_secs(5);

/// Reports of one kind that wait to be passed on.
#[derive(Debug, Default)]
pub(in crate::cluster) struct Waiting {
    messages: Mutex<VecDeque<Message>>,
    some: Notify,
    dropped: AtomicU64,
}

impl Waiting {
    pub(super) fn add(&self, message: Message) {
        let mut messages = self.messages.lock();
        if messages.len() >= MAX_WAITING {
            let dropped = self.dropped.fetch_add(1, Relaxed) + 1;
            if dropped.is_power_of_two() {
                tracing::warn!(
                    dropped,
                    "jobs report faster than other nodes accept it: some reports were not passed on"
                );
            }
            return;
        }
        messages.push_back(message);
        self.some.notify_one();
    }

    /// How many messages were not passed on.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    fn pop(&self) -> Option<Message> {
        self.messages.lock().pop_front()
    }
}

impl Peering {
    /// Passes on what jobs report until nobody listens. Embeddings are long, and hold up no scores.
    pub async fn spread_reports(self: Arc<Self>, engine: Weak<Engine>) {
        tokio::join!(self.pass_on(&self.scores, &engine), self.pass_on(&self.embeddings, &engine));
    }

    async fn pass_on(&self, waiting: &Waiting, engine: &Weak<Engine>) {
        while engine.strong_count() > 0 {
            let Some(message) = waiting.pop() else {
                let _ = tokio::time::timeout(PATIENCE, waiting.some.notified()).await;
                continue;
            };
            self.tell_each(&PeerMessage { message: Some(message) }, PATIENCE).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fodder_api::v1::JobScores;

    #[test]
    fn what_nobody_takes_is_dropped_and_counted() {
        let waiting = Waiting::default();
        (0..MAX_WAITING + 3).for_each(|_| waiting.add(Message::Scores(JobScores::default())));
        assert_eq!(waiting.dropped(), 3);
        assert_eq!(std::iter::from_fn(|| waiting.pop()).count(), MAX_WAITING);
    }
}
