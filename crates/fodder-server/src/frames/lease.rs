//! The cache files that one client holds: each object once, given back by number or with the connection.

use super::{
    connection::{Connection, End},
    output::text_of,
};
use crate::{
    items::{Part, Wanted},
    place::Place,
    wire,
};
use fodder_api::frames::{Arriving, Flags, Kind, LeaseHead, NO_ITEM, ReplyHead};
use fodder_core::{
    Dataset, Error, Result,
    engine::Source,
    id::ObjectSlot,
    tier::{HeldFile, Lease},
};
use futures::{StreamExt, stream};
use std::{
    collections::{HashMap, HashSet},
    os::fd::AsFd,
    sync::Arc,
    time::Duration,
};

/// Leases a connection may hold: each pins a file. How many descriptors all of them may cost the node is the tiers' to say.
const MAX_HELD: usize = 65_536;

/// Leases that a client may report on one connection: those of all the connections it had.
const MAX_RENEWED: usize = 2 * MAX_HELD;

/// Objects that are fetched at a time because a lease was asked for.
const MAX_FETCHES: usize = 16;

/// How long whoever opens a large file waits for all of it, where that is on its way.
const WHOLE: Duration = Duration::from_millis(500);

/// An object of a dataset; the dataset by its address, which is its own as long as the lease holds it.
type Key = (usize, ObjectSlot);

/// What came of leasing objects, and where their bytes came from.
type Fetched = HashMap<ObjectSlot, Result<(Source, Arc<Lease>)>>;

/// What a request for leases does about objects that are not whole in a tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fetch {
    /// Fetches what is missing.
    Missing,
    /// Refuses the lease, for bytes that are on their way after a moment or at once.
    Nothing(Arriving),
    /// Refuses the lease, and does not count a hit: the client reports its reads.
    Cached,
}

struct Held {
    key: Key,
    _dataset: Arc<Dataset>,
    lease: Arc<Lease>,
}

/// The leases of one connection.
#[derive(Default)]
pub(super) struct Leases {
    by_number: HashMap<u64, Held>,
    by_object: HashMap<Key, u64>,
    /// Leases of a node before this one, or of a lost connection, that the client reported.
    renewed: HashMap<u64, (Arc<Dataset>, HeldFile)>,
    last: u64,
}

impl Leases {
    /// Gives a lease back; one that is not held is none.
    pub(super) fn give_back(&mut self, number: u64) {
        if let Some(held) = self.by_number.remove(&number) {
            self.by_object.remove(&held.key);
        }
        self.renewed.remove(&number);
    }

    /// Whether the client may report so many leases.
    pub(super) fn has_room_for(&self, count: usize) -> Result<()> {
        if self.renewed.len() + count > MAX_RENEWED {
            return Err(Error::Full(format!("a connection may report at most {MAX_RENEWED} leases: return some")));
        }
        Ok(())
    }

    /// Holds a file that the client reported. Requests for its object are answered with a lease of its own, which is verified.
    pub(super) fn hold_renewed(&mut self, dataset: &Arc<Dataset>, held: HeldFile) -> u64 {
        self.last += 1;
        self.renewed.insert(self.last, (Arc::clone(dataset), held));
        self.last
    }

    fn hold(&mut self, key: Key, dataset: &Arc<Dataset>, lease: Arc<Lease>) -> u64 {
        self.last += 1;
        self.by_number.insert(self.last, Held { key, _dataset: Arc::clone(dataset), lease });
        self.by_object.insert(key, self.last);
        self.last
    }
}

fn key(dataset: &Arc<Dataset>, object: ObjectSlot) -> Key {
    (Arc::as_ptr(dataset).addr(), object)
}

impl Connection {
    /// Answers with a lease, or the reason why not, for each place. Files the client has already are named, not sent.
    pub(super) fn lease(
        &mut self,
        request: u32,
        dataset: &Arc<Dataset>,
        places: Vec<(u64, Result<Place>)>,
        fetch: Fetch,
    ) -> Result<Result<(), End>> {
        self.can_lease()?;
        let fetched = match self.fetch(dataset, &places, fetch) {
            Ok(fetched) => fetched,
            Err(end) => return Ok(Err(end)),
        };
        Ok(self.send_leases(request, dataset, places, fetched))
    }

