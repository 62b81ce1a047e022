//! What a program that reads a file in order will ask for next, taken from the cache file before it asks: while the kernel
//! copies one part to the program, the next is already being read.
//!
//! Knows neither the kernel nor the node: it says what to read, and keeps what was read until it is asked for. The bytes are
//! of one version of an object, which never changes, so what is kept stays right.

use parking_lot::{Condvar, Mutex};
use std::{
    collections::VecDeque,
    ops::{Deref, Range},
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

/// Reads that must have followed each other before the next is guessed.
const LEAST_RUN: u32 = 2;
/// Shorter stretches are not worth it: the node gives their bytes with its answer.
const LEAST_BYTES: u64 = 128 << 10;
/// Who reads less at a time, but that for long, has stretches of so much.
const MOST_BYTES: u64 = 1 << 20;
/// Stretches ahead of a reader: some that it comes to, some that are being read.
const DEPTH: usize = 4;
/// Nobody waits longer for what is read ahead: its thread may wait for a turn behind those who wait.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// Stretches in memory at a time, of all open files; each is at most as long as what the kernel asks for at once, or
/// [`MOST_BYTES`].
const MAX_BUFFERS: usize = 64;
/// Who does not read for so many looks, a second each, loses what was read ahead of it: others need the memory.
const LONGEST_IDLE: u32 = 10;
/// Buffers that are kept for the next stretch: fresh memory costs page faults.
const MAX_FREE: usize = 8;

/// What is ahead of the reader of an open file.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    state: Mutex<State>,
    news: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Where the last read ended, how many before it followed each other, and how much they read.
    end: u64,
    run: u32,
    run_bytes: u64,
    /// Consecutive stretches, in order.
    stretches: VecDeque<Stretch>,
    /// Looks since the last read.
    idle: u32,
}

#[derive(Debug)]
struct Stretch {
    range: Range<u64>,
    /// None: on its way.
    bytes: Option<Arc<Buffer>>,
}

/// Where the bytes of a read are.
#[derive(Debug)]
pub(super) enum Look {
    Here(Kept),
    /// They are being read: worth waiting for.
    Coming,
    Absent,
}

/// Bytes that were read ahead.
#[derive(Debug)]
pub(crate) struct Kept {
    buffer: Arc<Buffer>,
    range: Range<usize>,
}

impl Deref for Kept {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buffer.bytes[self.range.clone()]
    }
}

impl Ahead {
    /// A read begins: where its bytes are. From then on what lies before its end is forgotten.
    pub(super) fn read(&self, range: &Range<u64>) -> Look {
        let mut state = self.state.lock();
        state.idle = 0;
        let look = state.look(range);
        // Two reads that the kernel sends at once may come in either order.
        let bytes = range.end - range.start;
        let follows = range.start.abs_diff(state.end) <= 2 * bytes;
        if follows {
            (state.run, state.run_bytes) = (state.run.saturating_add(1), state.run_bytes.saturating_add(bytes));
            state.end = state.end.max(range.end);
        } else {
            (state.run, state.run_bytes, state.end) = (0, bytes, range.end);
        }
        if !matches!(look, Look::Coming) {
            state.stretches.retain(|stretch| follows && stretch.range.end > range.end);
        }
        look
    }

    /// Waits for the bytes of a read that are coming; None if they do not, or not soon.
    pub(super) fn wait(&self, range: &Range<u64>) -> Option<Kept> {
        let deadline = Instant::now() + LONGEST_WAIT;
        let mut state = self.state.lock();
        loop {
            match state.look(range) {
                Look::Coming if self.news.wait_until(&mut state, deadline).timed_out() => return None,
                Look::Coming => {}
                Look::Absent => return None,
                Look::Here(kept) => {
                    state.stretches.retain(|stretch| stretch.range.end > range.end);
                    return Some(kept);
                }
            }
        }
    }

