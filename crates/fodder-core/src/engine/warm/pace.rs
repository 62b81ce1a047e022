//! How fast: a bound on bytes a second, and how many they were. Pure: time is passed in.

use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// How far a line that was not used may lag behind its schedule and catch up: timers wake late.
const CATCH_UP: Duration = Duration::from_millis(50);

/// A line that carries so many bytes a second, for whoever takes its turns.
#[derive(Debug)]
pub(super) struct Pace {
    bytes_per_second: Option<u64>,
    free_at: Mutex<Option<Instant>>,
}

impl Pace {
    pub(super) fn new(bytes_per_second: Option<u64>) -> Self {
        Self { bytes_per_second, free_at: Mutex::new(None) }
    }

    /// The most bytes to ask for at once, so that a slow line is used evenly: a quarter of a second's worth.
    pub(super) fn request_bytes(&self, most: u64) -> u64 {
        self.bytes_per_second.map_or(most, |rate| (rate / 4).min(most))
    }

    /// Takes a turn for `bytes`: it begins when the turns before it are over. None: now.
    pub(super) fn turn(&self, bytes: u64, now: Instant) -> Option<Instant> {
        let rate = self.bytes_per_second?.max(1);
        let mut free_at = self.free_at.lock();
        let earliest = now.checked_sub(CATCH_UP).unwrap_or(now);
        let begin = free_at.map_or(now, |free| free.max(earliest));
        *free_at = Some(begin + Duration::from_secs_f64(bytes as f64 / rate as f64));
        (begin > now).then_some(begin)
    }
}

/// Bytes a second, smoothed over the last seconds.
#[derive(Debug)]
pub(super) struct Rate {
    at: Instant,
    bytes: u64,
    /// What has come lately, the older the less it counts; and how much all of it counts.
    sum: f64,
    weight: f64,
}

impl Rate {
    /// Looks that come sooner than this say nothing.
    const STEP: Duration = Duration::from_millis(100);
    /// How long a change takes to show for the most part.
    const MEMORY_S: f64 = 5.0;

    /// A rate from now on.
    pub(super) fn new(now: Instant) -> Self {
        Self { at: now, bytes: 0, sum: 0.0, weight: 0.0 }
    }

    /// So many bytes have come until now: bytes a second. In the first seconds that is their average.
    pub(super) fn look(&mut self, bytes: u64, now: Instant) -> f64 {
        let elapsed = now.saturating_duration_since(self.at);
        if elapsed >= Self::STEP {
            let elapsed_s = elapsed.as_secs_f64();
            let latest = bytes.saturating_sub(self.bytes) as f64 / elapsed_s;
            let kept = (-elapsed_s / Self::MEMORY_S).exp();
            self.sum = self.sum * kept + latest * (1.0 - kept);
            self.weight = self.weight * kept + (1.0 - kept);
            (self.at, self.bytes) = (now, bytes);
        }
        if self.weight > 0.0 { self.sum / self.weight } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn turns_follow_each_other_as_fast_as_the_line_is() {
        let (pace, now) = (Pace::new(Some(1000)), Instant::now());
        assert_eq!(pace.turn(500, now), None);
        assert_eq!(pace.turn(1000, now), Some(now + S / 2));
        assert_eq!(pace.turn(1, now), Some(now + S * 3 / 2));
    }

    #[test]
    fn a_line_that_rested_saves_nothing_up() {
        let (pace, now) = (Pace::new(Some(1000)), Instant::now());
        assert_eq!(pace.turn(1000, now), None);
        let later = now + S * 100;
        assert_eq!(pace.turn(1000, later), None);
        let next = pace.turn(1, later).unwrap();
        assert!(next >= later + S - CATCH_UP, "{:?}", next - later);
    }

    #[test]
    fn without_a_bound_nobody_waits_and_requests_are_as_long_as_they_may_be() {
        let (pace, now) = (Pace::new(None), Instant::now());
        assert_eq!((pace.turn(u64::MAX, now), pace.turn(1, now)), (None, None));
        assert_eq!(pace.request_bytes(4 << 20), 4 << 20);
        assert_eq!(Pace::new(Some(1 << 20)).request_bytes(4 << 20), 256 << 10);
    }

    #[test]
    fn a_rate_is_an_average_at_first_whatever_the_first_look_saw() {
        let begin = Instant::now();
        let mut rate = Rate::new(begin);
        assert_eq!(rate.look(0, begin + S / 2), 0.0, "nothing has come yet");
        for n in 1..6 {
            let bytes = 1000 * u64::from(n);
            let (told, average) = (rate.look(bytes, begin + S / 2 + n * S), bytes as f64 / (f64::from(n) + 0.5));
            assert!(told >= average && told < 1000.0, "after {n} s: {told}, on average {average}");
        }
    }

    #[test]
    fn a_rate_follows_what_comes() {
        let begin = Instant::now();
        let mut rate = Rate::new(begin);
        assert_eq!(rate.look(1000, begin), 0.0, "too soon to say");
        assert_eq!(rate.look(1000, begin + S), 1000.0);
        let faster = rate.look(5000, begin + 2 * S);
        assert!(faster > 1000.0 && faster < 4000.0, "{faster}");
        let mut last = faster;
        for n in 3..60 {
            last = rate.look(5000, begin + n * S);
        }
        assert!(last < 1.0, "{last}");
    }
}
