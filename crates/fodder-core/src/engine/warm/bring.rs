//! Bringing one stretch of an object to the shelves: in whatever state it is, and only what the policy wants.

use super::pace::Pace;
use crate::{
    Error, Result,
    engine::{
        Dataset,
        fetch::{Keep, Keeps},
        flight::{Leg, Stretch},
        segment::Receive,
    },
    id::PieceId,
};
use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// The part of the memory budget that is in use at most when warming takes some: as much as may wait to be written, so
/// that what is fetched finds its way to the disk.
const MEMORY_PART: u64 = 4;
/// How often one who waits for readers looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// How long a piece that has arrived may take to its shelf; what takes longer is counted at the end.
const LANDING: Duration = Duration::from_secs(10);
/// How often a piece is fetched that the policy wants and the disk does not take.
const TRIES: usize = 3;
/// How long a disk that did not keep up is left alone.
const REST: Duration = Duration::from_millis(200);

/// What became of a stretch.
#[derive(Debug)]
pub(super) enum Outcome {
    /// All of it is on shelves.
    There,
    /// The cache does not keep all of it.
    Declined,
    /// The origin did not give it.
    Failed(Error),
}

/// Whether the policy wanted all of a stretch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Wanted,
    Declined,
}

/// Brings stretches of a dataset in, many at a time.
#[derive(Debug)]
pub(super) struct Carrier {
    pub(super) dataset: Arc<Dataset>,
    pub(super) pace: Pace,
    /// Stretches that are being brought in now.
    under_way: AtomicUsize,
    /// Bytes that came from the origin.
    pub(super) fetched_bytes: AtomicU64,
}

impl Carrier {
    pub(super) fn new(dataset: Arc<Dataset>, pace: Pace) -> Self {
        Self { dataset, pace, under_way: AtomicUsize::new(0), fetched_bytes: AtomicU64::new(0) }
    }

    /// Brings in consecutive pieces of one object, at most 4 MiB of them.
    pub(super) async fn bring(&self, pieces: Range<u32>) -> Outcome {
        for _ in 0..TRIES {
            let verdict = self.fly(pieces.clone()).await;
            match verdict {
                Err(error) => return Outcome::Failed(error),
                Ok(_) if self.dataset.missing(pieces.clone()).next().is_none() => return Outcome::There,
                Ok(Verdict::Declined) => return Outcome::Declined,
                Ok(Verdict::Wanted) => tokio::time::sleep(REST).await,
            }
        }
        Outcome::Declined
    }

    /// Sends flights for what is missing, and waits until they have landed.
    async fn fly(&self, pieces: Range<u32>) -> Result<Verdict> {
        let _turn = self.turn(pieces.clone()).await;
        let bytes = pieces.clone().map(|piece| u64::from(self.dataset.piece_len(PieceId(piece)))).sum();
        let mut permit = self.dataset.spare_memory(bytes, MEMORY_PART).await?;
        let mut verdict = Verdict::Wanted;
        let (mut next, mut most) = (pieces.start, u32::MAX);
        while next < pieces.end {
            let stretch = self.dataset.stretch_of(next..pieces.end.min(next.saturating_add(most)))?;
            let mut claimed = 0;
            let (waiter, count) =
                match self.dataset.flights.next_leg(&stretch, |piece| self.dataset.holds(piece), |run| self.admit(run))
                {
                    Leg::Kept(count) => (None, count),
                    Leg::Joined(waiter, count) => (Some(waiter), count),
                    Leg::Claimed(waiter, keeps, count) => {
                        let bytes = waiter.flight.range.end - waiter.flight.range.start;
                        claimed = bytes;
                        self.dataset.launch(Arc::clone(&waiter.flight), keeps, permit.split(bytes), Receive::InPlace);
                        (Some(waiter), count)
                    }
                    // Perhaps it wants a part of them.
                    Leg::Unwanted(2..) => {
                        most = 1;
                        continue;
                    }
                    Leg::Unwanted(count) => {
                        verdict = Verdict::Declined;
                        (None, count)
                    }
                };
            if let Some(waiter) = waiter {
                waiter.wait(stretch.bytes(count)).await?;
                self.fetched_bytes.fetch_add(claimed, Relaxed);
            }
            next += count;
        }
        drop(permit);
        self.landed(pieces).await;
        Ok(verdict)
    }

    /// Waits until what has arrived is on its shelf. What is staged for jobs does not land before they have taken it.
    async fn landed(&self, pieces: Range<u32>) {
        let landing = self.dataset.flights.settled(pieces, |piece| self.dataset.staging.has(piece));
        if tokio::time::timeout(LANDING, landing).await.is_err() {
            tracing::debug!(dataset = self.dataset.config().name, "the disk is slow to write what was fetched");
        }
    }

    /// Asks the policies to keep all of a run, on shelves.
    fn admit(&self, run: Range<u32>) -> Option<Keeps> {
        self.dataset.admit(run).filter(|keeps| keeps.iter().all(|keep| matches!(keep, Some(Keep::Shelf(..)))))
    }

    /// Waits for a turn on the line. While a reader waits for an origin, there is one turn at a time.
    async fn turn(&self, pieces: Range<u32>) -> Turn<'_> {
        let bytes = self.dataset.missing_bytes(pieces);
        if let Some(begin) = self.pace.turn(bytes, Instant::now()) {
            tokio::time::sleep_until(begin.into()).await;
        }
        while self.dataset.shared.demand.is_some() && self.under_way.load(Relaxed) > 0 {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        self.under_way.fetch_add(1, Relaxed);
        Turn(&self.under_way)
    }
}

/// A stretch that is being brought in.
struct Turn<'a>(&'a AtomicUsize);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Dataset {
    /// The pieces that are on no shelf.
    pub(in crate::engine) fn missing(&self, pieces: Range<u32>) -> impl Iterator<Item = PieceId> {
        pieces.map(PieceId).filter(|piece| !self.holds(*piece))
    }

    /// Bytes of pieces that are on no shelf.
    pub(super) fn missing_bytes(&self, pieces: Range<u32>) -> u64 {
        self.missing(pieces).map(|piece| u64::from(self.piece_len(piece))).sum()
    }
}

impl Stretch {
    /// The bytes of its first `count` pieces.
    fn bytes(&self, count: u32) -> Range<u64> {
        self.offset..(self.offset + u64::from(count) * self.piece_bytes).min(self.object_bytes)
    }
}
