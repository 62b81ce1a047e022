//! How fast a job takes items, and from that when it will take one.
//!
//! Expected moments must compare over time: an item that was told its moment an hour ago competes with one that is told
//! now. So a job's timeline is a straight line that is laid anew only when the job has left it, and for a job that is
//! alone never, because then only its own order matters.

use std::time::Duration;

/// A measurement lasts at least so long and so many items.
const MEASURE: Duration = Duration::from_secs(1);
const MEASURE_ITEMS: u64 = 32;

/// Until something was measured: a thousand items a second.
const FIRST_GUESS_NS: f64 = 1e6;

/// The line is laid anew when the job is so many times the length of a measurement away from it.
const PATIENCE: f64 = 2.0;

/// A job's timeline.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// A point on the line: at this moment, in nanoseconds, the job has taken so many items.
    moment_ns: f64,
    taken: u64,
    /// What an item takes.
    item_ns: f64,
    /// Since when, and since which item, the running measurement lasts.
    since: Duration,
    since_taken: u64,
    /// Items a second in the last whole measurement.
    rate: f64,
}

impl Pace {
    pub(super) fn new(now: Duration) -> Self {
        let moment_ns = now.as_nanos() as f64;
        Self { moment_ns, taken: 0, item_ns: FIRST_GUESS_NS, since: now, since_taken: 0, rate: 0.0 }
    }

    /// The job has taken so many items. It may only be laid anew where it is not alone.
    pub(super) fn observe(&mut self, taken: u64, now: Duration, alone: bool) {
        let lasted = now.saturating_sub(self.since);
        let items = taken.saturating_sub(self.since_taken);
        if lasted < MEASURE || items < MEASURE_ITEMS {
            return;
        }
        self.rate = items as f64 / lasted.as_secs_f64();
        (self.since, self.since_taken) = (now, taken);
        let now_ns = now.as_nanos() as f64;
        let away_ns = (self.moment(taken) - now_ns).abs();
        if !alone && away_ns > PATIENCE * lasted.as_nanos() as f64 {
            (self.moment_ns, self.taken) = (now_ns, taken);
            self.item_ns = lasted.as_nanos() as f64 / items as f64;
        }
    }

    /// When the job will have taken so many items.
    pub(super) fn expected(&self, taken: u64) -> u64 {
        self.moment(taken) as u64
    }

    pub(super) fn rate(&self) -> f64 {
        self.rate
    }

    fn moment(&self, taken: u64) -> f64 {
        self.moment_ns + (taken as f64 - self.taken as f64) * self.item_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes 100 items a second for a while.
    fn run(pace: &mut Pace, seconds: std::ops::Range<u64>, alone: bool) {
        for second in seconds {
            pace.observe(100 * second, Duration::from_secs(second), alone);
        }
    }

    #[test]
    fn the_rate_is_measured() {
        let mut pace = Pace::new(Duration::ZERO);
        assert_eq!(pace.rate(), 0.0);
        run(&mut pace, 1..5, true);
        assert!((pace.rate() - 100.0).abs() < 1e-9);
    }

    #[test]
    fn a_job_among_others_is_expected_when_it_will_come() {
        let mut pace = Pace::new(Duration::ZERO);
        run(&mut pace, 1..30, false);
        let expected = Duration::from_nanos(pace.expected(100 * 60));
        assert!(expected.abs_diff(Duration::from_secs(60)) < Duration::from_secs(3), "{expected:?}");
    }

    #[test]
    fn a_job_that_keeps_its_pace_keeps_its_line() {
        let mut pace = Pace::new(Duration::ZERO);
        run(&mut pace, 1..30, false);
        let before = pace.expected(100_000);
        run(&mut pace, 30..300, false);
        assert_eq!(pace.expected(100_000), before);
    }

    #[test]
    fn the_line_of_a_job_alone_never_changes() {
        let mut pace = Pace::new(Duration::ZERO);
        let before: Vec<u64> = (0..5_000).map(|taken| pace.expected(taken)).collect();
        run(&mut pace, 1..30, true);
        assert!((0..5_000).map(|taken| pace.expected(taken)).eq(before.iter().copied()));
        assert!(before.is_sorted_by(|a, b| a < b));
    }
}
