//! The empty directories of a snapshot, in path order: flat, mapped, searched by halving.
//!
//! Each has a `/` at its end, which sorts it to the place where its entries would be. No object lies at, above or below an
//! empty directory. A parent of one is no empty directory, and follows from it, as the parents of objects do.

use super::{
    file::{FileWriter, MappedFile},
    listing::Listing,
    name::{Names, NamesWriter},
    packed::{self, Packed},
};
use crate::{Error, Result};
use std::sync::Arc;

/// Empty directories of a snapshot, in path order.
#[derive(Debug, Clone)]
pub(super) struct EmptyDirectories(Option<Columns>);

#[derive(Debug, Clone)]
struct Columns {
    names: Names,
    /// How many objects come before each in path order.
    objects_before: Packed,
}

/// Writes the sections `id` to `id + 2`, if there are empty directories.
pub(super) fn write(file: &mut FileWriter, id: u32, directories: &[String], objects_before: &[u64]) -> Result<()> {
    if directories.is_empty() {
        return Ok(());
    }
    NamesWriter::write(file, id, |put| directories.iter().try_for_each(|directory| put(directory.as_bytes())))?;
    file.section(id + 2, |out| packed::column(out, objects_before))
}

impl EmptyDirectories {
    pub(super) fn open(file: &Arc<MappedFile>, id: u32, count: u32) -> Option<Self> {
        let columns = match count as usize {
            0 => None,
            count => Some(Columns {
                names: Names::open(file.section(id), file.section(id + 1), count)?,
                objects_before: Packed::open(file.section(id + 2), count)?,
            }),
        };
        Some(Self(columns))
    }

    /// How many.
    pub(super) fn len(&self) -> u32 {
        self.0.as_ref().map_or(0, |columns| columns.objects_before.len() as u32)
    }

    /// Makes `path` the path of a directory by its number, which is below `len`.
    pub(super) fn read(&self, index: u32, path: &mut Vec<u8>) {
        if let Some(columns) = &self.0 {
            columns.names.read(index as usize, path);
        }
    }

    /// The path of a directory by its number, which is below `len`.
    pub(super) fn get(&self, index: u32) -> String {
        let mut path = Vec::new();
        self.read(index, &mut path);
        String::from_utf8_lossy(&path).into_owned()
    }

    /// How many come before a path.
    pub(super) fn count_before(&self, path: &[u8]) -> u32 {
        let mut read = Vec::new();
        first_not(self.len(), |index| {
            self.read(index, &mut read);
            read.as_slice() < path
        })
    }

    /// How many come before a rank, which counts objects and empty directories together in path order.
    pub(super) fn count_before_rank(&self, rank: u32) -> u32 {
        first_not(self.len(), |index| self.objects_before(index) + u64::from(index) < u64::from(rank))
    }

    /// How many objects come before a directory.
    pub(super) fn objects_before(&self, index: u32) -> u64 {
        self.0.as_ref().map_or(0, |columns| columns.objects_before.get(index as usize))
    }

    /// Whether they are exactly these.
    pub(super) fn are(&self, directories: &[String]) -> bool {
        let mut path = Vec::new();
        self.len() as usize == directories.len()
            && (0..self.len()).zip(directories).all(|(index, directory)| {
                self.read(index, &mut path);
                path == directory.as_bytes()
            })
    }
}

/// Keeps what can be an empty directory beside the objects of a sorted listing, in path order. An object store may list a
/// marker for a directory that has objects, and an object of the same path: that object stays readable.
pub(super) fn settled(mut directories: Vec<String>, listing: &Listing) -> Result<Vec<String>> {
    directories.retain(|directory| is_name(directory) && !clashes(directory, listing));
    // In reverse order, a directory follows what lies below it.
    directories.sort_unstable_by(|a, b| b.cmp(a));
    directories.dedup_by(|above, below| below.starts_with(above.as_str()));
    directories.reverse();
    match u32::try_from(u64::from(listing.len()) + directories.len() as u64) {
        Ok(_) => Ok(directories),
        Err(_) => Err(Error::Invalid(format!(
            "the origin has more than {} objects and empty directories: split it into several datasets",
            u32::MAX
        ))),
    }
}

/// Whether it is the path of a directory below the root.
fn is_name(directory: &str) -> bool {
    let is_part = |part: &str| !matches!(part, "" | "." | "..") && !part.contains('\0');
    directory.strip_suffix('/').is_some_and(|path| path.split('/').all(is_part))
}

/// Whether an object lies at a directory, above it or below it.
fn clashes(directory: &str, listing: &Listing) -> bool {
    let mut at_or_above = directory.match_indices('/').map(|(at, _)| &directory[..at]);
    at_or_above.any(|path| listing.find(path.as_bytes()).is_some()) || listing.has_below(directory)
}

/// The first number below `count` of which `before` is not true; it is true of a front part of them.
fn first_not(count: u32, mut before: impl FnMut(u32) -> bool) -> u32 {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low + (high - low) / 2;
        if before(middle) { low = middle + 1 } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{id::Version, origin::ObjectEntry};

    fn settle(objects: &[&str], directories: &[&str]) -> Vec<String> {
        let mut listing = Listing::default();
        for path in objects {
            let version = Version("v".into());
            listing.push(&ObjectEntry { path: (*path).into(), size: 0, version }).unwrap();
        }
        listing.sort();
        settled(directories.iter().map(|path| (*path).to_owned()).collect(), &listing).unwrap()
    }

    #[test]
    fn only_directories_with_nothing_below_them_are_empty() {
        assert_eq!(settle(&[], &["b/", "a/", "b/", "a/c/", "a-/", "a/c/d/"]), ["a-/", "a/c/d/", "b/"]);
        assert_eq!(settle(&["a/x", "b-", "b0"], &["a/", "a/y/", "b/"]), ["a/y/", "b/"]);
    }

    #[test]
    fn an_object_is_not_hidden_by_an_empty_directory() {
        assert_eq!(settle(&["a", "b"], &["a/", "b/c/d/", "c/"]), ["c/"]);
    }

    #[test]
    fn what_is_no_path_of_a_directory_is_left_out() {
        let wrong = ["", "/", "/a/", "a", "../", "a/../b/", "a//b/", "./", "a/./", "a\0/"];
        assert_eq!(settle(&[], &wrong), [""; 0]);
        assert_eq!(settle(&[], &[".../", " /", "a\n/"]), [" /", ".../", "a\n/"]);
    }
}
