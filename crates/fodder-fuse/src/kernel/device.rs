//! The device of a connection to the kernel, for everything that is no answer: files for passthrough, and news.

use crate::backing::Registrar;
use rustix::ioctl::{Setter, opcode};
use std::{
    fs::File,
    io::{self, IoSlice},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

/// `FUSE_DEV_IOC_BACKING_CLOSE`.
const BACKING_CLOSE: rustix::ioctl::Opcode = opcode::write::<u32>(229, 2);

const NOTIFY_INVAL_INODE: i32 = 2;
const NOTIFY_INVAL_ENTRY: i32 = 3;
/// The entry is looked up again when it is next used, instead of being cut off from those who use it.
const EXPIRE_ONLY: u32 = 1;

const HEAD_BYTES: usize = 16;

/// A descriptor of `/dev/fuse` that belongs to one mount.
#[derive(Debug)]
pub(crate) struct Device(OwnedFd);

impl Device {
    /// The device of a session, as a descriptor of our own.
    pub(crate) fn of(session: BorrowedFd<'_>) -> io::Result<Self> {
        session.try_clone_to_owned().map(Self)
    }

    /// The kernel looks an entry up again when it is next used.
    pub(crate) fn expire(&self, parent: u64, name: &str) {
        self.entry(parent, name, EXPIRE_ONLY);
    }

    /// The kernel forgets an entry, and the inode if nobody uses it.
    pub(crate) fn forget(&self, parent: u64, name: &str) {
        self.entry(parent, name, 0);
    }

    /// The kernel forgets what it kept of a directory's listing.
    pub(crate) fn forget_listing(&self, ino: u64) {
        let mut body = [0; 24];
        body[..8].copy_from_slice(&ino.to_le_bytes());
        // Offset 0, and a length of 0 for everything behind it.
        self.notify(NOTIFY_INVAL_INODE, &[&body]);
    }

    fn entry(&self, parent: u64, name: &str, flags: u32) {
        let mut body = [0; 16];
        body[..8].copy_from_slice(&parent.to_le_bytes());
        body[8..12].copy_from_slice(&(name.len() as u32).to_le_bytes());
        body[12..].copy_from_slice(&flags.to_le_bytes());
        self.notify(NOTIFY_INVAL_ENTRY, &[&body, name.as_bytes(), &[0]]);
    }

    /// Sends news. The kernel may have forgotten what it is about, and then there is nothing to do.
    fn notify(&self, code: i32, parts: &[&[u8]]) {
        let length = HEAD_BYTES + parts.iter().map(|part| part.len()).sum::<usize>();
        let mut head = [0; HEAD_BYTES];
        head[..4].copy_from_slice(&(length as u32).to_le_bytes());
        head[4..8].copy_from_slice(&code.to_le_bytes());
        let mut all = vec![IoSlice::new(&head)];
        all.extend(parts.iter().map(|part| IoSlice::new(part)));
        if let Err(error) = rustix::io::writev(&self.0, &all)
            && error != rustix::io::Errno::NOENT
        {
            tracing::debug!(%error, code, "the kernel did not take a notice");
        }
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Registrar for Device {
    fn register(&self, file: &File) -> io::Result<u32> {
        fuser::BackingId::create_raw(&self.0, file)
    }

    fn release(&self, id: u32) {
        // SAFETY: the call takes a pointer to a u32, which it reads, and `BACKING_CLOSE` encodes just that.
        #[allow(unsafe_code, reason = "rustix knows no call of the fuse device")]
        let closed = unsafe { rustix::ioctl::ioctl(&self.0, Setter::<BACKING_CLOSE, u32>::new(id)) };
        if let Err(error) = closed {
            tracing::debug!(%error, id, "the kernel did not give a backing file back");
        }
    }
}
