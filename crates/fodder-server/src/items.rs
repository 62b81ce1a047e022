//! Items in the order asked: the part of reading many items that the doors have in common.
//!
//! What is warm is read at once, on the calling thread, into the door's own buffer. At the first item that is not,
//! reads of it and of those behind it are sent off, a bounded number at a time, and their answers taken in order;
//! after a run of hits the walk goes on on the calling thread. A large item is walked in parts.
//!
//! Memory: answers wait for their turn inside the engine's budget. The engine gives permits in the order in which
//! reads begin, and reads begin here in the order in which answers are taken, so that the read which is due never
//! waits for memory that those behind it hold; a stream, which needs more permits as it goes, flies alone.
//! What must not be here: wire formats.

use crate::place::Place;
use fodder_api::Delivery;
use fodder_core::{
    Dataset, Error, Result,
    catalog::Snapshot,
    engine::{Convoy, Reader, Reply, Source},
};
use fodder_policy::serving::Served;
use futures::{
    FutureExt, StreamExt,
    future::BoxFuture,
    stream::{BoxStream, FuturesOrdered},
};
use std::{future::poll_fn, sync::Arc};

/// Reads under way at a time: when fewer than the first are, so many more are sent off that it is the second. So several go
/// together, and a peer is asked for them at once.
const FLIGHTS: (usize, usize) = (64, 96);

/// Bytes under way at a time, in the same way.
const FLIGHT_BYTES: (u64, u64) = (14 << 20, 16 << 20);

/// Items of more bytes come in several parts.
const LARGE_BYTES: u64 = 1 << 20;

/// After so many hits in a row, items are tried on the calling thread again.
const WARM_RUN: u32 = 16;

/// An item to be sent, and what it is sent for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) asked: u64,
    pub(crate) served: u64,
    pub(crate) delivery: Delivery,
}

impl From<u64> for Wanted {
    /// An item that was asked for by its id.
    fn from(id: u64) -> Self {
        Self { asked: id, served: id, delivery: Delivery::Unspecified }
    }
}

impl From<Served> for Wanted {
    /// What a job is answered with.
    fn from(Served { asked, served, kind }: Served) -> Self {
        Self { asked: asked.into(), served: served.into(), delivery: kind.into() }
    }
}

/// An item, and where in it the walk stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    /// The place in the answer.
    pub(crate) index: u32,
    pub(crate) wanted: Wanted,
    pub(crate) label: Option<u32>,
    /// Bytes of the whole item.
    pub(crate) size: u64,
    /// Where this part begins in it.
    pub(crate) offset: u64,
}

/// What came of trying the next part on the calling thread.
#[derive(Debug)]
pub(crate) enum Warm {
    /// Its bytes are at the front of the buffer.
    Hit(Part, usize, Source),
    /// The buffer is too small for it.
    NoRoom,
    /// There is no such item.
    Failed(Part, Error),
    /// It must be waited for: ask [`Items::cold`].
    Cold,
    /// There are no more.
    End,
}

/// A part that was waited for.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) part: Part,
    /// The bytes from the part's offset on, as many as there are; or why the item failed.
    pub(crate) reply: Result<Reply>,
}

/// A walk over the items of a request.
pub(crate) struct Items {
    dataset: Arc<Dataset>,
    snapshot: Arc<Snapshot>,
    list: Vec<Wanted>,
    /// The item that is walked or sent off next.
    next: usize,
    /// Where in it.
    offset: u64,
    max_part: usize,
    flights: FuturesOrdered<BoxFuture<'static, Arrived>>,
    flight_bytes: u64,
    stream: Option<(Part, BoxStream<'static, Result<Reply>>)>,
    /// Who waits for them.
    reader: Arc<Reader>,
    /// What is sent off together.
    convoy: Arc<Convoy>,
    /// An item was not warm: it and those behind it are sent off.
    due: bool,
    /// Hits in a row among those sent off.
    warm_run: u32,
}

impl Items {
    /// A walk over a list; parts read on the calling thread have at most `max_part` bytes.
    pub(crate) fn new(dataset: Arc<Dataset>, snapshot: Arc<Snapshot>, list: Vec<Wanted>, max_part: usize) -> Self {
        Self {
            dataset,
            snapshot,
            list,
            next: 0,
            offset: 0,
            max_part,
            flights: FuturesOrdered::new(),
            flight_bytes: 0,
            stream: None,
            reader: Arc::default(),
            convoy: Arc::default(),
            due: false,
            warm_run: 0,
        }
    }

    /// The list, to be used again.
    pub(crate) fn into_list(self) -> Vec<Wanted> {
        self.list
    }

