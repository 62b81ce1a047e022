//! One reader of one object: its streams, and whether it jumps by equal distances.

use super::{
    Access, Advice, Pattern, ReaderId,
    line::{Head, Line, Widths},
};
use std::ops::Range;

/// Streams of one open file: threads may share it.
const STREAMS: usize = 4;
/// Streams of all who do not say who they are.
const STREAMS_OF_MANY: usize = 32;
/// So many equal distances in a row are no chance.
const EQUAL: u32 = 2;
/// How many jumps ahead are proposed at first, and at most.
const JUMPS_AHEAD: (u64, u64) = (4, 16);

/// One reader.
#[derive(Debug)]
pub(super) struct Reader {
    line: Line,
    jumps: Jumps,
    last_read: u64,
    /// It was seen to read its object from the beginning to the end.
    is_through: bool,
    /// So many objects in a row were taken for read because one before them was.
    pub(super) unseen: u32,
}

/// Where a reader jumped to.
#[derive(Debug)]
struct Jumps {
    /// Where the last jump went.
    start: u64,
    /// How far it was from the one before.
    stride: u64,
    /// How often in a row it was that far.
    equal: u32,
    /// What is read between two jumps.
    length: u64,
    /// Jumps up to here were proposed.
    proposed: u64,
    /// How many to propose.
    count: u64,
    /// What must be read between two jumps for them to be more than jumps.
    least_bytes: u64,
    /// The most bytes that may lie ahead.
    most_bytes: u64,
}

impl Reader {
    /// A reader; `named` if it is one open file and not all who do not say who they are.
    pub(super) fn new(widths: Widths, named: bool) -> Self {
        let jumps = Jumps {
            start: 0,
            stride: 0,
            equal: 0,
            length: 0,
            proposed: 0,
            count: JUMPS_AHEAD.0,
            least_bytes: widths.least,
            most_bytes: widths.most,
        };
        let line = Line::new(widths, if named { STREAMS } else { STREAMS_OF_MANY });
        Self { line, jumps, last_read: 0, is_through: false, unseen: 0 }
    }

    /// The same reader, who comes from the end of another object.
    pub(super) fn going_on(self, head: Head) -> Self {
        Self { line: self.line.going_on(head), ..self }
    }

    /// What a reader of the next object begins with, of whose bytes all before `proposed` were proposed.
    pub(super) fn head(&self, proposed: u64) -> Option<Head> {
        self.line.newest().map(|stream| stream.head(proposed))
    }

    /// When it last read.
    pub(super) fn last_read(&self) -> u64 {
        self.last_read
    }

    /// Whether it has read its object from the beginning to the end.
    pub(super) fn is_through(&self) -> bool {
        self.is_through
    }

    pub(super) fn read(&mut self, access: &Access, now: u64) -> Advice {
        let Access { range, object_bytes, waits, .. } = access;
        self.last_read = now;
        let before = self.line.newest().map_or(0, |stream| stream.length());
        if let Some(stream) = self.line.read(range, *waits, now) {
            let read = self.line.stream(stream);
            self.is_through |= read.begins() && read.end() >= *object_bytes;
            // Who jumps by equal distances stops where it stopped before.
            let within = self.jumps.is_strided() && self.line.stream(stream).length() <= self.jumps.length;
            let ahead = if within { 0..0 } else { self.line.ahead(stream, u64::MAX) };
            // Who did not begin where the object does may not go on where the next one begins.
            let beyond_bytes = match self.line.stream(stream).begins() && !ahead.is_empty() {
                true => ahead.end.saturating_sub(*object_bytes),
                false => 0,
            };
            let ahead = ahead.start..ahead.end.min(*object_bytes);
            let ahead = if ahead.is_empty() { Vec::new() } else { vec![ahead] };
            let pattern = match (self.line.is_sure(stream), self.line.stream(stream).begins()) {
                (true, _) => Pattern::Sequential,
                (false, true) => Pattern::Start,
                (false, false) => access.jump(),
            };
            return Advice { pattern, ahead, beyond_bytes };
        }
        self.jumps.to(range, before, *waits);
        if self.jumps.is_strided() {
            return Advice { pattern: Pattern::Strided, ahead: self.jumps.ahead(*object_bytes), beyond_bytes: 0 };
        }
        let pattern = if range.start == 0 { Pattern::Start } else { access.jump() };
        Advice { pattern, ahead: Vec::new(), beyond_bytes: 0 }
    }

    /// Whether a range that was proposed is still ahead.
    pub(super) fn wants(&self, range: &Range<u64>) -> bool {
        let jumps = &self.jumps;
        let strided = jumps.is_strided() && range.start > jumps.start && range.start <= jumps.proposed;
        strided || self.line.wants(range)
    }
}

impl Access {
    fn jump(&self) -> Pattern {
        if self.reader.handle & ReaderId::PAGED == 0 { Pattern::Jump } else { Pattern::Glance }
    }
}

impl Jumps {
    fn is_strided(&self) -> bool {
        self.equal >= EQUAL && self.length >= self.least_bytes
    }

    /// A jump, after so much was read at the last.
    fn to(&mut self, range: &Range<u64>, read_before: u64, waits: bool) {
        match range.start.checked_sub(self.start) {
            Some(stride) if stride == self.stride && stride > 0 => self.equal = self.equal.saturating_add(1),
            stride => (self.stride, self.equal, self.count) = (stride.unwrap_or(0), 1, JUMPS_AHEAD.0),
        }
        self.length = read_before.max(range.end - range.start);
        if waits && self.is_strided() && range.start <= self.proposed {
            self.count = (self.count * 2).min(JUMPS_AHEAD.1);
        }
        if self.equal == EQUAL {
            self.proposed = range.start;
        }
        self.start = range.start;
    }

    fn ahead(&mut self, end: u64) -> Vec<Range<u64>> {
        let affordable = (self.most_bytes / self.length.max(1)).min(self.count);
        let mut ahead = Vec::new();
        for jump in 1..=affordable {
            let place = self.stride.checked_mul(jump).and_then(|far| self.start.checked_add(far));
            let Some(start) = place.filter(|start| *start < end) else { break };
            if start > self.proposed {
                ahead.push(start..start.saturating_add(self.length).min(end));
                self.proposed = start;
            }
        }
        ahead
    }
}
