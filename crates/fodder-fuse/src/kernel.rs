//! The kernel's side: what fuser hears is asked of the file system, and its answers are said in fuser's words.
//!
//! Decides nothing. What must wait is done by workers, with the reply in their hands, so that the threads which read the
//! kernel's requests go on.

mod device;
mod reply;

pub(crate) use device::Device;

use crate::{
    error::Errno,
    fs::{FileRef, FileSystem, Opened},
    mode::Mode,
    node::Node,
    worker::Workers,
};
use fuser::{
    FileHandle, Filesystem, FopenFlags, INodeNo, InitFlags, KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs,
    ReplyXattr, Request,
};
use reply::{ENTRY, NOTHING_THERE, attr, entry, errno, no_entry};
use std::{
    ffi::OsStr,
    io,
    os::unix::ffi::OsStrExt,
    sync::{Arc, OnceLock},
};

/// What a file system needs of the kernel, where it has it.
const WANTED: [InitFlags; 8] = [
    InitFlags::FUSE_PARALLEL_DIROPS,
    InitFlags::FUSE_ASYNC_DIO,
    InitFlags::FUSE_DO_READDIRPLUS,
    InitFlags::FUSE_READDIRPLUS_AUTO,
    InitFlags::FUSE_EXPLICIT_INVAL_DATA,
    InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
    InitFlags::FUSE_HAS_EXPIRE_ONLY,
    InitFlags::FUSE_NO_EXPORT_SUPPORT,
];

/// The largest read the kernel asks for.
const MAX_READ_BYTES: u32 = 1 << 20;

/// How deep file systems may be stacked: a cache on overlayfs, as in a container, needs two.
const STACK_DEPTH: u32 = 2;

/// What the kernel can do, as it said when it was greeted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Abilities {
    pub(crate) passthrough: bool,
    pub(crate) no_open: bool,
}

/// What the kernel is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tuning {
    pub(crate) max_background: u16,
    pub(crate) congestion_threshold: u16,
}

/// The adapter. The file system is put in once the kernel has been greeted, before it asks anything.
pub(crate) struct Adapter<N> {
    pub(crate) fs: Arc<OnceLock<Arc<FileSystem<N>>>>,
    pub(crate) abilities: Arc<OnceLock<Abilities>>,
    pub(crate) tuning: Tuning,
    pub(crate) workers: Workers,
}

impl<N: Node> Adapter<N> {
    fn fs(&self) -> &Arc<FileSystem<N>> {
        self.fs.get().expect("the session starts after the file system was made")
    }

    /// Does what may wait where it may.
    fn later(&self, work: impl FnOnce(&FileSystem<N>) + Send + 'static) {
        let fs = Arc::clone(self.fs());
        self.workers.run(move || work(&fs));
    }
}

fn opened(reply: ReplyOpen, opened: Result<Opened, Errno>) {
    let Opened { handle, mode } = match opened {
        Ok(opened) => opened,
        Err(error) => return reply.error(errno(error)),
    };
    let handle = FileHandle(handle);
    match mode {
        Mode::Passthrough(file) => {
            let id = file.id().expect("only files with a number are passed through");
            // SAFETY: the number is the kernel's for a file that stays registered as long as the handle's `Backing`, and
            // it is taken out of fuser's hands again below, so that it is not given back twice.
            #[allow(unsafe_code, reason = "fuser's own numbers cannot be shared by handles without its reply")]
            let id = unsafe { reply.wrap_backing(id) };
            reply.opened_passthrough(handle, FopenFlags::FOPEN_NOFLUSH, &id);
            id.into_raw();
        }
        Mode::Direct => reply.opened(handle, FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_NOFLUSH),
        Mode::Cached => reply.opened(handle, FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_NOFLUSH),
    }
}

fn xattr(reply: ReplyXattr, room: u32, value: Result<Vec<u8>, Errno>) {
    match value {
        Err(error) => reply.error(errno(error)),
        Ok(value) if room == 0 => reply.size(value.len() as u32),
        Ok(value) if value.len() > room as usize => reply.error(errno(Errno::Range)),
        Ok(value) => reply.data(&value),
    }
}

