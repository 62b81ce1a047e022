//! Several things on their way from a peer that has them at hand: in the order asked, each compared with its checksums, and all
//! of them together no later than one answer may be.

use super::{
    Failure, Peer, Slot, Ways,
    connection::{Connection, Frame, fair_time},
};
use async_trait::async_trait;
use fodder_core::{
    Result,
    engine::{self, peer::Wanted},
};
use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};
use tokio::time::timeout;

/// Answers that have begun. Dropped before their end, they take their connection with them.
#[derive(Debug)]
pub(crate) struct Handed {
    peer: Arc<Peer>,
    ways: Arc<Ways>,
    /// None behind the end.
    connection: Option<Connection>,
    first: Option<Frame>,
    /// What is due, and what is behind it.
    wanted: std::vec::IntoIter<Wanted>,
    /// How late parts were, all of them together.
    late: Duration,
    _slot: Slot,
}

impl Handed {
    pub(super) fn new(
        peer: Arc<Peer>,
        ways: Arc<Ways>,
        connection: Connection,
        first: Frame,
        wanted: Vec<Wanted>,
        slot: Slot,
    ) -> Self {
        let (connection, first, wanted) = (Some(connection), Some(first), wanted.into_iter());
        Self { peer, ways, connection, first, wanted, late: Duration::ZERO, _slot: slot }
    }

    /// The next frame of what is due.
    async fn frame(&mut self, wanted: &Wanted) -> Result<Frame, Failure> {
        if let Some(first) = self.first.take() {
            return Ok(first);
        }
        let ended = || Failure::Silent("there is no more to come".into());
        let (asked, limit) = (Instant::now(), self.patience());
        let connection = self.connection.as_mut().ok_or_else(ended)?;
        let late = |_| Failure::Late("it stopped in the middle of an answer".into());
        let frame = timeout(limit, connection.next_handed(wanted)).await.map_err(late).flatten()?;
        self.late += asked.elapsed();
        Ok(frame)
    }

    /// How long the next part may still take: what is late again and again is as late as what is late once.
    fn patience(&self) -> Duration {
        self.ways.patience.progress.saturating_sub(self.late)
    }

    /// Fills a buffer with what is due. False if it is not at hand, or not as it should be: it may have been dropped while it was
    /// sent, and whoever asks for it by itself will see.
    async fn take(&mut self, wanted: &Wanted, buffer: &mut [u8]) -> Result<bool, Failure> {
        let (mut at, mut is_right) = (0, true);
        while at < buffer.len() {
            let (part, bytes) = match self.frame(wanted).await? {
                Frame::Part(part, bytes) => (part, bytes),
                Frame::Lacking => return Ok(false),
                _ => return Err(Failure::Lied("it sent an unexpected reply".into())),
            };
            let is_next = part.offset == wanted.range.start + at as u64 && bytes > 0;
            let Some(room) = buffer[at..].get_mut(..bytes).filter(|_| is_next) else {
                return Err(Failure::Lied("it sent other bytes than those that were asked for".into()));
            };
            let (began, limit) = (Instant::now(), self.patience());
            let Some(connection) = &mut self.connection else { return Ok(false) };
            is_right &= connection.part(&part, room, limit).await?;
            self.late += began.elapsed().saturating_sub(fair_time(bytes));
            at += bytes;
        }
        if is_right {
            self.peer.counts.bytes.fetch_add(buffer.len() as u64, Relaxed);
        }
        Ok(is_right)
    }

    /// What was due has come, or will not.
    fn over(&mut self) {
        if !self.wanted.as_slice().is_empty() {
            self.connection.iter_mut().for_each(Connection::expect_following);
        } else if let Some(connection) = self.connection.take() {
            self.peer.breaker.lock().succeeded();
            self.peer.keep(connection);
        }
    }
}

#[async_trait]
impl engine::peer::Handed for Handed {
    async fn next(&mut self, buffer: &mut [u8]) -> Result<bool> {
        let Some(wanted) = self.wanted.next() else { return Ok(false) };
        let taken = self.take(&wanted, buffer).await;
        let taken = taken.map_err(|failure| self.peer.broke_off(&failure, &wanted, &self.ways))?;
        self.over();
        Ok(taken)
    }
}
