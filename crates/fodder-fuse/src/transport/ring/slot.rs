//! The memory a request arrives in and its answer leaves from.

use crate::{
    error::Errno,
    kernel::Reply,
    wire::{
        answer,
        greeting::MAX_READ_BYTES,
        request::{HEAD_BYTES, Head, MAX_REST_BYTES},
    },
};
use parking_lot::Mutex;
use rustix::{
    event::{EventfdFlags, eventfd},
    mm::{MapFlags, ProtFlags, mmap_anonymous, munmap},
};
use std::{
    io::{self, IoSlice},
    os::fd::OwnedFd,
    ptr::NonNull,
    sync::Arc,
    thread::{self, ThreadId},
};

/// `struct fuse_uring_req_header`: the head of a request or an answer, the structure of its operation, and about the rest.
const HEADER_BYTES: usize = 288;
const ARGUMENT_AT: usize = 128;
const ARGUMENT_BYTES: usize = 128;
const COMMIT_AT: usize = 264;
const REST_BYTES_AT: usize = 272;

/// What a slot takes of the headers' memory.
const HEADER_ROOM: usize = 512;

/// All slots of a thread. A slot belongs to the kernel, to the thread, or to the one reply to its request.
#[derive(Debug)]
pub(super) struct Slots {
    base: NonNull<u8>,
    count: usize,
    /// Slots whose answers are written and must be committed by the thread.
    answered: Mutex<Vec<u16>>,
    /// Wakes the thread.
    wake: OwnedFd,
    /// The thread, which needs no waking.
    owner: ThreadId,
}

// SAFETY: the memory is used by whoever a slot belongs to, and that is one at a time; everything else can be shared.
#[allow(unsafe_code, reason = "memory that is shared with the kernel")]
unsafe impl Send for Slots {}
// SAFETY: as above.
#[allow(unsafe_code, reason = "memory that is shared with the kernel")]
unsafe impl Sync for Slots {}

/// What has arrived in a slot, copied, so that the slot can be written while it is read.
pub(super) struct Arrived {
    pub(super) head: Head,
    pub(super) argument: [u8; ARGUMENT_BYTES],
    pub(super) rest_bytes: usize,
    pub(super) commit: u64,
}

#[allow(unsafe_code, reason = "memory that is shared with the kernel")]
impl Slots {
    /// Memory for so many requests, which is taken from the system as it is used.
    pub(super) fn new(count: usize) -> io::Result<Self> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping, of which nobody else knows.
        let base = unsafe {
            mmap_anonymous(std::ptr::null_mut(), Self::bytes(count), ProtFlags::READ | ProtFlags::WRITE, flags)?
        };
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, count, answered: Mutex::default(), wake, owner: thread::current().id() })
    }

    fn bytes(count: usize) -> usize {
        count * (MAX_READ_BYTES + HEADER_ROOM)
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn wake(&self) -> &OwnedFd {
        &self.wake
    }

    /// Where the rest of a request arrives, and the body of its answer leaves.
    fn body(&self, slot: u16) -> NonNull<u8> {
        assert!(usize::from(slot) < self.count);
        // SAFETY: within the mapping, as there are `count` bodies at its front.
        unsafe { self.base.add(usize::from(slot) * MAX_READ_BYTES) }
    }

    fn header(&self, slot: u16) -> NonNull<u8> {
        assert!(usize::from(slot) < self.count);
        // SAFETY: within the mapping, as there are `count` headers behind the bodies.
        unsafe { self.base.add(self.count * MAX_READ_BYTES + usize::from(slot) * HEADER_ROOM) }
    }

    /// Addresses and lengths of a slot's header and body, for the kernel.
    pub(super) fn parts(&self, slot: u16) -> [(u64, u64); 2] {
        let address = |at: NonNull<u8>| at.addr().get() as u64;
        [(address(self.header(slot)), HEADER_BYTES as u64), (address(self.body(slot)), MAX_READ_BYTES as u64)]
    }

    /// What the kernel has put into a slot that it gave back; names and the like are copied to `rest`.
    pub(super) fn arrived(&self, slot: u16, rest: &mut [u8; MAX_REST_BYTES]) -> Arrived {
        let (header, body) = (self.header(slot), self.body(slot));
        // SAFETY: the kernel gave the slot back, so it is this thread's; both lengths are within what a slot has.
        unsafe {
            let bytes = std::slice::from_raw_parts(header.as_ptr(), HEADER_BYTES);
            let (mut argument, mut commit, mut length) = ([0; ARGUMENT_BYTES], [0; 8], [0; 4]);
            argument.copy_from_slice(&bytes[ARGUMENT_AT..ARGUMENT_AT + ARGUMENT_BYTES]);
            commit.copy_from_slice(&bytes[COMMIT_AT..COMMIT_AT + 8]);
            length.copy_from_slice(&bytes[REST_BYTES_AT..REST_BYTES_AT + 4]);
            let rest_bytes = (u32::from_ne_bytes(length) as usize).min(MAX_REST_BYTES);
            std::ptr::copy_nonoverlapping(body.as_ptr(), rest.as_mut_ptr(), rest_bytes);
            let head = Head::of(&bytes[..HEAD_BYTES]).expect("a header is longer than a head");
            Arrived { head, argument, rest_bytes, commit: u64::from_ne_bytes(commit) }
        }
    }

    /// The slots that were answered since the last time.
    pub(super) fn take_answered(&self, into: &mut Vec<u16>) {
        into.append(&mut self.answered.lock());
    }

    fn answer(&self, slot: u16) {
        let mut answered = self.answered.lock();
        let first = answered.is_empty();
        answered.push(slot);
        drop(answered);
        // The thread itself looks before it waits, and who was not the first has been woken for.
        if first && thread::current().id() != self.owner {
            let _ = rustix::io::writev(&self.wake, &[IoSlice::new(&1u64.to_ne_bytes())]);
        }
    }
}

