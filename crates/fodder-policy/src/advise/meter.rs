//! From what a node counts to what [`advise`](super::advise()) wants to know: how fast items are taken now and when
//! everything is cached, how long readers wait, what the origin gives.
//!
//! Told the totals from time to time, it keeps the differences of the last minute or so. Time in which nobody read is
//! left out, unless it is short: then the job was busy with what it had.

use super::{Measured, Waits, speed::sane};
use crate::Policy;
use std::{collections::VecDeque, time::Duration};

/// Windows that are remembered, and how long one is at least.
const WINDOWS: usize = 64;
const WINDOW_SECONDS: f64 = 1.0;
/// A job that reads nothing for longer is not there.
const LONGEST_PAUSE: f64 = 60.0;
/// So many windows without a miss, one behind the other, show how fast the job is when everything is cached. A single one
/// may only be one in which little was read.
const STREAK: u32 = 3;

/// Reads must be observed for this long, or over a whole epoch, or by a registered job: a single `cp` says nothing about a job.
pub(super) const ENOUGH_SECONDS: f64 = 10.0;

/// Too little was read for a verdict.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TooLittle {
    /// How long reads were observed; 0 if nothing was read.
    pub seconds: f64,
}

/// What a node has counted of a dataset since it started.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Counted {
    /// Bytes handed to readers.
    pub served_bytes: u64,
    /// Bytes that came from the origin.
    pub fetched_bytes: u64,
    /// Fetches that have ended.
    pub fetches: u64,
    /// How long they took, all together, and those under way so far.
    pub fetch_time: Duration,
    /// How long at least one was under way.
    pub fetching_time: Duration,
    /// How long readers have waited for fetches, all together. A request waits once, however many of its items are missing.
    pub wait_time: Duration,
    /// The most readers that waited at a time since this was last told.
    pub waiting: u32,
    /// The least time that the first bytes of a fetch took since this was last told.
    pub first_bytes: Option<Duration>,
    /// Ranks of the jobs that are there: so many read at least.
    pub ranks: u32,
}

/// What is known of a dataset without measuring.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Facts {
    /// Items in its newest snapshot.
    pub items: u64,
    /// Its size.
    pub dataset_bytes: u64,
    /// How much of it may be cached.
    pub cache_bytes: u64,
    /// Its policy.
    pub policy: Policy,
}

/// What was counted in a while.
#[derive(Debug, Clone, Copy, Default)]
struct Window {
    seconds: f64,
    served: f64,
    fetched: f64,
    fetches: f64,
    fetch_seconds: f64,
    fetching_seconds: f64,
    waited: f64,
    readers: u32,
    first_bytes: Option<Duration>,
}

impl Window {
    fn add(&mut self, other: &Self) {
        self.seconds += other.seconds;
        self.served += other.served;
        self.fetched += other.fetched;
        self.fetches += other.fetches;
        self.fetch_seconds += other.fetch_seconds;
        self.fetching_seconds += other.fetching_seconds;
        self.waited += other.waited;
        self.readers = self.readers.max(other.readers);
        self.first_bytes = [self.first_bytes, other.first_bytes].into_iter().flatten().min();
    }

    fn has_readers(&self) -> bool {
        self.served > 0.0 || self.waited > 0.0
    }

    fn has_misses(&self) -> bool {
        self.fetched > 0.0 || self.waited > 0.0
    }

    fn bytes_per_second(&self) -> f64 {
        if self.seconds > 0.0 { self.served / self.seconds } else { 0.0 }
    }
}

/// The last windows of a kind.
#[derive(Debug, Default)]
struct Recent(VecDeque<Window>);

impl Recent {
    fn push(&mut self, window: Window) {
        if let Some(last) = self.0.back_mut().filter(|last| last.seconds < WINDOW_SECONDS) {
            last.add(&window);
            return;
        }
        if self.0.len() == WINDOWS {
            self.0.pop_front();
        }
        self.0.push_back(window);
    }

    fn sum(&self) -> Window {
        self.0.iter().fold(Window::default(), |mut sum, window| {
            sum.add(window);
            sum
        })
    }
}

