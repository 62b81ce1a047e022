//! Reads by a client on this host that take the bytes from the cache file themselves, before the object is whole and could be
//! leased. The client is shown the file, reads, and asks whether what it read still counts: nothing is held for it.

use super::dataset::Dataset;
use crate::{id::ObjectSlot, tier};
use std::{fs::File, ops::Range, sync::Arc, time::Duration};

/// How long a client waits for what is on its way to a shelf. Then it is told to read as everybody does, from memory.
const LANDING: Duration = Duration::from_millis(100);

/// A file that was shown, and for what.
#[derive(Debug)]
pub struct View {
    shown: tier::View,
    file: Arc<File>,
    /// Keeps the file charged while the client reads it.
    _counted: Arc<tier::Shown>,
    level: usize,
    object: ObjectSlot,
    range: Range<u64>,
}

impl View {
    /// The file. What is read from it counts if [`Dataset::viewed`] says so afterwards.
    pub fn file(&self) -> &Arc<File> {
        &self.file
    }
}

impl Dataset {
    /// The cache file that has a range of an object; None if no tier has all of it, checked. Never waits.
    pub fn try_view(&self, object: ObjectSlot, range: &Range<u64>) -> Option<View> {
        let (level, shown) = self.look_into(object, range)?;
        let (file, counted) = self.stocks[level].1.shelf.show(&shown)?;
        Some(View { file, _counted: counted, shown, level, object, range: range.clone() })
    }

    /// The same for this process, and the tier it is in.
    pub(super) fn look_into(&self, object: ObjectSlot, range: &Range<u64>) -> Option<(usize, tier::View)> {
        let mut stocks = self.stocks.iter().enumerate();
        stocks.find_map(|(level, (_, stock))| Some((level, stock.shelf.view(object, range)?)))
    }

    /// The same, but waits a moment for what is on its way. Fetches nothing.
    pub async fn view(&self, object: ObjectSlot, range: &Range<u64>) -> Option<View> {
        let pieces = self.pieces_in(object, range);
        let landing = self.flights.settled(pieces, |piece| self.staging.has(piece));
        {
            let reader = Arc::default();
            let _waiting = (self.shared.demand.wait(), self.meter.wait(&reader));
            tokio::time::timeout(LANDING, landing).await.ok()?;
        }
        self.try_view(object, range)
    }

    /// Whether what a client has read from a file it was shown is right. Then it counts as a read.
    pub fn viewed(self: &Arc<Self>, view: &View) -> bool {
        let View { shown, level, object, range, .. } = view;
        let stock = &self.stocks[*level].1;
        let is_right = stock.shelf.still_shows(shown);
        if is_right {
            let source = self.hit(*level, self.pieces_in(*object, range));
            let source = self.source_of(*object, range, source);
            self.answered(*object, range.clone(), source);
        }
        is_right
    }
}