    /// Answers with the file of an object that is opened, or with all its bytes if there is no file to be had. Where bytes that are
    /// on their way are ignored, nothing is fetched, and an object that is not cached is [`Error::Full`].
    pub(super) fn open_object(
        &mut self,
        request: u32,
        dataset: Arc<Dataset>,
        place: Place,
        (reader, arriving): (u64, Arriving),
    ) -> Result<Result<(), End>> {
        self.can_lease()?;
        let places = vec![(NO_ITEM, Ok(place.clone()))];
        let fetched = match self.fetch(&dataset, &places, Fetch::Nothing(arriving)) {
            Ok(fetched) => fetched,
            Err(end) => return Ok(Err(end)),
        };
        match (fetched.get(&place.object), arriving) {
            (Some(Err(Error::Full(_))), Arriving::Await) => {
                Ok(self.read(request, dataset, &place, place.range.clone(), reader))
            }
            (Some(Err(Error::Full(_))), Arriving::Ignore) => self.read_cached(request, &dataset, &place),
            _ => Ok(self.send_leases(request, &dataset, places, fetched)),
        }
    }

    /// Answers with the bytes of a small object that is cached.
    fn read_cached(&mut self, request: u32, dataset: &Arc<Dataset>, place: &Place) -> Result<Result<(), End>> {
        let (bytes, source) = match self.wait(dataset.read_cached(place.object)) {
            Ok(read) => read?.ok_or_else(|| Error::Full("the object is not cached".into()))?,
            Err(end) => return Ok(Err(end)),
        };
        let wanted = Wanted::from(place.item.unwrap_or(NO_ITEM));
        let part = Part { index: 0, wanted, label: place.label, size: bytes.len() as u64, offset: 0 };
        Ok(self.output.segments(&mut self.socket, request, &part, source, &[bytes]).map_err(End::from))
    }

    /// Whether files can be sent on this connection.
    pub(super) fn can_lease(&self) -> Result<()> {
        if self.socket.carries_descriptors() {
            return Ok(());
        }
        let socket = self.door.info.addresses.socket.as_ref();
        let socket = socket.map_or("the node was started without one".into(), |path| path.display().to_string());
        let text = format!("leases need the node's Unix socket ({socket}); this connection is TCP");
        Err(Error::Invalid(text))
    }

    /// Leases the objects that are not held yet: at once what is whole in a tier, then the others, several at a time.
    fn fetch(&self, dataset: &Arc<Dataset>, places: &[(u64, Result<Place>)], fetch: Fetch) -> Result<Fetched, End> {
        let objects = places.iter().filter_map(|(_, place)| place.as_ref().ok()).map(|place| place.object);
        let wanted: HashSet<_> =
            objects.filter(|object| !self.leases.by_object.contains_key(&key(dataset, *object))).collect();
        if self.leases.by_number.len() + wanted.len() > MAX_HELD {
            let full = || Error::Full(format!("a connection may hold at most {MAX_HELD} leases: return some"));
            return Ok(wanted.into_iter().map(|object| (object, Err(full()))).collect());
        }
        let (mut fetched, mut cold) = (Fetched::new(), Vec::new());
        for object in wanted {
            let lease = match fetch {
                Fetch::Missing => dataset.try_lease(object),
                Fetch::Cached => dataset.try_lease_uncounted(object),
                // That is how a mount opens files.
                Fetch::Nothing(Arriving::Ignore) => {
                    let lease = dataset.try_open(object);
                    match lease {
                        Ok(None) if !dataset.is_whole(object) => dataset.notice_open(object, true),
                        _ => drop(dataset.notice_open_file(object, true)),
                    }
                    lease
                }
                Fetch::Nothing(Arriving::Await) => {
                    let lease = dataset.try_open(object);
                    let comes =
                        dataset.notice_open_file(object, !matches!(lease, Ok(None)) || dataset.is_whole(object));
                    let came = comes && self.wait(dataset.comes_whole(object, WHOLE))?;
                    if came { dataset.try_open(object) } else { lease }
                }
            };
            match lease.transpose() {
                Some(lease) => {
                    drop(fetched.insert(object, lease.map(|lease| (Source::Tier(lease.medium), Arc::new(lease)))))
                }
                None if fetch == Fetch::Cached
                    && let Err(error) = dataset.check_leasable(object) =>
                {
                    fetched.insert(object, Err(error));
                }
                None if fetch != Fetch::Missing => {
                    fetched.insert(object, Err(Error::Full("the object is not completely cached in one tier".into())));
                }
                None => cold.push(object),
            }
        }
        if !cold.is_empty() {
            let leases = stream::iter(cold).map(|object| async move {
                (object, dataset.lease(object).await.map(|lease| (Source::Origin, Arc::new(lease))))
            });
            fetched.extend(self.wait(leases.buffer_unordered(MAX_FETCHES).collect::<Vec<_>>())?);
        }
        Ok(fetched)
    }

