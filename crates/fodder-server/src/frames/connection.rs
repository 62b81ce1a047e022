//! One framed connection: reads requests, asks the engine, sends what comes back.
//!
//! Everything received is hostile until decoded: a frame that is wrong ends the connection with an error, a request
//! that is wrong is answered with one.

use super::{
    Door, Line,
    give::Acquaintance,
    inbox::Inbox,
    lease::{Fetch, Leases},
    output::{Output, PART_BYTES, error_head, text_of},
    view::Shown,
};
use crate::{
    items::{Arrived, Items, Part, Wanted, Warm},
    listener::Caller,
    place::Place,
    wire,
};
use fodder_api::{
    frames::{BadFrame, Hello, Ids, Kind, NO_ITEM, OpenedHead, ReplyHead, Request, RequestHead, TargetRef},
    v1::ErrorCode,
};
use fodder_core::{Dataset, Error, Result, catalog::Snapshot, engine::Reply, id::SnapshotId};
use futures::{FutureExt, StreamExt};
use std::{
    collections::HashMap,
    future::Future,
    io::{self, ErrorKind, IoSlice},
    net::Shutdown,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

/// Datasets a connection may have open.
const MAX_HANDLES: usize = 256;

/// Requests shorter than this are received in one go with room to spare; longer ones as their bytes arrive.
const STEP_BYTES: usize = 64 << 10;

/// How long the last words may take to be heard.
const LINGER: Duration = Duration::from_secs(1);

/// Why a connection ends.
pub(super) enum End {
    /// The client went, or was too slow.
    Gone,
    /// The client sent what is not a frame.
    Bad(BadFrame),
    /// The node closes.
    Closed,
}

impl From<io::Error> for End {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}

/// A dataset at a snapshot.
pub(super) type Open = (Arc<Dataset>, Arc<Snapshot>);

/// One connection and everything it holds.
pub(super) struct Connection {
    pub(super) door: Arc<Door>,
    pub(super) socket: Line,
    pub(super) caller: Caller,
    pub(super) output: Output,
    /// Of the frames, as agreed.
    pub(super) version: u16,
    opens: HashMap<u32, Open>,
    next_handle: u32,
    pub(super) leases: Leases,
    pub(super) shown: Option<Shown>,
    /// Who the other side is, if it is a node.
    pub(super) acquaintance: Acquaintance,
    /// What was received of requests that are not due yet.
    pub(super) inbox: Inbox,
    /// The body of the request, used again.
    body: Vec<u8>,
    /// The items of the answer, used again.
    list: Vec<Wanted>,
}

impl Connection {
    pub(super) fn new(door: Arc<Door>, socket: Line, caller: Caller) -> Self {
        Self {
            output: Output::new(door.stall),
            version: 0,
            door,
            socket,
            caller,
            opens: HashMap::new(),
            next_handle: 1,
            leases: Leases::default(),
            shown: None,
            acquaintance: Acquaintance::default(),
            inbox: Inbox::default(),
            body: Vec::new(),
            list: Vec::new(),
        }
    }

    /// Speaks until one side has enough.
    pub(super) fn run(mut self) {
        let (code, text) = match self.talk() {
            Ok(()) | Err(End::Gone) => return,
            Err(End::Bad(bad)) => (ErrorCode::Invalid, bad.to_string()),
            Err(End::Closed) => (ErrorCode::Closed, text_of(&Error::Closed)),
        };
        tracing::debug!(text, "a framed connection ends");
        // The client may be gone; then nobody hears it.
        let _ = self.last_words(code, &text);
    }

    /// Says why the connection ends. What the client still sends is taken first, since a connection that is closed
    /// over unread bytes is reset, and the words are lost.
    fn last_words(&mut self, code: ErrorCode, text: &str) -> io::Result<()> {
        self.output.frame(&mut self.socket, &error_head(0, code, text), &[text.as_bytes()])?;
        self.output.flush(&mut self.socket)?;
        self.socket.shutdown(Shutdown::Write);
        self.socket.socket().set_timeouts(Some(LINGER), Some(LINGER))?;
        let (started, mut sink) = (Instant::now(), [0; 4096]);
        while self.socket.receive(&mut sink)? > 0 && started.elapsed() < LINGER {}
        Ok(())
    }

    fn talk(&mut self) -> Result<(), End> {
        let mut hello = [0; Hello::BYTES];
        hello[..4].copy_from_slice(&fodder_api::frames::MAGIC);
        self.receive_exact(&mut hello[4..], Instant::now())?;
        let answer = Hello::decode(&hello).map_err(End::Bad)?.answer();
        self.socket.send_all(&mut [IoSlice::new(&answer.encode())], self.door.stall)?;
        if answer.version == 0 {
            return Err(End::Gone);
        }
        self.version = answer.version;
        while let Some(head) = self.next_head()? {
            let mut body = std::mem::take(&mut self.body);
            let outcome = self.one(head, &mut body);
            self.body = body;
            self.inbox.close_files();
            outcome?;
            self.output.flush(&mut self.socket)?;
            if self.door.draining.load(Ordering::SeqCst) {
                return Err(End::Closed);
            }
        }
        Ok(())
    }

    /// The head of the next request; None at the end. A connection may be idle as long as it likes, without memory.
    fn next_head(&mut self) -> Result<Option<RequestHead>, End> {
        let mut head = [0; RequestHead::BYTES];
        let received = loop {
            match self.inbox.take(&mut self.socket, &mut head) {
                Ok(0) if self.door.draining.load(Ordering::SeqCst) => return Err(End::Closed),
                Ok(0) => return Ok(None),
                Ok(received) => break received,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    self.output.shrink();
                    self.inbox.shrink();
                    (self.body, self.list) = Default::default();
                }
                Err(error) => return Err(error.into()),
            }
        };
        self.receive_exact(&mut head[received..], Instant::now())?;
        RequestHead::decode(&head).map(Some).map_err(End::Bad)
    }

    fn receive_exact(&mut self, mut buffer: &mut [u8], started: Instant) -> Result<(), End> {
        while !buffer.is_empty() {
            let received = self.inbox.take(&mut self.socket, buffer)?;
            if received == 0 || started.elapsed() > self.door.stall {
                return Err(End::Gone);
            }
            buffer = &mut buffer[received..];
        }
        Ok(())
    }

    /// Receives and answers one request. An error of the engine is an answer.
    fn one(&mut self, head: RequestHead, body: &mut Vec<u8>) -> Result<(), End> {
        let (started, length) = (Instant::now(), head.body_bytes as usize);
        body.clear();
        while body.len() < length {
            let have = body.len();
            body.resize(length.min(have + STEP_BYTES), 0);
            self.receive_exact(&mut body[have..], started)?;
        }
        let request = Request::decode(head.op, body).map_err(End::Bad)?;
        match self.may_ask(&request).and_then(|()| self.answer(head, request)) {
            Ok(sent) => sent,
            Err(error) => {
                let text = text_of(&error);
                let reply = error_head(head.request, wire::code(&error), &text);
                Ok(self.output.frame(&mut self.socket, &reply, &[text.as_bytes()])?)
            }
        }
    }

    fn answer(&mut self, head: RequestHead, request: Request<'_>) -> Result<Result<(), End>> {
        match request {
            Request::Open { dataset, snapshot } => self.open(head.request, dataset, snapshot),
            Request::Close => self.close(&head),
            Request::Get { ids } => self.opened(&head).map(|open| self.get(head.request, open, ids)),
            Request::Read { target, offset, length, reader } => self
                .opened(&head)
                .and_then(|open| Ok((Self::place(&open, target)?, open)))
                .and_then(|(place, open)| Ok((place.cut(offset, length)?, place, open)))
                .map(|(range, place, open)| self.read(head.request, open.0, &place, range, reader)),
            Request::Lease { ids } => {
                let ids: Vec<u64> = ids.iter().collect();
                self.opened(&head).and_then(|open| {
                    let places = ids.iter().map(|id| (*id, Place::of_item(&open.1, *id))).collect();
                    self.lease(head.request, &open.0, places, Fetch::Missing)
                })
            }
            Request::LeaseCached { ids } => {
                let ids: Vec<u64> = ids.iter().collect();
                self.opened(&head).and_then(|open| {
                    let places = ids.iter().map(|id| (*id, Place::of_whole_object(&open.0, &open.1, *id))).collect();
                    self.lease(head.request, &open.0, places, Fetch::Cached)
                })
            }
            Request::TouchItems { ids } => {
                if let Ok((dataset, snapshot)) = self.opened(&head) {
                    let known = ids.iter().filter_map(|id| Place::of_whole_object(&dataset, &snapshot, id).ok());
                    known.for_each(|place| dataset.opened_again(place.object));
                }
                Ok(Ok(()))
            }
            Request::LeasePath { path } => self.opened(&head).and_then(|open| {
                let place = Place::of_path(&open.0, &open.1, path);
                self.lease(head.request, &open.0, vec![(NO_ITEM, place)], Fetch::Missing)
            }),
            Request::Return { leases } => {
                leases.iter().for_each(|lease| self.leases.give_back(lease));
                Ok(Ok(()))
            }
            Request::Touch { objects } => {
                if let Ok((dataset, _)) = self.opened(&head) {
                    let known = objects.iter().filter_map(|object| Place::of_object(&dataset, object).ok());
                    known.for_each(|place| dataset.opened_again(place.object));
                }
                Ok(Ok(()))
            }
            Request::Ping => Ok(self.done(head.request)),
            Request::Lookup { path } => self.opened(&head).and_then(|open| self.lookup(head.request, &open.0, path)),
            Request::List { path, snapshot, rank, behind, count } => self.opened(&head).and_then(|open| {
                self.list(head.request, &open.0, path, (snapshot.map(SnapshotId), rank, behind), count)
            }),
            Request::LeaseObject { object, arriving } => self.opened(&head).and_then(|open| {
                let place = Place::of_object(&open.0, object);
                self.lease(head.request, &open.0, vec![(NO_ITEM, place)], Fetch::Nothing(arriving))
            }),
            Request::OpenObject { object, reader, arriving } => self.opened(&head).and_then(|(dataset, _)| {
                let place = Place::of_object(&dataset, object)?;
                self.open_object(head.request, dataset, place, (reader, arriving))
            }),
            Request::View { object, offset, length, reader, arriving } => {
                self.opened(&head).and_then(|(dataset, _)| {
                    let place = Place::of_object(&dataset, object)?;
                    let range = place.cut(offset, length)?;
                    self.view(head.request, dataset, &place, range, (reader, arriving))
                })
            }
            Request::Viewed => self.viewed(head.request),
            Request::Renew { objects, check } => {
                self.opened(&head).and_then(|open| self.renew(head.request, &open.0, objects, check))
            }
            Request::Describe { object } => {
                self.opened(&head).and_then(|open| self.describe(head.request, &open.0, object))
            }
            Request::Meet { nonce } => self.meet(head.request, nonce),
            Request::Prove { proof } => self.prove(head.request, proof),
            Request::Give(asked) => self.give(head.request, asked),
            Request::Take(asked) => self.take(head.request, asked),
            Request::Tell { message } => self.tell(head.request, message),
            Request::Next { batch, acknowledged } => {
                self.opened(&head).and_then(|open| self.next_batch(head.request, open.0, batch, acknowledged))
            }
        }
    }

    pub(super) fn done(&mut self, request: u32) -> Result<(), End> {
        Ok(self.output.frame(&mut self.socket, &ReplyHead::new(Kind::Done, request, 0), &[])?)
    }

    fn open(&mut self, request: u32, name: &str, snapshot: Option<[u8; 16]>) -> Result<Result<(), End>> {
        if self.opens.len() >= MAX_HANDLES {
            return Err(Error::Full(format!("a connection may have at most {MAX_HANDLES} datasets open: close some")));
        }
        let dataset = self.door.engine.dataset(name)?;
        let snapshot = match self.wait(self.door.info.state.snapshot(&dataset, snapshot.map(SnapshotId))) {
            Ok(snapshot) => snapshot?,
            Err(end) => return Ok(Err(end)),
        };
        while self.next_handle == 0 || self.opens.contains_key(&self.next_handle) {
            self.next_handle = self.next_handle.wrapping_add(1);
        }
        let handle = self.next_handle;
        self.next_handle = handle.wrapping_add(1);
        let objects = snapshot.object_count();
        let body = OpenedHead {
            handle,
            objects,
            snapshot: snapshot.id().0,
            items: snapshot.len(),
            bytes: snapshot.total_bytes(),
        }
        .encode();
        self.opens.insert(handle, (dataset, snapshot));
        let head = ReplyHead::new(Kind::Opened, request, body.len());
        Ok(self.output.frame(&mut self.socket, &head, &[&body]).map_err(End::from))
    }

    fn close(&mut self, head: &RequestHead) -> Result<Result<(), End>> {
        self.opens.remove(&head.handle).ok_or_else(|| not_open(head.handle))?;
        Ok(self.done(head.request))
    }

    fn opened(&self, head: &RequestHead) -> Result<Open> {
        let open = self.opens.get(&head.handle).cloned().ok_or_else(|| not_open(head.handle))?;
        // It may have been removed since, and another one may have its name.
        if open.0.is_closed() { Err(Error::Closed) } else { Ok(open) }
    }

    fn place(open: &Open, target: TargetRef<'_>) -> Result<Place> {
        match target {
            TargetRef::Path(path) => Place::of_path(&open.0, &open.1, path),
            TargetRef::Item(item) => Place::of_item(&open.1, item),
            TargetRef::Object(object) => Place::of_object(&open.0, object),
        }
    }

    /// Sends items in the order asked.
    fn get(&mut self, request: u32, (dataset, snapshot): Open, ids: Ids<'_>) -> Result<(), End> {
        self.send(request, dataset, snapshot, ids.iter().map(Wanted::from))
    }

    /// Sends a list of items, in its order.
    pub(super) fn send(
        &mut self,
        request: u32,
        dataset: Arc<Dataset>,
        snapshot: Arc<Snapshot>,
        wanted: impl Iterator<Item = Wanted>,
    ) -> Result<(), End> {
        let mut list = std::mem::take(&mut self.list);
        list.clear();
        list.extend(wanted);
        let mut items = Items::new(dataset, snapshot, list, PART_BYTES);
        let outcome = self.walk(request, &mut items);
        self.list = items.into_list();
        outcome
    }

    fn walk(&mut self, request: u32, items: &mut Items) -> Result<(), End> {
        loop {
            match items.warm(self.output.room(&mut self.socket)?) {
                Warm::Hit(part, length, source) => self.output.commit(request, &part, source, length),
                Warm::NoRoom => self.output.flush(&mut self.socket)?,
                Warm::Failed(part, error) => self.output.failed(&mut self.socket, request, &part, &error)?,
                Warm::Cold => self.wait_for(request, items)?,
                Warm::End => return Ok(()),
            }
        }
    }

    /// Sends what was not warm as it arrives.
    fn wait_for(&mut self, request: u32, items: &mut Items) -> Result<(), End> {
        loop {
            let ready = items.cold().now_or_never();
            let arrived = match ready {
                Some(arrived) => arrived,
                None => {
                    // The client gets what there is before this thread waits.
                    if !self.output.is_empty() {
                        self.output.flush(&mut self.socket)?;
                    }
                    self.wait(items.cold())?
                }
            };
            let Some(Arrived { part, reply }) = arrived else { return Ok(()) };
            self.arrived(request, &part, reply)?;
        }
    }

    fn arrived(&mut self, request: u32, part: &Part, reply: Result<Reply>) -> Result<(), End> {
        let socket = &mut self.socket;
        match reply {
            Ok(Reply { segments, source }) => self.output.segments(socket, request, part, source, &segments)?,
            Err(error) => self.output.failed(socket, request, part, &error)?,
        }
        Ok(())
    }

    /// Sends a range, as the one item of its answer.
    pub(super) fn read(
        &mut self,
        request: u32,
        dataset: Arc<Dataset>,
        place: &Place,
        range: std::ops::Range<u64>,
        reader: u64,
    ) -> Result<(), End> {
        let wanted = Wanted::from(place.item.unwrap_or(NO_ITEM));
        let size = range.end - range.start;
        let mut part = Part { index: 0, wanted, label: place.label, size, offset: 0 };
        while part.offset < size || size == 0 {
            let room = self.output.room(&mut self.socket)?;
            let length = (size - part.offset).min(PART_BYTES as u64) as usize;
            let Some(buffer) = room.get_mut(..length) else {
                self.output.flush(&mut self.socket)?;
                continue;
            };
            let Some(source) = dataset.try_read(place.object, range.start + part.offset, buffer) else { break };
            self.output.commit(request, &part, source, length);
            part.offset += length as u64;
            if part.offset == size {
                place.notice(&dataset, &range, reader, false);
                return Ok(());
            }
        }
        let pattern = place.notice(&dataset, &range, reader, true);
        let mut stream = dataset.read_stream_as(place.object, range.start + part.offset..range.end, pattern);
        loop {
            self.output.flush(&mut self.socket)?;
            let reply = match self.wait(stream.next())? {
                Some(reply) => reply,
                None if size == 0 => {
                    // An empty object that is not in the cache is empty all the same.
                    let source = fodder_core::engine::Source::Origin;
                    return Ok(self.output.segments(&mut self.socket, request, &part, source, &[])?);
                }
                None => Err(Error::Internal("a stream ended before its range did".into())),
            };
            let failed = reply.is_err();
            let length = reply.as_ref().map_or(0, |reply| reply.segments.iter().map(|s| s.len() as u64).sum());
            self.arrived(request, &part, reply)?;
            part.offset += length;
            if failed || part.offset >= size {
                return Ok(());
            }
        }
    }

    /// Waits for the engine, unless the node closes first.
    pub(super) fn wait<T>(&self, work: impl Future<Output = T>) -> Result<T, End> {
        let closed = self.door.closed.cancelled();
        self.door.runtime.block_on(async {
            tokio::select! {
                done = work => Ok(done),
                () = closed => Err(End::Closed),
            }
        })
    }
}

fn not_open(handle: u32) -> Error {
    Error::NotFound(format!("no dataset is open with handle {handle} on this connection"))
}
