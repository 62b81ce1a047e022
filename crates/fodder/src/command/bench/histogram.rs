//! How long operations took: counts in buckets that grow with the value, of bounded size whatever comes.

use std::time::Duration;

/// Buckets for each doubling: a value is known to within three percent.
const STEPS: u64 = 32;
const BUCKETS: usize = ((64 - STEPS.ilog2() as usize) + 1) * STEPS as usize;

/// Durations, counted.
#[derive(Debug, Clone)]
pub(super) struct Histogram {
    counts: Vec<u64>,
    count: u64,
    max_ns: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS], count: 0, max_ns: 0 }
    }
}

impl Histogram {
    /// Counts one.
    pub(super) fn add(&mut self, took: Duration) {
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.counts[bucket(ns)] += 1;
        self.count += 1;
        self.max_ns = self.max_ns.max(ns);
    }

    /// Counts what another has counted.
    pub(super) fn merge(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(mine, theirs)| *mine += theirs);
        self.count += other.count;
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// How many there are.
    pub(super) fn len(&self) -> u64 {
        self.count
    }

    /// Microseconds within which this share of all operations ended.
    pub(super) fn quantile_us(&self, share: f64) -> f64 {
        let rank = ((self.count as f64 * share).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        let reached = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        let upper_ns = reached.map_or(0, |bucket| upper(bucket).min(self.max_ns));
        upper_ns as f64 / 1e3
    }

    /// The longest, in microseconds.
    pub(super) fn max_us(&self) -> f64 {
        self.max_ns as f64 / 1e3
    }
}

/// The bucket of a value: exact below `STEPS`, then `STEPS` buckets for each doubling.
fn bucket(ns: u64) -> usize {
    if ns < STEPS {
        return ns as usize;
    }
    let doubling = u64::from(ns.ilog2() - STEPS.ilog2());
    ((doubling + 1) * STEPS + (ns >> doubling) - STEPS) as usize
}

/// The largest value in a bucket.
fn upper(bucket: usize) -> u64 {
    let (doubling, step) = (bucket as u64 / STEPS, bucket as u64 % STEPS);
    match doubling {
        0 => step,
        doubling => ((u128::from(STEPS + step + 1) << (doubling - 1)) - 1).min(u64::MAX.into()) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_in_its_bucket_and_within_three_percent_of_its_end() {
        for shift in 0..64 {
            for near in [0u64, 1, 7, 1000] {
                let ns = (1u64 << shift).saturating_add(near);
                let end = upper(bucket(ns));
                assert!(end >= ns && (end - ns) as f64 <= ns as f64 / STEPS as f64 + 1.0, "{ns}: {end}");
                assert!(bucket(ns) == 0 || upper(bucket(ns) - 1) < ns, "{ns}");
            }
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_those_of_what_was_counted() {
        let mut all = Histogram::default();
        let mut part = Histogram::default();
        for us in 1..=1000 {
            if us % 2 == 0 { &mut all } else { &mut part }.add(Duration::from_micros(us));
        }
        all.merge(&part);
        assert_eq!(all.len(), 1000);
        for (share, us) in [(0.5, 500.0), (0.95, 950.0), (0.99, 990.0), (1.0, 1000.0)] {
            let found = all.quantile_us(share);
            assert!((found - us).abs() <= us * 0.032, "{share}: {found}");
        }
        assert_eq!(all.max_us(), 1000.0);
        assert_eq!(Histogram::default().quantile_us(0.99), 0.0);
    }
}
