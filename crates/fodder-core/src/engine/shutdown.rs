//! The end of an engine. With a limit, threads that hang in a system call are left behind: they end with the process.

use super::{Engine, space::Space};
use std::{
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// How often it is checked whether threads have ended.
const POLL: Duration = Duration::from_millis(5);

/// What threads that were just told to end have at least, if those before them have used up the time.
const GRACE: Duration = Duration::from_millis(200);

impl Engine {
    /// Ends what is under way, makes everything durable, and stops all threads, however long that takes.
    pub async fn shutdown(&self) {
        self.stop_tasks().await;
        self.close(None).await;
    }

    /// The same within a limit. What did not end by then, in words; a tier among it was not closed, and what it had not
    /// committed is a miss at the next start.
    pub async fn shutdown_within(&self, limit: Duration) -> Vec<String> {
        let started = Instant::now();
        let mut left = Vec::new();
        if tokio::time::timeout(limit / 3, self.stop_tasks()).await.is_err() {
            left.push(format!("{} tasks", self.shared.tasks.len()));
        }
        left.extend(self.close(Some(started + limit)).await);
        left
    }

    async fn stop_tasks(&self) {
        self.shared.closing.cancel();
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
    }

    /// Ends the threads and closes the tiers; what did not end by the deadline.
    async fn close(&self, deadline: Option<Instant>) -> Vec<String> {
        let (shared, spaces, scrubber) = (Arc::clone(&self.shared), self.spaces.clone(), self.scrubber.lock().take());
        let close = move || {
            // The tiers are closed even if threads hang: one tier may hang while the others can still be committed.
            let for_threads = deadline.map(|deadline| {
                let now = Instant::now();
                now + deadline.saturating_duration_since(now) / 2
            });
            let mut left: Vec<String> = Vec::new();
            if join_until(for_threads, scrubber.into_iter().collect()) > 0 {
                left.push("the scrubber".into());
            }
            left.extend(shared.close(for_threads));
            left.extend(close_tiers(&spaces, deadline));
            left
        };
        let closed = tokio::task::spawn_blocking(close).await;
        closed.unwrap_or_else(|error| {
            tracing::error!(%error, "closing the tiers failed; what was not committed will be a miss");
            Vec::new()
        })
    }
}

/// Closes tiers side by side; those that were not closed by the deadline.
fn close_tiers(spaces: &[Arc<Space>], deadline: Option<Instant>) -> Vec<String> {
    let Some(deadline) = deadline else {
        spaces.iter().for_each(|space| space.tier.close());
        return Vec::new();
    };
    let closings: Vec<_> = spaces.iter().map(|space| (space, start_closing(Arc::clone(space)))).collect();
    let is_late = |closed: mpsc::Receiver<()>| {
        let left = deadline.saturating_duration_since(Instant::now());
        matches!(closed.recv_timeout(left), Err(mpsc::RecvTimeoutError::Timeout))
    };
    let late = closings.into_iter().filter_map(|(space, closed)| is_late(closed).then_some(space));
    late.map(|space| format!("the tier {}", space.path.display())).collect()
}

fn start_closing(space: Arc<Space>) -> mpsc::Receiver<()> {
    let (closed, receiver) = mpsc::channel();
    let close = move || {
        space.tier.close();
        let _ = closed.send(());
    };
    if let Err(error) = thread::Builder::new().name("close".into()).spawn(close) {
        tracing::warn!(%error, "no thread to close a tier; what it had not committed will be a miss");
    }
    receiver
}

/// Joins threads; those that have not ended by the deadline are left. How many.
pub(super) fn join_until(deadline: Option<Instant>, threads: Vec<JoinHandle<()>>) -> usize {
    if let Some(deadline) = deadline {
        let deadline = deadline.max(Instant::now() + GRACE);
        while !threads.iter().all(JoinHandle::is_finished) && Instant::now() < deadline {
            thread::sleep(POLL);
        }
    }
    let (ended, left): (Vec<_>, Vec<_>) =
        threads.into_iter().partition(|thread| deadline.is_none() || thread.is_finished());
    for thread in ended {
        let _ = thread.join();
    }
    left.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{EngineConfig, Medium, TierConfig};

    #[tokio::test(flavor = "multi_thread")]
    async fn an_engine_ends_within_its_limit_though_a_disk_thread_hangs() {
        let dir = tempfile::tempdir().unwrap();
        let tier = TierConfig { path: dir.path().join("tier"), medium: Medium::Ssd, quota_bytes: 1 << 30 };
        let config = EngineConfig { cache_dir: dir.path().into(), tiers: vec![tier], ..EngineConfig::default() };
        let engine = Engine::open(config.clone()).await.unwrap();
        let (release, released) = mpsc::channel::<()>();
        let hang = move || {
            let _ = released.recv();
        };
        assert!(engine.shared.reads.try_submit(hang));
        engine.shared.tasks.spawn(std::future::pending::<()>());
        let left = engine.shutdown_within(Duration::from_secs(3)).await;
        assert_eq!(left, ["1 tasks", "thread pool read (1 busy)"]);
        drop((release, engine));
        // The tier was closed all the same.
        Engine::open(config).await.unwrap().shutdown().await;
    }
}