    /// The stretch that should be read next, if any, of an object of so many bytes. It is on its way from now on.
    pub(super) fn claim(
        self: &Arc<Self>,
        read: &Range<u64>,
        grain: u64,
        object_bytes: u64,
        buffers: &Arc<Buffers>,
    ) -> Option<Claim> {
        let mut state = self.state.lock();
        let bytes = (read.end - read.start).max(state.run_bytes.min(MOST_BYTES)).next_multiple_of(grain);
        if state.run < LEAST_RUN || bytes < LEAST_BYTES || state.end != read.end {
            return None;
        }
        let behind = state.stretches.iter().filter(|stretch| stretch.range.end > read.end).count();
        // Where the read ends, also within a page: where a program's buffer does not begin with one, the kernel cuts what it asks
        // for by the buffer's pages. A read that lies in two stretches must be put together, in memory of its own.
        let start = state.stretches.back().map_or(read.end, |last| last.range.end);
        let range = start..(start + bytes).min(object_bytes);
        if behind >= DEPTH || range.is_empty() {
            return None;
        }
        let buffer = Buffers::take(buffers, (range.end - range.start) as usize)?;
        state.stretches.push_back(Stretch { range: range.clone(), bytes: None });
        Some(Claim { ahead: Arc::clone(self), range, buffer: Some(buffer) })
    }

    /// Some time has passed. What lies ahead of a reader who has stopped is given back.
    pub(super) fn grow_idle(&self) {
        let mut state = self.state.lock();
        state.idle = state.idle.saturating_add(1);
        if state.idle == LONGEST_IDLE {
            drop(state);
            self.clear();
        }
    }

    /// Gives back all that was read ahead.
    pub(super) fn clear(&self) {
        let forgotten = std::mem::take(&mut self.state.lock().stretches);
        self.news.notify_all();
        drop(forgotten);
    }

    /// What was on its way has come, or will not: then what is behind it does not follow any more.
    fn settle(&self, range: &Range<u64>, buffer: Option<Buffer>) {
        let mut state = self.state.lock();
        let on_its_way = |stretch: &Stretch| stretch.range == *range && stretch.bytes.is_none();
        if let Some(at) = state.stretches.iter().position(on_its_way) {
            match buffer {
                Some(buffer) => state.stretches[at].bytes = Some(Arc::new(buffer)),
                None => state.stretches.truncate(at),
            }
        }
        drop(state);
        self.news.notify_all();
    }
}

impl State {
    fn look(&self, range: &Range<u64>) -> Look {
        let Some(first) = self.stretches.iter().position(|stretch| stretch.range.contains(&range.start)) else {
            return Look::Absent;
        };
        let mut reach = self.stretches.range(first..).take_while(|stretch| stretch.range.start < range.end);
        if self.stretches.back().is_none_or(|last| last.range.end < range.end) {
            return Look::Absent;
        }
        if reach.any(|stretch| stretch.bytes.is_none()) {
            return Look::Coming;
        }
        let Stretch { range: held, bytes: Some(buffer) } = &self.stretches[first] else { return Look::Coming };
        let from = (range.start - held.start) as usize;
        let length = (range.end - range.start) as usize;
        if range.end <= held.end {
            return Look::Here(Kept { buffer: Arc::clone(buffer), range: from..from + length });
        }
        let mut bytes = buffer.bytes[from..].to_vec();
        for Stretch { range: held, bytes: more } in self.stretches.range(first + 1..) {
            let wanted = range.end.min(held.end).saturating_sub(held.start) as usize;
            bytes.extend(more.iter().flat_map(|more| &more.bytes[..wanted]));
        }
        Look::Here(Kept { buffer: Arc::new(Buffer { bytes, home: Weak::new() }), range: 0..length })
    }
}

/// A stretch to read. Dropped, it does not come, and who waits for it is told.
#[derive(Debug)]
pub(super) struct Claim {
    ahead: Arc<Ahead>,
    pub(super) range: Range<u64>,
    /// There until it has come.
    buffer: Option<Buffer>,
}

impl Claim {
    /// The memory for it.
    pub(super) fn room(&mut self) -> &mut [u8] {
        self.buffer.as_mut().map_or(&mut [], |buffer| &mut buffer.bytes)
    }

    /// It was read.
    pub(super) fn came(mut self) {
        self.ahead.settle(&self.range, self.buffer.take());
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.buffer.is_some() {
            self.ahead.settle(&self.range, None);
        }
    }
}

/// Memory for what is read ahead, of all open files.
#[derive(Debug, Default)]
pub(super) struct Buffers(Mutex<Shelf>);

#[derive(Debug, Default)]
struct Shelf {
    free: Vec<Vec<u8>>,
    taken: usize,
}

