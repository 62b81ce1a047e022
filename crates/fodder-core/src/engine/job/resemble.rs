//! How likeness reaches the policies: from embeddings of items to scores and keys of pieces.

use super::{
    embedding::Points,
    likeness::{self, Likeness},
    span::Span,
};
use crate::{catalog::Snapshot, engine::Dataset};
use fodder_policy::{
    Signal,
    residency::signal::{NO_KEY, UNSCORED},
};
use std::sync::{Arc, atomic::Ordering::Relaxed};

impl Dataset {
    /// Looks for neighbours on a thread of its own, if embeddings are due and a policy heeds them. One search at a time.
    pub(super) fn resemble_soon(self: &Arc<Self>) {
        if !self.stocks.iter().any(|(_, stock)| stock.heeds_neighbours()) || self.jobs.looking.swap(true, Relaxed) {
            return;
        }
        let points = self.jobs.embeddings.lock().take_due();
        let dataset = Arc::clone(self);
        let begun = points.is_some_and(|points| {
            self.shared.likeness.try_submit(move || {
                dataset.resemble(&points);
                dataset.jobs.looking.store(false, Relaxed);
                dataset.jobs.work.notify_one();
            })
        });
        if !begun {
            self.jobs.looking.store(false, Relaxed);
        }
    }

    fn resemble(&self, points: &Points) {
        let snapshot = self.jobs.lock().snapshots().into_iter().find(|on| Some(on.id()) == points.snapshot);
        let Some(snapshot) = snapshot else { return };
        let label = |row: usize| snapshot.item(u64::from(points.ids[row])).ok().and_then(|item| item.label);
        let settings = self.config().tuning.semantic;
        match likeness::find(points, &settings, label, || !self.is_closed()) {
            Ok(Some(found)) => self.apply(&snapshot, points, &found),
            Ok(None) => {}
            Err(error) => tracing::warn!(dataset = self.config().name, %error, "cannot look for neighbours"),
        }
    }

    fn apply(&self, snapshot: &Snapshot, points: &Points, found: &Likeness) {
        let objects = self.objects();
        let span = Span { snapshot, objects: &objects };
        let mut scores = vec![f32::NEG_INFINITY; objects.pieces() as usize];
        let mut keys = vec![NO_KEY; objects.pieces() as usize];
        for (row, id) in points.ids.iter().enumerate() {
            for piece in span.pieces(*id) {
                scores[piece as usize] = scores[piece as usize].max(found.scores[row]);
            }
            // Only what is a piece of its own can answer for another.
            let key = found.keys[row].and_then(|key| span.sole_piece(points.ids[key as usize]));
            if let (Some(piece), Some(key)) = (span.sole_piece(*id), key) {
                keys[piece as usize] = key;
            }
        }
        scores.iter_mut().filter(|score| !score.is_finite()).for_each(|score| *score = UNSCORED);
        let (scores, keys): (Arc<[f32]>, Arc<[u32]>) = (scores.into(), keys.into());
        for (_, stock) in self.stocks.iter().filter(|(_, stock)| stock.heeds_neighbours()) {
            stock.signal(Signal::Scores(Arc::clone(&scores)));
            stock.signal(Signal::Neighbours(Arc::clone(&keys)));
        }
        self.jobs.likenesses_applied.fetch_add(1, Relaxed);
    }
}
