//! What is about to be sent on one connection: a buffer in which frames stand one behind the other, used again.

use super::Line;
use crate::{
    items::{Part, Wanted},
    wire,
};
use bytes::Bytes;
use fodder_api::{
    frames::{Flags, ItemHead, Kind, PartHead, ReplyHead},
    v1,
};
use fodder_core::{Error, engine::Source};
use std::{
    io::{self, IoSlice},
    time::Duration,
};

/// Bytes of an item's two heads.
const HEAD_BYTES: usize = ReplyHead::BYTES + ItemHead::BYTES;

/// The buffer: a few items, and small enough to stay in the processor's cache between filling and sending.
const BUFFER_BYTES: usize = 512 << 10;

/// The most bytes of an item that fit into the buffer with their heads.
pub(super) const PART_BYTES: usize = BUFFER_BYTES - HEAD_BYTES;

/// Parts of items from this size on are sent from where they are: copying them costs more than a system call each.
const LARGE_BYTES: usize = 64 << 10;

/// The longest text of an error.
const MAX_TEXT_BYTES: usize = 2048;

/// The frames that are about to be sent.
#[derive(Debug)]
pub(super) struct Output {
    /// Of full length as soon as it is used, so that filling needs no clearing.
    buffer: Vec<u8>,
    used: usize,
    limit: Duration,
}

impl Output {
    /// An empty buffer; sending what it holds may take `limit`.
    pub(super) fn new(limit: Duration) -> Self {
        Self { buffer: Vec::new(), used: 0, limit }
    }

    /// Gives the memory back, which must be empty.
    pub(super) fn shrink(&mut self) {
        debug_assert_eq!(self.used, 0);
        self.buffer = Vec::new();
    }

    /// Whether there is nothing to send.
    pub(super) fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Where the bytes of the next item may be put, behind its heads. What is before it is sent if there is not even
    /// room for those.
    pub(super) fn room(&mut self, socket: &mut Line) -> io::Result<&mut [u8]> {
        self.buffer.resize(BUFFER_BYTES, 0);
        if self.used + HEAD_BYTES > BUFFER_BYTES {
            self.flush(socket)?;
        }
        Ok(&mut self.buffer[self.used + HEAD_BYTES..])
    }

    /// Puts heads before the bytes that were put into [`Output::room`].
    pub(super) fn commit(&mut self, request: u32, part: &Part, source: Source, length: usize) {
        let head = item_heads(request, part, part.offset, source, length);
        self.buffer[self.used..self.used + HEAD_BYTES].copy_from_slice(&head);
        self.used += HEAD_BYTES + length;
    }

    /// Puts heads before the bytes for another node that were put into [`Output::room`].
    pub(super) fn commit_part(&mut self, request: u32, part: &PartHead, length: usize) {
        let head = ReplyHead::new(Kind::Part, request, PartHead::BYTES + length);
        let heads = &mut self.buffer[self.used..self.used + HEAD_BYTES];
        heads[..ReplyHead::BYTES].copy_from_slice(&head.encode());
        heads[ReplyHead::BYTES..].copy_from_slice(&part.encode());
        self.used += HEAD_BYTES + length;
    }

    /// Appends a frame, sending what is before it if there is no room. One that is longer than the buffer is sent from where it is.
    pub(super) fn frame(&mut self, socket: &mut Line, head: &ReplyHead, body: &[&[u8]]) -> io::Result<()> {
        let length = ReplyHead::BYTES + body.iter().map(|part| part.len()).sum::<usize>();
        self.buffer.resize(BUFFER_BYTES, 0);
        if self.used + length > BUFFER_BYTES {
            self.flush(socket)?;
        }
        let head = head.encode();
        let parts = std::iter::once(&head[..]).chain(body.iter().copied());
        if length > BUFFER_BYTES {
            return socket.send_all(&mut parts.map(IoSlice::new).collect::<Vec<_>>(), self.limit);
        }
        for part in parts {
            self.buffer[self.used..self.used + part.len()].copy_from_slice(part);
            self.used += part.len();
        }
        Ok(())
    }