    fn send_leases(
        &mut self,
        request: u32,
        dataset: &Arc<Dataset>,
        places: Vec<(u64, Result<Place>)>,
        fetched: Fetched,
    ) -> Result<(), End> {
        let (mut bytes, mut files) = (Vec::new(), Vec::new());
        for (index, (asked, place)) in places.into_iter().enumerate() {
            let answer = place.and_then(|place| {
                if let Some(&number) = self.leases.by_object.get(&key(dataset, place.object)) {
                    let lease = Arc::clone(&self.leases.by_number[&number].lease);
                    return Ok(Answer { place, source: Source::Tier(lease.medium), lease, number, fresh: false });
                }
                let lease = fetched.get(&place.object).cloned();
                let (source, lease) =
                    lease.unwrap_or_else(|| Err(Error::Internal("a lease was not asked for".into())))?;
                files.push(Arc::clone(&lease.file));
                let number = self.leases.hold(key(dataset, place.object), dataset, Arc::clone(&lease));
                Ok(Answer { place, source, lease, number, fresh: true })
            });
            append(&mut bytes, request, index as u32, asked, answer);
        }
        // Behind what was answered before, and in one message: descriptors arrive in the order of their frames.
        self.output.flush(&mut self.socket)?;
        let descriptors: Vec<_> = files.iter().map(|file| file.as_fd()).collect();
        Ok(self.socket.send_with(&bytes, &descriptors, self.door.stall)?)
    }
}

/// A lease that is about to be sent.
struct Answer {
    place: Place,
    source: Source,
    lease: Arc<Lease>,
    number: u64,
    /// The client does not have the file yet.
    fresh: bool,
}

/// Appends the frame of one lease.
fn append(bytes: &mut Vec<u8>, request: u32, index: u32, asked: u64, answer: Result<Answer>) {
    let mut head = LeaseHead { label: 0, asked, served: asked, lease: 0, object_bytes: 0, offset: 0, length: 0 };
    let mut reply = ReplyHead { index, ..ReplyHead::new(Kind::Lease, request, LeaseHead::BYTES) };
    let mut text = String::new();
    match answer {
        Ok(Answer { place, source, lease, number, fresh }) => {
            reply.source = wire::source(source);
            reply.flags = Flags { label: place.label.is_some(), more: false, descriptor: fresh };
            (head.label, head.lease) = (place.label.unwrap_or(0), number);
            (head.object_bytes, head.offset, head.length) = (lease.size, place.range.start, place.size());
        }
        Err(error) => {
            text = text_of(&error);
            reply.status = wire::code(&error);
            reply.body_bytes += text.len() as u32;
        }
    }
    bytes.extend_from_slice(&reply.encode());
    bytes.extend_from_slice(&head.encode());
    bytes.extend_from_slice(text.as_bytes());
}
