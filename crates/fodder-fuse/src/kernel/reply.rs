//! The file system's words in fuser's.

use crate::{
    error::Errno,
    fs::{Attr, FileKind},
};
use fuser::{FileAttr, FileType, Generation, INodeNo, ReplyEntry};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long the kernel may keep what it was told of a file: it is told when that changes.
pub(super) const ENTRY: Duration = Duration::from_secs(3600);

/// How long the kernel may keep that there is nothing of a name: nobody can tell it which names those were.
pub(super) const NOT_THERE: Duration = Duration::from_secs(5);

/// For what must not be kept.
pub(super) const NOTHING_THERE: Duration = Duration::ZERO;

pub(super) fn kind(kind: FileKind) -> FileType {
    match kind {
        FileKind::File => FileType::RegularFile,
        FileKind::Directory => FileType::Directory,
    }
}

pub(super) fn attr(attr: &Attr) -> FileAttr {
    let time = time(attr.modified);
    FileAttr {
        ino: INodeNo(attr.ino),
        size: attr.size,
        blocks: attr.size.div_ceil(512),
        atime: time,
        mtime: time,
        ctime: time,
        crtime: time,
        kind: kind(attr.kind),
        perm: attr.permissions,
        nlink: attr.links,
        uid: attr.owner.0,
        gid: attr.owner.1,
        rdev: 0,
        blksize: attr.block_bytes,
        flags: 0,
    }
}

/// The attributes of an entry that has none.
pub(super) fn nothing(of: FileKind) -> FileAttr {
    let (owner, modified) = ((0, 0), (0, 0));
    attr(&Attr { ino: 0, kind: of, size: 0, modified, permissions: 0, links: 0, owner, block_bytes: 0 })
}

pub(super) fn entry(reply: ReplyEntry, found: &Attr) {
    reply.entry(&ENTRY, &attr(found), Generation(0));
}

/// Says that there is nothing of the name, and that this may be kept for a while.
pub(super) fn no_entry(reply: ReplyEntry) {
    reply.entry(&NOT_THERE, &nothing(FileKind::File), Generation(0));
}

fn time((seconds, nanos): (i64, u32)) -> SystemTime {
    let nanos = Duration::from_nanos(u64::from(nanos));
    match u64::try_from(seconds) {
        Ok(seconds) => UNIX_EPOCH + Duration::from_secs(seconds) + nanos,
        Err(_) => UNIX_EPOCH - Duration::from_secs(seconds.unsigned_abs()) + nanos,
    }
}

/// The number that stands for an error. Exhaustive, so that a new one is decided here.
pub(super) fn errno(errno: Errno) -> fuser::Errno {
    match errno {
        Errno::NoEntry => fuser::Errno::ENOENT,
        Errno::Stale => fuser::Errno::ESTALE,
        Errno::Denied => fuser::Errno::EACCES,
        Errno::IsDirectory => fuser::Errno::EISDIR,
        Errno::NotDirectory => fuser::Errno::ENOTDIR,
        Errno::NoAttribute => fuser::Errno::ENODATA,
        Errno::Range => fuser::Errno::ERANGE,
        Errno::Io => fuser::Errno::EIO,
        Errno::NoCall => fuser::Errno::ENOSYS,
    }
}
