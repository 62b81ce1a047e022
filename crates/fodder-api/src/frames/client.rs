//! The blocking client of the framed protocol: one connection, one request at a time.

mod line;
mod object;
mod renew;

pub use object::Entries;

use super::{
    Batch, Hello, HelloReply, Ids, Kind, Lease, LeaseHead, Leased, MAX_LEASES, MAX_REPLY_BYTES, OpenedHead, ReplyHead,
    Request, Room, codec::pack, lease::Returns,
};
use crate::{
    Address, Error, MAX_ACKNOWLEDGED, MAX_IDS, MAX_PATH_BYTES, Result, Target, client::Timeouts, v1::ErrorCode,
};
use fodder_policy::job::BatchRequest;
use line::Line;
use std::{
    collections::{HashMap, VecDeque},
    fs::File,
    io::{self, ErrorKind},
    os::fd::OwnedFd,
    sync::{Arc, Weak},
    time::Instant,
};

/// A dataset opened over frames, at one snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// What to call it in requests on this connection.
    pub handle: u32,
    /// The snapshot, as 32 hexadecimal digits. Ids mean the same as long as it is the same.
    pub snapshot: String,
    /// Items in the snapshot; ids are 0..items.
    pub items: u64,
    /// Objects in the snapshot.
    pub objects: u32,
    /// Bytes of all of them.
    pub bytes: u64,
}

/// A blocking connection to a node that speaks frames.
///
/// An error of a request leaves it usable; a connection that is lost or out of step stays so, and every later call says
/// that it must be made anew.
#[derive(Debug)]
pub struct FrameClient {
    line: Line,
    /// Of the frames, as agreed.
    version: u16,
    /// The number of the last request.
    request: u32,
    broken: bool,
    /// Frames to be sent, used again.
    out: Vec<u8>,
    /// Ids to be sent, used again.
    packed: Vec<u8>,
    /// Descriptors that came, and whose frame was not read yet.
    descriptors: VecDeque<OwnedFd>,
    /// The leases the node counts as this connection's.
    leases: HashMap<u64, Weak<Lease>>,
    returns: Returns,
}

impl FrameClient {
    /// Connects, with the usual timeouts.
    pub fn connect(address: &Address) -> Result<Self> {
        Self::connect_with(address, Timeouts::default())
    }

    /// Connects and agrees on a version.
    pub fn connect_with(address: &Address, timeouts: Timeouts) -> Result<Self> {
        Self::connect_by(address, timeouts, None)
    }

    /// Connects and agrees on a version; a node that hangs meanwhile is waited for until `hang_deadline`. See
    /// [`Self::set_hang_deadline`].
    pub fn connect_until(address: &Address, timeouts: Timeouts, hang_deadline: Instant) -> Result<Self> {
        Self::connect_by(address, timeouts, Some(hang_deadline))
    }

    fn connect_by(address: &Address, timeouts: Timeouts, hang_deadline: Option<Instant>) -> Result<Self> {
        let unreachable = |error: io::Error| {
            let advice = Address::advice(error.kind());
            Error::Unavailable(format!("cannot reach the node at {address}: {error}; {advice}"))
        };
        let mut line = Line::connect(address, timeouts, hang_deadline).map_err(unreachable)?;
        line.send(&Hello::OURS.encode()).map_err(unreachable)?;
        let mut client = Self {
            line,
            version: 0,
            request: 0,
            broken: false,
            out: Vec::new(),
            packed: Vec::new(),
            descriptors: VecDeque::new(),
            leases: HashMap::new(),
            returns: Returns::default(),
        };
        let mut hello = [0; Hello::BYTES];
        client.receive_exact(&mut hello).map_err(|error| {
            Error::Unavailable(format!("cannot reach the node at {address}: {error}; {}", address.advice_when_mute()))
        })?;
        let reply = HelloReply::decode(&hello).map_err(|bad| Error::Invalid(format!("{address}: {bad}")))?;
        let (oldest, newest) = super::VERSIONS;
        if !(oldest..=newest).contains(&reply.version) {
            return Err(Error::Invalid(format!(
                "the node at {address} speaks version {} of the frames protocol, and this client {oldest} to {newest}: use the same \
                 version of Fodder on both sides",
                reply.newest
            )));
        }
        client.version = reply.version;
        Ok(client)
    }

    /// Where the node listens, as it was given.
    pub fn address(&self) -> &Address {
        self.line.address()
    }

    /// Until when the next requests wait for a node that hangs, which means that it does not answer a greeting either; None:
    /// no longer than it takes to find out. Takes effect where [`Timeouts::doubt`] is set.
    pub fn set_hang_deadline(&mut self, deadline: Option<Instant>) {
        self.line.set_hang_deadline(deadline);
    }

