//! Requests that are read from `/dev/fuse`, and answers that are written to it.

use super::{cpu, spawn};
use crate::{
    error::Errno,
    kernel::{Device, Handler, Reply},
    node::Node,
    wire::{
        answer,
        request::{self, Head},
    },
};
use rustix::io::Errno as Number;
use std::{
    io::{self, IoSlice},
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
    thread::JoinHandle,
};

/// Threads, each on a descriptor of its own. They never wait for anything but the kernel.
const THREADS: usize = 4;

/// Room for any request: the kernel fills it with as much as there is to forget.
pub(super) const BUFFER_BYTES: usize = request::HEAD_BYTES + request::MAX_REST_BYTES;

/// Starts the threads.
pub(super) fn start<N: Node>(device: &Arc<Device>, handler: &Arc<Handler<N>>) -> io::Result<Vec<JoinHandle<()>>> {
    let start = |number: usize| {
        // Without the right to the device all threads share the descriptor that fusermount3 brought.
        let queue = device.another().or_else(|_| device.as_fd().try_clone_to_owned());
        let (queue, handler) = (Arc::new(queue?), Arc::clone(handler));
        spawn(format!("fuse-{number}"), move || serve(&queue, &handler))
    };
    (0..THREADS).map(start).collect()
}

/// Takes requests until the mount is gone.
fn serve<N: Node>(queue: &Arc<OwnedFd>, handler: &Handler<N>) {
    cpu::wait_its_turn();
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        match rustix::io::read(&**queue, &mut *buffer) {
            Ok(length) => take(queue, handler, &buffer[..length]),
            // It was interrupted, or taken back before it was read.
            Err(Number::INTR | Number::AGAIN | Number::NOENT) => {}
            Err(Number::NODEV) => return,
            Err(error) => return tracing::error!(%error, "cannot read the requests of the kernel"),
        }
    }
}

fn take<N: Node>(queue: &Arc<OwnedFd>, handler: &Handler<N>, bytes: &[u8]) {
    let Some(head) = Head::of(bytes) else { return tracing::error!("the kernel sent an incomplete request") };
    let body = &bytes[request::HEAD_BYTES..];
    let (argument, rest) = body.split_at(request::argument_bytes(head.opcode).min(body.len()));
    let operation = request::operation(head.opcode, argument, rest);
    if !handler.hear(head, operation) {
        let reply = DeviceReply { queue: Arc::clone(queue), unique: Some(head.unique), room: Vec::new() };
        handler.handle(head, operation, reply);
    }
}

/// An answer that is written to the descriptor that its request came from.
struct DeviceReply {
    queue: Arc<OwnedFd>,
    /// The request's number, until it is answered.
    unique: Option<u64>,
    room: Vec<u8>,
}

impl DeviceReply {
    fn send(&mut self, error: i32, body: &[u8]) {
        let Some(unique) = self.unique.take() else { return };
        let head = answer::head(unique, error, body.len());
        match rustix::io::writev(&*self.queue, &[IoSlice::new(&head), IoSlice::new(body)]) {
            // Who asked is gone, or the mount is.
            Ok(_) | Err(Number::NOENT | Number::NODEV) => {}
            Err(error) => tracing::warn!(%error, "the kernel did not accept a reply"),
        }
    }
}

impl Reply for DeviceReply {
    fn room(&mut self, bytes: usize) -> &mut [u8] {
        self.room.resize(bytes, 0);
        &mut self.room
    }

    fn done(mut self, bytes: usize) {
        let room = std::mem::take(&mut self.room);
        self.send(0, &room[..bytes]);
    }

    fn data(mut self, bytes: &[u8]) {
        self.send(0, bytes);
    }

    fn error(mut self, error: Errno) {
        self.send(-error.raw(), &[]);
    }
}

impl Drop for DeviceReply {
    fn drop(&mut self) {
        self.send(-Errno::Io.raw(), &[]);
    }
}
