//! Fetching ahead of readers who have no plan: the loop around the machine that guesses.
//!
//! Doors tell what is read and opened; what the machine proposes waits in short queues: what lies ahead in an open object,
//! then where its reader will go on in the next, then the beginnings of objects that come next by name. It is brought in by a bounded number of requests, with memory that
//! readers leave free, and never more than may lie unread. A reader who catches up joins the flight. While a dataset has
//! jobs, which say what they will read, nothing is guessed.

mod whole;

use super::{
    Source,
    dataset::Dataset,
    fetch::{Keep, Keeps},
    flight::{Leg, Waiter},
    guess::PATIENCE,
    hold::Reason,
    read::{Manner, REQUEST_BYTES},
    segment::Receive,
};
use crate::id::{ObjectSlot, PieceId};
use fodder_policy::readahead::{Access, Pattern, Readahead, ReaderId, Rent};
use parking_lot::Mutex;
use std::{
    collections::VecDeque,
    ops::Range,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Wishes that may wait; the oldest go first, since their readers have come closest.
const MAX_WISHES: usize = 1024;
/// What is brought in of an object before it is opened: all of one that is small.
const HEAD_BYTES: u64 = 8 << 20;
/// The part of all that may lie unread that may lie ahead of one reader.
const READER_PART: u64 = 4;
/// The part of all that may lie unread that beginnings of objects leave to what is ahead in open ones.
const OBJECTS_PART: u64 = 2;
/// The part of the memory budget that is in use at most when a guess takes some.
const MEMORY_PART: u64 = 2;
/// The largest pieces there are. What is strided and small beside them is not guessed, since whole pieces would come.
const PIECE_BYTES: u64 = 1 << 20;
/// How often it is looked again for room, and how often at most.
const LOOK_AGAIN: (Duration, usize) = (Duration::from_millis(10), 100);
/// How often guesses that nobody read are given up.
const TICK: Duration = Duration::from_secs(1);

/// Something to bring in.
#[derive(Debug, Clone)]
enum Wish {
    /// A range of an object that one of its readers comes to.
    Range { reader: ReaderId, range: Range<u64> },
    /// A range of the object that a reader comes to from the end of another.
    Next { object: ObjectSlot, range: Range<u64> },
    /// The beginning of the object at a place in the order of names.
    Object { place: u32 },
}

/// What watches the readers of a dataset.
#[derive(Debug)]
pub(super) struct Lookahead {
    machine: Mutex<Readahead>,
    rent: Mutex<Rent>,
    wishes: Mutex<Wishes>,
    news: Notify,
    slots: Arc<Semaphore>,
    /// When somebody last waited in vain for all of an object.
    in_vain: Mutex<Option<Instant>>,
}

#[derive(Debug, Default)]
struct Wishes {
    ranges: VecDeque<Wish>,
    next: VecDeque<Wish>,
    objects: VecDeque<Wish>,
}

impl Wishes {
    fn is_empty(&self) -> bool {
        self.ranges.is_empty() && self.next.is_empty() && self.objects.is_empty()
    }

    /// What is ahead in open objects comes first.
    fn first(&mut self) -> Option<&mut VecDeque<Wish>> {
        [&mut self.ranges, &mut self.next, &mut self.objects].into_iter().find(|queue| !queue.is_empty())
    }
}

impl Lookahead {
    /// Brings in so many things at a time, of which at most `most_bytes` lie unread.
    pub(super) fn new(most_bytes: u64, at_a_time: usize) -> Self {
        Self {
            machine: Mutex::new(Readahead::new(REQUEST_BYTES, most_bytes / READER_PART, PIECE_BYTES)),
            rent: Mutex::default(),
            wishes: Mutex::default(),
            news: Notify::new(),
            slots: Arc::new(Semaphore::new(at_a_time)),
            in_vain: Mutex::default(),
        }
    }

    /// There may be something to bring in, or room for it.
    pub(super) fn wake(&self) {
        self.news.notify_one();
    }

    fn wish(&self, wishes: impl Iterator<Item = Wish>) {
        let mut waiting = self.wishes.lock();
        for wish in wishes {
            let queue = match wish {
                Wish::Range { .. } => &mut waiting.ranges,
                Wish::Next { .. } => &mut waiting.next,
                Wish::Object { .. } => &mut waiting.objects,
            };
            if queue.len() >= MAX_WISHES {
                queue.pop_front();
            }
            queue.push_back(wish);
        }
        drop(waiting);
        self.wake();
    }

    fn wants(&self, wish: &Wish) -> bool {
        let machine = self.machine.lock();
        match wish {
            Wish::Range { reader, range } => machine.wants(*reader, range),
            Wish::Next { object, range } => machine.wants_next(object.0, range),
            Wish::Object { place } => machine.wants_object(*place),
        }
    }
}

impl Dataset {
    /// A door says that a range of an object is read by an open file of a client's (0: nobody says whose), and whether the
    /// reader waits. How the read lies to those before it.
    pub fn notice_read(&self, object: ObjectSlot, range: &Range<u64>, handle: u64, waits: bool) -> Pattern {
        if range.is_empty() || !self.guesses() {
            return Pattern::Start;
        }
        let reader = ReaderId { object: object.0, handle };
        let access = Access { reader, range: range.clone(), object_bytes: self.objects.load().size(object), waits };
        // A cached read does not wait for other threads, and may be missed. The end of an object is always noticed: it decides
        // whether the next object is brought in.
        let must_notice = waits || range.end >= access.object_bytes;
        let machine = if must_notice { Some(self.lookahead.machine.lock()) } else { self.lookahead.machine.try_lock() };
        let Some(mut machine) = machine else { return Pattern::Start };
        let advice = machine.read(&access);
        drop(machine);
        if !advice.ahead.is_empty() {
            let requests = advice.ahead.into_iter().flat_map(split);
            self.lookahead.wish(requests.map(|range| Wish::Range { reader, range }));
        }
        if handle == 0 && range.start == 0 {
            self.notice_open(object, waits);
        }
        if advice.beyond_bytes > 0 {
            self.look_beyond(reader, advice.beyond_bytes);
        }
        advice.pattern
    }

    /// A reader looks so many bytes past the end of its object: into the next ones, if objects are read in order. Who reads
    /// the first of a directory from its beginning on will probably go on with the second: no more of that than of the first.
    fn look_beyond(&self, reader: ReaderId, mut bytes: u64) {
        let (snapshot, objects) = (self.snapshot(), self.objects.load());
        let Some(mut place) = snapshot.place_of(ObjectSlot(reader.object)) else { return };
        let first_of_many = snapshot.begins_directory(place).then(|| objects.size(ObjectSlot(reader.object)));
        let mut wishes = Vec::new();
        let mut machine = self.lookahead.machine.lock();
        while bytes > 0 {
            place += 1;
            let Some(object) = snapshot.object_at(place) else { break };
            let size = objects.size(object);
            let in_order = machine.wants_object(place);
            // Where nothing is brought in of it, and the reader comes, it still goes on as it ended.
            let wanted = if in_order { bytes } else { bytes.min(first_of_many.unwrap_or(0)) };
            let range = machine.expect(reader, object.0, wanted, size);
            wishes.extend(split(range).map(|range| Wish::Next { object, range }));
            if !in_order {
                break;
            }
            bytes = bytes.saturating_sub(size);
        }
        drop(machine);
        if !wishes.is_empty() {
            self.lookahead.wish(wishes.into_iter());
        }
    }

    /// A door says that an object is opened, and whether who opens it will have to wait for its bytes.
    pub fn notice_open(&self, object: ObjectSlot, waits: bool) {
        if !self.guesses() {
            return;
        }
        let snapshot = self.snapshot();
        let Some(place) = snapshot.place_of(object) else { return };
        let ahead = self.lookahead.machine.lock().open(place, snapshot.object_count(), waits);
        if !ahead.is_empty() {
            // Through a mount, what is behind a link is read where it really is.
            let ahead = ahead.filter(|place| !snapshot.is_linked(*place));
            self.lookahead.wish(ahead.map(|place| Wish::Object { place }));
        }
    }

    /// Whether a jump to a missing run of pieces fetches no more than it reads.
    pub(super) fn rents(&self, pieces: Range<u32>, read: &Range<u64>, manner: Manner) -> bool {
        let mut rent = self.lookahead.rent.lock();
        pieces.map(PieceId).all(|piece| {
            let range = self.piece_range(piece).1;
            let wanted = read.end.min(range.end).saturating_sub(read.start.max(range.start)) as u32;
            let piece_bytes = (range.end - range.start) as u32;
            match manner {
                Manner::Glance => rent.pays_for_glance(piece.0, wanted, piece_bytes),
                _ => rent.pays(piece.0, wanted, piece_bytes),
            }
        })
    }

    /// A read was answered from here: names the source as it is counted, since what was guessed is no plain hit.
    pub(super) fn source_of(&self, object: ObjectSlot, range: &Range<u64>, source: Source) -> Source {
        if self.guessed.is_empty() {
            return source;
        }
        match (self.guess_read(self.pieces_in(object, range)), source) {
            (true, Source::Tier(_)) => Source::Prefetched,
            _ => source,
        }
    }

    /// Pieces were read: whether one of them had been guessed.
    pub(super) fn guess_read(&self, pieces: Range<u32>) -> bool {
        let guessed = self.guessed.read(pieces);
        if guessed {
            self.lookahead.wake();
        }
        guessed
    }

    fn guesses(&self) -> bool {
        self.shared.guesses.most_bytes() > 0 && self.jobs.is_empty()
    }

    /// Brings in what is guessed, until the dataset is closed.
    pub(super) fn read_ahead(self: &Arc<Self>) {
        let (dataset, lookahead) = (Arc::downgrade(self), Arc::clone(&self.lookahead));
        if self.shared.guesses.most_bytes() == 0 {
            return;
        }
        self.spawn(async move {
            while let Ok(slot) = Arc::clone(&lookahead.slots).acquire_owned().await {
                let Some(dataset) = dataset.upgrade() else { return };
                if let Some((wish, pieces)) = dataset.next_wish() {
                    dataset.bring_wish(&wish, pieces, slot).await;
                    continue;
                }
                let nothing_lies = dataset.guessed.is_empty() && dataset.staging.is_empty();
                let idle = nothing_lies && lookahead.wishes.lock().is_empty();
                drop((slot, dataset));
                let news = lookahead.news.notified();
                if idle {
                    news.await;
                } else {
                    let _ = tokio::time::timeout(TICK, news).await;
                }
            }
        });
    }

    /// The first wish that is still one and for which there is room, and the pieces to bring in.
    fn next_wish(&self) -> Option<(Wish, Range<u32>)> {
        self.guessed.expire();
        self.staging.expire();
        let mut wishes = self.lookahead.wishes.lock();
        loop {
            let queue = wishes.first()?;
            let wish = queue.front()?.clone();
            let pieces = self.pieces_of_wish(&wish);
            let missing = |piece: u32| !self.holds(PieceId(piece));
            let bytes: u64 =
                pieces.clone().filter(|p| missing(*p)).map(|piece| u64::from(self.piece_len(PieceId(piece)))).sum();
            let wanted = bytes > 0 && self.jobs.is_empty() && self.lookahead.wants(&wish);
            let reserve = match wish {
                Wish::Range { .. } | Wish::Next { .. } => 0,
                Wish::Object { .. } => {
                    let most = self.shared.guesses.most_bytes();
                    (most / OBJECTS_PART).min(most.saturating_sub(bytes))
                }
            };
            if wanted && !self.guessed.has_room(bytes + reserve) {
                return None;
            }
            queue.pop_front();
            if wanted {
                return Some((wish, pieces));
            }
        }
    }

    fn pieces_of_wish(&self, wish: &Wish) -> Range<u32> {
        let (object, range) = match wish {
            Wish::Range { reader, range } => (ObjectSlot(reader.object), range.clone()),
            Wish::Next { object, range } => (*object, range.clone()),
            Wish::Object { place } => match self.snapshot().object_at(*place) {
                Some(object) => (object, 0..HEAD_BYTES.min(self.objects.load().size(object))),
                None => return 0..0,
            },
        };
        self.pieces_in(object, &range)
    }

    /// Sends flights for what is missing of a wish, in order: what is wanted first has its place before what comes later. The
    /// slot is held until they have arrived.
    async fn bring_wish(self: &Arc<Self>, wish: &Wish, pieces: Range<u32>, slot: OwnedSemaphorePermit) {
        let slot = Arc::new(slot);
        let (mut next, mut looks) = (pieces.start, 0);
        while next < pieces.end && self.lookahead.wants(wish) {
            let Ok(stretch) = self.stretch_of(next..pieces.end) else { return };
            let bytes = u64::from(stretch.count) * stretch.piece_bytes;
            let Ok(mut permit) = self.spare_memory(bytes.min(stretch.object_bytes), MEMORY_PART).await else { return };
            let leg = self.flights.next_leg(&stretch, |piece| self.holds(piece), |run| self.admit_guess(run));
            match leg {
                Leg::Kept(count) | Leg::Joined(_, count) => next += count,
                Leg::Unwanted(_) if looks < LOOK_AGAIN.1 => {
                    looks += 1;
                    drop(permit);
                    tokio::time::sleep(LOOK_AGAIN.0).await;
                }
                Leg::Unwanted(_) => return,
                Leg::Claimed(waiter, keeps, count) => {
                    let run = next..next + count;
                    self.guessed.made(run.clone().map(|piece| (piece, u64::from(self.piece_len(PieceId(piece))))));
                    let bytes = waiter.flight.range.end - waiter.flight.range.start;
                    // What is staged may stay in memory for long, and is gathered for that.
                    let to_shelves = keeps.iter().all(|keep| matches!(keep, Some(Keep::Shelf(..))));
                    let receive = if to_shelves { Receive::InPlace } else { Receive::Gathered };
                    self.launch(Arc::clone(&waiter.flight), keeps, permit.split(bytes), receive);
                    self.await_guess(waiter, run, Arc::clone(&slot));
                    next += count;
                }
            }
        }
    }

    /// Waits for a flight that brings a guess, so that it is not abandoned.
    fn await_guess(self: &Arc<Self>, waiter: Waiter, run: Range<u32>, slot: Arc<OwnedSemaphorePermit>) {
        let dataset = Arc::clone(self);
        self.spawn(async move {
            if let Err(error) = waiter.wait(waiter.flight.range.clone()).await {
                tracing::debug!(dataset = dataset.config().name, %error, "cannot read ahead");
                run.clone().for_each(|piece| dataset.staging.release(piece));
                dataset.guessed.failed(run);
            }
            drop(slot);
        });
    }

    /// Where guessed pieces go: where the policies want them, else to the staging area. None if one has no place.
    fn admit_guess(&self, pieces: Range<u32>) -> Option<Keeps> {
        let mut keeps = Keeps::with_capacity(pieces.len());
        for piece in pieces.clone() {
            let keep = match self.admit_below(0, PieceId(piece)) {
                Some((level, place)) => Keep::Shelf(level, place),
                None if self.stage_guess(piece) => Keep::Stage,
                None => {
                    let staged = pieces.zip(&keeps).filter(|(_, keep)| matches!(keep, Some(Keep::Stage)));
                    staged.for_each(|(piece, _)| self.staging.release(piece));
                    return None;
                }
            };
            keeps.push(Some(keep));
        }
        Some(keeps)
    }

    fn stage_guess(&self, piece: u32) -> bool {
        let bytes = u64::from(self.piece_len(PieceId(piece)));
        let staged = self.staging.reserve(piece, bytes, Reason::Guessed);
        if staged {
            self.staging.expect_by(piece, PATIENCE);
        }
        staged
    }
}

/// A range in parts that are one request each.
fn split(range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let mut at = range.start;
    std::iter::from_fn(move || {
        let end = ((at / REQUEST_BYTES + 1) * REQUEST_BYTES).min(range.end);
        let part = at..end;
        at = end;
        (!part.is_empty()).then_some(part)
    })
}
