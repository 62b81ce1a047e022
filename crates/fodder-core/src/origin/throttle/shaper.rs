//! The slow line itself: latency, one bandwidth for all bodies together, faults in a seeded order.

use super::Throttling;
use parking_lot::Mutex;
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// How far the line may lag behind its schedule and catch up: timers wake late, and that must not cost bandwidth.
const CATCH_UP: Duration = Duration::from_millis(20);
/// A body gives the line to others at least this often.
const SLICE: Duration = Duration::from_millis(20);
const SMALLEST_SLICE: f64 = 4096.0;

/// What goes wrong with a request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Fault {
    /// It fails.
    Refused,
    /// Its body breaks after this share of its bytes.
    Cut(f64),
    /// It comes late.
    Late,
}

/// A slow line, shared by all requests of an origin.
#[derive(Debug)]
pub(super) struct Shaper {
    latency: Duration,
    /// Bytes per second.
    bandwidth: Option<f64>,
    faults: f64,
    dice: Mutex<SmallRng>,
    schedule: Mutex<Schedule>,
}

/// When the line is free again, and how many bodies want it.
#[derive(Debug)]
struct Schedule {
    free: Instant,
    bodies: usize,
}

impl Shaper {
    pub(super) fn new(throttling: &Throttling) -> Self {
        Self {
            latency: throttling.latency,
            bandwidth: throttling.bandwidth,
            faults: throttling.faults,
            dice: Mutex::new(SmallRng::seed_from_u64(throttling.seed)),
            schedule: Mutex::new(Schedule { free: Instant::now(), bodies: 0 }),
        }
    }

    /// Waits as long as the way takes.
    pub(super) async fn latency(&self) {
        if !self.latency.is_zero() {
            tokio::time::sleep(self.latency).await;
        }
    }

    /// One request on its way: waits for it, and says what goes wrong with it.
    pub(super) async fn request(&self) -> Option<Fault> {
        let fault = self.roll();
        self.latency().await;
        if fault == Some(Fault::Late) {
            tokio::time::sleep(self.latency.max(Duration::from_millis(10)) * 5).await;
        }
        fault
    }

    fn roll(&self) -> Option<Fault> {
        if self.faults == 0.0 {
            return None;
        }
        let mut dice = self.dice.lock();
        let (hit, kind, share) = (dice.random::<f64>(), dice.random_range(0..3), dice.random::<f64>());
        (hit < self.faults).then_some(match kind {
            0 => Fault::Refused,
            1 => Fault::Cut(share),
            _ => Fault::Late,
        })
    }

    /// The line for one body.
    pub(super) fn open(self: Arc<Self>) -> Line {
        let mut schedule = self.schedule.lock();
        if schedule.bodies == 0 {
            // Nobody wanted the line, so nothing is saved up for this body.
            schedule.free = schedule.free.max(Instant::now());
        }
        schedule.bodies += 1;
        drop(schedule);
        Line { shaper: self }
    }
}

/// One body's use of the line.
pub(super) struct Line {
    shaper: Arc<Shaper>,
}

impl Line {
    /// The most bytes to send at once.
    pub(super) fn slice_bytes(&self) -> usize {
        self.shaper.bandwidth.map_or(usize::MAX, |rate| (rate * SLICE.as_secs_f64()).max(SMALLEST_SLICE) as usize)
    }

    /// Waits until the line has carried so many bytes.
    pub(super) async fn send(&self, bytes: usize) {
        let Some(rate) = self.shaper.bandwidth else { return };
        let arrived = {
            let mut schedule = self.shaper.schedule.lock();
            let now = Instant::now();
            let start = now.checked_sub(CATCH_UP).map_or(schedule.free, |earliest| schedule.free.max(earliest));
            schedule.free = start + Duration::from_secs_f64(bytes as f64 / rate);
            schedule.free
        };
        tokio::time::sleep_until(arrived).await;
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.shaper.schedule.lock().bodies -= 1;
    }
}
