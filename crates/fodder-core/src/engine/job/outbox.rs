//! What jobs do, on its way to the policies: effects in item ids become signals in piece ids.
//!
//! Effects are queued in the order in which they happened and sent in that order by whoever has the turn. A short one is
//! sent by the thread that caused it, before its caller has an answer; a plan of a million items is sent in the
//! background, part by part, and readers get the policy's lock in between.

mod queue;

use super::{
    PROMISE,
    span::Span,
    state::{Inner, fingerprint},
};
use crate::{
    catalog::Snapshot,
    engine::{Dataset, hold::Reason, stock::Stock},
    id::PieceId,
};
use fodder_policy::{
    Signal,
    job::Effect,
    plan::Needed,
    residency::signal::{Ids, NEVER},
};
use parking_lot::Mutex;
use queue::Queue;
use std::{ops::Range, sync::Arc, time::Duration};

/// Ids that one signal lists at most: readers wait no longer than this takes.
const PART: usize = 1024;
/// How long a staged piece waits for the jobs that are still to take it. They are forgotten sooner.
const STAGED: Duration = Duration::from_secs(24 * 3600);

/// Effects that were not sent yet.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    queue: Queue<Sent>,
    /// Held by whoever sends.
    turn: Mutex<()>,
}

#[derive(Debug)]
struct Sent {
    snapshot: Arc<Snapshot>,
    effect: Effect,
}

impl Sent {
    fn is_long(&self) -> bool {
        match &self.effect {
            Effect::Planned(needed) | Effect::Dropped(needed) => needed.len() as usize > PART,
            Effect::Consumed(_) | Effect::Stage(_) | Effect::Release(_) => false,
        }
    }
}

impl Outbox {
    /// Queues what an answer has caused. Under the lock of the jobs, so that the order is that of the answers.
    /// What the effects do not name themselves is of `snapshot`.
    pub(super) fn push(&self, inner: &Inner, snapshot: &Arc<Snapshot>, effects: Vec<Effect>) {
        let sent = effects.into_iter().map(|effect| {
            let named = match &effect {
                Effect::Planned(needed) | Effect::Dropped(needed) => {
                    inner.snapshot_named(needed.plan().snapshot().fingerprint)
                }
                Effect::Consumed(_) | Effect::Stage(_) | Effect::Release(_) => None,
            };
            Sent { snapshot: named.unwrap_or_else(|| Arc::clone(snapshot)), effect }
        });
        self.queue.extend(sent);
    }

    /// Whether so much waits that jobs should be given nothing new for now. Who leaves or is forgotten may always say so.
    pub(super) fn is_full(&self) -> bool {
        self.queue.is_full()
    }

    /// Waits until it is not.
    pub(super) async fn has_room(&self) {
        self.queue.has_room().await;
    }

    fn pop(&self, long: bool) -> Option<Sent> {
        self.queue.pop_if(|sent| long || !sent.is_long())
    }

    fn has(&self, long: bool) -> bool {
        self.queue.is_next(|sent| long || !sent.is_long())
    }
}

impl Dataset {
    /// Sends the effects at the front of the queue that are short, and has the rest sent in the background.
    pub(super) fn send_short_effects(&self) {
        self.send_effects(false);
        if self.jobs.outbox.has(true) {
            self.jobs.work.notify_one();
        }
    }

    /// Sends everything. Takes as long as the plans are.
    pub(super) fn send_all_effects(&self) {
        self.send_effects(true);
    }

    /// Sends until nothing is left. If another has the turn, it sends ours too: it looks again after giving the turn back.
    fn send_effects(&self, long: bool) {
        while self.jobs.outbox.has(long) {
            let Some(_turn) = self.jobs.outbox.turn.try_lock() else { return };
            while let Some(sent) = self.jobs.outbox.pop(long) {
                self.send(&sent);
            }
        }
    }

    fn send(&self, sent: &Sent) {
        let objects = self.objects();
        let span = Span { snapshot: &sent.snapshot, objects: &objects };
        match &sent.effect {
            Effect::Planned(needed) => self.send_planned(&span, needed),
            Effect::Dropped(needed) => self.send_dropped(&span, needed),
            Effect::Consumed(id) => {
                let pieces = span.pieces(*id);
                self.signal_each(Stock::heeds_plans, pieces.clone().map(Signal::Consumed));
                self.send_next_uses(&span, pieces);
                self.taken(&span, *id);
            }
            Effect::Stage(id) => self.stage(span.pieces(*id)),
            Effect::Release(id) => {
                for piece in span.pieces(*id) {
                    self.stocks.iter().for_each(|(_, stock)| stock.holds.promise(piece, PROMISE));
                    self.staging.promise(piece, PROMISE);
                }
            }
        }
    }

