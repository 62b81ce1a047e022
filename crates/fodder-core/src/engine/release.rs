//! What a dataset must do before old versions of objects leave its catalog, and after.
//!
//! An object stays while it is read or fetched, while a file of it is written or handed out, and, if it was removed from the
//! origin, while cached bytes of it are in their grace period. What else is cached of it is dropped. See 0029.

use super::{
    dataset::Dataset,
    pins::{Pin, Pins},
    stock::Stock,
};
use crate::{
    Error, Result,
    catalog::{Objects, Release, Tables},
    id::{ObjectSlot, PieceId},
    tier::Shelf,
};
use arc_swap::ArcSwap;
use rustc_hash::FxHashSet;
use std::sync::Arc;

/// What has something for each object: the shelves, and the dataset's own table.
pub(super) struct Followers {
    pub(super) shelves: Vec<Arc<Shelf>>,
    pub(super) objects: Arc<ArcSwap<Objects>>,
}

impl Tables for Followers {
    fn follow(&self, objects: &Arc<Objects>) {
        self.shelves.iter().for_each(|shelf| shelf.follow(Arc::clone(objects) as _));
        self.objects.store(Arc::clone(objects));
    }

    fn may_reuse(&self) -> bool {
        self.shelves.iter().all(|shelf| shelf.is_settled())
    }
}

impl Dataset {
    /// Removes old versions at a start, before anybody has the dataset.
    pub(super) fn compact_now(self: &Arc<Self>) {
        if let Err(error) = self.catalog().compact_now(&Leaving(Arc::clone(self))) {
            self.log_compaction(&error);
        }
    }

    /// Removes old versions of objects from the catalog, if nothing needs them and they are many. If that fails, they are removed
    /// at another refresh.
    pub(super) async fn compact(self: &Arc<Self>) {
        match self.catalog().compact(Arc::new(Leaving(Arc::clone(self)))).await {
            Ok(true) => self.follow_snapshot(),
            Ok(false) => {}
            Err(error) => self.log_compaction(&error),
        }
    }

    /// Removes all old versions of objects from the catalog that nothing needs, however few they are. For tests.
    #[doc(hidden)]
    pub async fn compact_fully(self: &Arc<Self>) -> Result<bool> {
        let dataset = Arc::clone(self);
        self.to_its_end(async move {
            let _one_at_a_time = dataset.refreshing.lock().await;
            let compacted = dataset.catalog().compact_fully(Arc::new(Leaving(Arc::clone(&dataset)))).await?;
            dataset.follow_snapshot();
            Ok(compacted)
        })
        .await
    }

    fn log_compaction(&self, error: &Error) {
        tracing::warn!(dataset = self.config().name, %error, "cannot remove old versions of objects from the catalog");
    }

    /// Pins an object, so that it stays in the catalog. [`Error::Stale`] if it has left.
    pub(super) fn pin(&self, object: ObjectSlot) -> Result<Pin> {
        let pin = self.pins.pin(|| self.objects.load().contains(object).then_some(object));
        pin.ok_or_else(|| {
            let name = &self.config().name;
            Error::Stale(format!("an object of dataset {name:?} is no longer what it was: look it up again"))
        })
    }

    /// Pins the object that a piece belongs to. None if it has left.
    pub(super) fn pin_piece(&self, piece: PieceId) -> Option<Pin> {
        self.pins.pin(|| self.objects.load().object_of(piece))
    }
}

/// Lets objects of a dataset leave.
struct Leaving(Arc<Dataset>);

impl Leaving {
    fn stocks(&self) -> impl Iterator<Item = &Arc<Stock>> {
        self.0.stocks.iter().map(|(_, stock)| stock)
    }

    fn pins(&self) -> &Arc<Pins> {
        &self.0.pins
    }
}

impl Release for Leaving {
    fn wanted(&self, objects: &[ObjectSlot]) -> FxHashSet<ObjectSlot> {
        let in_grace = self.0.stocks[0].1.in_grace();
        let is_cached = |object: &ObjectSlot| self.stocks().any(|stock| stock.shelf.has_file(*object));
        objects.iter().filter(|object| in_grace.contains(object)).copied().filter(is_cached).collect()
    }

    fn release(&self, objects: &[ObjectSlot]) -> FxHashSet<ObjectSlot> {
        // From here on nobody begins to fetch one of them.
        let closed = self.pins().close(objects.iter().copied());
        let in_use = |object: &&ObjectSlot| {
            self.stocks().any(|stock| {
                if !stock.shelf.is_leased(**object) {
                    stock.evict_object(**object);
                }
                stock.shelf.uses(**object)
            })
        };
        let used: Vec<ObjectSlot> = closed.iter().filter(in_use).copied().collect();
        self.pins().open(&used);
        let used: FxHashSet<ObjectSlot> = used.into_iter().collect();
        self.0.forget_lost();
        closed.difference(&used).copied().collect()
    }

    fn left(&self, before: &Objects, released: &FxHashSet<ObjectSlot>) {
        let mut all = Vec::new();
        for object in released {
            let first = before.first_piece(*object).0;
            let pieces = first..first + before.pieces_of(*object);
            self.0.guessed.failed(pieces.clone());
            pieces.clone().for_each(|piece| self.0.staging.release(piece));
            all.extend(pieces.map(PieceId));
        }
        self.stocks().for_each(|stock| stock.forget_pieces(&all));
        self.pins().open(released);
    }

    fn stay(&self, released: &FxHashSet<ObjectSlot>) {
        self.pins().open(released);
    }
}

impl Stock {
    /// The numbers of these pieces will be those of other pieces.
    fn forget_pieces(&self, pieces: &[PieceId]) {
        self.forget(pieces);
        self.forget_signals(&pieces.iter().map(|piece| piece.0).collect::<Vec<_>>());
    }
}
