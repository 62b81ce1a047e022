//! The device of a connection to the kernel, for everything that is no answer: files for passthrough, and news.

use crate::{
    backing::Registrar,
    wire::answer::{self, HEAD_BYTES},
};
use fodder_api::spelling;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, Setter, opcode};
use std::{
    ffi::c_void,
    fs::File,
    io::{self, IoSlice},
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
};

/// `FUSE_DEV_IOC_CLONE`.
const CLONE: Opcode = opcode::read::<u32>(229, 0);
/// `FUSE_DEV_IOC_BACKING_OPEN`.
const BACKING_OPEN: Opcode = opcode::write::<BackingMap>(229, 1);
/// `FUSE_DEV_IOC_BACKING_CLOSE`.
const BACKING_CLOSE: Opcode = opcode::write::<u32>(229, 2);

const NOTIFY_INVAL_INODE: i32 = 2;
const NOTIFY_INVAL_ENTRY: i32 = 3;
/// The entry is looked up again when it is next used, instead of being cut off from those who use it.
const EXPIRE_ONLY: u32 = 1;

/// A descriptor of `/dev/fuse` that belongs to one mount.
#[derive(Debug)]
pub(crate) struct Device(OwnedFd);

impl Device {
    /// The device of a mount.
    pub(crate) fn new(device: OwnedFd) -> Self {
        Self(device)
    }

    /// Another descriptor of the same mount, with a queue of its own for what it has taken.
    pub(crate) fn another(&self) -> io::Result<OwnedFd> {
        let other = OwnedFd::from(File::options().read(true).write(true).open("/dev/fuse")?);
        let number = self.0.as_raw_fd().cast_unsigned();
        // SAFETY: the call takes a pointer to a u32, which it reads, and `CLONE` encodes just that.
        #[allow(unsafe_code, reason = "rustix knows no call of the fuse device")]
        unsafe {
            rustix::ioctl::ioctl(&other, Setter::<CLONE, u32>::new(number))?;
        }
        Ok(other)
    }

    /// The kernel looks an entry up again when it is next used.
    pub(crate) fn expire(&self, parent: u64, name: &str) {
        self.entry(parent, name, EXPIRE_ONLY);
    }

    /// The kernel forgets an entry, and the inode if nobody uses it.
    pub(crate) fn forget(&self, parent: u64, name: &str) {
        self.entry(parent, name, 0);
    }

    /// The kernel forgets what it kept of a directory's listing, or of a file's bytes.
    pub(crate) fn forget_listing(&self, ino: u64) {
        let mut body = [0; 24];
        body[..8].copy_from_slice(&ino.to_ne_bytes());
        // Offset 0, and a length of 0 for everything behind it.
        self.notify(NOTIFY_INVAL_INODE, &[&body]);
    }

    fn entry(&self, parent: u64, name: &str, flags: u32) {
        let name = spelling::name(name);
        let mut body = [0; 16];
        body[..8].copy_from_slice(&parent.to_ne_bytes());
        body[8..12].copy_from_slice(&(name.len() as u32).to_ne_bytes());
        body[12..].copy_from_slice(&flags.to_ne_bytes());
        self.notify(NOTIFY_INVAL_ENTRY, &[&body, &name, &[0]]);
    }

    /// Sends news. The kernel may have forgotten what it is about, and then there is nothing to do.
    fn notify(&self, code: i32, parts: &[&[u8]]) {
        // What is no answer names no request, and has its kind where the error would be.
        let head: [u8; HEAD_BYTES] = answer::head(0, code, parts.iter().map(|part| part.len()).sum());
        let mut all = vec![IoSlice::new(&head)];
        all.extend(parts.iter().map(|part| IoSlice::new(part)));
        if let Err(error) = rustix::io::writev(&self.0, &all)
            && error != rustix::io::Errno::NOENT
        {
            tracing::debug!(%error, code, "the kernel did not accept a notification");
        }
    }
}

/// `struct fuse_backing_map`.
#[repr(C)]
#[derive(Debug, Default)]
struct BackingMap {
    fd: i32,
    flags: u32,
    padding: u64,
}

/// The call that lets the kernel read a file; it answers with its number for it.
struct OpenBacking(BackingMap);

// SAFETY: `BACKING_OPEN` takes a pointer to a `BackingMap` and only reads it.
#[allow(unsafe_code, reason = "rustix knows no call of the fuse device")]
unsafe impl Ioctl for OpenBacking {
    type Output = u32;
    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        BACKING_OPEN
    }

    fn as_ptr(&mut self) -> *mut c_void {
        (&raw mut self.0).cast()
    }

    unsafe fn output_from_ptr(out: IoctlOutput, _: *mut c_void) -> rustix::io::Result<u32> {
        Ok(out.cast_unsigned())
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Registrar for Device {
    fn register(&self, file: &File) -> io::Result<u32> {
        let map = BackingMap { fd: file.as_raw_fd(), ..BackingMap::default() };
        // SAFETY: the call takes a pointer to a `BackingMap`, which it reads, and answers with a number.
        #[allow(unsafe_code, reason = "rustix knows no call of the fuse device")]
        let id = unsafe { rustix::ioctl::ioctl(&self.0, OpenBacking(map)) };
        Ok(id?)
    }

    fn invalidate(&self, ino: u64) {
        self.forget_listing(ino);
    }

    fn release(&self, id: u32) {
        // SAFETY: the call takes a pointer to a u32, which it reads, and `BACKING_CLOSE` encodes just that.
        #[allow(unsafe_code, reason = "rustix knows no call of the fuse device")]
        let closed = unsafe { rustix::ioctl::ioctl(&self.0, Setter::<BACKING_CLOSE, u32>::new(id)) };
        if let Err(error) = closed {
            tracing::debug!(%error, id, "the kernel did not release a backing file");
        }
    }
}