#[allow(unsafe_code, reason = "memory that is shared with the kernel")]
impl Drop for Slots {
    fn drop(&mut self) {
        // SAFETY: the mapping that was made in `new`; neither the kernel nor a reply has a slot any more.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), Self::bytes(self.count)) };
        if let Err(error) = unmapped {
            tracing::debug!(%error, "the memory of a ring is not given back");
        }
    }
}

/// An answer that is written where its request arrived.
pub(super) struct RingReply {
    slots: Arc<Slots>,
    slot: u16,
    /// The request's number, until it is answered.
    unique: Option<u64>,
}

#[allow(unsafe_code, reason = "memory that is shared with the kernel")]
impl RingReply {
    /// The reply to what arrived in a slot, to which the slot belongs from now on.
    pub(super) fn new(slots: &Arc<Slots>, slot: u16, unique: u64) -> Self {
        Self { slots: Arc::clone(slots), slot, unique: Some(unique) }
    }

    fn send(&mut self, error: i32, bytes: usize) {
        let Some(unique) = self.unique.take() else { return };
        let head = answer::head(unique, error, bytes);
        // SAFETY: the slot is this reply's until it is answered, which is below; what is written is within its header.
        unsafe {
            let header = std::slice::from_raw_parts_mut(self.slots.header(self.slot).as_ptr(), HEADER_BYTES);
            header[..head.len()].copy_from_slice(&head);
            header[REST_BYTES_AT..REST_BYTES_AT + 4].copy_from_slice(&(bytes as u32).to_ne_bytes());
        }
        self.slots.answer(self.slot);
    }
}

#[allow(unsafe_code, reason = "memory that is shared with the kernel")]
impl Reply for RingReply {
    fn room(&mut self, bytes: usize) -> &mut [u8] {
        let bytes = bytes.min(MAX_READ_BYTES);
        // SAFETY: the slot is this reply's, its body is so long, and the memory was zeros before anything was written.
        unsafe { std::slice::from_raw_parts_mut(self.slots.body(self.slot).as_ptr(), bytes) }
    }

    fn done(mut self, bytes: usize) {
        self.send(0, bytes);
    }

    fn data(mut self, bytes: &[u8]) {
        match self.room(bytes.len()) {
            room if room.len() == bytes.len() => {
                room.copy_from_slice(bytes);
                self.send(0, bytes.len());
            }
            _ => self.send(-Errno::Io.raw(), 0),
        }
    }

    fn error(mut self, error: Errno) {
        self.send(-error.raw(), 0);
    }
}

impl Drop for RingReply {
    fn drop(&mut self) {
        self.send(-Errno::Io.raw(), 0);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_answer_is_written_where_its_request_arrived_also_by_another_thread() {
        let slots = Arc::new(Slots::new(3).unwrap());
        let mut answered = Vec::new();
        let reply = RingReply::new(&slots, 1, 77);
        std::thread::spawn(move || reply.data(b"bytes")).join().unwrap();
        slots.take_answered(&mut answered);
        assert_eq!(answered, [1]);
        let mut woken = [0; 8];
        assert_eq!(rustix::io::read(slots.wake(), &mut woken).unwrap(), 8);
        let arrived = slots.arrived(1, &mut [0; MAX_REST_BYTES]);
        assert_eq!(arrived.rest_bytes, 5);
        let mut rest = [0; MAX_REST_BYTES];
        slots.arrived(1, &mut rest);
        assert_eq!(&rest[..5], b"bytes");
        // Dropped, it is an error; on the thread itself nobody is woken.
        drop(RingReply::new(&slots, 2, 78));
        slots.take_answered(&mut answered);
        assert_eq!(answered, [1, 2]);
        assert!(rustix::io::read(slots.wake(), &mut woken).is_err());
    }
}
