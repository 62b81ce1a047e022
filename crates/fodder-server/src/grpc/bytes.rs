//! Reads and items as streams of messages, each made when the client has taken the one before: nothing queues.

use super::convert::refuse;
use crate::{
    items::{Arrived, Items, Part, Wanted, Warm},
    place::Place,
    wire,
};
use bytes::Bytes;
use fodder_api::v1;
use fodder_core::{
    Dataset, Error,
    catalog::Snapshot,
    engine::{Reply, Source},
};
use futures::{
    FutureExt, StreamExt,
    stream::{self, Stream},
};
use std::{
    collections::VecDeque,
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
};
use tonic::Status;

/// The most bytes of one item, or of one read, in a message.
pub(super) const PART_BYTES: usize = 256 << 10;

/// What a read answers with before its bytes.
pub(super) fn head(dataset: &Dataset, snapshot: &Snapshot, place: &Place, range: &Range<u64>) -> v1::ReadHead {
    let objects = dataset.objects();
    v1::ReadHead {
        snapshot: snapshot.id().to_string(),
        path: objects.path(place.object),
        version: objects.version(place.object).to_string(),
        length: range.end - range.start,
        size_bytes: place.size(),
        asked: place.item,
        served: place.item,
        label: place.label,
    }
}

/// The bytes of a read. What is warm and small comes at once; the rest as the engine streams it.
pub(super) fn chunks(
    dataset: Arc<Dataset>,
    place: &Place,
    range: Range<u64>,
    head: v1::ReadHead,
) -> impl Stream<Item = Result<v1::ReadChunk, Status>> + use<> {
    let length = range.end - range.start;
    let mut warm = Vec::new();
    let mut source = None;
    if length <= PART_BYTES as u64 {
        warm.resize(length as usize, 0);
        source = dataset.try_read(place.object, range.start, &mut warm);
    }
    let pattern = place.notice(&dataset, &range, 0, source.is_none());
    let (first, rest) = match source {
        Some(source) => (chunk(warm.into(), source), stream::empty().left_stream()),
        None => {
            let replies = dataset.read_stream_as(place.object, range, pattern);
            (v1::ReadChunk::default(), replies.flat_map(reply_chunks).right_stream())
        }
    };
    stream::once(async move { Ok(v1::ReadChunk { head: Some(head), ..first }) }).chain(rest)
}

fn chunk(data: Bytes, source: Source) -> v1::ReadChunk {
    v1::ReadChunk { head: None, source: wire::source(source).into(), data }
}

fn reply_chunks(reply: Result<Reply, Error>) -> impl Stream<Item = Result<v1::ReadChunk, Status>> {
    stream::iter(match reply {
        Err(error) => vec![Err(refuse(error))],
        Ok(Reply { segments, source }) => {
            segments.into_iter().flat_map(split).map(|data| Ok(chunk(data, source))).collect()
        }
    })
}

/// A segment in parts that fit a message, sharing its memory.
fn split(mut segment: Bytes) -> impl Iterator<Item = Bytes> {
    std::iter::from_fn(move || {
        let length = segment.len().min(PART_BYTES);
        (length > 0).then(|| segment.split_to(length))
    })
}

/// Items in batches of about [`PART_BYTES`].
pub(super) fn batches(items: Items, snapshot: String) -> impl Stream<Item = Result<v1::ItemBatch, Status>> {
    let batcher = Batcher { items, waiting: VecDeque::new(), buffers: Buffers::default() };
    stream::unfold(batcher, move |mut batcher| {
        let snapshot = snapshot.clone();
        async move {
            let items = batcher.next().await;
            (!items.is_empty()).then(|| (Ok(v1::ItemBatch { snapshot, items }), batcher))
        }
    })
}

struct Batcher {
    items: Items,
    /// What arrived and did not fit the batch before.
    waiting: VecDeque<v1::Item>,
    buffers: Buffers,
}

