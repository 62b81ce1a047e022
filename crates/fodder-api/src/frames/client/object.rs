//! Directories, and objects by their version: what a mount asks.

use super::{FrameClient, strange};
use crate::{
    Error, MAX_PATH_BYTES, Result, Source,
    frames::{
        Arriving, Batch, EntriesHead, Entry, IGNORES_ARRIVING_SINCE, Kind, Leased, MAX_TOUCHED, OPENS_SINCE,
        ObjectHead, ObjectId, Request, TargetRef, VIEWS_SINCE,
        codec::{BadFrame, pack_objects},
    },
};
use std::{fs::File, os::unix::fs::FileExt};

/// A page of a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entries {
    /// The snapshot it is of.
    pub snapshot: [u8; 16],
    /// Nothing is behind it.
    pub end: bool,
    count: u32,
    packed: Vec<u8>,
}

impl Entries {
    fn new(body: Vec<u8>) -> Result<Self, BadFrame> {
        let head = body[..EntriesHead::BYTES].try_into().expect("a checked length");
        let EntriesHead { snapshot, count, end } = EntriesHead::decode(head);
        let entries = Self { snapshot, end, count, packed: body };
        let mut rest = entries.behind_head();
        for _ in 0..count {
            Entry::decode(&mut rest)?;
        }
        if rest.is_empty() { Ok(entries) } else { Err(BadFrame("entries with something behind them".into())) }
    }

    fn behind_head(&self) -> &[u8] {
        self.packed.get(EntriesHead::BYTES..).unwrap_or_default()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// In path order.
    pub fn iter(&self) -> impl Iterator<Item = Entry<'_>> {
        let mut rest = self.behind_head();
        (0..self.count).map(move |_| Entry::decode(&mut rest).expect("decoded before"))
    }
}

impl FrameClient {
    /// What lies at a path of the newest snapshot, as the one entry of a page; [`Error::NotFound`] if nothing does.
    pub fn lookup(&mut self, handle: u32, path: &str) -> Result<Entries> {
        check(path)?;
        let request = self.send(Request::Lookup { path }, handle)?;
        self.entries(request)
    }

    /// Up to `count` entries of a directory. A first page is of the newest snapshot; the next begins with the snapshot
    /// of the page before, and with `next` and the name of its last entry (with a slash behind a directory's).
    pub fn list(
        &mut self,
        handle: u32,
        path: &str,
        snapshot: Option<[u8; 16]>,
        from: (u32, &str),
        count: u32,
    ) -> Result<Entries> {
        let (rank, behind) = from;
        check(path)?;
        check(behind)?;
        let request = self.send(Request::List { path, snapshot, rank, behind, count }, handle)?;
        self.entries(request)
    }

    /// Takes an object's file if all of the object is in one tier; [`Error::Full`] if it is not. The node waits a moment for what
    /// is on its way.
    pub fn lease_object(&mut self, handle: u32, object: ObjectId) -> Result<Leased> {
        self.lease_object_as(handle, object, Arriving::Await)
    }

    /// The same, and the caller says what to do about bytes that are on their way.
    pub fn lease_object_as(&mut self, handle: u32, object: ObjectId, arriving: Arriving) -> Result<Leased> {
        let arriving = self.understood(arriving);
        self.lease(Request::LeaseObject { object, arriving }, handle)
    }

    /// What the node can be told: an older one always waits.
    fn understood(&self, arriving: Arriving) -> Arriving {
        if self.version >= IGNORES_ARRIVING_SINCE { arriving } else { Arriving::Await }
    }

    /// Whether the node answers [`Self::open_object`].
    pub fn opens_objects(&self) -> bool {
        self.version >= OPENS_SINCE && self.line.carries_descriptors()
    }

