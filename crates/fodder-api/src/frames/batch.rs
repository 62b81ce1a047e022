//! Where the items of one answer land: one buffer, used again for every batch, in which items are slices.
//!
//! Bytes are received straight behind each other, heads and all, in as few calls as the kernel allows; nothing is
//! allocated or copied for an item. Of an item that comes in several frames the heads between them are received by
//! themselves and overwritten by what follows. The buffer grows by what has arrived, never by what a length announces.

use super::{BatchHead, ItemHead, Kind, ReplyHead};
use crate::{Delivery, Error, Result, Source, v1::ErrorCode};
use std::{io::Read, ops::Range};

/// Free room that is kept for the next receive.
const ROOM_BYTES: usize = 256 << 10;

/// The most one answer may have, unless told otherwise.
const MAX_BYTES: usize = 2 << 30;

/// Memory that answers are received into: a vector, or what another language calls its own.
pub trait Room: AsRef<[u8]> + AsMut<[u8]> {
    /// Makes it this long. What is in it stays; what is new is initialised.
    fn grow(&mut self, length: usize) -> Result<()>;
}

impl Room for Vec<u8> {
    fn grow(&mut self, length: usize) -> Result<()> {
        self.resize(length, 0);
        Ok(())
    }
}

/// The items of one answer, in the order asked.
#[derive(Debug)]
pub struct Batch<R = Vec<u8>> {
    /// Always initialised to its full length, so that receiving needs no clearing.
    buffer: R,
    filled: usize,
    entries: Vec<Entry>,
    max_bytes: usize,
}

#[derive(Debug)]
struct Entry {
    head: ItemHead,
    label: Option<u32>,
    source: Source,
    status: ErrorCode,
    range: Range<usize>,
}

/// One item of a batch.
#[derive(Debug, Clone)]
pub struct BatchItem<'a> {
    /// The id that was asked for; [`super::NO_ITEM`] for an object by its path.
    pub asked: u64,
    /// The id of the item that these bytes are.
    pub served: u64,
    /// Its class, where the layout has classes.
    pub label: Option<u32>,
    /// How it relates to the plan of the job that asked.
    pub delivery: Delivery,
    /// Where the bytes came from.
    pub source: Source,
    /// The bytes, in the batch's buffer. One item's failure is not the others'.
    pub data: Result<&'a [u8]>,
}

impl Default for Batch {
    fn default() -> Self {
        Self::with_limit(MAX_BYTES)
    }
}

impl Batch {
    /// An empty batch that grows as needed.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty batch that grows to at most `max_bytes`; a larger answer is an error.
    pub fn with_limit(max_bytes: usize) -> Self {
        Self { max_bytes, ..Self::with_room(Vec::new()) }
    }
}

impl<R: Room> Batch<R> {
    /// An empty batch in memory of the caller's.
    pub fn with_room(room: R) -> Self {
        Self { buffer: room, filled: 0, entries: Vec::new(), max_bytes: MAX_BYTES }
    }

    /// The memory, with all items in it.
    pub fn into_room(self) -> R {
        self.buffer
    }

    /// Where the item at a place in the request lies in the memory.
    pub fn range(&self, index: usize) -> Option<Range<usize>> {
        self.entries.get(index).map(|entry| entry.range.clone())
    }

