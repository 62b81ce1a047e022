//! How fast a job would run: as fast as with everything cached, or as fast as its misses come, whichever is less.

use super::Measured;

/// What decides a job's speed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Speed {
    /// With everything cached.
    cached: f64,
    item_bytes: f64,
    bytes_per_second: f64,
    /// Of a miss, what does not come from bandwidth.
    latency_seconds: f64,
    at_once: f64,
}

impl Speed {
    pub(super) fn new(measured: &Measured) -> Self {
        let item_bytes = sane(measured.item_bytes).max(1.0);
        let bytes_per_second = sane(measured.origin_bytes_per_second);
        let at_once = sane(measured.misses_at_once).max(1.0);
        // Those under way share the bandwidth; what is left of the time is latency.
        let transfer = if bytes_per_second > 0.0 { at_once * item_bytes / bytes_per_second } else { 0.0 };
        let latency_seconds = (sane(measured.miss_seconds) - transfer).max(0.0);
        let cached = sane(measured.cached_items_per_second).max(sane(measured.items_per_second));
        Self { cached, item_bytes, bytes_per_second, latency_seconds, at_once }
    }

    /// Items a second where a share of them hits, and the origin gives `bandwidth` times as much.
    pub(super) fn at(&self, hit_ratio: f64, bandwidth: f64) -> f64 {
        let missed = 1.0 - hit_ratio.clamp(0.0, 1.0);
        let bytes_per_second = self.bytes_per_second * bandwidth;
        if missed <= 0.0 || bytes_per_second <= 0.0 {
            return self.cached;
        }
        let miss_seconds = self.latency_seconds + self.at_once * self.item_bytes / bytes_per_second;
        self.cached.min(self.at_once / miss_seconds / missed)
    }
}

/// A number that can be reckoned with.
pub(super) fn sane(number: f64) -> f64 {
    if number.is_finite() { number.max(0.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::super::tests::measured;
    use super::*;

    #[test]
    fn misses_come_as_fast_as_bandwidth_and_latency_let_them() {
        // 100 KB items, 100 MB/s: a thousand items a second, if the line is full.
        let full = Speed::new(&Measured { misses_at_once: 100.0, miss_seconds: 0.1, ..measured() });
        assert!((full.at(0.0, 1.0) - 1_000.0).abs() < 1e-6);
        assert!((full.at(0.5, 1.0) - 2_000.0).abs() < 1e-6);
        assert!((full.at(0.0, 2.0) - 2_000.0).abs() < 1e-6);
        // One at a time of which nearly all is latency: bandwidth does next to nothing.
        let slow = Speed::new(&Measured { misses_at_once: 1.0, miss_seconds: 0.1, ..measured() });
        assert!((slow.at(0.0, 1.0) - 10.0).abs() < 0.1);
        assert!(slow.at(0.0, 2.0) < 10.2);
    }

    #[test]
    fn no_job_is_faster_than_with_everything_cached() {
        let speed = Speed::new(&measured());
        assert_eq!(speed.at(1.0, 1.0), 3_000.0);
        assert_eq!(speed.at(0.99, 1.0), 3_000.0);
        let nonsense = Measured { item_bytes: f64::NAN, miss_seconds: f64::INFINITY, ..measured() };
        assert!(Speed::new(&nonsense).at(f64::NAN, 1.0).is_finite());
    }
}
