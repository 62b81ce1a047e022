//! The loop around fetching: asks it what to bring in next, and has that brought in, a bounded number at a time.
//!
//! Fetching decides by item ids of one snapshot, that of the epoch which began last. Jobs that are still on an older one
//! are served on demand.

use super::{outlook::Outlook, span::Span, state::fingerprint};
use crate::{catalog::Snapshot, engine::Dataset};
use fodder_policy::{
    Signal,
    fetching::{Bounds, Fetch, Fetching, Next, Strategy},
};
use parking_lot::Mutex;
use rustc_hash::FxHashSet;
use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};
use tokio::sync::{Notify, Semaphore, futures::Notified};

/// What may wait on disk for a use that is still to come, as a part of the dataset's space.
const AHEAD_PART: u64 = 4;

/// Brings in what fetching proposes. Its lock is taken before that of the jobs.
#[derive(Debug)]
pub(in crate::engine) struct Prefetcher {
    strategy: Strategy,
    mind: Mutex<Mind>,
    news: Notify,
    /// There may be room for what has found none.
    room: Notify,
    /// How many proposals may be under way.
    slots: Arc<Semaphore>,
    /// Nothing is proposed until a job requests a batch.
    paused: AtomicBool,
}

#[derive(Debug, Default)]
struct Mind {
    fetching: Option<(Arc<Snapshot>, Box<dyn Fetching>)>,
    /// What was proposed and is on its way, or staged, or could not be had: not proposed again until it was taken.
    away: FxHashSet<u32>,
}

impl Prefetcher {
    /// A prefetcher that brings in so many things at a time.
    pub(in crate::engine) fn new(strategy: Strategy, at_a_time: usize) -> Self {
        let (news, room, slots) = (Notify::new(), Notify::new(), Arc::new(Semaphore::new(at_a_time)));
        Self { strategy, mind: Mutex::default(), news, room, slots, paused: AtomicBool::new(false) }
    }

    /// Proposes nothing until [`resume`](Self::resume). Fetches under way are completed.
    pub(in crate::engine) fn pause(&self) {
        self.paused.store(true, Relaxed);
    }

    /// A job goes on: ends a pause.
    pub(super) fn resume(&self) {
        if self.paused.load(Relaxed) && self.paused.swap(false, Relaxed) {
            self.wake();
        }
    }

    /// There may be something to bring in, or room for it.
    pub(in crate::engine) fn wake(&self) {
        self.news.notify_one();
        self.room.notify_waiters();
    }

    /// Waits until there may be room, or what was to come is wanted no more: a job has taken or given up something, or the
    /// jobs were tended to, which they are every second.
    pub(in crate::engine) fn room(&self) -> Notified<'_> {
        self.room.notified()
    }

    /// Whether it never has anything to do.
    pub(super) fn is_idle(&self) -> bool {
        self.strategy == Strategy::Demand
    }

    fn wants(&self, id: u32) -> bool {
        self.mind.lock().away.contains(&id)
    }

    /// A job has a plan that was not known before.
    pub(super) fn replanned(&self) {
        if let Some((_, fetching)) = &mut self.mind.lock().fetching {
            fetching.replanned();
        }
    }
}

impl Dataset {
    /// Brings in what jobs will ask for, until the dataset is closed.
    pub(in crate::engine) fn prefetch(self: &Arc<Self>) {
        let (dataset, prefetcher) = (Arc::downgrade(self), Arc::clone(&self.prefetcher));
        if prefetcher.is_idle() {
            return;
        }
        self.spawn(async move {
            while let Ok(slot) = Arc::clone(&prefetcher.slots).acquire_owned().await {
                let Some(dataset) = dataset.upgrade() else { return };
                match dataset.propose() {
                    Some((snapshot, Next::Fetch(fetch))) => {
                        let bringing = Arc::clone(&dataset);
                        dataset.counters.fetched_ahead.fetch_add(fetch.ids.len() as u64, Relaxed);
                        dataset.spawn(async move {
                            bringing.bring_in_items(&snapshot, fetch).await;
                            drop(slot);
                        });
                    }
                    Some((_, Next::Searching)) => tokio::task::yield_now().await,
                    Some((_, Next::Nothing)) | None => {
                        drop((slot, dataset));
                        prefetcher.news.notified().await;
                    }
                }
            }
        });
    }

