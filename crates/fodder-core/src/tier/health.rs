//! Whether a tier's disk takes writes: one bad write makes it rest, several make it down, one good write heals it.
//!
//! Reads are not its business: they go on, and what they cannot read is a miss.

use parking_lot::Mutex;
use std::{
    sync::atomic::{AtomicU8, Ordering},
    time::{Duration, Instant},
};

/// How a tier's disk behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// It takes writes.
    Ok,
    /// A write failed lately: reads only, tried again soon.
    Unstable,
    /// Several writes in a row failed: reads only, tried again now and then.
    Down,
}

impl Health {
    /// As `status` prints it.
    pub fn as_str(self) -> &'static str {
        match self {
            Health::Ok => "ok",
            Health::Unstable => "unstable",
            Health::Down => "down",
        }
    }
}

/// Failures in a row after which a tier is down.
const DOWN_AFTER: u32 = 5;
/// The longest rest between two attempts.
const LONGEST_REST: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Pulse {
    level: AtomicU8,
    first_rest: Duration,
    trouble: Mutex<Trouble>,
}

#[derive(Debug)]
struct Trouble {
    failures: u32,
    retry_at: Instant,
}

impl Pulse {
    pub(super) fn new(first_rest: Duration) -> Self {
        let trouble = Trouble { failures: 0, retry_at: Instant::now() };
        Self { level: AtomicU8::new(0), first_rest, trouble: Mutex::new(trouble) }
    }

    pub(super) fn health(&self) -> Health {
        match self.level.load(Ordering::Relaxed) {
            0 => Health::Ok,
            1 => Health::Unstable,
            _ => Health::Down,
        }
    }

    /// Whether no write would be tried now.
    pub(super) fn rests(&self, now: Instant) -> bool {
        self.health() != Health::Ok && now < self.trouble.lock().retry_at
    }

    /// Whether a write may be tried. While the tier rests, one attempt is let through after each rest.
    pub(super) fn may_write(&self, now: Instant) -> bool {
        if self.health() == Health::Ok {
            return true;
        }
        let mut trouble = self.trouble.lock();
        if now < trouble.retry_at {
            return false;
        }
        trouble.retry_at = now + self.rest(trouble.failures);
        true
    }

    pub(super) fn failed(&self, now: Instant) {
        let mut trouble = self.trouble.lock();
        trouble.failures = trouble.failures.saturating_add(1);
        trouble.retry_at = now + self.rest(trouble.failures);
        self.level.store(if trouble.failures >= DOWN_AFTER { 2 } else { 1 }, Ordering::Relaxed);
    }

    pub(super) fn worked(&self) {
        if self.health() != Health::Ok {
            self.trouble.lock().failures = 0;
            self.level.store(0, Ordering::Relaxed);
        }
    }

    fn rest(&self, failures: u32) -> Duration {
        (self.first_rest * (1 << failures.saturating_sub(1).min(10))).min(LONGEST_REST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_disk_rests_goes_down_and_is_healed_by_one_good_write() {
        let start = Instant::now();
        let pulse = Pulse::new(Duration::from_secs(1));
        assert!(pulse.may_write(start));
        pulse.failed(start);
        assert_eq!(pulse.health(), Health::Unstable);
        assert!(!pulse.may_write(start + Duration::from_millis(900)));
        assert!(pulse.rests(start + Duration::from_millis(900)) && !pulse.rests(start + Duration::from_millis(1001)));
        assert!(pulse.may_write(start + Duration::from_millis(1001)), "one attempt after the rest");
        assert!(!pulse.may_write(start + Duration::from_millis(1002)), "and only one");
        (0..4).for_each(|_| pulse.failed(start));
        assert_eq!(pulse.health(), Health::Down);
        assert!(pulse.may_write(start + LONGEST_REST));
        pulse.worked();
        assert_eq!(pulse.health(), Health::Ok);
        assert!(pulse.may_write(start) && !pulse.rests(start));
    }
}
