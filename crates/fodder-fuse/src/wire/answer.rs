//! What the kernel is told.

use super::Answer;
use crate::fs::{Attr, FileKind};
use std::time::Duration;

/// How long the kernel may keep what it was told of a file: it is told when that changes.
pub(crate) const KEPT: Duration = Duration::from_secs(3600);

/// How long the kernel may keep that there is nothing of a name: nobody can tell it which names those were.
const NOT_THERE: Duration = Duration::from_secs(5);

/// The bytes of an answer's head.
pub(crate) const HEAD_BYTES: usize = 16;

const ATTR_BYTES: usize = 88;
pub(crate) const ENTRY_BYTES: usize = 40 + ATTR_BYTES;

/// How a file is opened, as flags of the kernel's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OpenFlags(pub(crate) u32);

impl OpenFlags {
    pub(crate) const DIRECT_IO: Self = Self(1 << 0);
    pub(crate) const KEEP_CACHE: Self = Self(1 << 1);
    pub(crate) const CACHE_DIR: Self = Self(1 << 3);
    pub(crate) const NOFLUSH: Self = Self(1 << 5);
    pub(crate) const PASSTHROUGH: Self = Self(1 << 7);

    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The head of an answer: the request's number, an error (0 or negative), and how many bytes follow.
pub(crate) fn head(unique: u64, error: i32, bytes: usize) -> [u8; HEAD_BYTES] {
    Answer::new().u32((HEAD_BYTES + bytes) as u32).put(&error.to_ne_bytes()).u64(unique).bytes()
}

/// An entry: what a name stands for.
pub(crate) fn entry(found: &Attr) -> [u8; ENTRY_BYTES] {
    entry_kept(found.ino, KEPT, &attr(found))
}

/// There is nothing of the name, and that may be kept for a while.
pub(crate) fn no_entry() -> [u8; ENTRY_BYTES] {
    entry_kept(0, NOT_THERE, &[0; ATTR_BYTES])
}

fn entry_kept(ino: u64, kept: Duration, attr: &[u8; ATTR_BYTES]) -> [u8; ENTRY_BYTES] {
    let (seconds, generation) = (kept.as_secs(), 0);
    Answer::new().u64(ino).u64(generation).u64(seconds).u64(seconds).u64(0).put(attr).bytes()
}

/// What an inode is.
pub(crate) fn attributes(found: &Attr) -> [u8; 16 + ATTR_BYTES] {
    Answer::new().u64(KEPT.as_secs()).u64(0).put(&attr(found)).bytes()
}

/// An open file or directory. `backing` is the kernel's number for the file that it reads itself.
pub(crate) fn opened(handle: u64, flags: OpenFlags, backing: u32) -> [u8; 16] {
    Answer::new().u64(handle).u32(flags.0).u32(backing).bytes()
}

/// How large the value of an extended attribute is.
pub(crate) fn attribute_size(bytes: u32) -> [u8; 8] {
    Answer::new().u32(bytes).bytes()
}

/// How large a file system is, in blocks and files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) blocks: u64,
    pub(crate) block_bytes: u32,
    pub(crate) files: u64,
    pub(crate) longest_name: u32,
}

/// The answer to statfs: nothing can be written, so nothing is free.
pub(crate) fn file_system(size: Size) -> [u8; 80] {
    let Size { blocks, block_bytes, files, longest_name } = size;
    let free = Answer::new().u64(blocks).u64(0).u64(0);
    free.u64(files).u64(0).u32(block_bytes).u32(longest_name).u32(block_bytes).bytes()
}

fn kind(kind: FileKind) -> u32 {
    match kind {
        FileKind::File => 0o100_000,
        FileKind::Directory => 0o040_000,
        FileKind::Link => 0o120_000,
    }
}

