//! A snapshot as a tree: what lies directly below a directory, page by page.
//!
//! Paths are sorted, so a directory is a stretch of them, and a directory inside it is a shorter stretch that one search
//! skips. An empty directory stands among the objects where its entries would be. A place in a listing is a rank in this
//! order, which never means anything else in the same snapshot. Where an object and a directory with objects have the same
//! path, as object stores allow, the directory is shown. A symbolic link is what it leads to, and says so.

use super::{Snapshot, object::PathCursor};
use crate::{id::ObjectSlot, origin::Link};

/// The byte behind `/`: what begins with `a/` sorts before `a0`, and what does not and is greater behind it.
const BEHIND_SLASH: u8 = b'/' + 1;

/// What lies at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Child {
    /// An object.
    Object(ObjectSlot),
    /// Objects or empty directories lie below it, or it is an empty directory.
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

/// A place in path order: how many objects and how many empty directories come before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    objects: u32,
    directories: u32,
}

impl Place {
    /// A snapshot has fewer than 2^32 objects and empty directories together.
    fn rank(self) -> u32 {
        self.objects + self.directories
    }
}

/// Reads the paths of objects and empty directories, in path order at the least cost.
struct Paths<'a> {
    snapshot: &'a Snapshot,
    objects: PathCursor<'a>,
    directory: Vec<u8>,
}

impl<'a> Paths<'a> {
    fn of(snapshot: &'a Snapshot) -> Self {
        Self { snapshot, objects: PathCursor::new(snapshot.object_table()), directory: Vec::new() }
    }

    /// The path behind a place, and the object if it is one's.
    fn behind(&mut self, place: Place) -> Option<(&str, Option<ObjectSlot>)> {
        let directories = self.snapshot.empty_directories();
        let is_directory = place.directories < directories.len()
            && directories.objects_before(place.directories) <= u64::from(place.objects);
        if is_directory {
            directories.read(place.directories, &mut self.directory);
            return Some((std::str::from_utf8(&self.directory).unwrap_or_default(), None));
        }
        let object = (place.objects < self.snapshot.object_count()).then(|| self.snapshot.slot_at(place.objects))?;
        Some((self.objects.path(object), Some(object)))
    }
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
        if path.is_empty() || self.has_below(&below(path)) {
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
        if !directory.is_empty() && !self.has_below(&prefix) {
            return None;
        }
        let mut place = self.first_not_before(prefix.as_bytes()).max(match from {
            Resume::Rank(rank) => self.place_at(rank),
            Resume::Name(name) => self.behind(&prefix, name),
        });
        let (mut paths, mut entries) = (Paths::of(self), Vec::new());
        while entries.len() < count {
            let Some((path, object)) = paths.behind(place) else { break };
            // An empty directory is a path of its own, behind which nothing is left.
            let Some(rest) = path.strip_prefix(prefix.as_str()).filter(|rest| !rest.is_empty()) else { break };
            let (name, child, next) = match (rest.split_once('/'), object) {
                (None, Some(object)) => (rest, Child::Object(object), Place { objects: place.objects + 1, ..place }),
                (inside, _) => {
                    let name = inside.map_or(rest, |(name, _)| name);
                    (name, Child::Directory, self.behind(&prefix, &below(name)))
                }
            };
            if child == Child::Directory || !self.hidden(&prefix, name, place.objects) {
                let link = if self.links().is_empty() { None } else { self.link(&format!("{prefix}{name}")) };
                entries.push(Entry { name: name.to_owned(), child, link, next: next.rank() });
            }
            place = next;
        }
        Some(entries)
    }

    /// Whether a path of an object or an empty directory begins with `prefix`.
    fn has_below(&self, prefix: &str) -> bool {
        let first = self.first_not_before(prefix.as_bytes());
        Paths::of(self).behind(first).is_some_and(|(path, _)| path.starts_with(prefix))
    }

    fn first_not_before(&self, path: &[u8]) -> Place {
        let objects = self.first_path_not_before(path, &mut Vec::new());
        Place { objects, directories: self.empty_directories().count_before(path) }
    }

    /// The place with a rank; the end, if the rank is past it.
    fn place_at(&self, rank: u32) -> Place {
        let directories = self.empty_directories().count_before_rank(rank);
        Place { objects: (rank - directories).min(self.object_count()), directories }
    }

    /// The place behind an entry of a directory.
    fn behind(&self, prefix: &str, name: &str) -> Place {
        let mut end = format!("{prefix}{}", name.trim_end_matches('/')).into_bytes();
        // No path holds a NUL, so the object's own is the only one before this.
        end.push(if name.ends_with('/') { BEHIND_SLASH } else { 0 });
        self.first_not_before(&end)
    }

    /// Whether a directory with objects has the path of the object at `rank` among the objects. Only if the next path begins
    /// alike can there be one.
    fn hidden(&self, prefix: &str, name: &str, rank: u32) -> bool {
        let path = format!("{prefix}{name}");
        let Some(next) = (rank + 1 < self.object_count()).then(|| self.slot_at(rank + 1)) else { return false };
        let mut following = Vec::new();
        self.object_table().read_path(next, &mut following);
        following.starts_with(path.as_bytes()) && self.has_below(&below(&path))
    }
}

fn below(directory: &str) -> String {
    format!("{directory}/")
}
