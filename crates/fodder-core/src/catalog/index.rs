//! The objects that are new in a listing, with the records inside them where the layout has records.

use super::{
    listing::Listing,
    record::{Record, RecordList},
    segment::{Row, Rows},
    source::Source,
};
use crate::{Error, Result, layout::Layout};

/// Objects of a listing that need slots, in path order.
#[derive(Debug)]
pub(super) struct Fresh {
    listing: Listing,
    picked: Vec<u32>,
    /// The records of each picked object; empty where the layout has none.
    records: Vec<RecordList>,
    problems: Vec<(u32, String)>,
}

impl Fresh {
    /// Reads what the layout must know of the picked objects.
    pub(super) async fn index(
        layout: &Layout,
        listing: Listing,
        picked: Vec<u32>,
        source: &dyn Source,
    ) -> Result<Self> {
        let fresh = Self { listing, picked, records: Vec::new(), problems: Vec::new() };
        let _ = source;
        if layout.has_records() {
            return Err(Error::Invalid(format!("the layout {layout} is not there yet")));
        }
        Ok(fresh)
    }

    pub(super) fn len(&self) -> u32 {
        self.picked.len() as u32
    }

    pub(super) fn is_empty(&self) -> bool {
        self.picked.is_empty()
    }
}

impl Rows for Fresh {
    fn each(&self, take: &mut dyn FnMut(Row<'_>) -> Result<()>) -> Result<()> {
        self.picked.iter().try_for_each(|index| take(self.listing.row(*index)))
    }

    fn each_record(&self, take: &mut dyn FnMut(u32, Record<'_>) -> Result<()>) -> Result<()> {
        let mut rows = self.records.iter().zip(0..);
        rows.try_for_each(|(records, row)| records.each(&mut |record| take(row, record)))
    }

    fn problems(&self) -> Vec<(u32, String)> {
        self.problems.clone()
    }
}
