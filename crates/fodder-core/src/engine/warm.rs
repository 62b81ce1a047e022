//! Warming: bringing objects in before anybody reads them.
//!
//! One walk over the chosen objects feeds a bounded number of requests. It takes only memory that readers leave free, steps
//! back to one request at a time while a reader waits for an origin, and asks the residency policy about every piece:
//! what the policy does not want is not fetched. What is said to be there was looked up on the shelves at the end.
//! Nothing here knows a wire format or a progress bar.

mod bring;
mod errand;
mod pace;
mod tally;
mod walk;

pub use tally::{Problem, Progress};

use super::Dataset;
use crate::{Error, Result, id::ObjectSlot};
use errand::Errand;
use pace::Rate;
use std::{
    sync::{Arc, Weak},
    time::{Duration, Instant},
};
use tally::Tally;
use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};
use walk::Chosen;

/// The most requests one warming has under way.
pub const MAX_WORKERS: usize = 256;

/// What to bring in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// Everything below a directory, one object, or all objects whose path begins so; the empty text means all.
    Path(String),
    /// The same as a mount shows it: what is behind a symbolic link is left out, because it is there without it, too.
    Shown(String),
    /// These objects of the newest snapshot, the first ones first.
    Objects(Vec<ObjectSlot>),
}

/// Which part of what is selected is brought in, on a node that shares its cache with others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Share {
    /// All of it, whoever owns it.
    #[default]
    All,
    /// What this node owns.
    Owned,
    /// What this node keeps a copy of, beside its owner.
    Copies,
}

/// An order to bring objects in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// Which.
    pub selection: Selection,
    /// Which part of them.
    pub share: Share,
    /// The bytes that may be there of them at the end, those counted that are there already. Objects that do not fit are
    /// left out.
    pub max_bytes: Option<u64>,
    /// The most bytes a second to take from the origin.
    pub bytes_per_second: Option<u64>,
    /// Requests that are under way at a time; no more than the origin is asked at once anyway.
    pub workers: usize,
}

/// A warming that is under way. Dropping it stops it: what has arrived stays.
#[derive(Debug)]
pub struct Warming {
    dataset: Weak<Dataset>,
    tally: Arc<Tally>,
    rate: Rate,
    began: Instant,
    /// How long it took, once it is over.
    took: Option<Duration>,
    running: oneshot::Receiver<Result<()>>,
    ended: Option<Result<()>>,
    _stop: DropGuard,
}

impl Warming {
    /// How far it is.
    pub fn progress(&mut self) -> Progress {
        let (dataset, now) = (self.dataset.upgrade(), Instant::now());
        let missing = |pieces| dataset.as_ref().map_or(u64::MAX, |dataset| dataset.missing_bytes(pieces));
        let mut progress = self.tally.progress(missing);
        progress.finished = matches!(self.ended, Some(Ok(())));
        if let Some(took) = self.took {
            progress.bytes_per_second = average(progress.bytes_fetched, took);
            return progress;
        }
        if progress.files == 0 {
            // It still looks at what there is: nothing can come yet.
            self.rate = Rate::new(now);
        }
        let rate = self.rate.look(progress.bytes_come(), now);
        progress.bytes_per_second = rate;
        if rate >= 1.0 {
            progress.eta = Duration::try_from_secs_f64(self.tally.bytes_left(&progress) as f64 / rate).ok();
        }
        progress
    }

    /// Waits for its end; how it stands then. An error, if it could not go on. May be called again when it was dropped.
    pub async fn ended(&mut self) -> Result<Progress> {
        if self.ended.is_none() {
            self.ended = Some((&mut self.running).await.unwrap_or(Err(Error::Closed)));
            self.took = Some(self.began.elapsed());
        }
        match &self.ended {
            Some(Err(error)) => Err(error.clone()),
            _ => Ok(self.progress()),
        }
    }
}

/// Bytes a second over a whole run.
pub fn average(bytes: u64, took: Duration) -> f64 {
    bytes as f64 / took.as_secs_f64().max(1e-3)
}

impl Dataset {
    /// Begins to bring objects of the newest snapshot in. [`Error::NotFound`] if the path of the selection is nobody's,
    /// or there are no objects at all: whoever asks for them has the wrong name.
    pub fn warm(self: &Arc<Self>, order: Order) -> Result<Warming> {
        let chosen = Chosen::new(self, order.selection, order.share)?;
        let tally = Arc::<Tally>::default();
        let errand = Errand::new(self, chosen, Arc::clone(&tally), order.bytes_per_second);
        // More would only wait for their turn at the origin, in front of readers who come later.
        let workers = order.workers.clamp(1, MAX_WORKERS.min(self.shared.origin_concurrency.max(1)));
        let stop = CancellationToken::new();
        let (tell, running) = oneshot::channel();
        let stopped = stop.clone();
        self.spawn(async move {
            tokio::select! {
                () = stopped.cancelled() => {}
                outcome = errand.run(order.max_bytes, workers) => drop(tell.send(outcome)),
            }
        });
        let began = Instant::now();
        let rate = Rate::new(began);
        let dataset = Arc::downgrade(self);
        Ok(Warming { dataset, tally, rate, began, took: None, running, ended: None, _stop: stop.drop_guard() })
    }
}
