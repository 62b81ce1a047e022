//! What to bring in ahead of readers who have said nothing about what they will read: a guess from what they did read.
//!
//! Two lines are watched with the same eyes: the bytes of an object, for each of its readers, and the objects of a dataset
//! in the order of their names. Reads that follow each other on a line make a *stream*; what lies ahead of a stream is
//! proposed, a little at first and more while the reader still has to wait. Reads at equal distances are *strided*. Reads
//! that jump make nothing. [`Rent`] decides how much of a piece a jump may bring in. Who reads object after object is one
//! stream over all of them: it looks past the end of one into the next, and goes on there as it ended.
//!
//! Nothing here knows pieces that are cached, requests or memory: whoever asks leaves out what is there already.

mod line;
mod next;
mod reader;
mod rent;

pub use rent::Rent;

use line::{Line, Widths};
use next::Expected;
use reader::Reader;
use rustc_hash::FxHashMap;
use std::ops::Range;

/// Readers that are remembered at a time; the one who has been silent longest is forgotten first.
const MAX_READERS: usize = 4096;
/// Streams that are told apart among the objects of a dataset: one for each of so many workers.
const OBJECT_STREAMS: usize = 16;
/// How many objects ahead are brought in at first, and at most.
const OBJECTS_AHEAD: (u64, u64) = (4, 64);
/// How many blocks ahead of a reader are brought in at first.
const BLOCKS_AHEAD: u64 = 4;
/// A first read of so many bytes is the beginning of a stream.
const BOLD_BYTES: u64 = 512 << 10;
/// So many objects in a row are taken for read to their end because the one before them was; then it is seen again.
const MAX_UNSEEN: u32 = 8;
/// Reads that begin within so many times their length of where a stream ends go on from it.
const SLACK: u64 = 4;

/// Who reads: an object by its slot, and a number that a client gives to one of its open files. 0 stands for all who do not
/// say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ReaderId {
    /// The object.
    pub object: u32,
    /// The open file.
    pub handle: u64,
}

impl ReaderId {
    /// Set in a handle: these are pages that a kernel asks for around one of a mapped file that somebody has touched.
    pub const PAGED: u64 = 1 << 63;
    /// The handle of whoever reads all of an object at once, and is not seen doing it.
    const UNSEEN: u64 = u64::MAX;

    fn unseen(object: u32) -> Self {
        Self { object, handle: Self::UNSEEN }
    }
}

/// One read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// Who reads.
    pub reader: ReaderId,
    /// The bytes that are read; not empty.
    pub range: Range<u64>,
    /// The size of the object.
    pub object_bytes: u64,
    /// Whether the reader has to wait for an origin.
    pub waits: bool,
}

/// How a read lies to those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// It begins an object, or nothing is known of it.
    Start,
    /// It goes on where others ended.
    Sequential,
    /// It is as far from the last as that was from the one before.
    Strided,
    /// It goes somewhere else, or has hardly begun to go on there.
    Jump,
    /// The same, and of what is read only a little is known to be used: see [`ReaderId::PAGED`].
    Glance,
}

/// How a read lies to those before it, and what to bring in because of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    /// How it lies.
    pub pattern: Pattern,
    /// Ranges of the object, in the order in which they will be wanted. What was proposed once is not proposed again.
    pub ahead: Vec<Range<u64>>,
    /// So many bytes behind the object's end would be proposed as well, if the object did not end there.
    pub beyond_bytes: u64,
}

/// Watches the readers of one dataset.
#[derive(Debug)]
pub struct Readahead {
    widths: Widths,
    readers: FxHashMap<ReaderId, Reader>,
    objects: Line,
    /// Objects that readers of others come to.
    expected: Expected,
    /// Counts what it was told: the time by which it tells old from new.
    now: u64,
}

impl Readahead {
    /// Proposes in blocks of so many bytes, and no more than `most_bytes` ahead of one reader. What is brought in are pieces
    /// of so many bytes: what is far smaller than these is no stream and no stride.
    pub fn new(block_bytes: u64, most_bytes: u64, piece_bytes: u64) -> Self {
        let block_bytes = block_bytes.max(1);
        let most = most_bytes / block_bytes * block_bytes;
        let widths = Widths {
            grid: block_bytes,
            first: (BLOCKS_AHEAD * block_bytes).min(most),
            most,
            slack: SLACK,
            least: piece_bytes / u64::from(Rent::MOST_BYTES_A_BYTE),
            bold: BOLD_BYTES,
            trust_within: 1,
        };
        let (first, most) = OBJECTS_AHEAD;
        let of_objects = Widths { grid: 1, first, most, slack: 1, least: 0, bold: u64::MAX, trust_within: first };
        Self {
            widths,
            readers: FxHashMap::default(),
            objects: Line::new(of_objects, OBJECT_STREAMS),
            expected: Expected::default(),
            now: 0,
        }
    }

