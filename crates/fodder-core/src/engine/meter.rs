//! What a dataset measures of its readers and of its origin, and the advice that follows from it.
//!
//! A warm read costs a look at a number. Everything else is counted where somebody waits anyway; once a second the counts
//! are handed to [`fodder_policy::advise`], which decides what they mean.

mod gauge;
mod sampler;

use super::Dataset;
use crate::Result;
use fodder_policy::advise::{self, Advice, Counted, Curves, Facts};
use gauge::{Gauge, Inside};
use parking_lot::Mutex;
use sampler::Sampler;
use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// How often the counts are looked at.
const INTERVAL: Duration = Duration::from_secs(1);
/// A job that was silent for longer has no ranks that read.
const PRESENT: Duration = Duration::from_secs(60);

/// Someone who reads: a request, however many reads it has under way. It waits while at least one of them does.
#[derive(Debug, Default)]
pub struct Reader {
    waiting: AtomicUsize,
}

/// What a dataset measures.
#[derive(Debug)]
pub(super) struct Meter {
    sampler: Sampler,
    /// Readers who wait for fetches.
    waiting: Gauge,
    /// Fetches that are under way, and how many have ended.
    fetching: Gauge,
    fetches: AtomicU64,
    /// The least time to the first bytes since last looked at, in nanoseconds.
    first_bytes_ns: AtomicU64,
    /// Bytes of the files that were handed out whole.
    leased_bytes: AtomicU64,
    machine: Mutex<advise::Meter>,
    born: Instant,
}

impl Default for Meter {
    fn default() -> Self {
        Self {
            sampler: Sampler::default(),
            waiting: Gauge::default(),
            fetching: Gauge::default(),
            fetches: AtomicU64::new(0),
            first_bytes_ns: AtomicU64::new(u64::MAX),
            leased_bytes: AtomicU64::new(0),
            machine: Mutex::default(),
            born: Instant::now(),
        }
    }
}

/// A read of a reader who waits.
#[derive(Debug)]
pub(super) struct Waiting<'a> {
    meter: &'a Meter,
    reader: &'a Reader,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.reader.waiting.fetch_sub(1, Relaxed) == 1 {
            self.meter.waiting.leave();
        }
    }
}

/// A fetch that is under way.
#[derive(Debug)]
pub(super) struct Fetching<'a> {
    meter: &'a Meter,
    began: Instant,
    _inside: Inside<'a>,
}

impl Fetching<'_> {
    /// Its first bytes are here.
    pub(super) fn answered(&self) {
        let took = self.began.elapsed().as_nanos() as u64;
        self.meter.first_bytes_ns.fetch_min(took, Relaxed);
    }
}

impl Drop for Fetching<'_> {
    fn drop(&mut self) {
        self.meter.fetches.fetch_add(1, Relaxed);
    }
}

impl Meter {
    /// A read of a reader waits for a fetch until what is returned is dropped.
    pub(super) fn wait<'a>(&'a self, reader: &'a Reader) -> Waiting<'a> {
        if reader.waiting.fetch_add(1, Relaxed) == 0 {
            self.waiting.enter();
        }
        Waiting { meter: self, reader }
    }

    /// A fetch is under way until what is returned is dropped.
    pub(super) fn fetch(&self) -> Fetching<'_> {
        Fetching { meter: self, began: Instant::now(), _inside: self.fetching.inside() }
    }

    /// Pieces were read; how many bytes each has.
    pub(super) fn read(&self, pieces: Range<u32>, bytes: impl Fn(u32) -> u32) {
        pieces.for_each(|piece| self.sampler.record(piece, || bytes(piece)));
    }

    /// A file of so many bytes was handed out, to be read where nobody sees it.
    pub(super) fn leased(&self, bytes: u64) {
        self.leased_bytes.fetch_add(bytes, Relaxed);
    }

    /// What its own counters come to. The rest is the dataset's.
    fn counted(&self) -> Counted {
        let (waiting, fetching) = (self.waiting.read(), self.fetching.read());
        let first_bytes = self.first_bytes_ns.swap(u64::MAX, Relaxed);
        Counted {
            served_bytes: self.leased_bytes.load(Relaxed),
            fetches: self.fetches.load(Relaxed),
            fetch_time: fetching.time,
            fetching_time: fetching.busy,
            wait_time: waiting.time,
            waiting: waiting.most,
            first_bytes: (first_bytes < u64::MAX).then(|| Duration::from_nanos(first_bytes)),
            ..Counted::default()
        }
    }
}

impl Dataset {
    /// Looks at the counts at intervals until the dataset is closed.
    pub(super) fn measure(self: &Arc<Self>) {
        let dataset = Arc::downgrade(self);
        self.spawn(async move {
            loop {
                tokio::time::sleep(INTERVAL).await;
                let Some(dataset) = dataset.upgrade() else { return };
                dataset.look_at_counts();
                dataset.forget_lost();
            }
        });
    }

    fn look_at_counts(&self) {
        let stats = self.counters.snapshot();
        let ranks = if self.jobs.is_empty() { 0 } else { self.jobs.ranks_heard_of_within(PRESENT) };
        // One at a time: what is told since the last time is told once.
        let mut machine = self.meter.machine.lock();
        let mut counted = self.meter.counted();
        counted.served_bytes += stats.bytes_served;
        counted.fetched_bytes = stats.bytes_from_origin;
        counted.ranks = ranks;
        machine.observe(self.meter.born.elapsed(), counted);
    }

    /// What its readers wait for, and what more cache, more bandwidth or another policy would do about it.
    pub async fn advise(self: &Arc<Self>) -> Result<Advice> {
        let dataset = Arc::clone(self);
        self.shared.mind.run(move || dataset.advise_now()).await
    }

    fn advise_now(&self) -> Advice {
        self.look_at_counts();
        let snapshot = self.snapshot();
        let facts = Facts {
            items: snapshot.len(),
            dataset_bytes: snapshot.total_bytes(),
            cache_bytes: self.stocks.iter().map(|(space, stock)| space.share_of(stock)).sum(),
            policy: self.config().policy,
        };
        let measured = self.meter.machine.lock().measured(&facts);
        match measured {
            Ok(measured) => advise::advise(&measured, &Curves::of(&self.meter.sampler.sample())),
            Err(observed) => Advice::too_little(&self.config().name, &observed),
        }
    }
}
