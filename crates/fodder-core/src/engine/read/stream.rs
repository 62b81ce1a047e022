//! Long reads: chunk by chunk, with some begun ahead of the one that is due.

use super::{Manner, Part, REQUEST_BYTES, Waits};
use crate::{
    Result,
    budget::Permit,
    engine::{Dataset, Reply, Source, pins::Pin},
    id::ObjectSlot,
};
use fodder_policy::readahead::Pattern;
use futures::stream::{self, BoxStream};
use std::{
    collections::VecDeque,
    ops::Range,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

/// Chunks that a stream has under way at first, and at most. It doubles whenever the reader had to wait.
const AHEAD: (usize, usize) = (4, 16);

impl Dataset {
    /// Reads a range of any length, in order, fetching ahead as far as it pays and the budget allows.
    pub fn read_stream(self: &Arc<Self>, object: ObjectSlot, range: Range<u64>) -> BoxStream<'static, Result<Reply>> {
        self.read_stream_as(object, range, Pattern::Start)
    }

    /// The same for a read of which it is known how it lies to those before it: a jump to something small does not bring
    /// in whole pieces before it pays.
    pub fn read_stream_as(
        self: &Arc<Self>,
        object: ObjectSlot,
        range: Range<u64>,
        pattern: Pattern,
    ) -> BoxStream<'static, Result<Reply>> {
        let pin = match self.pin(object).and_then(|pin| self.check(object, &range).map(|()| pin)) {
            Ok(pin) => pin,
            Err(error) => return Box::pin(stream::once(async { Err(error) })),
        };
        let ahead = Ahead {
            dataset: Arc::clone(self),
            pin,
            next: range.start,
            end: range.end,
            under_way: VecDeque::new(),
            width: AHEAD.0,
            oldest: None,
            manner: match pattern {
                Pattern::Jump => Manner::Jump,
                Pattern::Glance => Manner::Glance,
                Pattern::Start | Pattern::Sequential | Pattern::Strided => Manner::Plain,
            },
        };
        Box::pin(stream::try_unfold(
            ahead,
            |mut ahead| async move { Ok(ahead.next().await?.map(|reply| (reply, ahead))) },
        ))
    }
}

/// A long read: the chunk that is due, and those begun ahead of it.
struct Ahead {
    dataset: Arc<Dataset>,
    /// The object, which stays in the catalog.
    pin: Pin,
    next: u64,
    end: u64,
    under_way: VecDeque<Chunk>,
    width: usize,
    manner: Manner,
    /// The generation of the oldest bytes that were answered.
    oldest: Option<u64>,
}

/// A part of a long read that counts as one read.
struct Chunk {
    range: Range<u64>,
    /// What of it was not answered yet.
    parts: VecDeque<Part>,
    /// The slowest of what was.
    source: Option<Source>,
}

impl Ahead {
    async fn next(&mut self) -> Result<Option<Reply>> {
        let began = Instant::now();
        let mut waits = Waits { oldest: self.oldest, ..Waits::default() };
        if self.under_way.is_empty() {
            if self.next >= self.end {
                return Ok(None);
            }
            let permit = self
                .dataset
                .shared
                .budget
                .acquire(self.dataset.cover_bytes(self.pin.object(), &self.next_chunk()))
                .await?;
            waits.budget = began.elapsed();
            self.begin(permit);
        }
        while self.under_way.len() < self.width && self.next < self.end {
            let cover = self.dataset.cover_bytes(self.pin.object(), &self.next_chunk());
            let Some(permit) = self.dataset.shared.budget.try_acquire(cover) else { break };
            self.begin(permit);
        }
        let reply = self.answer(&mut waits).await?;
        self.oldest = waits.oldest;
        if waits.origin > Duration::from_micros(200) {
            self.width = (self.width * 2).min(AHEAD.1);
        }
        self.dataset.log_if_slow(self.pin.object(), began.elapsed(), &waits);
        Ok(reply)
    }

    /// The first segment of the chunk that is due: whoever reads gets it while the next is on its way.
    async fn answer(&mut self, waits: &mut Waits) -> Result<Option<Reply>> {
        let Some(mut chunk) = self.under_way.pop_front() else { return Ok(None) };
        let first = chunk.parts.pop_front().map(Part::split_first);
        let (first, behind) = first.map_or((None, None), |(first, behind)| (Some(first), behind));
        behind.into_iter().for_each(|part| chunk.parts.push_front(part));
        let mut reply = self.dataset.gather(&self.pin, first.into_iter().collect(), waits).await.inspect_err(|_| {
            self.dataset.counters.failed.fetch_add(1, Relaxed);
        })?;
        let source = chunk.source.map_or(reply.source, |source| source.max(reply.source));
        if chunk.parts.is_empty() {
            reply.source = self.dataset.source_of(self.pin.object(), &chunk.range, source);
            self.dataset.answered(self.pin.object(), chunk.range, reply.source);
        } else {
            chunk.source = Some(source);
            self.under_way.push_front(chunk);
        }
        Ok(Some(reply))
    }

    fn next_chunk(&self) -> Range<u64> {
        self.next..((self.next / REQUEST_BYTES + 1) * REQUEST_BYTES).min(self.end)
    }

    fn begin(&mut self, permit: Permit) {
        let range = self.next_chunk();
        self.next = range.end;
        let parts = self.dataset.begin(&self.pin, range.clone(), permit, self.manner, None);
        self.under_way.push_back(Chunk { range, parts, source: None });
    }
}
