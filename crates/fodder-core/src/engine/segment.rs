//! The bytes of one segment of a flight, as they came: gathered in one buffer, or large chunks where they are.
//!
//! Copying everything costs a fifth of the time of a warm-up. Whatever is for readers is copied all the same: it may be
//! held for long and by many, and memory that others allocated is not given back as ours is. What is small is copied,
//! too: a thousand slices cost more than they save.

use crate::budget::{Buffer, Permit};
use bytes::{Buf, Bytes};
use std::sync::Arc;

/// A segment: its bytes, in order. The budget gets them back with the last reference.
pub(super) type Segment = Vec<Bytes>;

/// Chunks from this size on stay where they are.
const LARGE_CHUNK: usize = 32 << 10;

/// Where the bytes of a flight lie when they have come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Receive {
    /// In one buffer of ours a segment.
    Gathered,
    /// Large chunks where they were received: for what goes to a tier at once and hardly anybody waits for.
    InPlace,
}

/// A chunk of a body, as far as it was not taken yet.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    rest: Bytes,
    large: bool,
}

impl Chunk {
    /// Whether all of it was taken.
    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
}

impl From<Bytes> for Chunk {
    fn from(rest: Bytes) -> Self {
        let large = rest.len() >= LARGE_CHUNK;
        Self { rest, large }
    }
}

/// A segment that is not complete.
#[derive(Debug)]
pub(super) struct Incoming {
    permit: Permit,
    /// Chunks that stay where they are, from the beginning on.
    parts: Segment,
    /// The first small chunk and all that came behind it, and how much of that has come.
    gathered: Option<(Buffer, usize)>,
    receive: Receive,
    missing: usize,
}

impl Incoming {
    /// A segment of `len` bytes that `permit` pays for.
    pub(super) fn new(len: usize, permit: Permit, receive: Receive) -> Self {
        Self { permit, parts: Vec::new(), gathered: None, receive, missing: len }
    }

    /// Whether all of it is here.
    pub(super) fn is_complete(&self) -> bool {
        self.missing == 0
    }

    /// Takes what it needs of a chunk.
    pub(super) fn take(&mut self, chunk: &mut Chunk) {
        let len = self.missing.min(chunk.rest.len());
        if self.receive == Receive::InPlace && chunk.large && self.gathered.is_none() {
            let permit = Arc::new(self.permit.split(len as u64));
            self.parts.push(permit.pays_for(chunk.rest.split_to(len)));
            self.missing -= len;
        } else {
            chunk.rest.copy_to_slice(&mut self.room()[..len]);
            self.filled(len);
        }
    }

    /// Where what is missing may be put.
    pub(super) fn room(&mut self) -> &mut [u8] {
        let missing = self.missing;
        let buffer = || (self.permit.split(missing as u64).buffer(missing), 0);
        let (buffer, filled) = self.gathered.get_or_insert_with(buffer);
        &mut buffer.as_mut()[*filled..]
    }

    /// So much was put there.
    pub(super) fn filled(&mut self, len: usize) {
        if let Some((_, filled)) = &mut self.gathered {
            *filled += len;
            self.missing -= len;
        }
    }

    /// The segment, once it is complete.
    pub(super) fn finish(self) -> Segment {
        let gathered = self.gathered.map(|(buffer, _)| buffer.freeze());
        self.parts.into_iter().chain(gathered).collect()
    }
}

/// What lies in `range` of a segment, without copying.
pub(super) fn slices(segment: &Segment, range: std::ops::Range<usize>) -> impl Iterator<Item = Bytes> {
    let mut begin = 0;
    segment.iter().filter_map(move |part| {
        let held = begin..begin + part.len();
        begin = held.end;
        let (from, to) = (range.start.max(held.start), range.end.min(held.end));
        (from < to).then(|| part.slice(from - held.start..to - held.start))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn however_a_body_is_cut_its_segments_are_its_bytes_and_are_paid_for(
            chunks in prop::collection::vec(1usize..100_000, 1..40),
            len in 1usize..600_000,
            cut in (0usize..600_000, 0usize..600_000),
            gathered: bool,
        ) {
            let body: Vec<u8> = (0..chunks.iter().sum()).map(|n: usize| (n % 251) as u8).collect();
            let budget = Budget::new(body.len() as u64);
            let mut permit = budget.try_acquire(body.len() as u64).unwrap();
            let receive = if gathered { Receive::Gathered } else { Receive::InPlace };
            let (mut chunk, mut sent, mut got) = (Chunk::default(), 0, Vec::new());
            let mut sizes = chunks.iter();
            for start in (0..body.len()).step_by(len) {
                let want = &body[start..(start + len).min(body.len())];
                let mut incoming = Incoming::new(want.len(), permit.split(want.len() as u64), receive);
                while !incoming.is_complete() {
                    if chunk.is_empty() {
                        let size = sizes.next().unwrap();
                        chunk = Bytes::copy_from_slice(&body[sent..sent + size]).into();
                        sent += size;
                    }
                    incoming.take(&mut chunk);
                }
                let segment = incoming.finish();
                prop_assert!(segment.len() == 1 || !gathered);
                prop_assert_eq!(&segment.concat(), want);
                let (from, to) = (cut.0.min(want.len()), cut.1.min(want.len()));
                let range = from.min(to)..from.max(to);
                prop_assert_eq!(&slices(&segment, range.clone()).collect::<Vec<_>>().concat(), &want[range]);
                got.push(segment);
            }
            prop_assert_eq!(budget.used_bytes(), body.len() as u64);
            let last = got.pop().unwrap();
            drop(got);
            prop_assert_eq!(budget.used_bytes(), last.iter().map(|part| part.len() as u64).sum::<u64>());
            drop(last);
            prop_assert_eq!(budget.used_bytes(), 0);
        }
    }
}
