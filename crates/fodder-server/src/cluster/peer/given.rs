//! Bytes on their way from a peer: in order, each part compared with its checksum, none later than allowed.

use super::{
    super::view::Manner,
    Failure, Peer, Slot, Ways,
    connection::{Connection, Frame, Question, fair_time},
};
use async_trait::async_trait;
use bytes::Bytes;
use fodder_api::frames::PartHead;
use fodder_core::{
    Result,
    engine::{self, peer::Wanted},
};
use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};
use tokio::time::timeout;

/// An answer that has begun. Dropped before its end, it takes its connection with it.
#[derive(Debug)]
pub(crate) struct Given {
    peer: Arc<Peer>,
    ways: Arc<Ways>,
    /// None behind the end.
    connection: Option<Connection>,
    first: Option<Frame>,
    wanted: Wanted,
    /// As what the peer was asked.
    manner: Manner,
    /// How late parts were, all of them together.
    late: Duration,
    /// Bytes have come once that did not match.
    is_asked_again: bool,
    /// Bytes of a part that did not fit where they were wanted.
    spare: Bytes,
    began: Instant,
    _slot: Slot,
}

impl Given {
    pub(super) fn new(
        peer: Arc<Peer>,
        ways: Arc<Ways>,
        connection: Connection,
        first: Frame,
        (wanted, manner): (Wanted, Manner),
        slot: Slot,
    ) -> Self {
        let (connection, first, began) = (Some(connection), Some(first), Instant::now());
        let (late, is_asked_again, spare) = (Duration::ZERO, false, Bytes::new());
        Self { peer, ways, connection, first, wanted, manner, late, is_asked_again, spare, began, _slot: slot }
    }

    /// How long the next part may still take: what is late again and again is as late as what is late once.
    fn patience(&self) -> Duration {
        self.ways.patience.progress.saturating_sub(self.late)
    }

    /// The head of the next part. None behind the last.
    async fn part(&mut self) -> Result<Option<(PartHead, usize)>, Failure> {
        loop {
            let (limit, asked) = (self.patience(), Instant::now());
            let Some(connection) = &mut self.connection else { return Ok(None) };
            let patience = &self.ways.patience;
            let frame = match self.first.take() {
                Some(frame) => frame,
                None => {
                    let late = |_| Failure::Late("it stopped in the middle of an answer".into());
                    timeout(limit, connection.next(&self.wanted)).await.map_err(late).flatten()?
                }
            };
            let left = &self.wanted.range;
            match frame {
                Frame::Coming if self.began.elapsed() > patience.coming => {
                    return Err(Failure::Silent("it sends no data".into()));
                }
                // It lives, and waits itself.
                Frame::Coming => self.late = Duration::ZERO,
                Frame::Done | Frame::Told(_) | Frame::Lacking => {
                    return Err(Failure::Lied("it ended an incomplete reply".into()));
                }
                Frame::Part(part, bytes) => {
                    if part.offset != left.start || bytes == 0 || bytes as u64 > left.end - left.start {
                        return Err(Failure::Lied("it sent other bytes than requested".into()));
                    }
                    self.late += asked.elapsed();
                    return Ok(Some((part, bytes)));
                }
            }
        }
    }

    /// Puts the next bytes to the front of a buffer; how many.
    async fn take(&mut self, buffer: &mut [u8]) -> Result<usize, Failure> {
        while self.spare.is_empty() {
            let Some((part, bytes)) = self.part().await? else { return Ok(0) };
            let (limit, began) = (self.patience(), Instant::now());
            let Some(connection) = &mut self.connection else { return Ok(0) };
            if let Some(whole) = buffer.get_mut(..bytes) {
                let is_right = connection.part(&part, whole, limit).await?;
                self.late += began.elapsed().saturating_sub(fair_time(bytes));
                if is_right {
                    self.came(bytes);
                    return Ok(bytes);
                }
            } else {
                // There is no room for all of it, and none of it counts before it was compared.
                let mut spare = vec![0; bytes];
                let is_right = connection.part(&part, &mut spare, limit).await?;
                self.late += began.elapsed().saturating_sub(fair_time(bytes));
                if is_right {
                    self.came(bytes);
                    self.spare = spare.into();
                    break;
                }
            }
            self.ask_again().await?;
        }
        let taken = self.spare.split_to(self.spare.len().min(buffer.len()));
        buffer[..taken.len()].copy_from_slice(&taken);
        Ok(taken.len())
    }

    /// Bytes did not match. An honest peer may have dropped them while it sent them from its file, or its disk may have damaged
    /// them; then what it sends when it is asked again does match.
    async fn ask_again(&mut self) -> Result<(), Failure> {
        self.connection = None;
        if std::mem::replace(&mut self.is_asked_again, true) {
            return Err(Failure::Lied("its bytes did not match their checksum twice".into()));
        }
        let began = Instant::now();
        let asked = self.peer.ask(&self.ways, Question::GiveAgain(&self.wanted, self.manner));
        let late = |_| Failure::Late("it did not answer the second request in time".into());
        let asked = timeout(self.patience(), asked).await.map_err(late)?;
        self.late += began.elapsed();
        // What came of that question has been noted with the peer.
        let (connection, first) = asked.map_err(|failure| Failure::Refused(failure.to_string()))?;
        (self.connection, self.first) = (Some(connection), Some(first));
        Ok(())
    }

    fn came(&mut self, bytes: usize) {
        self.wanted.range.start += bytes as u64;
        self.peer.counts.bytes.fetch_add(bytes as u64, Relaxed);
        if self.wanted.range.is_empty()
            && let Some(connection) = self.connection.take()
        {
            self.peer.breaker.lock().succeeded();
            self.peer.keep(connection);
        }
    }
}

#[async_trait]
impl engine::peer::Given for Given {
    async fn next(&mut self, buffer: &mut [u8]) -> Result<usize> {
        self.take(buffer).await.map_err(|failure| self.peer.broke_off(&failure, &self.wanted, &self.ways))
    }
}
