//! The inodes the kernel knows: numbers that follow from what they stand for, and how often the kernel was told of them.
//!
//! A number is a hash of an object's version, of a directory's path, or of a link's path and target: it is the same in every mount and after every
//! restart, and an object that changed has another. The table holds what the kernel has not forgotten; when that is too
//! much the kernel is asked to forget. Knows nothing of nodes.

use crate::{
    backing::Backing,
    mode::{Mode, State},
    node::{Entry, Link},
    sharded::Sharded,
};
use fodder_api::frames::{LeaseStatus, ObjectInfo};
use parking_lot::MutexGuard;
use rustc_hash::FxHashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// The root directory's number.
pub(crate) const ROOT: u64 = 1;

/// What an inode stands for.
#[derive(Debug)]
pub(crate) enum Kind {
    /// A directory, by its path; the root's is empty.
    Directory(Box<str>),
    /// One version of an object, and how it is open.
    File(ObjectInfo, State<Backing>),
    /// A symbolic link, by its path.
    Link(Box<str>, Link),
}

/// What the kernel knows of one inode.
#[derive(Debug)]
pub(crate) struct Inode {
    pub(crate) kind: Kind,
    /// Where it was last found, for telling the kernel to look again.
    pub(crate) parent: u64,
    pub(crate) name: Box<str>,
    /// How often the kernel was told of it and has not forgotten it.
    lookups: u64,
}

/// What an inode is to stand for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Found<'a> {
    /// A directory, by its path.
    Directory(&'a str),
    /// An object.
    Object(ObjectInfo),
    /// A symbolic link, by its path.
    Link(&'a str, &'a Link),
}

impl<'a> Found<'a> {
    /// What an entry of a directory is.
    pub(crate) fn entry(entry: &'a Entry, path: &'a str) -> Self {
        match (&entry.link, entry.object) {
            (Some(link), _) => Self::Link(path, link),
            (None, Some(object)) => Self::Object(object),
            (None, None) => Self::Directory(path),
        }
    }
}

/// All inodes the kernel knows.
#[derive(Debug)]
pub(crate) struct Table {
    inodes: Sharded<FxHashMap<u64, Inode>>,
    capacity: usize,
}

/// The number of what is found, if it is free.
pub(crate) fn number(found: Found<'_>) -> u64 {
    let number = match found {
        Found::Directory("") => return ROOT,
        Found::Directory(path) => {
            let mut hasher = DefaultHasher::new();
            path.hash(&mut hasher);
            hasher.finish()
        }
        Found::Link(path, link) => {
            let mut hasher = DefaultHasher::new();
            (path, &link.target, link.modified_ns).hash(&mut hasher);
            hasher.finish()
        }
        Found::Object(object) => u64::from_le_bytes(object.id.key[..8].try_into().expect("eight bytes")),
    };
    // 0 means nothing to the kernel, and 1 is the root.
    number.max(ROOT + 1)
}

impl Table {
    /// A table with the root, which asks to be trimmed above `capacity`.
    pub(crate) fn new(capacity: usize) -> Self {
        let root = Inode { kind: Kind::Directory("".into()), parent: ROOT, name: "".into(), lookups: 1 };
        let table = Self { inodes: Sharded::default(), capacity };
        table.lock(ROOT).insert(ROOT, root);
        table
    }

    /// The inodes among which one with this number is, for as short as possible.
    pub(crate) fn lock(&self, ino: u64) -> MutexGuard<'_, FxHashMap<u64, Inode>> {
        self.inodes.lock(ino)
    }

    /// The kernel is told of an entry: its number.
    pub(crate) fn remember(&self, parent: u64, name: &str, found: Found<'_>) -> u64 {
        let mut ino = number(found);
        let mut inodes = self.lock(ino);
        // Another object may have the number: once in the lifetime of a very large dataset.
        while inodes.get(&ino).is_some_and(|inode| !inode.is(found)) {
            ino = ino.wrapping_add(1).max(ROOT + 1);
            drop(inodes);
            inodes = self.lock(ino);
        }
        let inode = inodes.entry(ino).or_insert_with(|| Inode {
            kind: match found {
                Found::Directory(path) => Kind::Directory(path.into()),
                Found::Object(object) => Kind::File(object, State::Idle),
                Found::Link(path, link) => Kind::Link(path.into(), link.clone()),
            },
            parent,
            name: name.into(),
            lookups: 0,
        });
        inode.lookups += 1;
        if let (Kind::File(known, _), Found::Object(object)) = (&mut inode.kind, found) {
            // The same version, but a node that has built its catalog anew may have it in another slot.
            *known = object;
        }
        if inode.parent != parent || &*inode.name != name {
            (inode.parent, inode.name) = (parent, name.into());
        }
        ino
    }

    /// The kernel forgot an inode so many times.
    pub(crate) fn forget(&self, ino: u64, times: u64) {
        let mut inodes = self.lock(ino);
        let Some(inode) = inodes.get_mut(&ino) else { return };
        inode.lookups = inode.lookups.saturating_sub(times);
        if inode.lookups == 0 && ino != ROOT {
            inodes.remove(&ino);
        }
    }

    /// How many inodes there are.
    pub(crate) fn len(&self) -> usize {
        self.inodes.each().map(|inodes| inodes.len()).sum()
    }

    /// Entries that the kernel should forget because there are too many: parent and name.
    pub(crate) fn surplus(&self) -> Vec<(u64, Box<str>)> {
        let count = self.len().saturating_sub(self.capacity);
        // Some more than needed, so that this is done seldom.
        let count = if count == 0 { 0 } else { count + self.capacity / 16 };
        let mut surplus = Vec::with_capacity(count);
        for inodes in self.inodes.each() {
            if surplus.len() == count {
                break;
            }
            let idle = inodes.values().filter(|inode| inode.is_idle()).take(count - surplus.len());
            surplus.extend(idle.map(|inode| (inode.parent, inode.name.clone())));
        }
        surplus
    }

    /// Every entry the kernel may have kept, parents and names, and every directory.
    pub(crate) fn everything(&self) -> (Vec<(u64, Box<str>)>, Vec<u64>) {
        let (mut entries, mut directories) = (Vec::new(), Vec::new());
        for inodes in self.inodes.each() {
            let named = inodes.iter().filter(|(ino, _)| **ino != ROOT);
            entries.extend(named.map(|(_, inode)| (inode.parent, inode.name.clone())));
            let found = inodes.iter().filter(|(_, inode)| matches!(inode.kind, Kind::Directory(_)));
            directories.extend(found.map(|(ino, _)| *ino));
        }
        (entries, directories)
    }
}