    /// Whether a request was given up because the node took too long.
    pub fn has_timed_out(&self) -> bool {
        self.line.has_timed_out()
    }

    /// Whether the connection is of no further use.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Opens a dataset at a snapshot (32 hexadecimal digits), or at its newest.
    pub fn open(&mut self, dataset: &str, snapshot: Option<&str>) -> Result<Opened> {
        let snapshot = snapshot.map(parse_snapshot).transpose()?;
        if dataset.len() > 255 {
            return Err(Error::Invalid("the dataset's name is too long".into()));
        }
        let request = self.send(Request::Open { dataset, snapshot }, 0)?;
        let body = self.reply(request, Kind::Opened)?;
        let body = body.get(..OpenedHead::BYTES).and_then(|head| head.try_into().ok());
        let OpenedHead { handle, objects, snapshot, items, bytes } =
            OpenedHead::decode(body.expect("a checked length"));
        let snapshot = format!("{:032x}", u128::from_be_bytes(snapshot));
        Ok(Opened { handle, snapshot, items, objects, bytes })
    }

    /// Gives a handle back.
    pub fn close(&mut self, handle: u32) -> Result<()> {
        let request = self.send(Request::Close, handle)?;
        self.reply(request, Kind::Done).map(drop)
    }

    /// Asks whether the node is there.
    pub fn ping(&mut self) -> Result<()> {
        let request = self.send(Request::Ping, 0)?;
        self.reply(request, Kind::Done).map(drop)
    }

    /// Fetches items, in order, into `batch`, whose former content is gone.
    pub fn get_items<R: Room>(&mut self, handle: u32, ids: &[u64], batch: &mut Batch<R>) -> Result<()> {
        if ids.len() > MAX_IDS {
            return Err(Error::Invalid(format!("{} ids in one request, and {MAX_IDS} are allowed", ids.len())));
        }
        let mut packed = std::mem::take(&mut self.packed);
        let sent = self.send(Request::Get { ids: pack(ids, &mut packed) }, handle);
        self.packed = packed;
        self.receive_into(sent?, Some(ids.len()), batch)
    }

    /// Fetches a batch of a job's plan into `batch`, whose former content is gone: fewer items than asked for only at
    /// the end of the epoch, and none after it. `acknowledged` names the batches of the same rank and epoch that were
    /// consumed meanwhile. Asking again with the same number gives the same items.
    pub fn next_batch<R: Room>(
        &mut self,
        handle: u32,
        request: BatchRequest,
        acknowledged: &[u64],
        batch: &mut Batch<R>,
    ) -> Result<()> {
        if acknowledged.len() > MAX_ACKNOWLEDGED {
            let count = acknowledged.len();
            return Err(Error::Invalid(format!("{count} batches in one request, and {MAX_ACKNOWLEDGED} are allowed")));
        }
        let mut packed = std::mem::take(&mut self.packed);
        let acknowledged = pack(acknowledged, &mut packed);
        let sent = self.send(Request::Next { batch: request, acknowledged }, handle);
        self.packed = packed;
        self.receive_into(sent?, None, batch)
    }

    /// Reads a range of an object or an item into `batch`, as its one item; a `length` of 0 means to the end.
    pub fn read<R: Room>(
        &mut self,
        handle: u32,
        target: &Target,
        offset: u64,
        length: u64,
        batch: &mut Batch<R>,
    ) -> Result<()> {
        if let Target::Path(path) = target
            && path.len() > MAX_PATH_BYTES
        {
            return Err(Error::Invalid(format!("the path has more than {MAX_PATH_BYTES} bytes")));
        }
        let request = self.send(Request::Read { target: target.into(), offset, length, reader: 0 }, handle)?;
        self.receive_into(request, Some(1), batch)
    }

    /// Takes the objects of items as open files, in order. Over TCP that is an error.
    pub fn get_leases(&mut self, handle: u32, ids: &[u64]) -> Result<Vec<Result<Leased>>> {
        self.get_leases_by(handle, ids, |ids| Request::Lease { ids })
    }

    /// The same for items that are whole objects and cached. An item that is not has an error; nothing is fetched for it.
    pub fn get_cached_leases(&mut self, handle: u32, ids: &[u64]) -> Result<Vec<Result<Leased>>> {
        self.get_leases_by(handle, ids, |ids| Request::LeaseCached { ids })
    }

    /// Reports that items were read from leases that are held here. Not answered.
    pub fn touch_items(&mut self, handle: u32, ids: &[u64]) -> Result<()> {
        for chunk in ids.chunks(MAX_IDS) {
            self.send(Request::TouchItems { ids: pack(chunk, &mut Vec::new()) }, handle)?;
        }
        Ok(())
    }