fn attr(attr: &Attr) -> [u8; ATTR_BYTES] {
    let (seconds, nanos) = attr.modified;
    let seconds = seconds.cast_unsigned();
    Answer::new()
        .u64(attr.ino)
        .u64(attr.size)
        .u64(attr.size.div_ceil(512))
        .u64(seconds)
        .u64(seconds)
        .u64(seconds)
        .u32(nanos)
        .u32(nanos)
        .u32(nanos)
        .u32(kind(attr.kind) | u32::from(attr.permissions))
        .u32(attr.links)
        .u32(attr.owner.0)
        .u32(attr.owner.1)
        .u32(0)
        .u32(attr.block_bytes)
        .bytes()
}

/// Entries of a directory, one behind the other until the room is full.
#[derive(Debug)]
pub(crate) struct Listing<'a> {
    room: &'a mut [u8],
    used: usize,
}

impl<'a> Listing<'a> {
    pub(crate) fn new(room: &'a mut [u8]) -> Self {
        Self { room, used: 0 }
    }

    /// Adds an entry; true if there is no room for it, and it is not added.
    pub(crate) fn add(&mut self, ino: u64, cookie: u64, of: FileKind, name: &[u8]) -> bool {
        self.put(&[], ino, cookie, of, name)
    }

    /// Adds an entry with what it is. Without that (`.` and `..`) the kernel does not look it up.
    pub(crate) fn add_plus(&mut self, attr: Option<&Attr>, ino: u64, cookie: u64, of: FileKind, name: &[u8]) -> bool {
        let told = attr.map_or([0; ENTRY_BYTES], entry);
        self.put(&told, ino, cookie, of, name)
    }

    fn put(&mut self, told: &[u8], ino: u64, cookie: u64, of: FileKind, name: &[u8]) -> bool {
        let head: [u8; 24] = Answer::new().u64(ino).u64(cookie).u32(name.len() as u32).u32(kind(of) >> 12).bytes();
        let bytes = (told.len() + head.len() + name.len()).next_multiple_of(8);
        let Some(place) = self.room.get_mut(self.used..self.used + bytes) else { return true };
        let (before, rest) = place.split_at_mut(told.len());
        before.copy_from_slice(told);
        rest[..24].copy_from_slice(&head);
        rest[24..24 + name.len()].copy_from_slice(name);
        rest[24 + name.len()..].fill(0);
        self.used += bytes;
        false
    }

    /// How many bytes the entries take.
    pub(crate) fn bytes(&self) -> usize {
        self.used
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn file() -> Attr {
        let (kind, owner) = (FileKind::File, (3, 4));
        Attr { ino: 77, kind, size: 1000, modified: (-5, 6), permissions: 0o444, links: 1, owner, block_bytes: 4096 }
    }

    #[test]
    fn an_entry_stands_where_the_kernel_looks_for_it() {
        let bytes = entry(&file());
        let u64_at = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
        let u32_at = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!((u64_at(0), u64_at(16), u64_at(24)), (77, 3600, 3600));
        assert_eq!((u64_at(40), u64_at(48), u64_at(56)), (77, 1000, 2));
        assert_eq!((u64_at(72).cast_signed(), u32_at(92)), (-5, 6));
        assert_eq!((u32_at(100), u32_at(104), u32_at(108), u32_at(112)), (0o100_444, 1, 3, 4));
        assert_eq!(u32_at(120), 4096);
        let nothing = no_entry();
        assert_eq!((nothing[0], nothing[16]), (0, 5));
    }

    #[test]
    fn entries_are_added_until_they_do_not_fit() {
        let mut room = [0xff; 100];
        let mut listing = Listing::new(&mut room);
        assert!(!listing.add(5, 1, FileKind::Directory, b"abc"));
        assert_eq!(listing.bytes(), 32);
        assert!(listing.add_plus(Some(&file()), 77, 2, FileKind::File, b"x"));
        assert!(!listing.add(77, 2, FileKind::File, b"12345678"));
        assert!(!listing.add(77, 3, FileKind::File, b""));
        assert!(listing.add(77, 4, FileKind::File, b""));
        assert_eq!(listing.bytes(), 88);
        assert_eq!((room[20], &room[24..32]), (4, &b"abc\0\0\0\0\0"[..]));
        assert_eq!(&room[56..64], b"12345678");
    }
}