/// Whether open handles read a file that was found to be damaged, or could not be verified any more. The kernel reads one file
/// for all handles of an inode; therefore the object has another inode for new handles.
pub(crate) fn is_replaced(state: &State<Backing>) -> bool {
    let invalid = |file: &Backing| matches!(file.status(), LeaseStatus::Corrupt | LeaseStatus::Evicted);
    matches!(state.bound(), Some(Mode::Passthrough(file)) if invalid(file))
}

impl Inode {
    fn is(&self, found: Found<'_>) -> bool {
        match (&self.kind, found) {
            (Kind::Directory(path), Found::Directory(other)) => &**path == other,
            (Kind::File(object, state), Found::Object(other)) => object.id.key == other.id.key && !is_replaced(state),
            (Kind::Link(path, link), Found::Link(other, to)) => &**path == other && link == to,
            _ => false,
        }
    }

    /// Whether the kernel may be asked to forget it.
    fn is_idle(&self) -> bool {
        match &self.kind {
            Kind::Directory(_) => false,
            Kind::Link(..) => true,
            Kind::File(_, state) => state.handles() == 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fodder_api::frames::ObjectId;

    fn object(key: u64) -> ObjectInfo {
        let mut full = [7; 16];
        full[..8].copy_from_slice(&key.to_le_bytes());
        ObjectInfo { id: ObjectId { slot: 0, key: full }, size: 1, modified_ns: None }
    }

    #[test]
    fn a_number_follows_from_the_version_and_a_clash_is_resolved() {
        let table = Table::new(10);
        let one = table.remember(ROOT, "a", Found::Object(object(77)));
        assert_eq!(one, table.remember(ROOT, "b", Found::Object(object(77))));
        let mut clash = object(77);
        clash.id.key[15] = 0;
        assert_eq!(table.remember(ROOT, "c", Found::Object(clash)), 78);
        assert_ne!(table.remember(ROOT, "a", Found::Object(object(5))), one);
        assert!(table.remember(ROOT, "zero", Found::Object(object(0))) > ROOT);
        assert_ne!(table.remember(ROOT, "d", Found::Directory("d")), table.remember(ROOT, "e", Found::Directory("e")));
    }

    #[test]
    fn an_object_is_known_by_the_slot_it_was_last_found_in() {
        let table = Table::new(10);
        let ino = table.remember(ROOT, "a", Found::Object(object(77)));
        let mut moved = object(77);
        moved.id.slot = 5;
        assert_eq!(table.remember(ROOT, "a", Found::Object(moved)), ino);
        assert!(matches!(&table.lock(ino)[&ino].kind, Kind::File(object, _) if object.id.slot == 5));
    }

    #[test]
    fn an_inode_goes_when_it_was_forgotten_as_often_as_told() {
        let table = Table::new(10);
        let ino = table.remember(ROOT, "a", Found::Object(object(77)));
        table.remember(ROOT, "a", Found::Object(object(77)));
        table.forget(ino, 1);
        assert_eq!(table.len(), 2);
        table.forget(ino, 1);
        assert_eq!(table.len(), 1);
        table.forget(ino, 1);
        table.forget(ROOT, 100);
        assert_eq!(table.len(), 1);
    }

    #[test]
    fn too_many_inodes_are_named_so_that_the_kernel_can_forget_them() {
        let table = Table::new(32);
        for key in 10..50 {
            table.remember(ROOT, &key.to_string(), Found::Object(object(key)));
        }
        let surplus = table.surplus();
        assert_eq!(surplus.len(), 9 + 2);
        for (_, name) in surplus {
            table.forget(name.parse().unwrap(), 1);
        }
        assert!(table.surplus().is_empty());
        let (entries, directories) = table.everything();
        assert_eq!((entries.len(), directories), (table.len() - 1, vec![ROOT]));
    }
}
