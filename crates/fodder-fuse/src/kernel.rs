//! The kernel's side: what it asks is asked of the file system, and the answers are written in its words.
//!
//! Decides nothing, and knows no transport. Requests that must wait run on thread pools, together with their reply, so that
//! the threads which take the kernel's requests go on. Each request runs in the pool of what it waits for.

mod device;
mod reply;

pub(crate) use device::Device;
pub(crate) use reply::Reply;

use crate::{
    error::Errno,
    fs::{FileRef, FileSystem, Opened},
    mode::Mode,
    node::Node,
    wire::{
        answer::{self, Listing, OpenFlags},
        greeting::MAX_READ_BYTES,
        request::{Head, Operation},
    },
    worker::Pools,
};
use fodder_api::spelling;
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

/// Answers the kernel's requests from a file system.
#[derive(Debug)]
pub(crate) struct Handler<N> {
    fs: Arc<FileSystem<N>>,
    pools: Arc<Pools>,
}

impl<N: Node> Handler<N> {
    pub(crate) fn new(fs: Arc<FileSystem<N>>) -> Self {
        Self { fs, pools: Arc::default() }
    }

    /// Runs a request that the node answers from memory.
    fn metadata(&self, work: impl FnOnce(&FileSystem<N>) + Send + 'static) {
        let fs = Arc::clone(&self.fs);
        self.pools.metadata.run(move || work(&fs));
    }

    /// Takes a request that is not answered; false if it must be.
    pub(crate) fn hear(&self, head: Head, operation: Operation<'_>) -> bool {
        match operation {
            Operation::Forget { times } => self.fs.forget(head.ino, times),
            Operation::ForgetMany(forgotten) => forgotten.for_each(|(ino, times)| self.fs.forget(ino, times)),
            Operation::Interrupt => {}
            _ => return false,
        }
        true
    }

    /// Answers a request, at once or later. Never waits. A panic is answered with EIO and spares the calling thread.
    pub(crate) fn handle<R: Reply>(&self, head: Head, operation: Operation<'_>, reply: R) {
        if catch_unwind(AssertUnwindSafe(|| self.dispatch(head, operation, reply))).is_err() {
            tracing::error!(opcode = head.opcode, "a request panicked; it is answered with an I/O error");
        }
    }

    fn dispatch<R: Reply>(&self, head: Head, operation: Operation<'_>, reply: R) {
        let Head { ino, .. } = head;
        match operation {
            Operation::Lookup { name } => {
                let name = name.to_vec();
                self.metadata(move |fs| match fs.lookup(ino, &name) {
                    Ok(found) => reply.data(&answer::entry(&found)),
                    Err(Errno::NoEntry) => reply.data(&answer::no_entry()),
                    Err(error) => reply.error(error),
                });
            }
            Operation::Attributes => match self.fs.attributes(ino) {
                Ok(found) => reply.data(&answer::attributes(&found)),
                Err(error) => reply.error(error),
            },
            Operation::ReadLink => match self.fs.link(ino) {
                Ok(target) => reply.data(&target),
                Err(error) => reply.error(error),
            },
            Operation::Open => self.open(ino, reply),
            Operation::Read { handle, offset, size, paged } => {
                let handle = (!self.fs.settings().immutable).then_some(handle);
                self.read(FileRef { ino, handle, paged }, offset, size, reply);
            }
            Operation::Release { handle } => {
                // Nobody waits for the answer. Behind it the kernel may forget the inode, and look it up again.
                self.fs.release(ino, handle);
                reply.data(&[]);
            }
            Operation::OpenDirectory => match self.fs.open_directory(ino) {
                Ok(handle) => {
                    let flags = OpenFlags::CACHE_DIR.and(OpenFlags::KEEP_CACHE);
                    reply.data(&answer::opened(handle, flags, 0));
                }
                Err(error) => reply.error(error),
            },
            Operation::List { handle, cookie, size, plus } => self.list(handle, cookie, size, plus, reply),
            Operation::ReleaseDirectory { handle } => {
                reply.data(&[]);
                self.fs.release_directory(handle);
            }
            Operation::FileSystem => reply.data(&answer::file_system(self.fs.size())),
            Operation::ExtendedAttribute { name, room } => {
                if let Some(found) = self.fs.mount_attribute(name) {
                    return value(reply, room, Ok(found));
                }
                if !self.fs.has_attribute(name) {
                    return reply.error(Errno::NoAttribute);
                }
                let name = name.to_vec();
                self.metadata(move |fs| value(reply, room, fs.attribute(ino, &name)));
            }
            Operation::ExtendedAttributes { room } => value(reply, room, self.fs.attribute_names(ino)),
            Operation::Control => reply.error(Errno::NotTerminal),
            Operation::Destroy => reply.data(&[]),
            // The kernel then asks no more: flushes nothing, and looks for no holes.
            Operation::Flush
            | Operation::Other
            | Operation::Forget { .. }
            | Operation::ForgetMany(_)
            | Operation::Interrupt => reply.error(Errno::NoCall),
        }
    }

