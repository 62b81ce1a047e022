//! Long reads: chunk by chunk, with some begun ahead of the one that is due.

use super::{Manner, Part, REQUEST_BYTES, Waits};
use crate::{
    Result,
    budget::Permit,
    engine::{Dataset, Reply},
    id::ObjectSlot,
};
use fodder_policy::readahead::Pattern;
use futures::stream::{self, BoxStream};
use std::{
    collections::VecDeque,
    ops::Range,
    sync::Arc,
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
        if let Err(error) = self.check(object, &range) {
            return Box::pin(stream::once(async { Err(error) }));
        }
        let ahead = Ahead {
            dataset: Arc::clone(self),
            object,
            next: range.start,
            end: range.end,
            under_way: VecDeque::new(),
            width: AHEAD.0,
            manner: if pattern == Pattern::Jump { Manner::Jump } else { Manner::Plain },
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
    object: ObjectSlot,
    next: u64,
    end: u64,
    under_way: VecDeque<(Range<u64>, VecDeque<Part>)>,
    width: usize,
    manner: Manner,
}

impl Ahead {
    async fn next(&mut self) -> Result<Option<Reply>> {
        let began = Instant::now();
        let mut waits = Waits::default();
        if self.under_way.is_empty() {
            if self.next >= self.end {
                return Ok(None);
            }
            let permit =
                self.dataset.shared.budget.acquire(self.dataset.cover_bytes(self.object, &self.next_chunk())).await?;
            waits.budget = began.elapsed();
            self.begin(permit);
        }
        while self.under_way.len() < self.width && self.next < self.end {
            let cover = self.dataset.cover_bytes(self.object, &self.next_chunk());
            let Some(permit) = self.dataset.shared.budget.try_acquire(cover) else { break };
            self.begin(permit);
        }
        let Some((range, parts)) = self.under_way.pop_front() else { return Ok(None) };
        let reply = self.dataset.finish(self.object, range, parts, &mut waits).await?;
        if !waits.origin.is_zero() && waits.origin > Duration::from_micros(200) {
            self.width = (self.width * 2).min(AHEAD.1);
        }
        self.dataset.log_if_slow(self.object, began.elapsed(), &waits);
        Ok(Some(reply))
    }

    fn next_chunk(&self) -> Range<u64> {
        self.next..((self.next / REQUEST_BYTES + 1) * REQUEST_BYTES).min(self.end)
    }

    fn begin(&mut self, permit: Permit) {
        let range = self.next_chunk();
        self.next = range.end;
        let parts = self.dataset.begin(self.object, range.clone(), permit, self.manner);
        self.under_way.push_back((range, parts));
    }
}
