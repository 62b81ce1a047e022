//! How many there are of something, over time.

use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// Counts who comes and goes. For those who wait anyway: each coming and going takes a lock for a moment.
#[derive(Debug)]
pub(super) struct Gauge(Mutex<State>);

#[derive(Debug)]
struct State {
    count: u32,
    since: Instant,
    time: Duration,
    busy: Duration,
    most: u32,
}

/// What a gauge shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reading {
    /// The time of everyone who was there, all together.
    pub(super) time: Duration,
    /// The time in which somebody was.
    pub(super) busy: Duration,
    /// The most that were there at once since it was last read.
    pub(super) most: u32,
}

impl Default for Gauge {
    fn default() -> Self {
        let (time, busy) = (Duration::ZERO, Duration::ZERO);
        Self(Mutex::new(State { count: 0, since: Instant::now(), time, busy, most: 0 }))
    }
}

impl State {
    /// Adds up what has passed.
    fn pass(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.since);
        self.time += passed * self.count;
        if self.count > 0 {
            self.busy += passed;
        }
        self.since = self.since.max(now);
    }
}

impl Gauge {
    pub(super) fn enter(&self) {
        let mut state = self.0.lock();
        state.pass(Instant::now());
        state.count += 1;
        state.most = state.most.max(state.count);
    }

    pub(super) fn leave(&self) {
        let mut state = self.0.lock();
        state.pass(Instant::now());
        state.count = state.count.saturating_sub(1);
    }

    /// Counts one until what is returned is dropped.
    pub(super) fn inside(&self) -> Inside<'_> {
        self.enter();
        Inside(self)
    }

    pub(super) fn read(&self) -> Reading {
        let mut state = self.0.lock();
        state.pass(Instant::now());
        let most = std::mem::replace(&mut state.most, 0).max(state.count);
        state.most = state.count;
        Reading { time: state.time, busy: state.busy, most }
    }
}

/// One who is counted.
#[derive(Debug)]
pub(super) struct Inside<'a>(&'a Gauge);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_counts_for_everyone_and_busy_once() {
        let second = Duration::from_secs(1);
        let start = Instant::now();
        let mut state = State { count: 0, since: start, time: Duration::ZERO, busy: Duration::ZERO, most: 0 };
        for (at, count) in [(1, 2), (3, 1), (4, 0), (9, 0)] {
            state.pass(start + second * at);
            state.count = count;
        }
        assert_eq!((state.time, state.busy), (second * 5, second * 3));
    }

    #[test]
    fn the_most_is_of_the_time_since_it_was_last_read() {
        let gauge = Gauge::default();
        let first = gauge.inside();
        drop(gauge.inside());
        assert_eq!(gauge.read().most, 2);
        assert_eq!(gauge.read().most, 1);
        drop(first);
        assert_eq!(gauge.read().most, 1);
        assert_eq!(gauge.read().most, 0);
    }
}
