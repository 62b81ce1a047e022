//! A listing as it arrives from the origin: one arena, eight bytes beside it for each object, sorted at the end.

use super::{
    packed::{put_varint, take, take_varint},
    segment::Row,
    version,
};
use crate::{Error, Result, id::Version, origin::ObjectEntry};

/// Objects in path order, once [`Listing::sort`] was called.
#[derive(Debug, Default)]
pub(super) struct Listing {
    arena: Vec<u8>,
    starts: Vec<u64>,
    scratch: Vec<u8>,
}

impl Listing {
    pub(super) fn push(&mut self, entry: &ObjectEntry) -> Result<()> {
        if self.starts.len() >= u32::MAX as usize {
            return Err(Error::Invalid(format!(
                "the origin has more than {} objects: split it into several datasets",
                u32::MAX
            )));
        }
        self.starts.push(self.arena.len() as u64);
        put_varint(&mut self.arena, entry.path.len() as u64);
        self.arena.extend_from_slice(entry.path.as_bytes());
        put_varint(&mut self.arena, entry.size);
        version::pack(&entry.version.0, entry.size, &mut self.scratch);
        put_varint(&mut self.arena, self.scratch.len() as u64);
        self.arena.extend_from_slice(&self.scratch);
        Ok(())
    }

    /// Brings the objects into path order. Of several at one path (the origin changed while it was listed) the last stays.
    pub(super) fn sort(&mut self) {
        let arena = &self.arena[..];
        let path = |start: u64| {
            let mut rest = &arena[start as usize..];
            let length = take_varint(&mut rest) as usize;
            &rest[..length]
        };
        self.starts.sort_unstable_by(|a, b| path(*a).cmp(path(*b)).then(b.cmp(a)));
        self.starts.dedup_by(|later, earlier| path(*later) == path(*earlier));
    }

    pub(super) fn len(&self) -> u32 {
        self.starts.len() as u32
    }

    pub(super) fn row(&self, index: u32) -> Row<'_> {
        let mut rest = &self.arena[self.starts[index as usize] as usize..];
        let length = take_varint(&mut rest) as usize;
        let path = take(&mut rest, length);
        let size = take_varint(&mut rest);
        let length = take_varint(&mut rest) as usize;
        let path = std::str::from_utf8(path).expect("the arena holds what was pushed");
        Row { path, size, version: take(&mut rest, length) }
    }

    /// An object as the origin listed it.
    pub(super) fn entry(&self, index: u32) -> ObjectEntry {
        let Row { path, size, version } = self.row(index);
        let version: Version = version::unpack(version, size);
        ObjectEntry { path: path.to_owned(), size, version }
    }

    /// Whether an object's path begins with `prefix`.
    pub(super) fn has_below(&self, prefix: &str) -> bool {
        let path = |index: u32| self.row(index).path;
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if path(middle) < prefix { low = middle + 1 } else { high = middle }
        }
        low < self.len() && path(low).starts_with(prefix)
    }

    /// The object at a path.
    pub(super) fn find(&self, path: &[u8]) -> Option<u32> {
        let mut rest = 0..self.len();
        while !rest.is_empty() {
            let middle = rest.start + (rest.end - rest.start) / 2;
            match self.row(middle).path.as_bytes().cmp(path) {
                std::cmp::Ordering::Equal => return Some(middle),
                std::cmp::Ordering::Less => rest.start = middle + 1,
                std::cmp::Ordering::Greater => rest.end = middle,
            }
        }
        None
    }
}