impl<N: Node> Filesystem for Adapter<N> {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        for flag in WANTED {
            // A kernel without it is slower, and says so nowhere.
            let _ = config.add_capabilities(flag);
        }
        let passthrough = config.add_capabilities(InitFlags::FUSE_PASSTHROUGH).is_ok()
            && config.set_max_stack_depth(STACK_DEPTH).is_ok();
        let no_open = config.add_capabilities(InitFlags::FUSE_NO_OPEN_SUPPORT).is_ok();
        let _ = config.set_max_background(self.tuning.max_background);
        let _ = config.set_congestion_threshold(self.tuning.congestion_threshold);
        let _ = config.set_max_write(MAX_READ_BYTES);
        let _ = self.abilities.set(Abilities { passthrough, no_open });
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let name = name.as_bytes().to_vec();
        self.later(move |fs| match fs.lookup(parent.0, &name) {
            Ok(found) => entry(reply, &found),
            Err(Errno::NoEntry) => no_entry(reply),
            Err(error) => reply.error(errno(error)),
        });
    }

    fn forget(&self, _: &Request, ino: INodeNo, lookups: u64) {
        self.fs().forget(ino.0, lookups);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.fs().attributes(ino.0) {
            Ok(found) => reply.attr(&ENTRY, &attr(&found)),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn open(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        if self.fs().settings().immutable {
            return reply.error(errno(Errno::NoCall));
        }
        match self.fs().try_open(ino.0) {
            Some(done) => opened(reply, done),
            None => self.later(move |fs| opened(reply, fs.open(ino.0))),
        }
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let handle = (!self.fs().settings().immutable).then_some(handle.0);
        let file = FileRef { ino: ino.0, handle };
        let mut buffer = Vec::new();
        match self.fs().try_read(file, offset, size, &mut buffer) {
            Some(Ok(())) => reply.data(&buffer),
            Some(Err(error)) => reply.error(errno(error)),
            None => self.later(move |fs| {
                let mut reply = Some(reply);
                fs.read(file, offset, size, &mut |bytes| {
                    let Some(reply) = reply.take() else { return };
                    match bytes {
                        Ok(bytes) => reply.data(bytes),
                        Err(error) => reply.error(errno(error)),
                    }
                });
            }),
        }
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        reply.ok();
        self.fs().release(handle.0);
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(errno(Errno::NoCall));
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.fs().open_directory(ino.0) {
            Ok(handle) => {
                reply.opened(FileHandle(handle), FopenFlags::FOPEN_CACHE_DIR | FopenFlags::FOPEN_KEEP_CACHE);
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    fn readdir(&self, _: &Request, _: INodeNo, handle: FileHandle, cookie: u64, mut reply: ReplyDirectory) {
        let work = move |fs: &FileSystem<N>| {
            let listed = fs.entries(handle.0, cookie, false, &mut |child| {
                reply.add(INodeNo(child.ino), child.cookie, reply::kind(child.kind), child.name)
            });
            match listed {
                Ok(()) => reply.ok(),
                Err(error) => reply.error(errno(error)),
            }
        };
        if self.fs().has_entries(handle.0, cookie) { work(self.fs()) } else { self.later(work) }
    }

    fn readdirplus(&self, _: &Request, _: INodeNo, handle: FileHandle, cookie: u64, mut reply: ReplyDirectoryPlus) {
        let work = move |fs: &FileSystem<N>| {
            let listed = fs.entries(handle.0, cookie, true, &mut |child| match &child.attr {
                Some(found) => {
                    let number = INodeNo(child.ino);
                    reply.add(number, child.cookie, child.name, &ENTRY, &attr(found), fuser::Generation(0))
                }
                // `.` and `..` are not looked up: the kernel knows them.
                None => reply.add(
                    INodeNo(0),
                    child.cookie,
                    child.name,
                    &NOTHING_THERE,
                    &reply::nothing(child.kind),
                    fuser::Generation(0),
                ),
            });
            match listed {
                Ok(()) => reply.ok(),
                Err(error) => reply.error(errno(error)),
            }
        };
        if self.fs().has_entries(handle.0, cookie) { work(self.fs()) } else { self.later(work) }
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        reply.ok();
        self.fs().release_directory(handle.0);
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        // Nothing can be written, so nothing is free, and how much there is is the origin's to say.
        reply.statfs(0, 0, 0, 0, 0, 4096, 255, 4096);
    }

    fn getxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        if !self.fs().has_attribute(name.as_bytes()) {
            return reply.error(errno(Errno::NoAttribute));
        }
        let name = name.as_bytes().to_vec();
        self.later(move |fs| xattr(reply, size, fs.attribute(ino.0, &name)));
    }

    fn listxattr(&self, _: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        xattr(reply, size, self.fs().attribute_names(ino.0));
    }

    fn ioctl(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: fuser::IoctlFlags,
        _: u32,
        _: &[u8],
        _: u32,
        reply: ReplyIoctl,
    ) {
        reply.error(fuser::Errno::ENOTTY);
    }

    fn lseek(&self, _: &Request, _: INodeNo, _: FileHandle, _: i64, _: i32, reply: ReplyLseek) {
        // The kernel then knows that there are no holes to look for.
        reply.error(errno(Errno::NoCall));
    }
}
