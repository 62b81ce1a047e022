//! Opening, reading and closing files: where the bytes come from.

use super::{
    FileSystem, Handle, Result,
    ahead::{Claim, Kept, Look},
    told,
};
use crate::{
    backing::{Backing, KEPT_BYTES, Room},
    error::Errno,
    inode::{Kind, is_replaced},
    mode::{Mode, Policy},
    node::{Node, Part, SMALL_BYTES},
};
use fodder_api::{
    Error as NodeError, Result as NodeResult,
    frames::{Arriving, ObjectInfo},
};
use parking_lot::Mutex;
use std::{
    io, iter,
    ops::Range,
    os::unix::fs::FileExt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// After so many reads of a large object by way of the node it is asked whether it has become whole.
const ASK_AGAIN: u64 = 16;

/// What is read past the cache of the kernel is asked of the node up to a multiple of this. Memory that a program reads into
/// seldom begins where a page does, and then the kernel asks for the last few bytes of each large read by themselves.
const GRAIN_BYTES: u64 = 4096;

/// The handle of every open file that the kernel reads itself: its inode says all there is to know of it.
const PASSED: u64 = u64::MAX;

/// An open file, as the kernel is told of it.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) handle: u64,
    pub(crate) mode: Mode<Backing>,
}

/// The file that a read is of: an open one, or one that was never opened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileRef {
    pub(crate) ino: u64,
    pub(crate) handle: Option<u64>,
    /// The kernel asks for pages, of which somebody has touched one.
    pub(crate) paged: bool,
}

/// Something to read ahead in an open file.
#[derive(Debug)]
pub(crate) struct Errand {
    file: FileRef,
    open: Arc<Handle>,
    claim: Claim,
}

struct Reading {
    object: ObjectInfo,
    whole: Option<Arc<Backing>>,
    open: Option<Arc<Handle>>,
}

/// The bytes of an object that has no file, as they come.
struct Held<'a, N> {
    fs: &'a FileSystem<N>,
    ino: u64,
    object: ObjectInfo,
    room: Option<Room>,
    backing: Option<io::Result<Arc<Backing>>>,
}

impl<'a, N: Node> Held<'a, N> {
    fn new(fs: &'a FileSystem<N>, ino: u64, object: ObjectInfo, room: Room) -> Self {
        Self { fs, ino, object, room: Some(room), backing: None }
    }

    fn take(&mut self, bytes: &[u8]) {
        let exact = bytes.len() as u64 == self.object.size;
        self.backing = self.room.take().filter(|_| exact).map(|room| self.fs.pool.hold(self.ino, room, bytes));
    }

    /// A file in memory; None if there is no memory for one.
    fn backing(self) -> NodeResult<Option<Arc<Backing>>> {
        match self.backing {
            Some(Ok(backing)) => Ok(Some(backing)),
            Some(Err(error)) => {
                tracing::warn!(%error, "no memory for an open file; reading it piece by piece");
                Ok(None)
            }
            None => {
                Err(NodeError::Internal("the node answered with another number of bytes than the object has".into()))
            }
        }
    }
}

/// Where the answer to a read goes: called once.
pub(crate) type Reply<'a> = &'a mut dyn FnMut(Result<&[u8]>);

impl<N: Node> FileSystem<N> {
    /// Opens a file whose bytes are at hand.
    pub(crate) fn try_open(&self, ino: u64) -> Option<Result<Opened>> {
        self.open_kept(ino, false)
    }

    /// Opens a file whose bytes are at hand. A file that other handles of the inode read must be used in any case; with
    /// `unverified` also if the node could not verify it.
    fn open_kept(&self, ino: u64, unverified: bool) -> Option<Result<Opened>> {
        let kept = self.pool.get(ino).filter(|file| self.is_usable(file));
        // The kernel is asked before the lock is taken.
        let passable = self.passable(kept.as_ref());
        let mut inodes = self.inodes.lock(ino);
        let (object, mode) = match inodes.get_mut(&ino).map(|inode| &mut inode.kind) {
            None => return Some(Err(Errno::Stale)),
            Some(Kind::Directory(_)) => return Some(Err(Errno::IsDirectory)),
            Some(Kind::Link(..)) => return Some(Err(Errno::Invalid)),
            Some(Kind::File(object, state)) => {
                if is_replaced(state) {
                    // The kernel looks the name up again, and finds another inode.
                    return Some(Err(Errno::Stale));
                }
                let bound = match state.bound() {
                    Some(Mode::Passthrough(file)) => Some(unverified || self.is_usable(file)),
                    _ => None,
                };
                if bound == Some(false) || bound.is_none() && kept.is_none() {
                    return None;
                }
                (*object, state.open(self.settings.policy, passable))
            }
        };
        drop(inodes);
        if kept.is_some() {
            self.touch(ino, object.id);
        }
        Some(Ok(self.opened(object, mode, kept)))
    }