    fn open<R: Reply>(&self, ino: u64, reply: R) {
        if self.fs.settings().immutable {
            return reply.error(Errno::NoCall);
        }
        if let Some(done) = self.fs.try_open(ino) {
            return opened(reply, done);
        }
        let (fs, pools) = (Arc::clone(&self.fs), Arc::clone(&self.pools));
        if !self.pools.fetch.is_saturated() {
            return self.pools.fetch.run(move || opened(reply, fs.open(ino)));
        }
        // All threads may wait for the origin. A cached file is opened without them; for others this costs one more request.
        self.pools.lease.run(move || match fs.open_cached(ino) {
            Some(done) => opened(reply, done),
            None => pools.fetch.run(move || opened(reply, fs.open(ino))),
        });
    }

    fn read<R: Reply>(&self, file: FileRef, offset: u64, size: u32, reply: R) {
        let size = size.min(MAX_READ_BYTES as u32);
        let (kept, errands) = self.fs.begin_read(file, offset, size);
        match kept {
            Some(kept) => reply.data(&kept),
            None => self.read_now(file, offset, size, reply),
        }
        for errand in errands {
            let fs = Arc::clone(&self.fs);
            self.pools.readahead.run(move || fs.bring(errand));
        }
    }

    fn read_now<R: Reply>(&self, file: FileRef, offset: u64, size: u32, mut reply: R) {
        let room = &mut reply;
        match self.fs.try_read(file, offset, size, move |bytes| room.room(bytes)) {
            Some(Ok(bytes)) => reply.done(bytes),
            Some(Err(error)) => reply.error(error),
            None => self.read_later(file, offset, size, reply),
        }
    }

    fn read_later<R: Reply>(&self, file: FileRef, offset: u64, size: u32, reply: R) {
        let (fs, pools) = (Arc::clone(&self.fs), Arc::clone(&self.pools));
        if self.fs.is_leased(file) {
            return self.pools.file.run(move || read(&fs, file, offset, size, reply));
        }
        if !self.pools.fetch.is_saturated() {
            return self.pools.fetch.run(move || read(&fs, file, offset, size, reply));
        }
        if file.handle.is_some() {
            // All threads may wait for the origin. A part that is cached is read without them.
            return self.pools.file.run(move || match fs.read_view(file, offset, size) {
                Some(bytes) => reply.data(&bytes),
                None => pools.fetch.run(move || read(&fs, file, offset, size, reply)),
            });
        }
        // A file that was never opened may be cached all the same. As for an open, that is found out without the busy threads.
        self.pools.lease.run(move || {
            let leased = fs.lease(file.ino);
            let pool = if leased { &pools.file } else { &pools.fetch };
            pool.run(move || read(&fs, file, offset, size, reply));
        });
    }

    fn list<R: Reply>(&self, handle: u64, cookie: u64, size: u32, plus: bool, mut reply: R) {
        let size = (size as usize).min(MAX_READ_BYTES);
        let work = move |fs: &FileSystem<N>| {
            let mut listing = Listing::new(reply.room(size));
            let listed = fs.entries(handle, cookie, plus, &mut |child| match plus {
                true => listing.add_plus(
                    child.attr.as_ref(),
                    child.ino,
                    child.cookie,
                    child.kind,
                    &spelling::name(child.name),
                ),
                false => listing.add(child.ino, child.cookie, child.kind, &spelling::name(child.name)),
            });
            let bytes = listing.bytes();
            match listed {
                Ok(()) => reply.done(bytes),
                Err(error) => reply.error(error),
            }
        };
        if self.fs.has_entries(handle, cookie) { work(&self.fs) } else { self.metadata(work) }
    }
}

fn read<N: Node, R: Reply>(fs: &FileSystem<N>, file: FileRef, offset: u64, size: u32, reply: R) {
    let mut reply = Some(reply);
    fs.read(file, offset, size, &mut |bytes| {
        let Some(reply) = reply.take() else { return };
        match bytes {
            Ok(bytes) => reply.data(bytes),
            Err(error) => reply.error(error),
        }
    });
}

fn opened<R: Reply>(reply: R, opened: Result<Opened, Errno>) {
    let Opened { handle, mode } = match opened {
        Ok(opened) => opened,
        Err(error) => return reply.error(error),
    };
    let (flags, backing) = match &mode {
        Mode::Passthrough(file) => {
            let id = file.id().expect("only files with a number are passed through");
            (OpenFlags::PASSTHROUGH, id)
        }
        Mode::Direct => (OpenFlags::DIRECT_IO, 0),
        Mode::Cached => (OpenFlags::KEEP_CACHE, 0),
    };
    reply.data(&answer::opened(handle, flags.and(OpenFlags::NOFLUSH), backing));
}

fn value<R: Reply>(reply: R, room: u32, value: Result<Vec<u8>, Errno>) {
    match value {
        Err(error) => reply.error(error),
        Ok(value) if room == 0 => reply.data(&answer::attribute_size(value.len() as u32)),
        Ok(value) if value.len() > room as usize => reply.error(Errno::Range),
        Ok(value) => reply.data(&value),
    }
}

#[cfg(test)]
mod tests;
