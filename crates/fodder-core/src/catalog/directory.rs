//! A snapshot as a tree: what lies directly below a directory, page by page.
//!
//! Paths are sorted, so a directory is a stretch of them, and a directory inside it is a shorter stretch that one search
//! skips. A place in a listing is a rank in path order, which never means anything else in the same snapshot. Where an
//! object and a directory have the same path, as object stores allow, the directory is shown. A symbolic link is what it
//! leads to, and says so.

use super::{Snapshot, object::PathCursor};
use crate::{id::ObjectSlot, origin::Link};

/// The byte behind `/`: what begins with `a/` sorts before `a0`, and what does not and is greater behind it.
const BEHIND_SLASH: u8 = b'/' + 1;

/// What lies at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Child {
    /// An object.
    Object(ObjectSlot),
    /// Objects lie below it.
    Directory,
}

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name, without a slash.
    pub name: String,
    /// What it is, or leads to.
    pub child: Child,
    /// It is a symbolic link.
    pub link: Option<Link>,
    /// Where the listing goes on behind it. Never 0.
    pub next: u32,
}

/// Where a listing goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resume<'a> {
    /// At a place that an entry of the same snapshot named; 0 is the beginning.
    Rank(u32),
    /// Behind the entry with this name, a directory's with a slash at its end.
    Name(&'a str),
}

impl Snapshot {
    /// What lies at a path without slashes at its ends; the empty one is the root.
    pub fn find(&self, path: &str) -> Option<Child> {
        if path.is_empty() || self.stretch(&below(path)).is_some() {
            return Some(Child::Directory);
        }
        self.lookup(path).map(Child::Object)
    }

    /// The symbolic link at a path.
    pub fn link(&self, path: &str) -> Option<Link> {
        let (target, modified_ns) = self.links().find(path)?;
        Some(Link { path: path.to_owned(), target, modified_ns })
    }

    /// Whether the object at a position in path order is at a link, or below one: it is also somewhere else.
    pub(crate) fn is_linked(&self, place: u32) -> bool {
        if self.links().is_empty() || place >= self.object_count() {
            return false;
        }
        let path = self.object_table().path(self.slot_at(place));
        let above = path.match_indices('/').map(|(at, _)| &path[..at]);
        above.chain([&*path]).any(|path| self.links().find(path).is_some())
    }

    /// Whether the object at a position in path order is the first of several that lie in its directory, not further below.
    pub(crate) fn begins_directory(&self, place: u32) -> bool {
        let directory = |place: u32| {
            let path = self.object_table().path(self.slot_at(place));
            path.rsplit_once('/').map_or_else(String::new, |(directory, _)| directory.to_owned())
        };
        place + 1 < self.object_count()
            && directory(place + 1) == directory(place)
            && (place == 0 || directory(place - 1) != directory(place))
    }

    /// Up to `count` entries of a directory, in path order; None if there is no such directory.
    pub fn children(&self, directory: &str, from: Resume<'_>, count: usize) -> Option<Vec<Entry>> {
        let prefix = if directory.is_empty() { String::new() } else { below(directory) };
        let first = match self.stretch(&prefix) {
            Some(first) => first,
            None if directory.is_empty() => 0,
            None => return None,
        };
        let mut rank = first.max(match from {
            Resume::Rank(rank) => rank,
            Resume::Name(name) => self.behind(&prefix, name),
        });
        let (mut cursor, mut entries, mut scratch) = (PathCursor::new(self.object_table()), Vec::new(), Vec::new());
        while entries.len() < count && rank < self.object_count() {
            let object = self.slot_at(rank);
            let Some(rest) = cursor.path(object).strip_prefix(prefix.as_str()) else { break };
            let (name, child, next) = match rest.split_once('/') {
                Some((name, _)) => {
                    let mut end = format!("{prefix}{name}").into_bytes();
                    end.push(BEHIND_SLASH);
                    (name, Child::Directory, self.first_path_not_before(&end, &mut scratch))
                }
                None => (rest, Child::Object(object), rank + 1),
            };
            if child == Child::Directory || !self.hidden(&prefix, name, rank) {
                let link = if self.links().is_empty() { None } else { self.link(&format!("{prefix}{name}")) };
                entries.push(Entry { name: name.to_owned(), child, link, next });
            }
            rank = next;
        }
        Some(entries)
    }

    /// The rank of the first path that begins with `prefix`.
    fn stretch(&self, prefix: &str) -> Option<u32> {
        let mut name = Vec::new();
        let rank = self.first_path_not_before(prefix.as_bytes(), &mut name);
        let slot = (rank < self.object_count()).then(|| self.slot_at(rank))?;
        self.object_table().read_path(slot, &mut name);
        name.starts_with(prefix.as_bytes()).then_some(rank)
    }

    /// The rank behind an entry of a directory.
    fn behind(&self, prefix: &str, name: &str) -> u32 {
        let mut end = format!("{prefix}{}", name.trim_end_matches('/')).into_bytes();
        // No path holds a NUL, so the object's own is the only one before this.
        end.push(if name.ends_with('/') { BEHIND_SLASH } else { 0 });
        self.first_path_not_before(&end, &mut Vec::new())
    }

    /// Whether a directory has the path of the object at `rank`. Only if the next path begins alike can there be one.
    fn hidden(&self, prefix: &str, name: &str, rank: u32) -> bool {
        let path = format!("{prefix}{name}");
        let Some(next) = (rank + 1 < self.object_count()).then(|| self.slot_at(rank + 1)) else { return false };
        let mut following = Vec::new();
        self.object_table().read_path(next, &mut following);
        following.starts_with(path.as_bytes()) && self.stretch(&below(&path)).is_some()
    }
}

fn below(directory: &str) -> String {
    format!("{directory}/")
}
