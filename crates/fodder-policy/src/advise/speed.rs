//! How fast a job would run: an item takes the time that the job spends on it itself, and the time its readers wait for
//! storage, which grows and shrinks with what is missed and with how fast that comes.
//!
//! How much of that waiting goes on beside other work is not guessed: what was reckoned is scaled to what was measured.

use super::Measured;

/// The part of its time that a job spends on an item itself at the least, where readers seem to do nothing but wait.
const LEAST_OWN: f64 = 0.02;

/// What decides a job's speed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Speed {
    /// Seconds an item beside waiting for storage.
    own: f64,
    /// Items a second with everything cached, where that was seen.
    most: Option<f64>,
    /// Seconds that each missed item adds to what comes from the origin: one part for latency, one for bandwidth. None
    /// where nothing was ever missed.
    miss: Option<(f64, f64)>,
    /// Of those, how much the readers feel.
    felt: f64,
}

impl Speed {
    pub(super) fn new(measured: &Measured) -> Self {
        let now = sane(measured.items_per_second);
        let seconds = if now > 0.0 { now.recip() } else { 0.0 };
        let missed = 1.0 - measured.hit_ratio.clamp(0.0, 1.0);
        let miss = miss(measured);
        let reckoned = miss.map_or(0.0, |(latency, transfer)| missed * (latency + transfer));
        let storage = match storage_share(measured) {
            Some(share) => seconds * share,
            None => reckoned.min(seconds),
        };
        let felt = if reckoned > 0.0 { storage / reckoned } else { 1.0 };
        let most = measured.cached_items_per_second.map(|cached| sane(cached).max(now));
        Self { own: (seconds - storage).max(seconds * LEAST_OWN), most, miss, felt: sane(felt) }
    }

    /// Items a second where a share of them hits, and the origin gives `bandwidth` times as much. None where it cannot be
    /// told.
    pub(super) fn at(&self, hit_ratio: f64, bandwidth: f64) -> Option<f64> {
        let missed = 1.0 - hit_ratio.clamp(0.0, 1.0);
        let from_origin = match self.miss {
            _ if missed <= 0.0 => 0.0,
            None => return None,
            Some((latency, transfer)) => missed * (latency + transfer / bandwidth),
        };
        // However well its waiting is hidden, no job takes what it misses faster than that comes.
        let seconds = (self.own + self.felt * from_origin).max(from_origin);
        let most = self.most.unwrap_or(f64::INFINITY);
        let speed = if seconds > 0.0 { seconds.recip().min(most) } else { most };
        Some(if speed.is_finite() { speed } else { 0.0 })
    }
}

/// What a missed item costs in latency and in transfer, when as many are under way as were.
fn miss(measured: &Measured) -> Option<(f64, f64)> {
    let whole = Some(sane(measured.miss_seconds)).filter(|seconds| *seconds > 0.0)?;
    let at_once = Some(sane(measured.misses_at_once)).filter(|count| *count > 0.0).unwrap_or(1.0);
    let bytes_per_second = sane(measured.origin_bytes_per_second);
    // Those under way share the bandwidth; what is left of the time is latency.
    let line = if bytes_per_second > 0.0 { sane(measured.item_bytes) / bytes_per_second } else { 0.0 };
    let transfer = sane(line).min(whole / at_once);
    Some((sane(whole / at_once - transfer), transfer))
}

/// The share of the readers' time that goes to waiting for storage. None where it was not measured.
pub(super) fn storage_share(measured: &Measured) -> Option<f64> {
    let waits = measured.waits;
    let all: f64 = [waits.storage, waits.own, waits.preprocessing, waits.gpu].into_iter().map(sane).sum();
    (all > 0.0).then(|| (sane(waits.storage) / all).clamp(0.0, 1.0))
}

/// A number that can be reckoned with.
pub(super) fn sane(number: f64) -> f64 {
    if number.is_finite() { number.max(0.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::super::{Waits, tests::measured};
    use super::*;

    fn close(speed: Option<f64>, expected: f64) -> bool {
        speed.is_some_and(|speed| (speed - expected).abs() < expected * 0.02)
    }

    #[test]
    fn readers_who_do_nothing_but_wait_are_as_fast_as_what_they_miss_comes() {
        let waits = Waits { storage: 1.0, ..Waits::default() };
        // 100 KB items, 100 MB/s: a thousand items a second, if the line is full.
        let full =
            Measured { hit_ratio: 0.0, items_per_second: 1_000.0, cached_items_per_second: None, waits, ..measured() };
        let speed = Speed::new(&Measured { misses_at_once: 100.0, miss_seconds: 0.1, ..full });
        assert!(close(speed.at(0.0, 1.0), 1_000.0) && close(speed.at(0.0, 2.0), 1_960.0), "{speed:?}");
        assert!(close(speed.at(0.5, 1.0), 1_960.0));
        // One at a time of which nearly all is latency: bandwidth does next to nothing.
        let slow = Measured { items_per_second: 10.0, misses_at_once: 1.0, miss_seconds: 0.1, ..full };
        let slow = Speed::new(&slow);
        assert!(close(slow.at(0.0, 1.0), 10.0) && close(slow.at(0.0, 2.0), 10.0), "{slow:?}");
    }

    #[test]
    fn one_who_works_and_waits_by_turns_gains_only_what_he_waits() {
        // Half a millisecond of work, and then half a millisecond for the line.
        let waits = Waits { storage: 0.5, own: 0.5, ..Waits::default() };
        let turns = Measured {
            items_per_second: 1_000.0,
            cached_items_per_second: None,
            hit_ratio: 0.0,
            miss_seconds: 0.000_5,
            misses_at_once: 1.0,
            origin_bytes_per_second: 200e6,
            waits,
            ..measured()
        };
        let speed = Speed::new(&turns);
        assert!(close(speed.at(0.0, 2.0), 1_333.0) && close(speed.at(1.0, 1.0), 2_000.0), "{speed:?}");
        assert!(close(speed.at(0.5, 1.0), 1_333.0) && close(speed.at(0.0, 0.5), 667.0), "{speed:?}");
    }

    #[test]
    fn who_never_waits_is_slowed_only_by_a_line_that_is_full() {
        let waits = Waits { own: 1.0, ..Waits::default() };
        let ahead = Measured { items_per_second: 800.0, hit_ratio: 0.2, waits, ..measured() };
        let speed = Speed::new(&ahead);
        assert!(close(speed.at(0.2, 1.0), 800.0) && close(speed.at(0.2, 2.0), 800.0), "{speed:?}");
        assert!(close(speed.at(0.2, 0.5), 625.0), "{speed:?}");
    }

    #[test]
    fn no_job_is_faster_than_with_everything_cached() {
        let speed = Speed::new(&measured());
        assert_eq!(speed.at(1.0, 1.0), Some(3_000.0));
        assert_eq!(speed.at(0.99, 1.0), Some(3_000.0));
        let nonsense = Measured { item_bytes: f64::NAN, miss_seconds: f64::INFINITY, ..measured() };
        assert!(Speed::new(&nonsense).at(f64::NAN, 1.0).is_none_or(f64::is_finite));
    }

    #[test]
    fn what_misses_would_cost_is_not_told_before_one_was_seen() {
        let speed = Speed::new(&Measured { hit_ratio: 1.0, miss_seconds: 0.0, ..measured() });
        assert_eq!(speed.at(0.5, 1.0), None);
        assert!(speed.at(1.0, 1.0).is_some());
    }
}