    /// Somebody reads.
    pub fn read(&mut self, access: &Access) -> Advice {
        self.now += 1;
        if !self.readers.contains_key(&access.reader) && self.readers.len() >= MAX_READERS {
            self.forget_silent();
        }
        let named = access.reader.handle != 0;
        let reader = self.readers.entry(access.reader).or_insert_with(|| {
            let reader = Reader::new(self.widths, named);
            match self.expected.take(access) {
                Some(head) => reader.going_on(head),
                None => reader,
            }
        });
        reader.read(access, self.now)
    }

    /// A reader looks past the end of its object, `bytes` far into this one, which comes next. What to bring in of it now. With
    /// no bytes it is only remembered who may come.
    pub fn expect(&mut self, reader: ReaderId, object: u32, bytes: u64, object_bytes: u64) -> Range<u64> {
        // Whoever looks into the next object has come to its own, and nobody is expected there any more. But who is not seen
        // looks there at once.
        if reader.handle != ReaderId::UNSEEN {
            self.expected.arrived(reader);
        }
        let reach = bytes.checked_next_multiple_of(self.widths.grid).unwrap_or(object_bytes).min(object_bytes);
        match self.readers.get(&reader).and_then(|reader| reader.head(reach)) {
            Some(head) => self.expected.expect(object, reader, head),
            None => 0..0,
        }
    }

    /// Somebody opens the object at this place in the order of names, and has to wait for it or not. The places whose
    /// objects should be brought in.
    pub fn open(&mut self, place: u32, count: u32, waits: bool) -> Range<u32> {
        self.now += 1;
        let range = u64::from(place)..u64::from(place) + 1;
        let Some(stream) = self.objects.read(&range, waits, self.now) else { return 0..0 };
        let ahead = self.objects.ahead(stream, u64::from(count));
        ahead.start as u32..ahead.end as u32
    }

    /// Somebody opens an object to which a reader comes who has read the one before from its beginning to its end: it will
    /// do the same here, so all of the object may be brought in at once. Then who that is, and how many bytes behind the
    /// object's end to look. None if nothing is known of who opens it.
    pub fn open_all(&mut self, object: u32, object_bytes: u64) -> Option<(ReaderId, u64)> {
        let reader = ReaderId::unseen(object);
        if self.expected.reader_of(object) == Some(Some(reader)) {
            // Somebody else has just opened it, too.
            return Some((reader, 0));
        }
        let (from, is_unseen) = self.expected.who_comes(object)?;
        let from = self.readers.get(&from)?;
        let unseen = from.unseen + 1;
        if !(is_unseen || from.is_through()) || unseen > MAX_UNSEEN {
            return None;
        }
        // From an earlier time that it was opened.
        self.readers.remove(&reader);
        let advice = self.read(&Access { reader, range: 0..object_bytes, object_bytes, waits: true });
        self.readers.get_mut(&reader)?.unseen = unseen;
        Some((reader, advice.beyond_bytes))
    }

    /// All of an object is at hand for whoever has opened it, who is not seen reading it any more.
    pub fn all_given(&mut self, object: u32) {
        self.expected.arrived(ReaderId::unseen(object));
        self.expected.unseen(object);
    }

    /// All of an object was to be brought in, and did not come in time: its reader will be seen.
    pub fn all_late(&mut self, object: u32) {
        self.expected.left(ReaderId::unseen(object));
    }

    /// Whether a range that was proposed is still ahead of its reader.
    pub fn wants(&self, reader: ReaderId, range: &Range<u64>) -> bool {
        self.readers.get(&reader).is_some_and(|reader| reader.wants(range))
    }

    /// Whether an object that was proposed is still ahead of those who read objects in order.
    pub fn wants_object(&self, place: u32) -> bool {
        self.objects.wants(&(u64::from(place)..u64::from(place) + 1))
    }

    /// Whether a range that was proposed of an object that was to come next is still ahead.
    pub fn wants_next(&self, object: u32, range: &Range<u64>) -> bool {
        match self.expected.reader_of(object) {
            Some(Some(reader)) if reader.handle != ReaderId::UNSEEN => self.wants(reader, range),
            Some(_) => true,
            None => false,
        }
    }

    /// Makes room for readers: an eighth of those who have been silent longest.
    fn forget_silent(&mut self) {
        let mut last: Vec<u64> = self.readers.values().map(Reader::last_read).collect();
        let (_, limit, _) = last.select_nth_unstable(MAX_READERS / 8);
        let limit = *limit;
        self.readers.retain(|_, reader| reader.last_read() > limit);
    }
}

#[cfg(test)]
mod tests;