    /// How many items it holds.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The item at a place in the request.
    pub fn get(&self, index: usize) -> Option<BatchItem<'_>> {
        let Entry { head, label, source, status, range } = self.entries.get(index)?;
        let bytes = &self.buffer.as_ref()[range.clone()];
        let data = match status {
            ErrorCode::Unspecified => Ok(bytes),
            code => Err(Error::from_code(*code, String::from_utf8_lossy(bytes).into_owned())),
        };
        let ItemHead { asked, served, delivery, .. } = *head;
        Some(BatchItem { asked, served, label: *label, delivery, source: *source, data })
    }

    /// The items, in the order asked.
    pub fn iter(&self) -> impl Iterator<Item = BatchItem<'_>> {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    /// Bytes of memory it holds on to.
    pub fn capacity_bytes(&self) -> usize {
        self.buffer.as_ref().len()
    }

    /// Receives the answer to a request for `count` items; None: the node says first how many. An error for the request
    /// as a whole leaves the connection usable (`Ok(Err(_))`); anything else that goes wrong does not. Whether it was the
    /// last on this connection, because the node closes.
    /// `begun` are the first bytes of the answer, if somebody has received them.
    pub(super) fn receive(
        &mut self,
        begun: &[u8],
        node: &mut impl Read,
        request: u32,
        mut count: Option<usize>,
    ) -> Result<Result<bool>> {
        self.entries.clear();
        self.filled = 0;
        if !begun.is_empty() {
            self.make_room()?;
            let small = || Error::Full(format!("a batch of {} bytes has no room for an answer", self.max_bytes));
            let room = self.buffer.as_mut().get_mut(..begun.len()).ok_or_else(small)?;
            room.copy_from_slice(begun);
            self.filled = begun.len();
        }
        let (mut parsed, mut open) = (0, false);
        while open || count.is_none_or(|count| self.entries.len() < count) {
            if open {
                (parsed, open) = self.rest(node, request, parsed)?;
                if !open {
                    continue;
                }
            }
            let frame = self.frame(node, parsed)?;
            let body = parsed + ReplyHead::BYTES..parsed + ReplyHead::BYTES + frame.body_bytes as usize;
            parsed = body.end;
            match frame.kind {
                Kind::Item if frame.request == request && count.is_some() => open = self.accept(&frame, body, open)?,
                Kind::Batch if frame.request == request && count.is_none() => count = Some(self.announced(body)),
                Kind::Error if frame.request == request || frame.request == 0 => {
                    let text = String::from_utf8_lossy(&self.buffer.as_ref()[body]).into_owned();
                    let error = Error::from_code(frame.status, text);
                    self.entries.clear();
                    return if frame.request == 0 { Err(error) } else { Ok(Err(error)) };
                }
                _ => return Err(strange()),
            }
        }
        let surplus = &self.buffer.as_ref()[parsed..self.filled];
        if let Some(head) = surplus.first_chunk() {
            let are_last_words = |head: ReplyHead| head.kind == Kind::Error && head.request == 0;
            if !ReplyHead::decode(head).is_ok_and(are_last_words) {
                return Err(strange());
            }
        }
        Ok(Ok(!surplus.is_empty()))
    }

    /// How many items a BATCH says will follow.
    fn announced(&self, body: Range<usize>) -> usize {
        let head = self.buffer.as_ref()[body][..BatchHead::BYTES].try_into().expect("a head's bytes");
        BatchHead::decode(head).items as usize
    }

    /// Takes in a frame whose body lies in the buffer; true if the item goes on in the next.
    fn accept(&mut self, frame: &ReplyHead, body: Range<usize>, open: bool) -> Result<bool> {
        let head = self.buffer.as_ref()[body.start..body.start + ItemHead::BYTES].try_into().expect("a head's bytes");
        let head = ItemHead::decode(head);
        let data = body.start + ItemHead::BYTES..body.end;
        let index = self.entries.len() - usize::from(open);
        if frame.index as usize != index {
            return Err(strange());
        }
        let failed = frame.status != ErrorCode::Unspecified;
        if open && !failed {
            let end = self.entries.last().expect("an open item is in the list").range.end;
            self.buffer.as_mut().copy_within(data.clone(), end);
            return self.longer(frame, data.len());
        }
        if open {
            self.entries.pop();
        }
        let label = frame.flags.label.then_some(head.label);
        let (source, status) = (frame.source, frame.status);
        self.entries.push(Entry { head, label, source, status, range: data });
        if failed { Ok(false) } else { self.longer(frame, 0) }
    }

    /// So many bytes of a frame are behind those of the last item; true if it goes on in the next.
    fn longer(&mut self, frame: &ReplyHead, bytes: usize) -> Result<bool> {
        let entry = self.entries.last_mut().expect("the item is in the list");
        entry.range.end += bytes;
        entry.source = std::cmp::max_by_key(entry.source, frame.source, |source| slowness(*source));
        let (have, size) = (entry.range.len() as u64, entry.head.size);
        if have > size || (have < size) != frame.flags.more {
            return Err(Error::Internal(format!("the node sent {have} bytes of an item with {size}")));
        }
        Ok(frame.flags.more)
    }

    /// Receives the frames that continue the last item, each one's bytes over its heads. Ends behind the item, or where the
    /// buffer has something else or may get it; whether the item is still to go on.
    fn rest(&mut self, node: &mut impl Read, request: u32, mut parsed: usize) -> Result<(usize, bool)> {
        const HEADS_BYTES: usize = ReplyHead::BYTES + ItemHead::BYTES;
        while self.filled == parsed {
            let (index, at) = (self.entries.len() - 1, self.range(self.entries.len() - 1).map_or(0, |item| item.end));
            (parsed, self.filled) = (at, at);
            self.fill(node, at + ReplyHead::BYTES, at + HEADS_BYTES)?;
            let frame = self.head(at)?;
            let is_plain = frame.kind == Kind::Item && frame.request == request && frame.index as usize == index;
            if !is_plain || frame.status != ErrorCode::Unspecified {
                break;
            }
            self.fill(node, at + HEADS_BYTES, at + HEADS_BYTES)?;
            let bytes = frame.body_bytes as usize - ItemHead::BYTES;
            self.filled = at;
            self.fill(node, at + bytes, at + bytes)?;
            parsed = self.filled;
            if !self.longer(&frame, bytes)? {
                return Ok((parsed, false));
            }
        }
        Ok((parsed, true))
    }

    /// The frame that begins at `at`, once all of it is in the buffer.
    fn frame(&mut self, node: &mut impl Read, at: usize) -> Result<ReplyHead> {
        // What comes first may be of an item that goes on.
        let most = if at == 0 { ROOM_BYTES } else { usize::MAX };
        self.fill(node, at + ReplyHead::BYTES, most)?;
        let head = self.head(at)?;
        let end = at + ReplyHead::BYTES + head.body_bytes as usize;
        self.fill(node, end, if head.flags.more { end } else { usize::MAX })?;
        Ok(head)
    }

    /// The head that lies at `at`.
    fn head(&self, at: usize) -> Result<ReplyHead> {
        let head = self.buffer.as_ref()[at..at + ReplyHead::BYTES].try_into().expect("a head's bytes");
        ReplyHead::decode(head).map_err(|bad| Error::Internal(format!("the node sent {bad}")))
    }

    /// Receives until the buffer is filled up to `until`, and in no case beyond `most`.
    fn fill(&mut self, node: &mut impl Read, until: usize, most: usize) -> Result<()> {
        while self.filled < until {
            self.make_room()?;
            let most = most.min(self.buffer.as_ref().len());
            let received = node.read(&mut self.buffer.as_mut()[self.filled..most]).map_err(super::client::lost)?;
            if received == 0 {
                return Err(super::client::ended());
            }
            self.filled += received;
        }
        Ok(())
    }

    /// Room for some more bytes than there are.
    fn make_room(&mut self) -> Result<()> {
        let have = self.buffer.as_ref().len();
        if have - self.filled < ROOM_BYTES {
            let length = (have * 2).max(4 * ROOM_BYTES).min(self.max_bytes);
            if length <= self.filled {
                let most = self.max_bytes;
                return Err(Error::Full(format!("the answer has more than {most} bytes: ask for fewer items")));
            }
            // A buffer that was used before may be longer than this batch may become.
            if length > have {
                self.buffer.grow(length)?;
            }
        }
        Ok(())
    }
}

/// Of several sources the slowest is named.
fn slowness(source: Source) -> u8 {
    match source {
        Source::Unspecified => 0,
        Source::TierMem => 1,
        Source::TierSsd => 2,
        Source::TierHdd => 3,
        Source::Prefetched => 4,
        Source::Substituted => 5,
        Source::Joined => 6,
        Source::Peer => 7,
        Source::Origin => 8,
        Source::Bypass => 9,
    }
}

fn strange() -> Error {
    Error::Internal("the node sent an unexpected reply".into())
}

#[cfg(test)]
mod tests;
