//! A line on which reads lie, and the streams among them. Knows numbers only: bytes of an object, or places of objects.

use std::ops::Range;

/// So many times what a stream has read may lie ahead of it: who has read little is not trusted with much.
const TRUST: u64 = 16;
/// So many times as far a stream looks when its reader had to wait for what was proposed.
const GROWTH: u64 = 4;
/// A stream outlives a read that nothing followed by so many events.
const HEAD_START: u64 = 256;

/// How a line is looked at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Widths {
    /// Proposals end at multiples of this, so that they become large requests.
    pub(super) grid: u64,
    /// How far ahead to look at first.
    pub(super) first: u64,
    /// And at most.
    pub(super) most: u64,
    /// A read belongs to a stream if it begins no further from the stream's end than so many times its own length: parts
    /// of one large read arrive in any order.
    pub(super) slack: u64,
    /// What a stream must have read to be more than chance: a page at a time, a small record is several reads.
    pub(super) least: u64,
    /// A first read of so much, where the line begins, will go on: nobody looks at a header with that.
    pub(super) bold: u64,
    /// So many times what a stream has read may lie ahead of it that did not begin where the line does: it may be one large
    /// read that is about to end.
    pub(super) trust_within: u64,
}

/// Reads that follow each other.
#[derive(Debug, Clone)]
pub(super) struct Stream {
    /// From the first to the last that was read.
    read: Range<u64>,
    /// Reads that went on from others.
    steps: u32,
    /// All before this was proposed.
    proposed: u64,
    /// How far ahead to look; grows when the reader has to wait for what was proposed.
    width: u64,
    /// What was read before it on the line that it goes on from: trusted like what it read itself.
    credit: u64,
    /// No longer than this it is like those before it, which ended: a jump.
    doubt: u64,
    last_read: u64,
}

/// What a line begins with that goes on from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    /// All before this was proposed.
    pub(super) proposed: u64,
    /// How far ahead its reader looked on the other.
    pub(super) width: u64,
    /// How much it read there.
    pub(super) credit: u64,
}

impl Stream {
    /// How much of the line it has read.
    pub(super) fn length(&self) -> u64 {
        self.read.end - self.read.start
    }

    /// Where it is.
    pub(super) fn end(&self) -> u64 {
        self.read.end
    }

    /// What a line begins with that goes on from this one's end, when all before `proposed` was proposed on it.
    pub(super) fn head(&self, proposed: u64) -> Head {
        Head { proposed, width: self.width, credit: self.credit.saturating_add(self.length()) }
    }

    fn takes(&self, range: &Range<u64>, widths: &Widths) -> bool {
        let slack = (range.end - range.start).saturating_mul(widths.slack);
        range.start <= self.read.end.saturating_add(slack) && range.start.saturating_add(slack) >= self.read.end
    }

    fn step(&mut self, range: &Range<u64>, waits: bool, widths: &Widths) {
        let moves = range.start < self.read.start || range.end > self.read.end;
        if moves {
            self.steps = self.steps.saturating_add(1);
        }
        self.read = self.read.start.min(range.start)..self.read.end.max(range.end);
        // Who asks for the same again has not come to the end of what was proposed.
        if moves && waits && self.proposed > range.start && self.is_sure(widths) {
            self.width = (self.width * GROWTH).min(widths.most);
        }
    }

    /// Whether it will go on. Two that follow each other at the beginning will; anywhere else they may be chance, and three
    /// are not, unless its reader has a habit of ending there.
    pub(super) fn is_sure(&self, widths: &Widths) -> bool {
        let is_long = self.length() >= widths.least && self.length() > self.doubt;
        self.steps >= if self.begins() { 1 } else { 2 } && is_long
    }

    /// Whether it began where the line does.
    pub(super) fn begins(&self) -> bool {
        self.read.start == 0
    }

    /// What is to be proposed now.
    fn ahead(&mut self, end: u64, widths: &Widths) -> Range<u64> {
        let is_within = !self.begins();
        let trust = if is_within { widths.trust_within } else { TRUST };
        let trusted = self.length().saturating_add(self.credit).saturating_mul(trust);
        let reach = self.read.end.saturating_add(self.width.min(trusted));
        let reach = match is_within && trusted < widths.first {
            true => reach / widths.grid * widths.grid,
            false => reach.checked_next_multiple_of(widths.grid).unwrap_or(end),
        };
        let reach = reach.min(end);
        let from = self.proposed.max(self.read.end);
        if self.width == 0 || !self.is_sure(widths) || from >= reach {
            return from..from;
        }
        self.proposed = reach;
        from..reach
    }
}