    /// Opens a file. May wait: an object that is not whole in the cache is fetched whole if it is small.
    pub(crate) fn open(&self, ino: u64) -> Result<Opened> {
        if let Some(opened) = self.try_open(ino) {
            return opened;
        }
        let object = self.object(ino)?;
        self.verify(ino, object);
        if let Some(opened) = self.open_kept(ino, true) {
            return opened;
        }
        let whole = self.whole(ino, object)?;
        self.open_as(ino, object, whole)
    }

    /// Opens a file without the origin: one that is whole in the node's cache, and one that is too large to be fetched by an open;
    /// None for others. Waits for the node, which may read the file to verify it.
    pub(crate) fn open_cached(&self, ino: u64) -> Option<Result<Opened>> {
        if let Some(opened) = self.try_open(ino) {
            return Some(opened);
        }
        let object = match self.object(ino) {
            Ok(object) => object,
            Err(errno) => return Some(Err(errno)),
        };
        self.verify(ino, object);
        if let Some(opened) = self.open_kept(ino, true) {
            return Some(opened);
        }
        match self.cached(ino, object) {
            Ok(None) if object.size <= self.settings.whole_bytes => None,
            Ok(whole) => Some(self.open_as(ino, object, whole)),
            Err(error) => Some(Err(told(&error, "open"))),
        }
    }

    /// The bytes of an object that is whole in the node's cache: its file, or a small object in memory.
    fn cached(&self, ino: u64, object: ObjectInfo) -> NodeResult<Option<Arc<Backing>>> {
        let room = if object.size < SMALL_BYTES { self.pool.room(object.size) } else { None };
        match room {
            Some(room) => match self.small(ino, object, room, Arriving::Ignore) {
                Err(NodeError::Full(_)) => Ok(None),
                found => found,
            },
            None => Ok(self.node.lease(object.id, Arriving::Ignore)?.map(|content| self.pool.put(ino, content))),
        }
    }

    /// Asks for the file or the bytes of a small object at once.
    fn small(&self, ino: u64, object: ObjectInfo, room: Room, arriving: Arriving) -> NodeResult<Option<Arc<Backing>>> {
        let (mut held, all) = (Held::new(self, ino, object, room), self.all_of(object));
        match self.node.open(object.id, all, arriving, &mut |bytes| held.take(bytes))? {
            Some(content) => Ok(Some(self.pool.put(ino, content))),
            None => held.backing(),
        }
    }

    fn all_of(&self, object: ObjectInfo) -> Part {
        Part { offset: 0, length: object.size, reader: self.reader(Some(0), false) }
    }

    /// Opens a file from what there is of it.
    fn open_as(&self, ino: u64, object: ObjectInfo, whole: Option<Arc<Backing>>) -> Result<Opened> {
        let passable = self.passable(whole.as_ref());
        let mut inodes = self.inodes.lock(ino);
        let Some(Kind::File(_, state)) = inodes.get_mut(&ino).map(|inode| &mut inode.kind) else {
            return Err(Errno::Stale);
        };
        let mode = state.open(self.settings.policy, passable);
        drop(inodes);
        Ok(self.opened(object, mode, whole))
    }

    /// The file of an object: the node's if it is whole there, else for a small one what is fetched now.
    fn whole(&self, ino: u64, object: ObjectInfo) -> Result<Option<Arc<Backing>>> {
        self.fetch_whole(ino, object).map_err(|error| told(&error, "open"))
    }

    fn fetch_whole(&self, ino: u64, object: ObjectInfo) -> NodeResult<Option<Arc<Backing>>> {
        let room = || self.pool.room(object.size).filter(|_| object.size <= self.settings.whole_bytes);
        if object.size < SMALL_BYTES
            && let Some(room) = room()
        {
            return self.small(ino, object, room, Arriving::Await);
        }
        if let Some(content) = self.node.lease(object.id, Arriving::Await)? {
            return Ok(Some(self.pool.put(ino, content)));
        }
        let Some(room) = room() else { return Ok(None) };
        let mut held = Held::new(self, ino, object, room);
        self.node.read(object.id, self.all_of(object), &mut |bytes| held.take(bytes))?;
        held.backing()
    }

