//! Open directories: cookies that stay good for the life of the mount, and a page of entries at a time.
//!
//! A cookie holds a place in a snapshot and which snapshot it is of, so that any handle can go on with it, also one that
//! was opened later, and also from what the kernel kept of a listing.

use crate::node::{Entry, From, Page, SnapshotId};
use parking_lot::Mutex;
use std::sync::Arc;

/// Entries that are asked for at a time: enough that asking costs nothing, few enough for every open directory.
pub(crate) const PAGE: u32 = 1024;

/// Snapshots whose cookies are understood. The node keeps fewer; older cookies go on by name.
const MAX_SNAPSHOTS: usize = 64;

const PLACE_BITS: u32 = 33;

/// Where a listing goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum At {
    /// `.` is next.
    Itself,
    /// `..` is next.
    Parent,
    /// At a rank of a snapshot by its number; rank 0 is the beginning, of whichever is the newest.
    Rank { snapshot: u32, rank: u32 },
}

impl At {
    /// The cookie that stands for it.
    pub(crate) fn cookie(self) -> u64 {
        match self {
            Self::Itself => 0,
            Self::Parent => 1,
            Self::Rank { snapshot, rank } => u64::from(snapshot) << PLACE_BITS | (u64::from(rank) + 2),
        }
    }

    /// What a cookie stands for.
    pub(crate) fn of(cookie: u64) -> Self {
        match cookie & ((1 << PLACE_BITS) - 1) {
            0 => Self::Itself,
            1 => Self::Parent,
            place => Self::Rank { snapshot: (cookie >> PLACE_BITS) as u32, rank: (place - 2) as u32 },
        }
    }
}

/// Numbers for the snapshots that cookies are of.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    /// The last ones, and the number of the first of them.
    known: Mutex<(u32, Vec<SnapshotId>)>,
}

impl Snapshots {
    /// The number of a snapshot.
    pub(crate) fn number(&self, id: SnapshotId) -> u32 {
        let mut known = self.known.lock();
        let (first, ids) = &mut *known;
        if let Some(index) = ids.iter().rposition(|other| *other == id) {
            return *first + index as u32;
        }
        if ids.len() == MAX_SNAPSHOTS {
            ids.remove(0);
            *first += 1;
        }
        ids.push(id);
        *first + ids.len() as u32 - 1
    }

    /// The snapshot with a number.
    pub(crate) fn id(&self, number: u32) -> Option<SnapshotId> {
        let known = self.known.lock();
        known.1.get(number.checked_sub(known.0)? as usize).copied()
    }
}

/// An open directory.
#[derive(Debug)]
pub(crate) struct Directory {
    pub(crate) ino: u64,
    pub(crate) path: Box<str>,
    page: Mutex<Option<Arc<Listed>>>,
}

/// A page, and where it began.
#[derive(Debug)]
pub(crate) struct Listed {
    snapshot: u32,
    from: u32,
    page: Page,
}

impl Directory {
    pub(crate) fn new(ino: u64, path: Box<str>) -> Self {
        Self { ino, path, page: Mutex::default() }
    }

    /// The page at hand, if the listing goes on in it.
    pub(crate) fn at_hand(&self, snapshot: u32, rank: u32) -> Option<Arc<Listed>> {
        let page = self.page.lock();
        let listed = page.as_ref()?;
        // A first page is of the newest snapshot when it is asked for, so it is never taken from before.
        (listed.snapshot == snapshot && rank != 0 && listed.covers(rank)).then(|| Arc::clone(listed))
    }

    /// Asks for the page at a place; it, and where in it the listing goes on.
    pub(crate) fn fetch<E>(
        &self,
        snapshots: &Snapshots,
        number: u32,
        rank: u32,
        list: impl FnOnce(From<'_>) -> Result<Page, E>,
    ) -> Result<(Arc<Listed>, u32), E> {
        let behind = self.name_before(number, rank);
        let snapshot = if rank == 0 { None } else { snapshots.id(number) };
        let page = list(From { snapshot, rank, behind: &behind })?;
        // A rank means nothing in another snapshot than its own.
        let from = if snapshot == Some(page.snapshot) { rank } else { 0 };
        let listed = Arc::new(Listed { snapshot: snapshots.number(page.snapshot), from, page });
        *self.page.lock() = Some(Arc::clone(&listed));
        Ok((listed, from))
    }

    /// The name of the entry before a place, a directory's with a slash, if the page at hand has it.
    fn name_before(&self, number: u32, rank: u32) -> String {
        let page = self.page.lock();
        let listed = page.as_ref().filter(|listed| listed.snapshot == number);
        let before = listed.and_then(|listed| listed.page.entries.iter().find(|entry| entry.next == rank));
        before.map_or(String::new(), |entry| {
            let slash = if entry.object.is_none() { "/" } else { "" };
            format!("{}{slash}", entry.name)
        })
    }
}

impl Listed {
    /// The snapshot that the page is of.
    pub(crate) fn snapshot(&self) -> SnapshotId {
        self.page.snapshot
    }

    /// Whether the listing goes on with an entry of this page, or is at its end.
    fn covers(&self, rank: u32) -> bool {
        rank == self.from || self.index_behind(rank).is_some() && !self.is_last(rank)
    }

    /// The place in the page behind the entry that names a rank.
    fn index_behind(&self, rank: u32) -> Option<usize> {
        self.page.entries.binary_search_by_key(&rank, |entry| entry.next).ok().map(|index| index + 1)
    }

    /// Whether there is a further page behind a rank.
    fn is_last(&self, rank: u32) -> bool {
        !self.page.end && self.page.entries.last().is_some_and(|last| last.next == rank)
    }

    /// The entries from a rank of it on, each with its cookie.
    pub(crate) fn entries(&self, rank: u32) -> impl Iterator<Item = (&Entry, u64)> {
        let index = self.index_behind(rank).unwrap_or(0);
        let snapshot = self.snapshot;
        let cookie = move |entry: &Entry| At::Rank { snapshot, rank: entry.next }.cookie();
        self.page.entries[index..].iter().map(move |entry| (entry, cookie(entry)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_stands_for_its_place() {
        let places = [At::Itself, At::Parent, At::Rank { snapshot: 0, rank: 0 }];
        let far = [At::Rank { snapshot: 7, rank: u32::MAX }, At::Rank { snapshot: 1 << 29, rank: 1 }];
        for at in places.into_iter().chain(far) {
            assert_eq!(At::of(at.cookie()), at);
            assert!(i64::try_from(at.cookie()).is_ok(), "the kernel's offsets are signed");
        }
    }

    #[test]
    fn snapshots_have_numbers_as_long_as_they_are_among_the_last() {
        let snapshots = Snapshots::default();
        for number in 0..200u8 {
            assert_eq!(snapshots.number([number; 16]), u32::from(number));
            assert_eq!(snapshots.number([number; 16]), u32::from(number));
            assert_eq!(snapshots.id(u32::from(number)), Some([number; 16]));
        }
        assert_eq!((snapshots.id(100), snapshots.id(200)), (None, None));
    }
}