/// A line, and the streams on it.
#[derive(Debug)]
pub(super) struct Line {
    widths: Widths,
    most_streams: usize,
    streams: Vec<Stream>,
    /// What its first stream begins with, if that begins where the line does.
    head: Option<Head>,
    /// About how much is read on it between two jumps; 0 if that is much, or not known.
    habit: u64,
}

impl Line {
    pub(super) fn new(widths: Widths, most_streams: usize) -> Self {
        Self { widths, most_streams, streams: Vec::new(), head: None, habit: 0 }
    }

    /// A line whose reader comes from the end of another.
    pub(super) fn going_on(self, head: Head) -> Self {
        Self { head: Some(head), ..self }
    }

    /// The stream that was read from last.
    pub(super) fn newest(&self) -> Option<&Stream> {
        self.streams.iter().max_by_key(|stream| stream.last_read)
    }

    /// A read that goes on from another, here or on the line before, or that surely will: the stream it belongs to. None if
    /// it begins one, which is remembered.
    pub(super) fn read(&mut self, range: &Range<u64>, waits: bool, now: u64) -> Option<usize> {
        let belongs = |n: &usize| self.streams[*n].takes(range, &self.widths);
        let nearest =
            (0..self.streams.len()).filter(belongs).min_by_key(|n| self.streams[*n].read.end.abs_diff(range.start));
        if let Some(stream) = nearest {
            self.streams[stream].last_read = now;
            self.streams[stream].step(range, waits, &self.widths);
            return Some(stream);
        }
        self.jumped();
        if self.streams.len() >= self.most_streams {
            let worth = |stream: &Stream| stream.last_read + if stream.steps > 0 { HEAD_START } else { 0 };
            let least = (0..self.streams.len()).min_by_key(|n| worth(&self.streams[*n]));
            least.map(|least| self.streams.swap_remove(least));
        }
        let head = self.head.take_if(|_| range.start == 0);
        let is_bold = range.start == 0 && range.end >= self.widths.bold;
        let goes_on = head.is_some() || is_bold;
        // Who waits already for what it begins with will wait for what follows, and is trusted with all of it: otherwise the
        // next round trip brings little more than the first.
        let growth = if goes_on && waits { GROWTH } else { 1 };
        let width = (self.widths.first * growth).min(self.widths.most);
        let credit = if is_bold && waits { width / TRUST } else { 0 };
        let head = head.unwrap_or(Head { proposed: 0, width, credit });
        self.streams.push(Stream {
            read: range.clone(),
            steps: u32::from(goes_on),
            proposed: range.end.max(head.proposed),
            width: head.width,
            credit: head.credit,
            doubt: if range.start == 0 { 0 } else { self.habit },
            last_read: now,
        });
        goes_on.then(|| self.streams.len() - 1)
    }

    /// The reader leaves its newest stream, which may be all of a large read: a mount passes it on in parts, which follow each
    /// other.
    fn jumped(&mut self) {
        let Some(length) = self.newest().map(Stream::length) else { return };
        let is_long = length >= self.widths.first;
        self.habit = if is_long { 0 } else { length.max(self.habit - self.habit / 8) };
    }

    /// A stream by its number.
    pub(super) fn stream(&self, number: usize) -> &Stream {
        &self.streams[number]
    }

    /// Whether a stream will go on.
    pub(super) fn is_sure(&self, number: usize) -> bool {
        self.streams[number].is_sure(&self.widths)
    }

    /// What is to be proposed ahead of a stream, on a line that ends at `end`.
    pub(super) fn ahead(&mut self, number: usize, end: u64) -> Range<u64> {
        self.streams[number].ahead(end, &self.widths)
    }

    /// Whether a range lies ahead of a stream that proposed it.
    pub(super) fn wants(&self, range: &Range<u64>) -> bool {
        let ahead = |stream: &Stream| stream.end() < range.end && range.end <= stream.proposed;
        self.streams.iter().any(ahead)
    }
}