    fn send_planned(&self, span: &Span<'_>, needed: &Needed) {
        if span.is_one_to_one() && needed.is_everything() {
            let all = Ids::Below(span.objects.pieces());
            self.signal_each(Stock::heeds_plans, [Signal::Planned(all)]);
        } else {
            self.in_parts(Stock::heeds_plans, span, needed, |ids| Signal::Planned(Ids::Listed(ids)));
        }
        self.send_next_uses_of(span, needed);
        self.prefetcher.replanned();
    }

    fn send_dropped(&self, span: &Span<'_>, needed: &Needed) {
        self.in_parts(Stock::heeds_plans, span, needed, |ids| Signal::Dropped(ids));
        self.send_next_uses_of(span, needed);
        let pending = |id| self.jobs.lock().machine.pending(fingerprint(span.snapshot), id);
        for id in needed.iter().filter(|id| pending(*id) == 0) {
            self.release(span.pieces(id));
            self.lost(span, id);
        }
    }

    /// Keeps pieces until they are released: on the shelf that has them or will have them, else in memory.
    fn stage(&self, pieces: Range<u32>) {
        for piece in pieces {
            self.stocks.iter().for_each(|(_, stock)| stock.holds.hold(piece, Reason::Staged, STAGED));
            if !self.holds(PieceId(piece)) {
                let bytes = u64::from(self.piece_len(PieceId(piece)));
                self.staging.reserve(piece, bytes, Reason::Staged);
            }
        }
    }

    fn release(&self, pieces: Range<u32>) {
        for piece in pieces {
            self.stocks.iter().for_each(|(_, stock)| stock.holds.release(piece));
            self.staging.release(piece);
        }
    }

    fn send_next_uses_of(&self, span: &Span<'_>, needed: &Needed) {
        if self.stocks.iter().any(|(_, stock)| stock.heeds_next_use()) {
            needed.iter().for_each(|id| self.send_next_uses(span, span.pieces(id)));
        }
    }

    /// Says when pieces are next needed: the soonest of their items.
    fn send_next_uses(&self, span: &Span<'_>, pieces: impl Iterator<Item = u32>) {
        if !self.stocks.iter().any(|(_, stock)| stock.heeds_next_use()) {
            return;
        }
        for piece in pieces {
            let at = self.jobs.lock().next_use(span, piece);
            self.signal_each(Stock::heeds_next_use, [Signal::NextUse { id: piece, at }]);
        }
    }

    fn in_parts(
        &self,
        heeds: fn(&Stock) -> bool,
        span: &Span<'_>,
        needed: &Needed,
        signal: impl for<'a> Fn(&'a [u32]) -> Signal<'a>,
    ) {
        if !self.stocks.iter().any(|(_, stock)| heeds(stock)) {
            return;
        }
        let mut part = Vec::with_capacity(PART);
        for piece in needed.iter().flat_map(|id| span.pieces(id)) {
            part.push(piece);
            if part.len() == PART {
                self.signal_each(heeds, [signal(&part)]);
                part.clear();
            }
        }
        self.signal_each(heeds, [signal(&part)]);
    }

    fn signal_each<'s>(&self, heeds: fn(&Stock) -> bool, signals: impl IntoIterator<Item = Signal<'s>>) {
        for signal in signals {
            let heeding = self.stocks.iter().filter(|(_, stock)| heeds(stock));
            heeding.for_each(|(_, stock)| stock.signal(signal.clone()));
        }
    }

    /// Whether an item is in the cache.
    pub(super) fn has_item(&self, span: &Span<'_>, id: u32) -> bool {
        span.pieces(id).all(|piece| self.holds(PieceId(piece)))
    }

    /// Whether an item can be read without asking the origin: it is in the cache, or staged for whoever comes first.
    pub(super) fn has_at_hand(&self, span: &Span<'_>, id: u32) -> bool {
        span.pieces(id).all(|piece| self.holds(PieceId(piece)) || self.staging.is_ready(piece))
    }
}

impl Inner {
    /// When a piece is next needed: when the first of its items is.
    fn next_use(&self, span: &Span<'_>, piece: u32) -> u64 {
        let name = fingerprint(span.snapshot);
        span.items(piece).map(|id| self.machine.next_use(name, id)).min().unwrap_or(NEVER)
    }
}