    /// Appends an item that failed.
    pub(super) fn failed(&mut self, socket: &mut Line, request: u32, part: &Part, error: &Error) -> io::Result<()> {
        let text = text_of(error);
        let Wanted { asked, served, delivery } = part.wanted;
        let head = ItemHead { label: 0, delivery, asked, served, size: 0 }.encode();
        let reply = ReplyHead {
            status: wire::code(error),
            index: part.index,
            ..ReplyHead::new(Kind::Item, request, head.len() + text.len())
        };
        self.frame(socket, &reply, &[&head, text.as_bytes()])
    }

    /// Appends bytes of an item that came in segments, from the part's offset on. What is small is copied into the buffer,
    /// the rest is sent from where it is.
    pub(super) fn segments(
        &mut self,
        socket: &mut Line,
        request: u32,
        part: &Part,
        source: Source,
        segments: &[Bytes],
    ) -> io::Result<()> {
        let mut slices: Vec<&[u8]> = segments.iter().map(|segment| &segment[..]).collect();
        slices.reverse();
        let (mut offset, end) = (part.offset, part.offset + slices.iter().map(|slice| slice.len() as u64).sum::<u64>());
        loop {
            let length = (end - offset).min(PART_BYTES as u64) as usize;
            let taken = take(&mut slices, length);
            let head = item_heads(request, part, offset, source, length);
            let room = self.room(socket)?;
            if length < LARGE_BYTES && length <= room.len() {
                let mut at = 0;
                for slice in &taken {
                    room[at..at + slice.len()].copy_from_slice(slice);
                    at += slice.len();
                }
                self.buffer[self.used..self.used + HEAD_BYTES].copy_from_slice(&head);
                self.used += HEAD_BYTES + length;
            } else {
                let before = [&self.buffer[..self.used], &head];
                let mut parts: Vec<_> = before.iter().chain(&taken).map(|slice| IoSlice::new(slice)).collect();
                socket.send_all(&mut parts, self.limit)?;
                self.used = 0;
            }
            offset += length as u64;
            if offset >= end {
                return Ok(());
            }
        }
    }

    /// Sends everything.
    pub(super) fn flush(&mut self, socket: &mut Line) -> io::Result<()> {
        let used = std::mem::take(&mut self.used);
        socket.send_all(&mut [IoSlice::new(&self.buffer[..used])], self.limit)
    }
}

/// The heads of a part of an item that begins at `offset`.
fn item_heads(request: u32, part: &Part, offset: u64, source: Source, length: usize) -> [u8; HEAD_BYTES] {
    let Wanted { asked, served, delivery } = part.wanted;
    let item = ItemHead { label: part.label.unwrap_or(0), delivery, asked, served, size: part.size };
    let more = offset + (length as u64) < part.size;
    let flags = Flags { label: part.label.is_some(), more, descriptor: false };
    let reply = ReplyHead {
        source: wire::source(source),
        flags,
        index: part.index,
        ..ReplyHead::new(Kind::Item, request, ItemHead::BYTES + length)
    };
    let mut heads = [0; HEAD_BYTES];
    heads[..ReplyHead::BYTES].copy_from_slice(&reply.encode());
    heads[ReplyHead::BYTES..].copy_from_slice(&item.encode());
    heads
}

/// Takes `length` bytes from slices that stand in reverse order.
fn take<'a>(slices: &mut Vec<&'a [u8]>, mut length: usize) -> Vec<&'a [u8]> {
    let mut taken = Vec::new();
    while length > 0 {
        let slice = slices.pop().expect("as many bytes as were counted");
        let (front, back) = slice.split_at(slice.len().min(length));
        length -= front.len();
        taken.push(front);
        if !back.is_empty() {
            slices.push(back);
        }
    }
    taken
}

/// An error's text, cut where it would be too long for a frame.
pub(super) fn text_of(error: &Error) -> String {
    let mut text = error.to_string();
    text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES));
    text
}

/// The head of an error that answers a request as a whole, or ends the connection if `request` is 0.
pub(super) fn error_head(request: u32, code: v1::ErrorCode, text: &str) -> ReplyHead {
    ReplyHead { status: code, ..ReplyHead::new(Kind::Error, request, text.len()) }
}
