//! Jobs that wait and jobs that do not, second by second.

use super::*;

const ITEM: u64 = 100_000;

/// A node that is watched.
#[derive(Default)]
struct Watched {
    meter: Meter,
    now: Duration,
    counted: Counted,
}

impl Watched {
    /// Some seconds in each of which so many items are taken, a part of them missed, and readers wait so long.
    fn seconds(&mut self, seconds: u32, items: u64, missed: u64, waited: f64) -> &mut Self {
        for _ in 0..seconds {
            self.now += Duration::from_secs(1);
            self.counted.served_bytes += items * ITEM;
            self.counted.fetched_bytes += missed * ITEM;
            self.counted.fetches += missed;
            // Eight at a time of 80 ms each, of which 10 are latency: 100 items, or 10 MB, a second.
            let busy = missed as f64 / 100.0;
            self.counted.fetch_time += Duration::from_secs_f64(busy * 8.0);
            self.counted.fetching_time += Duration::from_secs_f64(busy);
            self.counted.wait_time += Duration::from_secs_f64(waited);
            self.counted.waiting = if waited > 0.0 { waited.ceil() as u32 } else { 0 };
            self.counted.first_bytes = (missed > 0).then_some(Duration::from_millis(10));
            self.meter.observe(self.now, self.counted);
        }
        self
    }

    fn measured(&self) -> Measured {
        let facts =
            Facts { items: 10_000, dataset_bytes: 10_000 * ITEM, cache_bytes: 2_000 * ITEM, policy: Policy::Minio };
        self.meter.measured(&facts).expect("something was read")
    }
}

fn close(value: f64, expected: f64) -> bool {
    (value - expected).abs() <= expected.abs() * 0.01 + 1e-9
}

#[test]
fn who_waits_for_a_slow_origin_is_seen_to_wait() {
    let measured = Watched::default().seconds(20, 125, 100, 4.0).measured();
    assert!(close(measured.items_per_second, 125.0) && close(measured.hit_ratio, 0.2), "{measured:?}");
    assert_eq!(measured.cached_items_per_second, None);
    assert!(close(measured.miss_seconds, 0.08) && close(measured.misses_at_once, 8.0), "{measured:?}");
    assert!(close(measured.origin_bytes_per_second, 8.0 * 100_000.0 / 0.07), "{measured:?}");
    assert!(close(measured.waits.storage, 20.0) && close(measured.waits.own, 0.0), "{measured:?}");
}

#[test]
fn how_fast_a_job_is_with_everything_cached_is_remembered() {
    let mut watched = Watched::default();
    let measured = watched.seconds(10, 300, 0, 0.0).seconds(100, 125, 100, 1.0).measured();
    assert!(close(measured.items_per_second, 125.0), "{measured:?}");
    assert_eq!(measured.cached_items_per_second, Some(300.0));
    // One quiet second between misses shows nothing.
    let measured = watched.seconds(1, 5, 0, 0.0).seconds(1, 125, 100, 1.0).measured();
    assert_eq!(measured.cached_items_per_second, Some(300.0));
}

#[test]
fn a_short_pause_is_work_and_a_long_one_is_nobody() {
    let mut watched = Watched::default();
    watched.seconds(200, 0, 0, 0.0).seconds(1, 100, 0, 0.0);
    let measured = watched.seconds(9, 0, 0, 0.0).seconds(1, 100, 0, 0.0).measured();
    assert!(close(measured.items_per_second, 200.0 / 11.0), "{measured:?}");
    let measured = watched.seconds(100, 0, 0, 0.0).seconds(1, 100, 0, 0.0).measured();
    assert!(close(measured.items_per_second, 300.0 / 12.0), "{measured:?}");
    assert!(close(measured.waits.own, 12.0) && measured.waits.storage == 0.0, "{measured:?}");
}

#[test]
fn ranks_that_do_not_wait_are_readers_too() {
    let mut watched = Watched::default();
    watched.counted.ranks = 4;
    let measured = watched.seconds(10, 125, 10, 1.0).measured();
    assert!(close(measured.waits.storage, 2.5) && close(measured.waits.own, 7.5), "{measured:?}");
}

#[test]
fn looking_often_forgets_nothing() {
    let mut watched = Watched::default();
    watched.seconds(30, 125, 100, 1.0);
    for _ in 0..1_000 {
        watched.now += Duration::from_millis(1);
        watched.counted.served_bytes += ITEM / 8;
        watched.meter.observe(watched.now, watched.counted);
    }
    let measured = watched.measured();
    assert!(close(measured.waits.storage + measured.waits.own, 31.0), "{measured:?}");
    assert!(watched.meter.read.0.len() <= 32);
}

#[test]
fn nothing_read_is_nothing_measured() {
    let facts = Facts { items: 0, dataset_bytes: 0, cache_bytes: 0, policy: Policy::Minio };
    let mut meter = Meter::default();
    assert_eq!(meter.measured(&facts), Err(TooLittle { seconds: 0.0 }));
    meter.observe(Duration::from_secs(1), Counted { fetched_bytes: 10, fetches: 1, ..Counted::default() });
    assert_eq!(meter.measured(&facts), Err(TooLittle { seconds: 0.0 }));
    meter.observe(Duration::from_secs(2), Counted { served_bytes: 10, ..Counted::default() });
    assert!(meter.measured(&facts).is_ok());
}

#[test]
fn a_single_copy_of_a_file_is_too_little_for_a_verdict() {
    let facts = Facts { items: 10_000, dataset_bytes: 10_000 * ITEM, cache_bytes: ITEM, policy: Policy::Minio };
    let mut watched = Watched::default();
    watched.seconds(1, 100, 100, 0.5);
    assert_eq!(watched.meter.measured(&facts), Err(TooLittle { seconds: 1.0 }));
    // Each of these is enough: a whole epoch, a registered job, and ten seconds.
    assert!(watched.meter.measured(&Facts { dataset_bytes: 100 * ITEM, ..facts }).is_ok());
    watched.counted.ranks = 1;
    assert!(watched.seconds(1, 100, 100, 0.5).meter.measured(&facts).is_ok());
    watched.counted.ranks = 0;
    assert!(watched.seconds(1, 100, 100, 0.5).meter.measured(&facts).is_err());
    assert!(watched.seconds(7, 100, 100, 0.5).meter.measured(&facts).is_ok());
}
