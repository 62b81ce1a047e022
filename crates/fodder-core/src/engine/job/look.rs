//! What serving may see of the cache and the catalog.

use super::span::Span;
use crate::{engine::Dataset, id::PieceId};
use fodder_policy::serving::Look;

/// A look at the items of one snapshot.
#[derive(Debug)]
pub(super) struct CacheLook<'a> {
    pub(super) dataset: &'a Dataset,
    pub(super) span: Span<'a>,
    /// Whether others may stand in, where the job allows it.
    pub(super) replaceable: bool,
}

impl Look for CacheLook<'_> {
    fn cached(&self, id: u32) -> bool {
        self.dataset.has_at_hand(&self.span, id)
    }

    fn may_stand_in(&self, id: u32) -> bool {
        // What is staged goes with its first reader, who should be the one it is there for.
        self.dataset.has_item(&self.span, id)
    }

    fn bytes(&self, id: u32) -> u64 {
        self.span.snapshot.item(u64::from(id)).map_or(0, |item| item.range.end - item.range.start)
    }

    fn label(&self, id: u32) -> Option<u32> {
        self.span.snapshot.item(u64::from(id)).ok()?.label
    }

    fn replaceable(&self, _id: u32) -> bool {
        self.replaceable
    }

    fn stand_in(&self, id: u32) -> Option<u32> {
        let piece = PieceId(self.span.pieces(id).next()?);
        let other = self.dataset.stocks.iter().find_map(|(_, stock)| stock.stand_in(piece))?;
        let label = self.label(id);
        self.span.items(other.0).find(|other| self.label(*other) == label)
    }
}