    fn get_leases_by(
        &mut self,
        handle: u32,
        ids: &[u64],
        by: impl Fn(Ids<'_>) -> Request<'_>,
    ) -> Result<Vec<Result<Leased>>> {
        let mut all = Vec::with_capacity(ids.len());
        for ids in ids.chunks(MAX_LEASES) {
            let mut packed = std::mem::take(&mut self.packed);
            let sent = self.send(by(pack(ids, &mut packed)), handle);
            self.packed = packed;
            let request = sent?;
            for index in 0..ids.len() {
                let lease = self.receive_lease(request, index)?;
                all.push(lease);
            }
        }
        // The node counts an object that this connection has leased as one lease and sends its file once. If the last
        // user of the file dropped it in that moment, it must be given back and asked for again.
        for (id, lease) in ids.iter().zip(&mut all) {
            if matches!(lease, Ok(None)) {
                let mut packed = Vec::new();
                let request = self.send(by(pack(&[*id], &mut packed)), handle)?;
                let mut again = self.receive_lease(request, 0)?;
                std::mem::swap(lease, &mut again);
            }
        }
        let gone = || Error::Unavailable("the lease was returned while it was requested".into());
        Ok(all.into_iter().map(|lease| lease.and_then(|lease| lease.ok_or_else(gone))).collect())
    }

    /// Takes an object as an open file.
    pub fn lease_path(&mut self, handle: u32, path: &str) -> Result<Leased> {
        self.lease(Request::LeasePath { path }, handle)
    }

    /// The one lease a request asks for.
    fn lease(&mut self, asked: Request<'_>, handle: u32) -> Result<Leased> {
        for _ in 0..2 {
            let request = self.send(asked, handle)?;
            if let Some(leased) = self.receive_lease(request, 0)?? {
                return Ok(leased);
            }
        }
        Err(Error::Unavailable("the lease was returned while it was requested".into()))
    }

    /// One lease of an answer. The outer error breaks the connection or the request; Ok(None) is a file that the node
    /// believes to be here and that is gone.
    fn receive_lease(&mut self, request: u32, index: usize) -> Result<Result<Option<Leased>>> {
        let (head, body) = self.frame(request)?;
        self.take_lease(&head, &body, index)
    }

    /// The lease in a frame.
    fn take_lease(&mut self, head: &ReplyHead, body: &[u8], index: usize) -> Result<Result<Option<Leased>>> {
        if head.kind != Kind::Lease || head.index as usize != index {
            return Err(self.broken_by(strange()));
        }
        let (lease, text) = body.split_at(LeaseHead::BYTES);
        if head.status != ErrorCode::Unspecified {
            return Ok(Err(Error::from_code(head.status, String::from_utf8_lossy(text).into_owned())));
        }
        let lease = LeaseHead::decode(lease.try_into().expect("a checked length"));
        let label = head.flags.label.then_some(lease.label);
        if !head.flags.descriptor {
            let held = self.leases.get(&lease.lease).and_then(Weak::upgrade);
            return Ok(Ok(held.map(|held| Leased::new(lease, label, head.source, held))));
        }
        let Some(descriptor) = self.descriptors.pop_front() else {
            return Err(self.broken_by(Error::Unavailable(
                "a file that the node sent did not arrive: raise the limit on open files of this process (ulimit -n)"
                    .into(),
            )));
        };
        let held = Arc::new(Lease::new(File::from(descriptor), lease.object_bytes, lease.lease, self.returns.clone()));
        self.leases.insert(lease.lease, Arc::downgrade(&held));
        Ok(Ok(Some(Leased::new(lease, label, head.source, held))))
    }

    fn receive_into<R: Room>(&mut self, request: u32, count: Option<usize>, batch: &mut Batch<R>) -> Result<()> {
        self.receive_behind(&[], request, count, batch)
    }

    /// The same where the first bytes of the answer have been received already.
    fn receive_behind<R: Room>(
        &mut self,
        begun: &[u8],
        request: u32,
        count: Option<usize>,
        batch: &mut Batch<R>,
    ) -> Result<()> {
        match batch.receive(begun, &mut self.line, request, count) {
            Ok(answer) => {
                self.broken |= matches!(answer, Ok(true));
                answer.map(drop)
            }
            Err(error) => Err(self.broken_by(error)),
        }
    }

    /// Sends a request, and with it the leases that nobody here uses any more. Its number.
    fn send(&mut self, request: Request<'_>, handle: u32) -> Result<u32> {
        let number = self.encode(request, handle)?;
        let sent = self.line.send(&self.out);
        sent.map_err(|error| self.broken_by(lost(error)))?;
        Ok(number)
    }

    /// Makes what is sent next a request, and before it the leases that nobody here uses any more. Its number.
    fn encode(&mut self, request: Request<'_>, handle: u32) -> Result<u32> {
        if self.broken {
            let address = self.line.address();
            return Err(Error::Unavailable(format!("the connection to the node at {address} was lost: connect again")));
        }
        self.begin();
        self.request = next_number(self.request);
        request.encode(self.request, handle, &mut self.out);
        Ok(self.request)
    }

    /// Begins what is sent next with the leases that nobody here uses any more.
    fn begin(&mut self) {
        self.out.clear();
        let returned = self.returns.take();
        for chunk in returned.chunks(MAX_IDS) {
            self.request = next_number(self.request);
            Request::Return { leases: pack(chunk, &mut Vec::new()) }.encode(self.request, 0, &mut self.out);
        }
        if !returned.is_empty() {
            self.leases.retain(|_, lease| lease.strong_count() > 0);
        }
    }

    /// Whether there are leases that nobody here uses any more, and of which the node does not know that yet.
    pub fn owes(&self) -> bool {
        !self.returns.is_empty()
    }

    /// Gives back the leases that nobody here uses any more, for who may not ask for anything soon.
    pub fn give_back(&mut self) -> Result<()> {
        self.begin();
        let sent = self.line.send(&self.out);
        sent.map_err(|error| self.broken_by(lost(error)))
    }

    /// The body of a reply of one kind.
    fn reply(&mut self, request: u32, kind: Kind) -> Result<Vec<u8>> {
        let (head, body) = self.frame(request)?;
        if head.kind == kind { Ok(body) } else { Err(self.broken_by(strange())) }
    }

    /// The next frame, which must answer `request`; an ERROR frame is its error.
    fn frame(&mut self, request: u32) -> Result<(ReplyHead, Vec<u8>)> {
        let head = self.head()?;
        let body = self.body(&head, request)?;
        Ok((head, body))
    }

    /// The head of the next frame.
    fn head(&mut self) -> Result<ReplyHead> {
        let mut head = [0; ReplyHead::BYTES];
        self.receive_exact(&mut head)?;
        ReplyHead::decode(&head).map_err(|bad| self.broken_by(Error::Internal(format!("the node sent {bad}"))))
    }

    /// What is behind a head, which must answer `request`; of an ERROR frame, its error.
    fn body(&mut self, head: &ReplyHead, request: u32) -> Result<Vec<u8>> {
        debug_assert!(head.body_bytes <= MAX_REPLY_BYTES);
        let mut body = vec![0; head.body_bytes as usize];
        self.receive_exact(&mut body)?;
        if head.kind == Kind::Error {
            let error = Error::from_code(head.status, String::from_utf8_lossy(&body).into_owned());
            return Err(if head.request == request { error } else { self.broken_by(error) });
        }
        if head.request != request {
            return Err(self.broken_by(strange()));
        }
        Ok(body)
    }

    fn receive_exact(&mut self, mut buffer: &mut [u8]) -> Result<()> {
        while !buffer.is_empty() {
            match self.line.receive_with(buffer, &mut self.descriptors) {
                Ok(0) => return Err(self.broken_by(ended())),
                Ok(received) => buffer = &mut buffer[received..],
                Err(error) => return Err(self.broken_by(lost(error))),
            }
        }
        Ok(())
    }

    fn broken_by(&mut self, error: Error) -> Error {
        self.broken = true;
        self.returns.end();
        error
    }
}

impl Drop for FrameClient {
    fn drop(&mut self) {
        // The node takes the leases of a connection that ends for returned.
        self.returns.end();
    }
}

/// The number after this one; 0 stands for the connection.
fn next_number(number: u32) -> u32 {
    number.checked_add(1).unwrap_or(1)
}

fn parse_snapshot(text: &str) -> Result<[u8; 16]> {
    (text.len() == 32)
        .then(|| u128::from_str_radix(text, 16).ok())
        .flatten()
        .map(u128::to_be_bytes)
        .ok_or_else(|| Error::Invalid(format!("{text:?} is not a snapshot id (32 hexadecimal digits)")))
}

pub(super) fn lost(error: io::Error) -> Error {
    Error::Unavailable(match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => match error.get_ref() {
            Some(why) => format!("the node did not answer in time: {why}"),
            None => "the node did not answer in time".into(),
        },
        _ => format!("the connection to the node was lost: {error}"),
    })
}

pub(super) fn ended() -> Error {
    Error::Unavailable("the node ended the connection".into())
}

fn strange() -> Error {
    Error::Internal("the node sent an unexpected reply".into())
}
