//! The objects that are new in a listing, with the records inside them where the layout has records.

use super::{
    listing::Listing,
    reader::Reader,
    record::{Record, RecordList},
    segment::{Row, Rows},
    source::Source,
};
use crate::{
    Error, Result,
    layout::{
        Layout,
        shard::{self, Want},
    },
    origin::ObjectEntry,
};
use futures::{StreamExt, TryStreamExt};

/// Shards that are read at once.
const PARALLEL: usize = 8;
/// Problems that are kept with their text, and that are logged.
const MAX_TEXTS: usize = 100;

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
    /// Reads what the layout must know of the picked objects. A shard that cannot be understood has no records, and is a
    /// problem; if all are, and there are no `others` that are in order, it is an error.
    pub(super) async fn index(
        layout: &Layout,
        listing: Listing,
        picked: Vec<u32>,
        others: bool,
        source: &dyn Source,
    ) -> Result<Self> {
        let mut fresh = Self { listing, picked, records: Vec::new(), problems: Vec::new() };
        if layout.has_records() {
            fresh.read_shards(layout, others, source).await?;
        }
        Ok(fresh)
    }

    async fn read_shards(&mut self, layout: &Layout, others: bool, source: &dyn Source) -> Result<()> {
        let (mut records, mut problems, mut shards, mut first) = (Vec::new(), Vec::new(), 0, None);
        {
            let entries = self.picked.iter().copied().map(|index| self.listing.entry(index));
            let reading = entries.map(|entry| read_shard(layout, entry, source));
            let mut lists = futures::stream::iter(reading).buffered(PARALLEL);
            while let Some(found) = lists.try_next().await? {
                let row = records.len() as u32;
                let list = match found {
                    None => RecordList::default(),
                    Some(Ok(list)) => {
                        shards += 1;
                        list
                    }
                    Some(Err(error)) => {
                        shards += 1;
                        problems.push((row, note(&error, problems.len())));
                        first.get_or_insert(error);
                        RecordList::default()
                    }
                };
                records.push(list);
            }
        }
        match first {
            Some(error) if problems.len() == shards && !others => return Err(error),
            _ => (self.records, self.problems) = (records, problems),
        }
        Ok(())
    }

    /// The same of a listing that another node has sealed, with so many `items` for each of its objects: what it could not
    /// understand has none here either, and a shard must have as many as there. So both are one snapshot.
    pub(super) async fn as_told(
        layout: &Layout,
        listing: Listing,
        picked: Vec<u32>,
        items: &[u64],
        source: &dyn Source,
    ) -> Result<Self> {
        let (mut records, mut problems) = (Vec::new(), Vec::new());
        if layout.has_records() {
            let entries = picked.iter().copied().map(|index| (listing.entry(index), items[index as usize]));
            let reading = entries.map(|(entry, items)| read_as_told(layout, entry, items, source));
            let mut lists = futures::stream::iter(reading).buffered(PARALLEL);
            while let Some((list, problem)) = lists.try_next().await? {
                problems.extend(problem.map(|problem| (records.len() as u32, note(&problem, problems.len()))));
                records.push(list);
            }
        }
        Ok(Self { listing, picked, records, problems })
    }

    pub(super) fn len(&self) -> u32 {
        self.picked.len() as u32
    }

    pub(super) fn is_empty(&self) -> bool {
        self.picked.is_empty()
    }
}

/// What is kept of the `nth` problem.
fn note(error: &Error, nth: usize) -> String {
    match nth {
        0..MAX_TEXTS => {
            tracing::warn!(%error, "a shard is left out of the items; its bytes are still read by path");
            error.to_string()
        }
        _ => String::new(),
    }
}

/// The records of an object: None if it is no shard; an inner error if it is one that cannot be used as it is.
async fn read_shard(layout: &Layout, entry: ObjectEntry, source: &dyn Source) -> Result<Option<Result<RecordList>>> {
    if !shard::is_shard(layout, &entry.path, entry.size) {
        return Ok(None);
    }
    match parse(layout, &entry, source).await {
        // The object itself is at fault. When it changes, the next refresh looks at it again.
        Err(error @ (Error::Corrupt(_) | Error::Stale(_) | Error::NotFound(_) | Error::Denied(_))) => {
            Ok(Some(Err(error)))
        }
        Err(error) => Err(error),
        Ok(list) => Ok(Some(Ok(list))),
    }
}

/// The records of an object of which another node has told how many there are; and why it has none, though it is a shard.
async fn read_as_told(
    layout: &Layout,
    entry: ObjectEntry,
    items: u64,
    source: &dyn Source,
) -> Result<(RecordList, Option<Error>)> {
    let path = entry.path.clone();
    match (items, read_shard(layout, entry, source).await?) {
        (0, None) => Ok((RecordList::default(), None)),
        (0, Some(Err(error))) => Ok((RecordList::default(), Some(error))),
        (items, Some(Ok(list))) if list.count() == items => Ok((list, None)),
        (0, Some(Ok(_))) => {
            let left_out = Error::Corrupt(format!("{path}: the node that listed it could not read it"));
            Ok((RecordList::default(), Some(left_out)))
        }
        (_, Some(Err(error))) => Err(error),
        (items, found) => {
            let count = found.and_then(Result::ok).map_or(0, |list| list.count());
            Err(Error::Corrupt(format!("{path} has {count} items here, and {items} at the node that listed it")))
        }
    }
}

async fn parse(layout: &Layout, entry: &ObjectEntry, source: &dyn Source) -> Result<RecordList> {
    let (mut list, mut bytes) = (RecordList::default(), Vec::new());
    let Some(mut parser) = shard::parser(layout, entry.size) else { return Ok(list) };
    let mut reader = Reader::new(source, entry);
    while let Want::Bytes { at, length } = parser.want() {
        reader.read(at, length, &mut bytes).await?;
        parser.give(&bytes, &mut list).map_err(|fault| fault.into_error(layout, &entry.path))?;
    }
    Ok(list)
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