impl Batcher {
    /// The next batch; empty at the end.
    async fn next(&mut self) -> Vec<v1::Item> {
        let mut batch = Vec::new();
        let mut bytes = 0;
        while bytes < PART_BYTES {
            if let Some(item) = self.waiting.pop_front() {
                bytes += item.data.len();
                batch.push(item);
                continue;
            }
            // What is ready goes out before anything is waited for.
            let arrived = if batch.is_empty() {
                self.items.cold().await
            } else {
                match self.items.cold().now_or_never() {
                    Some(arrived) => arrived,
                    None => break,
                }
            };
            match arrived {
                Some(arrived) => self.waiting.extend(parts(arrived)),
                None => match self.warm(&mut batch, PART_BYTES - bytes) {
                    Some(length) => bytes += length,
                    None => break,
                },
            }
        }
        batch
    }

    /// Appends what is warm to the batch, up to `room` bytes of it (but at least one item). How many bytes; None if
    /// the batch is to be sent.
    fn warm(&mut self, batch: &mut Vec<v1::Item>, room: usize) -> Option<usize> {
        let room = if batch.is_empty() { PART_BYTES } else { room };
        let mut buffer = self.buffers.take();
        let (mut found, mut used) = (Vec::new(), 0);
        let end = loop {
            match self.items.warm(&mut buffer[used..room]) {
                Warm::Hit(part, length, source) => {
                    found.push((item(&part, source), used..used + length));
                    used += length;
                }
                Warm::Failed(part, error) => found.push((failed(&part, &error), 0..0)),
                Warm::Cold => break false,
                Warm::NoRoom | Warm::End => break true,
            }
        };
        let bytes = self.buffers.share(buffer);
        batch.extend(found.into_iter().map(|(item, range)| v1::Item { data: bytes.slice(range), ..item }));
        (!end).then_some(used)
    }
}

fn parts(arrived: Arrived) -> Vec<v1::Item> {
    let Arrived { part, reply } = arrived;
    match reply {
        Err(error) => vec![failed(&part, &error)],
        Ok(Reply { segments, source }) => {
            let mut offset = part.offset;
            let mut parts: Vec<_> = segments
                .into_iter()
                .flat_map(split)
                .map(|data| {
                    let here = offset;
                    offset += data.len() as u64;
                    v1::Item { data, offset: here, ..item(&part, source) }
                })
                .collect();
            if parts.is_empty() {
                parts.push(item(&part, source));
            }
            parts
        }
    }
}

fn item(part: &Part, source: Source) -> v1::Item {
    let Part { label, size: size_bytes, offset, .. } = *part;
    let source = wire::source(source).into();
    v1::Item { label, source, size_bytes, offset, ..bare(part) }
}

fn failed(part: &Part, error: &Error) -> v1::Item {
    let error = v1::ItemError { code: wire::code(error).into(), message: error.to_string() };
    v1::Item { error: Some(error), ..bare(part) }
}

/// What is known of an item before it was read.
fn bare(part: &Part) -> v1::Item {
    let Wanted { asked, served, delivery } = part.wanted;
    v1::Item { asked, served, delivery: delivery.into(), ..Default::default() }
}

/// Buffers of one stream that come back once their message is sent, since fresh memory costs more than the copy.
#[derive(Default)]
struct Buffers {
    home: Arc<Mutex<Vec<Vec<u8>>>>,
}

struct Loan {
    buffer: Vec<u8>,
    home: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Buffers {
    fn take(&self) -> Vec<u8> {
        let kept = self.home.lock().unwrap_or_else(PoisonError::into_inner).pop();
        kept.unwrap_or_else(|| vec![0; PART_BYTES])
    }

    fn share(&self, buffer: Vec<u8>) -> Bytes {
        Bytes::from_owner(Loan { buffer, home: Arc::clone(&self.home) })
    }
}

impl AsRef<[u8]> for Loan {
    fn as_ref(&self) -> &[u8] {
        &self.buffer
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        let buffer = std::mem::take(&mut self.buffer);
        self.home.lock().unwrap_or_else(PoisonError::into_inner).push(buffer);
    }
}
