//! The answers that come in parts: listings, reads, items. Each waits for its next message no longer than the
//! client's timeout, and gives whole things to the caller.

use super::Peer;
use crate::{Delivery, Error, Result, Source, v1};
use bytes::{Bytes, BytesMut};
use std::{sync::Arc, vec};
use tonic::Streaming;

/// The largest item put together from its parts; above it, read it as a stream.
const MAX_ITEM_BYTES: u64 = 2 << 30;

/// The messages of one call.
#[derive(Debug)]
pub(super) struct Messages<T> {
    stream: Streaming<T>,
    peer: Arc<Peer>,
}

impl<T> Messages<T> {
    pub(super) fn new(stream: Streaming<T>, peer: Arc<Peer>) -> Self {
        Self { stream, peer }
    }

    /// The next message; None at the end.
    pub(super) async fn next(&mut self) -> Result<Option<T>> {
        self.peer.patiently(self.stream.message()).await?.map_err(|status| self.peer.error(status))
    }
}

/// The objects of a listing.
#[derive(Debug)]
pub struct ObjectStream {
    pages: Messages<v1::ListPage>,
    page: vec::IntoIter<v1::ObjectEntry>,
}

impl ObjectStream {
    pub(super) fn new(stream: Streaming<v1::ListPage>, peer: Arc<Peer>) -> Self {
        Self { pages: Messages { stream, peer }, page: Vec::new().into_iter() }
    }

    /// The next object; None at the end.
    pub async fn next(&mut self) -> Result<Option<v1::ObjectEntry>> {
        loop {
            if let Some(object) = self.page.next() {
                return Ok(Some(object));
            }
            match self.pages.next().await? {
                Some(page) => self.page = page.objects.into_iter(),
                None => return Ok(None),
            }
        }
    }
}

/// What is known of items, in pages.
#[derive(Debug)]
pub struct ItemsStream(Messages<v1::ItemsPage>);

impl ItemsStream {
    pub(super) fn new(stream: Streaming<v1::ItemsPage>, peer: Arc<Peer>) -> Self {
        Self(Messages { stream, peer })
    }

    /// The next page; None at the end.
    pub async fn next(&mut self) -> Result<Option<v1::ItemsPage>> {
        self.0.next().await
    }
}

/// The bytes of a read, in order.
#[derive(Debug)]
pub struct ReadStream {
    chunks: Messages<v1::ReadChunk>,
    head: v1::ReadHead,
    first: Option<v1::ReadChunk>,
    left: u64,
}

impl ReadStream {
    pub(super) async fn open(stream: Streaming<v1::ReadChunk>, peer: Arc<Peer>) -> Result<Self> {
        let mut chunks = Messages { stream, peer };
        let mut first = chunks.next().await?;
        let head = first.as_mut().and_then(|chunk| chunk.head.take());
        let head = head.ok_or_else(|| Error::Internal("the node sent data without saying of which item".into()))?;
        Ok(Self { left: head.length, chunks, head, first })
    }

    /// What is being read.
    pub fn head(&self) -> &v1::ReadHead {
        &self.head
    }

    /// The next bytes, and where they came from; None at the end. An answer that ends early is an error.
    pub async fn next(&mut self) -> Result<Option<(Bytes, Source)>> {
        loop {
            let chunk = match self.first.take() {
                Some(first) => Some(first),
                None => self.chunks.next().await?,
            };
            let Some(chunk) = chunk else { break };
            let source = chunk.source();
            self.left = self.left.checked_sub(chunk.data.len() as u64).ok_or_else(too_long)?;
            if !chunk.data.is_empty() {
                return Ok(Some((chunk.data, source)));
            }
        }
        if self.left > 0 {
            return Err(Error::Unavailable(format!("the reply of the node ended {} bytes early", self.left)));
        }
        Ok(None)
    }

    /// All of the bytes in one piece.
    pub async fn bytes(mut self) -> Result<Bytes> {
        let Some((first, _)) = self.next().await? else { return Ok(Bytes::new()) };
        if self.left == 0 {
            return self.next().await.map(|_| first);
        }
        let mut all = BytesMut::from(&first[..]);
        while let Some((chunk, _)) = self.next().await? {
            all.extend_from_slice(&chunk);
        }
        Ok(all.freeze())
    }
}

fn too_long() -> Error {
    Error::Internal("the node sent more bytes than it announced".into())
}

/// An item as it came, or why it did not.
#[derive(Debug, Clone)]
pub struct Item {
    /// The id that was asked for.
    pub asked: u64,
    /// The id of the item that these bytes are.
    pub served: u64,
    /// Its class, where the layout has classes.
    pub label: Option<u32>,
    /// How it relates to the plan of the job that asked.
    pub delivery: Delivery,
    /// Where the bytes came from.
    pub source: Source,
    /// The bytes. One item's failure is not the others'.
    pub data: Result<Bytes>,
}

/// Items in the order they were asked for.
#[derive(Debug)]
pub struct ItemStream {
    batches: Messages<v1::ItemBatch>,
    snapshot: String,
    batch: vec::IntoIter<v1::Item>,
}

impl ItemStream {
    pub(super) fn new(stream: Streaming<v1::ItemBatch>, peer: Arc<Peer>) -> Self {
        Self { batches: Messages { stream, peer }, snapshot: String::new(), batch: Vec::new().into_iter() }
    }

    /// The snapshot the items belong to; known once the first has come.
    pub fn snapshot(&self) -> &str {
        &self.snapshot
    }

    /// The next item; None at the end.
    pub async fn next(&mut self) -> Result<Option<Item>> {
        let Some(mut part) = self.next_part().await? else { return Ok(None) };
        let mut whole = BytesMut::new();
        loop {
            if part.error.is_some() || (part.offset == 0 && part.data.len() as u64 == part.size_bytes) {
                return Ok(Some(finish(part)));
            }
            if part.size_bytes > MAX_ITEM_BYTES {
                let (id, size) = (part.asked, part.size_bytes);
                return Err(Error::Invalid(format!(
                    "item {id} has {size} bytes, which is too large for a batch: read it by itself"
                )));
            }
            if part.offset != whole.len() as u64 || part.offset + part.data.len() as u64 > part.size_bytes {
                return Err(too_long());
            }
            whole.extend_from_slice(&part.data);
            if whole.len() as u64 == part.size_bytes {
                part.data = whole.freeze();
                return Ok(Some(finish(part)));
            }
            let asked = part.asked;
            let next = self.next_part().await?;
            part = next.filter(|next| next.asked == asked).ok_or_else(|| {
                Error::Unavailable(format!("the reply of the node ended in the middle of item {asked}"))
            })?;
        }
    }

    async fn next_part(&mut self) -> Result<Option<v1::Item>> {
        loop {
            if let Some(item) = self.batch.next() {
                return Ok(Some(item));
            }
            match self.batches.next().await? {
                Some(batch) => {
                    self.snapshot = batch.snapshot;
                    self.batch = batch.items.into_iter();
                }
                None => return Ok(None),
            }
        }
    }
}

fn finish(part: v1::Item) -> Item {
    let (source, delivery) = (part.source(), part.delivery());
    let v1::Item { asked, served, label, data, error, .. } = part;
    let data = match error {
        Some(error) => Err(Error::from_code(error.code(), error.message)),
        None => Ok(data),
    };
    Item { asked, served, label, delivery, source, data }
}
