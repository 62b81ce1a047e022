//! A policy at work on the watched ids only, in a cache as much smaller: what it hits there it would hit.

use crate::residency::{Policy, Residency, Settings, dense::Dense, phantom::Phantom, signal::Signal};

/// How many windows the smoothed hit ratio remembers, about.
const MEMORY: u32 = 8;

/// One policy's shadow.
#[derive(Debug)]
pub(super) struct Shadow {
    pub(super) policy: Policy,
    machine: Box<dyn Residency>,
    cache: Phantom,
    /// Since the window began.
    hit_bytes: u64,
    /// How many windows it has seen from beginning to end; none while it is in its first, which it may have joined late.
    windows: Option<u32>,
    /// The share of bytes that hit, over the last windows.
    ratio: f64,
}

impl Shadow {
    /// A shadow with an empty cache.
    pub(super) fn new(policy: Policy, settings: &Settings, capacity_bytes: u64) -> Self {
        Self {
            policy,
            machine: policy.build_with(settings),
            cache: Phantom::new(capacity_bytes),
            hit_bytes: 0,
            windows: None,
            ratio: 0.0,
        }
    }

    /// The id was asked for.
    pub(super) fn ask(&mut self, id: u32, sizes: &Dense<u32>) {
        if self.cache.contains(id) {
            self.hit_bytes += u64::from(bytes_of(sizes, id));
            self.machine.hit(id);
        } else {
            self.cache.offer(&mut *self.machine, id, |id| bytes_of(sizes, id), |_| {});
        }
    }

    /// Tells its policy something about the watched ids.
    pub(super) fn signal(&mut self, signal: Signal<'_>) {
        self.machine.signal(signal);
    }

    /// Lets its policy settle what signals left to do.
    pub(super) fn settle(&mut self, steps: usize) -> bool {
        self.machine.settle(steps)
    }

    /// Gives it another cache size.
    pub(super) fn resize(&mut self, capacity_bytes: u64, sizes: &Dense<u32>) {
        self.cache.resize(&mut *self.machine, capacity_bytes, |id| bytes_of(sizes, id));
    }

    /// A window of so many bytes ends, and the next begins.
    pub(super) fn turn(&mut self, asked_bytes: u64) {
        let seen = self.hit_bytes as f64 / asked_bytes.max(1) as f64;
        let windows = self.windows.map_or(0, |before| before + 1);
        if windows > 0 {
            self.ratio += (seen - self.ratio) / f64::from(windows.min(MEMORY));
        }
        self.windows = Some(windows);
        self.hit_bytes = 0;
    }

    /// The share of bytes that it hits, once it has seen enough to tell.
    pub(super) fn ratio(&self) -> Option<f64> {
        self.windows.filter(|&windows| windows > 0).map(|_| self.ratio)
    }

    /// Bytes it holds on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.machine.memory_bytes() + self.cache.heap_bytes()
    }
}

/// The bytes of an id: of one that was never asked for, none are known.
fn bytes_of(sizes: &Dense<u32>, id: u32) -> u32 {
    sizes.get(id).unwrap_or(0)
}
