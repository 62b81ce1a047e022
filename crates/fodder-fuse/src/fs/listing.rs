//! Reading directories.

use super::{Attr, FileKind, FileSystem, Result, join, told};
use crate::{
    directory::{At, Directory, Listed, PAGE},
    error::Errno,
    inode::{Found, Kind, ROOT, number},
    node::Node,
};
use std::sync::Arc;

/// An entry of a directory, as the kernel is told of it.
#[derive(Debug)]
pub(crate) struct Child<'a> {
    pub(crate) name: &'a str,
    pub(crate) ino: u64,
    pub(crate) kind: FileKind,
    /// Where the listing goes on behind it.
    pub(crate) cookie: u64,
    /// What it is, if that was asked for too and is so now. The kernel then knows it, and will forget it.
    pub(crate) attr: Option<Attr>,
}

impl<N: Node> FileSystem<N> {
    /// Opens a directory.
    pub(crate) fn open_directory(&self, ino: u64) -> Result<u64> {
        let directory = Arc::new(Directory::new(ino, self.directory_path(ino)?));
        let handle = self.new_handle();
        self.directories.lock().insert(handle, directory);
        Ok(handle)
    }

    /// Closes one.
    pub(crate) fn release_directory(&self, handle: u64) {
        self.directories.lock().remove(&handle);
    }

    /// Whether the entries at a cookie are at hand.
    pub(crate) fn has_entries(&self, handle: u64, cookie: u64) -> bool {
        match (At::of(cookie), self.directories.lock().get(&handle)) {
            (At::Rank { snapshot, rank }, Some(directory)) => directory.at_hand(snapshot, rank).is_some(),
            _ => false,
        }
    }

    /// Gives `take` the entries from a cookie on, with what they are if `plus`, until it is full (true) or there are no
    /// more of the page. May wait. The kernel knows of what was taken only if it was taken whole, so an entry that was
    /// refused is forgotten again.
    pub(crate) fn entries(
        &self,
        handle: u64,
        cookie: u64,
        plus: bool,
        take: &mut dyn FnMut(Child<'_>) -> bool,
    ) -> Result<()> {
        let directory = self.directories.lock().get(&handle).cloned().ok_or(Errno::Stale)?;
        let mut at = At::of(cookie);
        if at == At::Itself {
            at = At::Parent;
            if take(self.dots(".", directory.ino, at)) {
                return Ok(());
            }
        }
        if at == At::Parent {
            at = At::Rank { snapshot: 0, rank: 0 };
            if take(self.dots("..", self.parent_of(directory.ino), at)) {
                return Ok(());
            }
        }
        let At::Rank { snapshot, rank } = at else { return Ok(()) };
        let (listed, rank) = self.page(&directory, snapshot, rank)?;
        // A listing goes on in the snapshot it was begun in. What that says of a file the kernel would keep for long, also
        // when it was told to look again before.
        let plus = plus && self.is_newest(listed.snapshot());
        for (entry, cookie) in listed.entries(rank) {
            let path = join(&directory.path, &entry.name);
            let found = Found::entry(entry, &path);
            let kind = FileKind::of(found);
            let attr = plus.then(|| self.remember(directory.ino, &entry.name, found));
            let ino = attr.map_or_else(|| number(found), |attr| attr.ino);
            if take(Child { name: &entry.name, ino, kind, cookie, attr }) {
                if attr.is_some() {
                    self.inodes.forget(ino, 1);
                }
                break;
            }
        }
        Ok(())
    }

    fn page(&self, directory: &Directory, snapshot: u32, rank: u32) -> Result<(Arc<Listed>, u32)> {
        if let Some(listed) = directory.at_hand(snapshot, rank) {
            return Ok((listed, rank));
        }
        let list = |from: crate::node::From<'_>| self.node.list(&directory.path, from, PAGE);
        directory.fetch(&self.snapshots, snapshot, rank, list).map_err(|error| told(&error, &directory.path))
    }

    fn dots(&self, name: &'static str, ino: u64, next: At) -> Child<'static> {
        Child { name, ino, kind: FileKind::Directory, cookie: next.cookie(), attr: None }
    }

    fn parent_of(&self, ino: u64) -> u64 {
        let inodes = self.inodes.lock(ino);
        inodes.get(&ino).filter(|inode| matches!(inode.kind, Kind::Directory(_))).map_or(ROOT, |inode| inode.parent)
    }
}