/// What is remembered of a dataset's readers and of its origin.
#[derive(Debug, Default)]
pub struct Meter {
    at: Duration,
    counted: Counted,
    /// Seconds in which nobody has read since somebody did.
    pause: f64,
    /// In which somebody read.
    read: Recent,
    /// In which somebody read and nothing came from the origin.
    cached: Recent,
    /// In which something came from the origin.
    origin: Recent,
    /// Windows without a miss since the last one with.
    streak: u32,
    ever_missed: bool,
}

impl Meter {
    /// So much has been counted at a moment, from any beginning on.
    pub fn observe(&mut self, now: Duration, counted: Counted) {
        let seconds = now.saturating_sub(self.at).as_secs_f64();
        let before = std::mem::replace(&mut self.counted, counted);
        self.at = self.at.max(now);
        let mut window = difference(&before, &counted, seconds);
        if window.fetches > 0.0 {
            self.origin.push(window);
        }
        if !window.has_readers() {
            self.pause += seconds;
            return;
        }
        let pause = std::mem::take(&mut self.pause);
        // Before the first read there was no job to be busy.
        if pause <= LONGEST_PAUSE && !self.read.0.is_empty() {
            window.seconds += pause;
        }
        self.read.push(window);
        if window.has_misses() {
            (self.streak, self.ever_missed) = (0, true);
        } else {
            self.streak += 1;
            if self.streak >= STREAK || !self.ever_missed {
                self.cached.push(window);
            }
        }
    }

    /// The measurements, if enough was read to draw conclusions.
    pub fn measured(&self, facts: &Facts) -> Result<Measured, TooLittle> {
        let read = self.read.sum();
        if read.served <= 0.0 || read.seconds <= 0.0 {
            return Err(TooLittle { seconds: 0.0 });
        }
        let whole_epoch = read.served >= facts.dataset_bytes as f64;
        if read.seconds < ENOUGH_SECONDS && !whole_epoch && self.counted.ranks == 0 {
            return Err(TooLittle { seconds: read.seconds });
        }
        let item_bytes = facts.dataset_bytes as f64 / facts.items.max(1) as f64;
        let items = |bytes_per_second: f64| bytes_per_second / item_bytes.max(1.0);
        let cached = Some(self.cached.sum()).filter(|cached| cached.served > 0.0);
        let storage = (read.waited / f64::from(read.readers.max(1))).min(read.seconds);
        let origin = self.origin.sum();
        let (miss_seconds, at_once) =
            (origin.fetch_seconds / origin.fetches, origin.fetch_seconds / origin.fetching_seconds);
        // A fetch may bring several items, or a part of one.
        let items_at_once = at_once * items(origin.fetched / origin.fetches);
        let transfer = miss_seconds - origin.first_bytes.map_or(0.0, |first| first.as_secs_f64());
        Ok(Measured {
            items_per_second: items(read.bytes_per_second()),
            cached_items_per_second: cached.map(|cached| items(cached.bytes_per_second())),
            item_bytes,
            miss_seconds: sane(miss_seconds),
            misses_at_once: sane(items_at_once),
            origin_bytes_per_second: sane(items_at_once * item_bytes / transfer),
            dataset_bytes: facts.dataset_bytes,
            cache_bytes: facts.cache_bytes,
            hit_ratio: 1.0 - (read.fetched / read.served).min(1.0),
            policy: facts.policy,
            waits: Waits { storage, own: read.seconds - storage, ..Waits::default() },
        })
    }
}

fn difference(before: &Counted, now: &Counted, seconds: f64) -> Window {
    let count = |before: u64, now: u64| now.saturating_sub(before) as f64;
    let time = |before: Duration, now: Duration| now.saturating_sub(before).as_secs_f64();
    Window {
        seconds,
        served: count(before.served_bytes, now.served_bytes),
        fetched: count(before.fetched_bytes, now.fetched_bytes),
        fetches: count(before.fetches, now.fetches),
        fetch_seconds: time(before.fetch_time, now.fetch_time),
        fetching_seconds: time(before.fetching_time, now.fetching_time),
        waited: time(before.wait_time, now.wait_time),
        readers: now.waiting.max(now.ranks),
        first_bytes: now.first_bytes,
    }
}

#[cfg(test)]
mod tests;
