//! One thread's ring: slots that are given to the kernel, come back with a request, and go again with its answer.

use super::{
    Start,
    slot::{Arrived, RingReply, Slots},
};
use crate::wire::request::{self, MAX_REST_BYTES};
use io_uring::{IoUring, cqueue, opcode, squeue::Entry128, types};
use std::{
    io,
    os::fd::{AsFd, AsRawFd},
    sync::Arc,
};

/// `FUSE_IO_URING_CMD_REGISTER`: here is a slot.
const REGISTER: u32 = 1;
/// `FUSE_IO_URING_CMD_COMMIT_AND_FETCH`: here is an answer, and the slot again.
const COMMIT_AND_FETCH: u32 = 2;

/// The bytes of a submission's own data for the device.
const COMMAND_BYTES: usize = 80;

/// Where a submission has the number of parts that its address points to.
const LENGTH_AT: usize = 24;

/// Marks the completion that says that somebody answered.
const WOKEN: u64 = u64::MAX;

/// A slot, or [`WOKEN`], and how it came back.
type Completion = (u64, i32);

/// A ring and the slots of one thread.
pub(super) struct Queue {
    ring: IoUring<Entry128, cqueue::Entry>,
    slots: Arc<Slots>,
    /// The kernel's queue that each slot is for.
    queues: Vec<u16>,
    /// By what number the kernel knows the request in each slot.
    commits: Vec<u64>,
    /// Slots that are not lost: when the mount ends the kernel gives them all back with an error.
    live: usize,
}

impl Queue {
    /// A ring for some queues of the kernel, with so many slots in each. Made by the thread that serves it.
    pub(super) fn new(served: &[u16], depth: usize) -> io::Result<Self> {
        let queues: Vec<u16> = served.iter().flat_map(|queue| std::iter::repeat_n(*queue, depth)).collect();
        // One more for being woken.
        let entries = (queues.len() + 1).next_power_of_two() as u32;
        let ring = IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(entries)?;
        let slots = Arc::new(Slots::new(queues.len())?);
        Ok(Self { ring, slots, commits: vec![0; queues.len()], live: queues.len(), queues })
    }

    /// Gives the slots to the kernel, says whether it took them, and answers until the mount ends.
    pub(super) fn serve(mut self, start: &Start) {
        let early = match self.register(start) {
            Ok(early) => early,
            Err(error) => return drop(start.outcome.send(Err(error))),
        };
        let _ = start.outcome.send(Ok(()));
        if let Err(error) = self.answer(start, early) {
            tracing::error!(%error, "the io_uring of the kernel failed");
        }
    }

    /// Gives the slots to the kernel; what came back at once.
    fn register(&mut self, start: &Start) -> io::Result<Vec<Completion>> {
        self.ring.submitter().register_files(&[start.device.as_fd().as_raw_fd()])?;
        // Read when they are submitted, and not later.
        let parts: Vec<_> = (0..self.slots.count()).map(|slot| self.slots.parts(slot as u16)).collect();
        for (slot, parts) in parts.iter().enumerate() {
            let address = parts.as_ptr().addr() as u64;
            let entry = with_length(self.command(REGISTER, slot as u16).addr(Some(address)).build(), parts.len());
            self.push(entry.user_data(slot as u64))?;
        }
        self.listen()?;
        self.ring.submit()?;
        let mut early = Vec::new();
        self.completed(&mut early);
        match early.iter().find(|(_, result)| *result < 0) {
            Some((_, error)) => Err(io::Error::from_raw_os_error(-error)),
            None => Ok(early),
        }
    }

    fn answer(&mut self, start: &Start, mut done: Vec<Completion>) -> io::Result<()> {
        let (mut rest, mut answered) = (Box::new([0; MAX_REST_BYTES]), Vec::new());
        while self.live > 0 {
            for (slot, result) in done.drain(..) {
                match slot {
                    WOKEN => self.listen()?,
                    _ if result < 0 => self.live -= 1,
                    slot => self.take(slot as u16, start, &mut rest),
                }
            }
            self.slots.take_answered(&mut answered);
            for slot in answered.drain(..) {
                let entry = self.command(COMMIT_AND_FETCH, slot).build().user_data(u64::from(slot));
                self.push(entry)?;
            }
            match self.ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            self.completed(&mut done);
        }
        Ok(())
    }

    fn completed(&mut self, into: &mut Vec<Completion>) {
        into.extend(self.ring.completion().map(|done| (done.user_data(), done.result())));
    }

    fn take(&mut self, slot: u16, start: &Start, rest: &mut [u8; MAX_REST_BYTES]) {
        let Arrived { head, argument, rest_bytes, commit } = self.slots.arrived(slot, rest);
        self.commits[usize::from(slot)] = commit;
        let reply = RingReply::new(&self.slots, slot, head.unique);
        (start.take)(head, request::operation(head.opcode, &argument, &rest[..rest_bytes]), reply);
    }

    /// `struct fuse_uring_cmd_req`, on the device, which is the ring's first file.
    fn command(&self, operation: u32, slot: u16) -> opcode::UringCmd80 {
        let slot = usize::from(slot);
        let mut command = [0; COMMAND_BYTES];
        command[8..16].copy_from_slice(&self.commits[slot].to_ne_bytes());
        command[16..18].copy_from_slice(&self.queues[slot].to_ne_bytes());
        opcode::UringCmd80::new(types::Fixed(0), operation).cmd(command)
    }

    /// Waits for being woken once more, and forgets that it was.
    fn listen(&mut self) -> io::Result<()> {
        let wake = self.slots.wake();
        let _ = rustix::io::read(wake, &mut [0; 8]);
        let entry = opcode::PollAdd::new(types::Fd(wake.as_raw_fd()), 1).build().user_data(WOKEN);
        self.push(entry.into())
    }

    #[allow(unsafe_code, reason = "what is submitted points to memory")]
    fn push(&mut self, entry: Entry128) -> io::Result<()> {
        loop {
            // SAFETY: what a submission points to is read before `register` ends, and slots live longer than the ring.
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                return Ok(());
            }
            self.ring.submit()?;
        }
    }
}

/// The number of parts that a submission's address points to, which the crate has no word for.
#[allow(unsafe_code, reason = "a field of the kernel's that the crate does not give")]
fn with_length(mut entry: Entry128, parts: usize) -> Entry128 {
    const { assert!(size_of::<Entry128>() == 128) };
    // SAFETY: an entry is the kernel's 128 bytes (`struct io_uring_sqe` and its second half), whose `len` is a u32 there.
    unsafe { (&raw mut entry).cast::<u32>().byte_add(LENGTH_AT).write(parts as u32) };
    entry
}