    /// Takes an object's file if all of the object is in one tier; else None, and its bytes are in `batch`, as its one item. With
    /// [`Arriving::Ignore`] nothing is fetched: [`Error::Full`] if it is not cached.
    pub fn open_object(
        &mut self,
        handle: u32,
        object: ObjectId,
        (reader, arriving): (u64, Arriving),
        batch: &mut Batch,
    ) -> Result<Option<Leased>> {
        let arriving = self.understood(arriving);
        for _ in 0..2 {
            let request = self.send(Request::OpenObject { object, reader, arriving }, handle)?;
            let head = self.head()?;
            if head.kind == Kind::Item {
                self.receive_behind(&head.encode(), request, Some(1), batch)?;
                return Ok(None);
            }
            let body = self.body(&head, request)?;
            if let Some(leased) = self.take_lease(&head, &body, 0)?? {
                return Ok(Some(leased));
            }
        }
        Err(Error::Unavailable("the lease was returned while it was requested".into()))
    }

    /// Reads a range of one version of an object into `batch`, as its one item; a `length` of 0 means to the end. `reader`
    /// tells the node which reads belong together: a number of the caller's, unlike any other client's, or 0.
    pub fn read_object(
        &mut self,
        handle: u32,
        object: ObjectId,
        (offset, length): (u64, u64),
        reader: u64,
        batch: &mut Batch,
    ) -> Result<()> {
        let request = self.send(Request::Read { target: TargetRef::Object(object), offset, length, reader }, handle)?;
        self.receive_into(request, Some(1), batch)
    }

    /// Whether the node shows cache files that may still change.
    pub fn shows_files(&self) -> bool {
        self.version >= VIEWS_SINCE && self.line.carries_descriptors()
    }

    /// Reads a range of one version of an object from its cache file into `buffer`, as long as the range is. False if it cannot
    /// be read that way, now or before the file changed: ask for the bytes instead.
    pub fn read_shown(
        &mut self,
        handle: u32,
        object: ObjectId,
        (offset, arriving): (u64, Arriving),
        reader: u64,
        buffer: &mut [u8],
    ) -> Result<bool> {
        let (length, arriving) = (buffer.len() as u64, self.understood(arriving));
        let request = self.send(Request::View { object, offset, length, reader, arriving }, handle)?;
        let (head, _) = match self.frame(request) {
            Err(Error::Full(_)) => return Ok(false),
            other => other?,
        };
        let file = self.descriptors.pop_front().filter(|_| head.kind == Kind::View);
        let Some(file) = file else { return Err(self.broken_by(strange())) };
        let read = File::from(file).read_exact_at(buffer, offset);
        let request = self.send(Request::Viewed, handle)?;
        match self.reply(request, Kind::Done) {
            Err(Error::Stale(_)) => Ok(false),
            other => other.map(|_| read.is_ok()),
        }
    }

    /// Tells that files of objects which are here were opened again. Not answered.
    pub fn touch(&mut self, handle: u32, objects: &[ObjectId]) -> Result<()> {
        for chunk in objects.chunks(MAX_TOUCHED) {
            self.send(Request::Touch { objects: pack_objects(chunk, &mut Vec::new()) }, handle)?;
        }
        Ok(())
    }

    /// How many bytes of an object are cached, the tier that has all of it, and its version.
    pub fn describe(&mut self, handle: u32, object: ObjectId) -> Result<(u64, Option<Source>, String)> {
        let request = self.send(Request::Describe { object }, handle)?;
        let (head, body) = self.frame(request)?;
        if head.kind != Kind::Object {
            return Err(self.broken_by(strange()));
        }
        let (object, version) = body.split_at(ObjectHead::BYTES);
        let object = ObjectHead::decode(object.try_into().expect("a checked length"));
        let source = Some(head.source).filter(|source| *source != Source::Unspecified);
        Ok((object.cached_bytes, source, String::from_utf8_lossy(version).into_owned()))
    }

    fn entries(&mut self, request: u32) -> Result<Entries> {
        let body = self.reply(request, Kind::Entries)?;
        Entries::new(body).map_err(|bad| self.broken_by(Error::Internal(format!("the node sent {bad}"))))
    }
}

fn check(path: &str) -> Result<()> {
    match path.len() {
        0..=MAX_PATH_BYTES => Ok(()),
        _ => Err(Error::Invalid(format!("the path has more than {MAX_PATH_BYTES} bytes"))),
    }
}