impl Buffers {
    /// A buffer of so many bytes, unless there are too many.
    fn take(buffers: &Arc<Self>, len: usize) -> Option<Buffer> {
        let mut shelf = buffers.0.lock();
        if shelf.taken == MAX_BUFFERS {
            return None;
        }
        shelf.taken += 1;
        let mut bytes = shelf.free.pop().unwrap_or_default();
        drop(shelf);
        bytes.resize(len, 0);
        Some(Buffer { bytes, home: Arc::downgrade(buffers) })
    }
}

/// Memory that goes back when nobody reads it any more.
#[derive(Debug)]
struct Buffer {
    bytes: Vec<u8>,
    home: Weak<Buffers>,
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(home) = self.home.upgrade() {
            let mut shelf = home.0.lock();
            shelf.taken -= 1;
            if shelf.free.len() < MAX_FREE {
                shelf.free.push(std::mem::take(&mut self.bytes));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const K: u64 = 1 << 10;
    const SIZE: u64 = 2000 * K;

    fn fill(mut claim: Claim) {
        let range = claim.range.clone();
        range.zip(claim.room()).for_each(|(at, byte)| *byte = (at % 251) as u8);
        claim.came();
    }

    fn is_right(kept: &[u8], range: &Range<u64>) -> bool {
        kept.iter().copied().eq(range.clone().map(|at| (at % 251) as u8))
    }

    /// Reads in order until the next is guessed; where the reader is then.
    fn stream(ahead: &Arc<Ahead>, buffers: &Arc<Buffers>, bytes: u64) -> u64 {
        let mut at = 0;
        for _ in 0..LEAST_RUN {
            assert!(ahead.claim(&(at..at), 4 * K, SIZE, buffers).is_none());
            assert!(matches!(ahead.read(&(at..at + bytes)), Look::Absent));
            at += bytes;
        }
        at
    }

    #[test]
    fn who_reads_in_order_finds_the_next_parts_whatever_their_length() {
        for bytes in [128 * K, 130 * K + 7, 200 * K] {
            let (ahead, buffers) = (Arc::new(Ahead::default()), Arc::new(Buffers::default()));
            let mut at = stream(&ahead, &buffers, bytes);
            let mut found = 0;
            while at < SIZE {
                let before = at - bytes..at;
                while let Some(claim) = ahead.claim(&before, 4 * K, SIZE, &buffers) {
                    fill(claim);
                }
                let range = at..(at + bytes).min(SIZE);
                if let Look::Here(kept) = ahead.read(&range) {
                    assert!(is_right(&kept, &range));
                    found += 1;
                }
                at += bytes;
            }
            assert!(found > 3, "{bytes}: {found}");
            assert!(ahead.state.lock().stretches.len() <= DEPTH + 1);
        }
    }

    #[test]
    fn reads_that_the_kernel_cuts_by_the_pages_of_a_buffer_are_answered_from_where_they_lie() {
        const MIB: u64 = 1 << 20;
        const SIZE: u64 = 16 * MIB;
        for (into_page, read_bytes) in [(0, 4 * MIB), (16, MIB), (16, 4 * MIB), (1000, 8 * MIB)] {
            let (ahead, buffers) = (Arc::new(Ahead::default()), Arc::new(Buffers::default()));
            let (mut absent, mut brought) = (0, 0);
            for start in (0..SIZE).step_by(read_bytes as usize) {
                let (mut at, end) = (start, (start + read_bytes).min(SIZE));
                while at < end {
                    let cut = MIB - if at == start { into_page } else { 0 };
                    let range = at..(at + cut).min(end);
                    match ahead.read(&range) {
                        Look::Here(kept) => {
                            assert!(is_right(&kept, &range));
                            assert!(kept.buffer.home.upgrade().is_some(), "{into_page}, {read_bytes}: put together");
                        }
                        _ => absent += 1,
                    }
                    while let Some(claim) = ahead.claim(&range, 4 * K, SIZE, &buffers) {
                        brought += claim.range.end - claim.range.start;
                        fill(claim);
                    }
                    at = range.end;
                }
            }
            assert!(absent <= 3, "{into_page}, {read_bytes}: {absent} were not there");
            assert!(brought <= SIZE, "{into_page}, {read_bytes}: {brought} bytes were read ahead");
        }
    }

    #[test]
    fn who_reads_little_at_a_time_has_as_much_read_ahead_as_it_has_read_and_a_mib_at_most() {
        let (ahead, buffers, size) = (Arc::new(Ahead::default()), Arc::new(Buffers::default()), 100 << 20);
        let (mut at, mut lengths) = (0, Vec::new());
        while at < 4 << 20 {
            // Two at once come in either order.
            for at in [at + 32 * K, at] {
                let range = at..at + 32 * K;
                if let Look::Here(kept) = ahead.read(&range) {
                    assert!(is_right(&kept, &range));
                }
                while let Some(claim) = ahead.claim(&range, 4 * K, size, &buffers) {
                    lengths.push(claim.range.end - claim.range.start);
                    fill(claim);
                }
            }
            at += 64 * K;
        }
        assert!(lengths[0] >= LEAST_BYTES && lengths[0] < MOST_BYTES, "{lengths:?}");
        assert!(lengths.is_sorted() && lengths.last() == Some(&MOST_BYTES), "{lengths:?}");
    }

    #[test]
    fn who_jumps_finds_nothing_and_nothing_is_kept_for_it() {
        let (ahead, buffers) = (Arc::new(Ahead::default()), Arc::new(Buffers::default()));
        let at = stream(&ahead, &buffers, 128 * K);
        let claim = ahead.claim(&(at - 128 * K..at), 4 * K, SIZE, &buffers).unwrap();
        let far = SIZE - 128 * K..SIZE;
        assert!(matches!(ahead.read(&far), Look::Absent));
        fill(claim);
        assert!(ahead.claim(&far, 4 * K, SIZE, &buffers).is_none());
        assert!(ahead.state.lock().stretches.is_empty());
        assert_eq!(buffers.0.lock().taken, 0, "what came too late goes back at once");
    }

    #[test]
    fn who_comes_early_waits_and_is_told_if_nothing_comes() {
        for comes in [true, false] {
            let (ahead, buffers) = (Arc::new(Ahead::default()), Arc::new(Buffers::default()));
            let at = stream(&ahead, &buffers, 128 * K);
            let claim = ahead.claim(&(at - 128 * K..at), 4 * K, SIZE, &buffers).unwrap();
            let range = at..at + 128 * K;
            assert!(matches!(ahead.read(&range), Look::Coming));
            let kept = std::thread::scope(|scope| {
                let waits = scope.spawn(|| ahead.wait(&range));
                if comes {
                    fill(claim)
                } else {
                    drop(claim)
                }
                waits.join().unwrap()
            });
            assert_eq!(kept.is_some_and(|kept| is_right(&kept, &range)), comes);
        }
    }

    #[test]
    fn who_stops_reading_gives_back_what_was_read_ahead_and_may_go_on() {
        let (ahead, buffers) = (Arc::new(Ahead::default()), Arc::new(Buffers::default()));
        let mut at = stream(&ahead, &buffers, 128 * K);
        fill(ahead.claim(&(at - 128 * K..at), 4 * K, SIZE, &buffers).unwrap());
        (1..LONGEST_IDLE).for_each(|_| ahead.grow_idle());
        assert_eq!(buffers.0.lock().taken, 1);
        ahead.grow_idle();
        assert_eq!(buffers.0.lock().taken, 0);
        let range = at..at + 128 * K;
        assert!(matches!(ahead.read(&range), Look::Absent));
        at = range.end;
        fill(ahead.claim(&range, 4 * K, SIZE, &buffers).unwrap());
        let next = at..at + 128 * K;
        assert!(matches!(ahead.read(&next), Look::Here(kept) if is_right(&kept, &next)));
    }

    #[test]
    fn memory_for_what_is_ahead_is_bounded_over_all_files() {
        let buffers = Arc::new(Buffers::default());
        let files: Vec<Arc<Ahead>> = (0..=MAX_BUFFERS).map(|_| Arc::default()).collect();
        let claims = files.iter().map(|ahead| {
            let at = stream(ahead, &buffers, 128 * K);
            ahead.claim(&(at - 128 * K..at), 4 * K, SIZE, &buffers)
        });
        let claims: Vec<_> = claims.flatten().collect();
        assert_eq!(claims.len(), MAX_BUFFERS);
        drop(claims);
        let shelf = buffers.0.lock();
        assert_eq!((shelf.taken, shelf.free.len()), (0, MAX_FREE));
    }
}