    /// Tries the next part without waiting.
    pub(crate) fn warm(&mut self, buffer: &mut [u8]) -> Warm {
        if self.stream.is_some() || !self.flights.is_empty() {
            return Warm::Cold;
        }
        let (part, place) = match self.look() {
            None => return Warm::End,
            Some(Err((part, error))) => {
                self.advance();
                return Warm::Failed(part, error);
            }
            Some(Ok(found)) => found,
        };
        let length = (part.size - part.offset).min(self.max_part as u64) as usize;
        let Some(buffer) = buffer.get_mut(..length) else { return Warm::NoRoom };
        match self.dataset.try_read(place.object, place.range.start + part.offset, buffer) {
            Some(source) => {
                self.offset += length as u64;
                if self.offset == part.size {
                    self.advance();
                }
                Warm::Hit(part, length, source)
            }
            None => {
                (self.due, self.warm_run) = (true, 0);
                Warm::Cold
            }
        }
    }

    /// Waits for the next part of those sent off; None when there are none, and [`Items::warm`] knows more. Dropping
    /// the future loses nothing.
    pub(crate) async fn cold(&mut self) -> Option<Arrived> {
        self.send_off();
        if self.stream.is_some() {
            return Some(self.next_of_stream().await);
        }
        let next = poll_fn(|context| {
            let next = self.flights.poll_next_unpin(context);
            self.dataset.depart(&self.convoy);
            next
        });
        let arrived = next.await?;
        self.flight_bytes -= arrived.part.size - arrived.part.offset;
        self.warm_run = match &arrived.reply {
            Ok(Reply { source: Source::Tier(_), .. }) => self.warm_run + 1,
            _ => 0,
        };
        self.due = self.warm_run < WARM_RUN;
        Some(arrived)
    }

    /// Sends reads off, as far as the bounds allow.
    fn send_off(&mut self) {
        if self.flights.len() >= FLIGHTS.0 || self.flight_bytes >= FLIGHT_BYTES.0 {
            return;
        }
        while self.due && self.stream.is_none() && self.flights.len() < FLIGHTS.1 {
            let (part, place) = match self.look() {
                None => return,
                Some(Err((part, error))) => {
                    // What is not there has no bytes to wait for.
                    let part = Part { offset: part.size, ..part };
                    self.flights.push_back(async move { Arrived { part, reply: Err(error) } }.boxed());
                    self.advance();
                    continue;
                }
                Some(Ok(found)) => found,
            };
            let length = part.size - part.offset;
            let range = place.range.start + part.offset..place.range.end;
            // The last one, if it is large, is sent on as it comes.
            let is_last = self.next + 1 == self.list.len();
            if length > Dataset::MAX_READ_BYTES || length > LARGE_BYTES && is_last && self.flights.is_empty() {
                if self.flights.is_empty() {
                    self.stream = Some((part, self.dataset.read_stream(place.object, range)));
                }
                return;
            }
            if !self.flights.is_empty() && self.flight_bytes + length > FLIGHT_BYTES.1 {
                return;
            }
            self.flight_bytes += length;
            let (dataset, reader) = (Arc::clone(&self.dataset), Arc::clone(&self.reader));
            let convoy = Arc::clone(&self.convoy);
            let read = async move { dataset.read_along(reader, convoy, place.object, range).await };
            self.flights.push_back(read.map(move |reply| Arrived { part, reply }).boxed());
            self.advance();
        }
    }

    async fn next_of_stream(&mut self) -> Arrived {
        let (part, stream) = self.stream.as_mut().expect("asked for only while there is a stream");
        let reply = match stream.next().await {
            Some(reply) => reply,
            None => Err(Error::Internal("a stream ended before the item did".into())),
        };
        let arrived = Arrived { part: *part, reply };
        let length = match &arrived.reply {
            Ok(reply) => reply.segments.iter().map(|segment| segment.len() as u64).sum(),
            Err(_) => part.size,
        };
        part.offset += length;
        if part.offset >= part.size {
            self.stream = None;
            self.advance();
        }
        arrived
    }

    /// The item that is next, and where the walk stands in it.
    #[allow(clippy::type_complexity, reason = "a lookup that says which part failed")]
    fn look(&self) -> Option<Result<(Part, Place), (Part, Error)>> {
        let wanted = *self.list.get(self.next)?;
        let part = Part { index: self.next as u32, wanted, label: None, size: 0, offset: self.offset };
        Some(match Place::of_item(&self.snapshot, wanted.served) {
            Ok(place) => Ok((Part { label: place.label, size: place.size(), ..part }, place)),
            Err(error) => Err((part, error)),
        })
    }

    fn advance(&mut self) {
        self.next += 1;
        self.offset = 0;
    }
}