    /// The file if the kernel takes it for passthrough.
    fn passable(&self, whole: Option<&Arc<Backing>>) -> Option<Arc<Backing>> {
        let wanted = self.settings.policy == Policy::Passthrough;
        whole.filter(|file| wanted && file.id().is_some()).cloned()
    }

    fn opened(&self, object: ObjectInfo, mode: Mode<Backing>, whole: Option<Arc<Backing>>) -> Opened {
        if let Mode::Passthrough(_) = mode {
            return Opened { handle: PASSED, mode };
        }
        let handle = self.new_handle();
        let open = Handle {
            object,
            whole: Mutex::new(whole),
            asked: AtomicU64::new(0),
            rest: Mutex::default(),
            ahead: Arc::default(),
        };
        self.handles.lock(handle).insert(handle, Arc::new(open));
        Opened { handle, mode }
    }

    /// Closes a file. The kernel does not forget its inode before it hears that this was done.
    pub(crate) fn release(&self, ino: u64, handle: u64) {
        if handle != PASSED && self.handles.lock(handle).remove(&handle).is_none() {
            return;
        }
        let mut inodes = self.inodes.lock(ino);
        let last = match inodes.get_mut(&ino).map(|inode| &mut inode.kind) {
            Some(Kind::File(_, state)) => state.release(),
            _ => None,
        };
        // A file is closed and its number given back without holding up others.
        drop(inodes);
        drop(last);
    }

    /// A read begins. Its bytes if they were read ahead; what should be read ahead now, by [`Self::bring`].
    pub(crate) fn begin_read(&self, file: FileRef, offset: u64, length: u32) -> (Option<Kept>, Vec<Errand>) {
        let Ok(Reading { object, whole: None, open: Some(open) }) = self.reading(file) else {
            return Default::default();
        };
        let range = offset..(offset + u64::from(length)).min(object.size);
        if range.is_empty() {
            return Default::default();
        }
        let kept = match open.ahead.read(&range) {
            Look::Here(kept) => Some(kept),
            Look::Coming | Look::Absent => None,
        };
        let claims = iter::from_fn(|| open.ahead.claim(&range, GRAIN_BYTES, object.size, &self.buffers));
        let errands = claims.map(|claim| Errand { file, open: Arc::clone(&open), claim });
        (kept, errands.collect())
    }

    /// Reads ahead what is in the cache, or on its way there. May wait, also for the origin, but fetches nothing.
    pub(crate) fn bring(&self, errand: Errand) {
        let Errand { file, open, mut claim } = errand;
        let Range { start, end } = claim.range;
        let part = Part { offset: start, length: end - start, reader: self.reader(file.handle, file.paged) };
        if self.node.read_shown(open.object.id, part, Arriving::Await, claim.room()).is_ok_and(|read| read) {
            claim.came();
            self.look_again(file.ino, &open.object, &open);
        }
    }

