//! What is done for jobs when nobody waits for it: long effects, scores that take effect, leases that ran out.

use super::{low::LowScores, span::Span, state::Inner};
use crate::engine::Dataset;
use fodder_policy::{Signal, residency::signal::UNSCORED};
use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

/// How often leases and intervals are looked at while there are jobs.
const INTERVAL: Duration = Duration::from_secs(1);
/// Small steps that a policy does before readers are let in.
const STEPS: usize = 256;

impl Dataset {
    /// Looks after jobs until the dataset is closed.
    pub(in crate::engine) fn tend_jobs(self: &Arc<Self>) {
        let dataset = Arc::downgrade(self);
        let jobs = Arc::clone(&self.jobs);
        self.spawn(async move {
            loop {
                let told = tokio::time::timeout(INTERVAL, jobs.work.notified()).await.is_ok();
                let Some(dataset) = dataset.upgrade() else { return };
                if !told && jobs.is_empty() && !dataset.has_to_settle() && !dataset.has_holds() {
                    continue;
                }
                let tending = Arc::clone(&dataset);
                if dataset.shared.mind.run(move || tending.tend()).await.is_err() {
                    return;
                }
            }
        });
    }

    fn tend(self: &Arc<Self>) {
        self.expire_jobs();
        self.send_all_effects();
        self.apply_due_scores();
        self.resemble_soon();
        self.settle_policies();
        self.stocks.iter().for_each(|(_, stock)| stock.holds.expire());
        self.staging.expire();
        self.prefetcher.wake();
    }

    fn expire_jobs(&self) {
        let gone = self.with_jobs(|inner, now| {
            let gone = inner.machine.expire(now);
            Ok(gone.into_iter().map(|gone| inner.forget(gone, &self.jobs.outbox)).collect::<Vec<_>>())
        });
        for gone in gone.into_iter().flatten() {
            tracing::info!(dataset = self.config().name, job = gone.name, "removed a job whose lease ran out");
            self.jobs.progress.notify_waiters();
        }
    }

    /// Combines the scores of all jobs, if some are due, and gives them to the policies.
    fn apply_due_scores(&self) {
        let due = |inner: &mut Inner, now| {
            let reported = inner.machine.take_scores(now);
            Ok(reported.and_then(|reported| {
                let snapshot = inner.snapshot_named(reported.snapshot().fingerprint)?;
                Some((reported, snapshot))
            }))
        };
        let Ok(Some((reported, snapshot))) = self.with_jobs(due) else { return };
        let by_item = reported.combine();
        let objects = self.objects();
        let span = Span { snapshot: &snapshot, objects: &objects };
        let mut by_piece = vec![f32::NEG_INFINITY; objects.pieces() as usize];
        for (id, score) in by_item.iter().enumerate() {
            for piece in span.pieces(id as u32) {
                by_piece[piece as usize] = by_piece[piece as usize].max(*score);
            }
        }
        by_piece.iter_mut().filter(|score| !score.is_finite()).for_each(|score| *score = UNSCORED);
        self.jobs.low_scores.store(Some(Arc::new(LowScores::new(&snapshot, by_item))));
        let by_piece: Arc<[f32]> = by_piece.into();
        // Where neighbours are known, scores come from them.
        let by_likeness = self.jobs.likenesses_applied.load(Relaxed) > 0;
        for (_, stock) in self.stocks.iter().filter(|(_, stock)| !(by_likeness && stock.heeds_neighbours())) {
            stock.signal(Signal::Scores(Arc::clone(&by_piece)));
        }
        if let (Some(recording), Some(number)) = (&self.shared.recording, self.recorded_as) {
            recording.scores(number, &by_piece);
        }
        self.jobs.scores_applied.fetch_add(1, Relaxed);
        tracing::debug!(dataset = self.config().name, snapshot = %snapshot.id(), "new scores are in effect");
    }

    /// Whether a policy has more to do than one small step.
    fn has_to_settle(&self) -> bool {
        self.stocks.iter().any(|(_, stock)| stock.settle(1))
    }

    /// Whether pieces are still held for jobs, which may all be gone.
    fn has_holds(&self) -> bool {
        self.stocks.iter().any(|(_, stock)| !stock.holds.is_empty())
    }

    /// Lets the policies take in what signals told them, a little at a time.
    fn settle_policies(&self) {
        for (_, stock) in &self.stocks {
            while stock.settle(STEPS) {
                std::thread::yield_now();
            }
        }
    }
}
