//! How long an origin is waited for: attempts, pauses between them, deadlines. Knows nothing of stores.

use std::time::Duration;
use tokio::time::Instant;

/// How often and how long a read of the origin is tried before it fails.
#[derive(Debug, Clone, PartialEq)]
pub struct Patience {
    /// Attempts without progress before giving up.
    pub attempts: u32,
    /// The pause after the first failure; it doubles with each further one, and is shortened at random by up to half.
    pub first_pause: Duration,
    /// The longest pause.
    pub longest_pause: Duration,
    /// No attempt begins later than this after the last progress.
    pub deadline: Duration,
    /// A request or a body that brings nothing for so long is broken off and tried again.
    pub no_progress: Duration,
    /// The time to connect.
    pub connect: Duration,
    /// So many bytes count as progress, and give all attempts back. A body that keeps breaking sooner does not.
    pub progress_bytes: u64,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            attempts: 8,
            first_pause: Duration::from_millis(100),
            longest_pause: Duration::from_secs(5),
            deadline: Duration::from_secs(60),
            no_progress: Duration::from_secs(15),
            connect: Duration::from_secs(5),
            progress_bytes: 1 << 20,
        }
    }
}

/// One read's account of its failures.
#[derive(Debug)]
pub(super) struct Trial {
    patience: Patience,
    failures: u32,
    since: Instant,
    bytes: u64,
}

impl Trial {
    pub(super) fn new(patience: &Patience) -> Self {
        Self { patience: patience.clone(), failures: 0, since: Instant::now(), bytes: 0 }
    }

    /// Counts bytes that arrived.
    pub(super) fn progress(&mut self, bytes: u64) {
        self.bytes += bytes;
        if self.bytes >= self.patience.progress_bytes {
            (self.failures, self.since, self.bytes) = (0, Instant::now(), 0);
        }
    }

    /// Counts a failure. The pause before the next attempt, or None when there is to be none. `jitter` is in 0..1.
    pub(super) fn failed(&mut self, jitter: f64) -> Option<Duration> {
        self.failures += 1;
        let doubled = self.patience.first_pause.saturating_mul(1 << (self.failures - 1).min(20));
        let pause = doubled.min(self.patience.longest_pause).mul_f64(1.0 - jitter / 2.0);
        let spent = self.failures >= self.patience.attempts || self.since.elapsed() + pause > self.patience.deadline;
        (!spent).then_some(pause)
    }

    /// For error messages: what was tried.
    pub(super) fn account(&self) -> String {
        let seconds = self.since.elapsed().as_secs_f64();
        match self.failures {
            1 => format!("1 attempt, {seconds:.1} s"),
            n => format!("{n} attempts, {seconds:.1} s"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_end_with_the_attempts() {
        let mut trial =
            Trial::new(&Patience { longest_pause: Duration::from_millis(500), attempts: 6, ..Patience::default() });
        let pauses: Vec<_> = (0..5).map(|_| trial.failed(0.0).unwrap().as_millis()).collect();
        assert_eq!(pauses, [100, 200, 400, 500, 500]);
        assert_eq!(trial.failed(0.0), None);
    }

    #[test]
    fn progress_gives_the_attempts_back_and_a_trickle_does_not() {
        let mut trial = Trial::new(&Patience { attempts: 2, progress_bytes: 10, ..Patience::default() });
        assert!(trial.failed(1.0).is_some());
        trial.progress(9);
        let mut trickling = trial;
        assert!(trickling.failed(1.0).is_none());
        let mut trial = Trial::new(&Patience { attempts: 2, progress_bytes: 10, ..Patience::default() });
        assert!(trial.failed(1.0).is_some());
        trial.progress(10);
        assert!(trial.failed(1.0).is_some());
    }

    #[test]
    fn no_attempt_begins_after_the_deadline() {
        let mut trial = Trial::new(&Patience { deadline: Duration::ZERO, ..Patience::default() });
        assert!(trial.failed(0.0).is_none());
    }
}