    fn propose(&self) -> Option<(Arc<Snapshot>, Next)> {
        if self.jobs.is_empty() || self.prefetcher.paused.load(Relaxed) {
            return None;
        }
        let mut mind = self.prefetcher.mind.lock();
        let inner = self.jobs.lock();
        let snapshot = inner.newest_epochs_snapshot()?;
        if mind.fetching.as_ref().is_none_or(|(on, _)| on.id() != snapshot.id()) {
            let fetching = self.prefetcher.strategy.build(self.bounds_ahead(), fingerprint(&snapshot));
            *mind = Mind { fetching: Some((Arc::clone(&snapshot), fetching)), away: FxHashSet::default() };
        }
        let Mind { fetching: Some((_, fetching)), away } = &mut *mind else { return None };
        let objects = self.objects();
        let span = Span { snapshot: &snapshot, objects: &objects };
        let next = fetching.next(&Outlook { dataset: self, inner: &inner, span, away }, self.room_ahead());
        if let Next::Fetch(fetch) = &next {
            away.extend(&fetch.ids);
        }
        Some((snapshot, next))
    }

    /// An item of a snapshot is not planned any more, or has left the cache.
    pub(super) fn lost(&self, span: &Span<'_>, id: u32) {
        self.tell_fetching(span, id, |fetching, outlook| fetching.lost(id, outlook));
    }

    /// A job was given an item.
    pub(super) fn taken(&self, span: &Span<'_>, id: u32) {
        self.tell_fetching(span, id, |fetching, outlook| fetching.taken(id, outlook));
    }

    /// Tells of an item, which may be proposed again from now on.
    fn tell_fetching(&self, span: &Span<'_>, id: u32, tell: impl FnOnce(&mut dyn Fetching, &Outlook<'_>)) {
        if self.prefetcher.is_idle() {
            return;
        }
        {
            let mut mind = self.prefetcher.mind.lock();
            let Mind { fetching: Some((on, fetching)), away } = &mut *mind else { return };
            if on.id() != span.snapshot.id() {
                return;
            }
            away.remove(&id);
            let inner = self.jobs.lock();
            tell(fetching.as_mut(), &Outlook { dataset: self, inner: &inner, span: *span, away });
        }
        self.prefetcher.wake();
    }

    /// How much may be brought in ahead: a part of the space on disk, and what the staging area holds.
    fn bounds_ahead(&self) -> Bounds {
        let space = |stock: &crate::engine::stock::Stock, quota: u64| stock.cap_bytes().min(quota);
        let cache_bytes = self.stocks.iter().map(|(at, stock)| space(stock, at.tier.quota_bytes())).sum::<u64>();
        Bounds { cache_bytes, ahead_bytes: (cache_bytes / AHEAD_PART).max(self.staging.most_bytes()) }
    }

    /// What may be brought in now. A refill only fills what is free; the others replace what was kept before.
    fn room_ahead(&self) -> u64 {
        if self.prefetcher.strategy != Strategy::Pending {
            return u64::MAX;
        }
        let free = |(at, stock): &(Arc<crate::engine::space::Space>, Arc<crate::engine::stock::Stock>)| {
            let own = stock.cap_bytes().saturating_sub(stock.used_bytes());
            own.min(at.tier.quota_bytes().saturating_sub(at.tier.used_bytes()))
        };
        self.stocks.iter().map(free).sum()
    }

    async fn bring_in_items(self: &Arc<Self>, snapshot: &Arc<Snapshot>, fetch: Fetch) {
        let objects = self.objects();
        let span = Span { snapshot, objects: &objects };
        if fetch.begins_chunk {
            self.stocks.iter().for_each(|(_, stock)| stock.signal(Signal::NextChunk));
        }
        if fetch.through.is_some() {
            let pieces: Vec<u32> = fetch.ids.iter().flat_map(|id| span.pieces(*id)).collect();
            self.stocks.iter().for_each(|(_, stock)| stock.signal(Signal::Packed(&pieces)));
        }
        for run in runs(fetch.ids.iter().map(|id| (*id, span.pieces(*id)))) {
            let wanted = || run.ids.clone().any(|id| self.prefetcher.wants(id));
            if let Err(error) = self.bring_in(run.pieces.clone(), wanted).await {
                tracing::debug!(dataset = self.config().name, %error, "cannot prefetch; readers fetch for themselves");
            }
        }
        let mut mind = self.prefetcher.mind.lock();
        let here: Vec<u32> = fetch.ids.into_iter().filter(|id| self.has_item(&span, *id)).collect();
        mind.away.retain(|id| !here.contains(id));
    }
}

/// Neighbouring items and the pieces that hold them.
struct Run {
    ids: Range<u32>,
    pieces: Range<u32>,
}

/// Puts items together whose pieces touch, so that they are read in one go.
fn runs(items: impl Iterator<Item = (u32, Range<u32>)>) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (id, pieces) in items.filter(|(_, pieces)| !pieces.is_empty()) {
        match runs.last_mut() {
            // Items in between that are not to be kept, or have no bytes, are no reason to read twice.
            Some(last)
                if last.ids.end <= id && (pieces.start == last.pieces.end || pieces.start + 1 == last.pieces.end) =>
            {
                last.ids.end = id + 1;
                last.pieces.end = pieces.end;
            }
            _ => runs.push(Run { ids: id..id + 1, pieces }),
        }
    }
    runs
}