    /// Reads a range, into the room that `room` makes for it, if its bytes are in memory: how many; None if the call that
    /// may wait must be made.
    pub(crate) fn try_read<'a>(
        &self,
        file: FileRef,
        offset: u64,
        length: u32,
        room: impl FnOnce(usize) -> &'a mut [u8],
    ) -> Option<Result<usize>> {
        let Reading { object, whole, open } = match self.reading(file) {
            Ok(reading) => reading,
            Err(errno) => return Some(Err(errno)),
        };
        let length = u64::from(length).min(object.size.saturating_sub(offset)) as usize;
        let Some(whole) = whole else { return open?.rest.lock().read(offset, length, room).map(Ok) };
        // Less than there is means that the rest must be waited for.
        whole.try_read(room(length), offset).is_ok_and(|read| read == length).then_some(Ok(length))
    }

    /// Reads a range of a file, shorter only at its end. May wait.
    pub(crate) fn read(&self, file: FileRef, offset: u64, length: u32, reply: Reply<'_>) {
        let Reading { object, whole, open } = match self.reading(file) {
            Ok(reading) => reading,
            Err(errno) => return reply(Err(errno)),
        };
        let length = u64::from(length).min(object.size.saturating_sub(offset));
        if length == 0 {
            return reply(Ok(&[]));
        }
        // What is not open is asked for before, and else behind the answer: an object that was just filled takes a while to be
        // safe on disk, and nobody should wait for that.
        let never_opened = || if open.is_none() { self.leased(file.ino, &object, Arriving::Await) } else { None };
        if let Some(whole) = whole.or_else(never_opened) {
            let mut buffer = vec![0; length as usize];
            let read = whole.file().read_exact_at(&mut buffer, offset);
            if let Err(error) = &read {
                tracing::warn!(%error, "cannot read a cache file");
            }
            return reply(read.map(|()| &*buffer).map_err(|_| Errno::Io));
        }
        if let Some(kept) = open.as_ref().and_then(|open| open.ahead.wait(&(offset..offset + length))) {
            return reply(Ok(&kept));
        }
        let mut answered = false;
        let asked = (offset + length).next_multiple_of(GRAIN_BYTES).min(object.size) - offset;
        let part = Part { offset, length: asked, reader: self.reader(file.handle, file.paged) };
        let read = self.node.read(object.id, part, &mut |bytes| {
            answered = true;
            if bytes.len() as u64 != asked {
                return reply(Err(Errno::Io));
            }
            let (bytes, rest) = bytes.split_at(length as usize);
            if let Some(open) = &open {
                open.rest.lock().keep(offset + length, rest);
            }
            reply(Ok(bytes));
        });
        match read {
            Err(error) if !answered => reply(Err(told(&error, "read"))),
            Ok(()) if !answered => reply(Err(Errno::Io)),
            _ => {}
        }
        if let Some(open) = &open {
            self.look_again(file.ino, &object, open);
        }
    }

    /// Asks now and then whether an object that was not whole when it was opened is by now.
    fn look_again(&self, ino: u64, object: &ObjectInfo, open: &Handle) {
        if open.asked.fetch_add(1, Ordering::Relaxed) % ASK_AGAIN == ASK_AGAIN - 1
            && let Some(whole) = self.leased(ino, object, Arriving::Ignore)
        {
            *open.whole.lock() = Some(whole);
            // From now on nobody looks there.
            open.ahead.clear();
        }
    }

    /// The node's file of an object, if it is whole there. A small object has none; its bytes are kept instead.
    fn leased(&self, ino: u64, object: &ObjectInfo, arriving: Arriving) -> Option<Arc<Backing>> {
        if object.size <= KEPT_BYTES
            && let Some(room) = self.pool.room(object.size)
        {
            return self.small(ino, *object, room, arriving).ok()?;
        }
        let leased = self.node.lease(object.id, arriving).ok()??;
        Some(self.pool.put(ino, leased))
    }

    /// Reads a range of an open file from the node's cache, shorter only at its end; None if not all of it is there. Waits for
    /// the node, but not for the origin.
    pub(crate) fn read_view(&self, file: FileRef, offset: u64, length: u32) -> Option<Vec<u8>> {
        let object = self.reading(file).ok()?.object;
        let length = u64::from(length).min(object.size.saturating_sub(offset));
        let part = Part { offset, length, reader: self.reader(file.handle, file.paged) };
        let mut buffer = vec![0; length as usize];
        let read =
            length > 0 && self.node.read_shown(object.id, part, Arriving::Ignore, &mut buffer).is_ok_and(|read| read);
        read.then_some(buffer)
    }

    /// Whether reads of a file are answered from a cache file that is open here.
    pub(crate) fn is_leased(&self, file: FileRef) -> bool {
        self.reading(file).is_ok_and(|reading| reading.whole.is_some())
    }

    /// Asks for the cache file of a file that was never opened: whether there is one. Waits for the node, which may read the
    /// file to verify it, but not for the origin.
    pub(crate) fn lease(&self, ino: u64) -> bool {
        self.object(ino).is_ok_and(|object| self.leased(ino, &object, Arriving::Ignore).is_some())
    }

    /// What a read is of, and where its bytes are.
    fn reading(&self, file: FileRef) -> Result<Reading> {
        let Some(handle) = file.handle else {
            let whole = self.pool.get(file.ino).filter(|whole| self.is_usable(whole));
            return Ok(Reading { object: self.object(file.ino)?, whole, open: None });
        };
        if handle == PASSED {
            return self.passed(file.ino);
        }
        let open = self.handles.lock(handle).get(&handle).cloned().ok_or(Errno::Stale)?;
        let whole = open.whole.lock().clone();
        Ok(Reading { object: open.object, whole, open: Some(open) })
    }

    /// A file that the kernel reads itself. It asks only for what a program wants to be read ahead (`posix_fadvise`).
    fn passed(&self, ino: u64) -> Result<Reading> {
        match &self.inodes.lock(ino).get(&ino).ok_or(Errno::Stale)?.kind {
            Kind::File(object, state) => match state.bound() {
                Some(Mode::Passthrough(whole)) => {
                    Ok(Reading { object: *object, whole: Some(Arc::clone(whole)), open: None })
                }
                _ => Err(Errno::Stale),
            },
            _ => Err(Errno::Stale),
        }
    }
}
