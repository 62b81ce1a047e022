//! One other node: a few connections to it, a breaker, and what was seen of it. It knows nothing of who owns what.
//!
//! Whoever waits for a node that has stopped answering is told as soon as the first of them has found out.

mod breaker;
mod connection;
mod given;
mod handed;
mod stream;
#[cfg(test)]
mod tests;

use super::{peering::Patience, trust::Trust, view::Manner};
use breaker::{Breaker, Fault};
use connection::{Connection, Frame, Question};
use fodder_api::{
    frames::MAX_REQUEST_BYTES,
    v1::{PeerMessage, PeerReply},
};
use fodder_core::{Error, engine::peer::Wanted};
pub(crate) use given::Given;
pub(crate) use handed::Handed;
use parking_lot::Mutex;
use prost::Message;
use serde::Serialize;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

/// Requests under way to one peer, each on a connection of its own; and as many for what it holds.
const MAX_CONNECTIONS: usize = 16;

/// The same in words, which are short and soon answered.
const MAX_WORDS: usize = 8;

/// Connections that are kept for the next request, and for how long.
const IDLE: (usize, Duration) = (8, Duration::from_secs(20));

/// Why a peer did not give what it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// It said no; it is well.
    #[error("{0}")]
    Refused(String),
    /// It has no room for what it was offered; it is well.
    #[error("{0}")]
    Full(String),
    /// It is left alone for now.
    #[error("it has not answered lately, and is not asked for a while")]
    LeftAlone,
    /// It did not answer, or not to the end.
    #[error("{0}")]
    Silent(String),
    /// It has said nothing for as long as it may.
    #[error("{0}")]
    Late(String),
    /// It sent what does not match.
    #[error("{0}")]
    Lied(String),
}

impl Failure {
    /// What it says of the peer; nothing, if that is well or was not asked.
    fn fault(&self) -> Option<Fault> {
        match self {
            Self::Refused(_) | Self::Full(_) | Self::LeftAlone => None,
            Self::Silent(_) => Some(Fault::Silence),
            Self::Late(_) => Some(Fault::Lateness),
            Self::Lied(_) => Some(Fault::Lie),
        }
    }
}

/// What all requests need beside the peer.
#[derive(Debug)]
pub(crate) struct Ways {
    pub(crate) patience: Patience,
    pub(crate) trust: Trust,
    /// When time began.
    pub(crate) born: Instant,
}

impl Ways {
    pub(crate) fn now(&self) -> Duration {
        self.born.elapsed()
    }
}

/// How a peer stands, as seen from here.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PeerStatus {
    /// Who it is, as 32 hexadecimal digits.
    pub id: String,
    /// Where it is reached.
    pub address: String,
    /// `closed` (it is asked), `open` (it is left alone for a while) or `half-open` (one request is to see).
    pub breaker: &'static str,
    /// Requests that it answered.
    pub answered: u64,
    /// Requests that it refused.
    pub refused: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Bytes that it gave.
    pub bytes: u64,
    /// How long it takes to answer, in microseconds, over the last requests.
    pub latency_us: u64,
}

/// One other node.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) id: u128,
    pub(crate) address: String,
    breaker: Mutex<Breaker>,
    idle: Mutex<Vec<(Connection, Instant)>>,
    slots: Arc<Semaphore>,
    /// For what it holds, which it gives without asking anybody. With the places of the others two nodes could wait for each
    /// other: each for the other to fetch what it owns, and both for a place to ask first whether the other holds it.
    held_slots: Arc<Semaphore>,
    /// For words, which nobody's origin delays: behind bytes that are waited for they would come too late.
    word_slots: Arc<Semaphore>,
    /// Told when it stops answering.
    stopped: Notify,
    counts: Counts,
}

/// A place among the requests that are under way to one peer.
pub(crate) type Slot = OwnedSemaphorePermit;

#[derive(Debug, Default)]
struct Counts {
    answered: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
    bytes: AtomicU64,
    latency_us: AtomicU64,
}

impl Peer {
    pub(crate) fn new(id: u128, address: String) -> Self {
        Self {
            id,
            address,
            breaker: Mutex::default(),
            idle: Mutex::default(),
            slots: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
            held_slots: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
            word_slots: Arc::new(Semaphore::new(MAX_WORDS)),
            stopped: Notify::new(),
            counts: Counts::default(),
        }
    }

    /// Whether it does not answer and is not to be tried again yet: others do its work.
    pub(crate) fn is_gone(&self, now: Duration) -> bool {
        self.breaker.lock().is_left_alone(now)
    }

    /// Whether it did not answer the last time, and the next request is to see whether it does now.
    pub(crate) fn is_on_trial(&self) -> bool {
        self.breaker.lock().is_open()
    }

    /// Whoever waits for a first word of it, or for a turn, goes on without it.
    pub(crate) fn is_not_waited_for(&self) {
        self.stopped.notify_waiters();
    }

    /// A place for one more request, in turn: a peer that is busy is waited for, one that stops answering is not.
    pub(crate) async fn slot(&self, ways: &Ways, manner: Manner) -> Result<Slot, Failure> {
        self.turn(ways, self.slots_for(manner)).await
    }

    async fn turn(&self, ways: &Ways, slots: &Arc<Semaphore>) -> Result<Slot, Failure> {
        let stopped = self.stopped.notified();
        if self.is_gone(ways.now()) {
            return Err(Failure::LeftAlone);
        }
        tokio::select! {
            biased;
            slot = Arc::clone(slots).acquire_owned() => Ok(slot.expect("the semaphore is never closed")),
            () = stopped => Err(Failure::LeftAlone),
        }
    }

    /// The same, if it need not be waited for.
    pub(crate) fn try_slot(&self, manner: Manner) -> Option<Slot> {
        Arc::clone(self.slots_for(manner)).try_acquire_owned().ok()
    }

    fn slots_for(&self, manner: Manner) -> &Arc<Semaphore> {
        if manner.is_only_held() { &self.held_slots } else { &self.slots }
    }

    /// A request to it failed; what it was asked for, where that is one thing.
    pub(crate) fn failed(&self, failure: &Failure, wanted: Option<&Wanted>, now: Duration) {
        let Some(fault) = failure.fault() else { return };
        let (dataset, object) = (wanted.map(|wanted| &*wanted.dataset), wanted.map(|wanted| &*wanted.path));
        self.counts.failed.fetch_add(1, Relaxed);
        let mut breaker = self.breaker.lock();
        let was_open = breaker.is_open();
        breaker.failed(fault, now);
        if breaker.is_open() && !was_open {
            self.stopped.notify_waiters();
            tracing::warn!(
                peer = self.address,
                ?fault,
                why = %failure,
                dataset,
                object,
                "a peer does not answer correctly; it is not asked for a while"
            );
        } else {
            tracing::debug!(
                peer = self.address,
                ?fault,
                why = %failure,
                dataset,
                object,
                "a peer does not answer correctly"
            );
        }
    }

    /// It broke off an answer, as an error for whoever waits for that.
    fn broke_off(&self, failure: &Failure, wanted: &Wanted, ways: &Ways) -> Error {
        self.failed(failure, Some(wanted), ways.now());
        Error::Unavailable(format!("{}: {failure}", self.address))
    }

    pub(crate) fn status(&self) -> PeerStatus {
        PeerStatus {
            id: format!("{:032x}", self.id),
            address: self.address.clone(),
            breaker: match *self.breaker.lock() {
                Breaker::Closed(_) => "closed",
                Breaker::Open { .. } => "open",
                Breaker::HalfOpen { .. } => "half-open",
            },
            answered: self.counts.answered.load(Relaxed),
            refused: self.counts.refused.load(Relaxed),
            failed: self.counts.failed.load(Relaxed),
            bytes: self.counts.bytes.load(Relaxed),
            latency_us: self.counts.latency_us.load(Relaxed),
        }
    }

    /// Asks for bytes. Ready when the first of them have come, or the word that they will.
    pub(crate) async fn give(
        self: Arc<Self>,
        ways: Arc<Ways>,
        wanted: Wanted,
        manner: Manner,
        slot: Slot,
    ) -> Result<Given, Failure> {
        let (connection, first) = self.ask(&ways, Question::Give(&wanted, manner)).await?;
        Ok(Given::new(self, ways, connection, first, (wanted, manner), slot))
    }

    /// Asks for several things that it may have at hand. Ready when the first of them has begun to come, or was refused. Else says
    /// how long was waited for it in vain: that is no longer than until another would be asked, and does not count against it.
    pub(crate) async fn hand(self: Arc<Self>, ways: Arc<Ways>, wanted: Vec<Wanted>) -> Result<Handed, Duration> {
        let turn = timeout(ways.patience.coming, self.slot(&ways, Manner::Owner)).await;
        let Some(slot) = turn.ok().and_then(Result::ok) else { return Err(Duration::ZERO) };
        let (stopped, began) = (self.stopped.notified(), Instant::now());
        if self.is_on_trial() {
            return Err(Duration::ZERO);
        }
        let asked = tokio::select! {
            biased;
            asked = timeout(ways.patience.hedge, self.try_connections(&ways, Question::Hand(&wanted))) => asked,
            () = stopped => Ok(Err(Failure::LeftAlone)),
        };
        match asked {
            Err(_) => Err(began.elapsed()),
            Ok(Err(Failure::Refused(_) | Failure::LeftAlone)) => Err(Duration::ZERO),
            Ok(Err(failure)) => {
                self.note(Question::Hand(&wanted), Err(&failure), &ways, None);
                Err(Duration::ZERO)
            }
            Ok(Ok((connection, first))) => {
                self.note(Question::Hand(&wanted), Ok(&first), &ways, Some(began.elapsed()));
                Ok(Handed::new(self, ways, connection, first, wanted, slot))
            }
        }
    }

    /// Tells it that it owns bytes which this node holds. Ready when it keeps them; [`Failure::Full`] if it cannot.
    pub(crate) async fn take(self: &Arc<Self>, ways: &Arc<Ways>, wanted: &Wanted) -> Result<(), Failure> {
        let _slot = self.slot(ways, Manner::Owner).await?;
        let (connection, _) = self.ask(ways, Question::Take(wanted, ways.patience.progress)).await?;
        self.keep(connection);
        Ok(())
    }

    /// Asks it in words. One that does not know how is not asked, and that is no fault of it.
    pub(crate) async fn tell(&self, ways: &Ways, message: &PeerMessage) -> Result<PeerReply, Failure> {
        let message = message.encode_to_vec();
        if message.len() > MAX_REQUEST_BYTES as usize {
            return Err(Failure::Refused(format!("a message of {} bytes is longer than a frame", message.len())));
        }
        let slot = timeout(ways.patience.coming, self.turn(ways, &self.word_slots)).await;
        let _slot = slot.map_err(|_| Failure::LeftAlone).flatten()?;
        let (connection, answer) = self.ask(ways, Question::Tell(&message, ways.patience)).await?;
        self.keep(connection);
        match answer {
            Frame::Told(reply) => Ok(*reply),
            _ => Err(Failure::Refused("it sent an empty reply".into())),
        }
    }

    /// Asks on a connection that is there, or on a new one; within the time allowed, and not longer than until others find
    /// that it has stopped answering.
    async fn ask(&self, ways: &Ways, question: Question<'_>) -> Result<(Connection, Frame), Failure> {
        let limit = match question {
            Question::Give(wanted, _) | Question::GiveAgain(wanted, _) => {
                ways.patience.first_word.saturating_sub(wanted.waited)
            }
            Question::Hand(_) => ways.patience.hedge,
            Question::Take(..) => ways.patience.hand_over,
            Question::Tell(..) => ways.patience.coming,
        };
        let stopped = self.stopped.notified();
        if !self.breaker.lock().admits(ways.now()) {
            return Err(Failure::LeftAlone);
        }
        let began = Instant::now();
        let late = |_| Failure::Late(format!("{} did not answer in {limit:?}", self.address));
        let outcome = tokio::select! {
            biased;
            outcome = timeout(limit, self.try_connections(ways, question)) => outcome.map_err(late).flatten(),
            () = stopped, if question.is_for_bytes() => Err(Failure::LeftAlone),
        };
        let took = question.is_for_bytes().then(|| began.elapsed());
        self.note(question, outcome.as_ref().map(|(_, frame)| frame), ways, took);
        outcome
    }

    async fn try_connections(&self, ways: &Ways, question: Question<'_>) -> Result<(Connection, Frame), Failure> {
        loop {
            let (mut connection, was_idle) = self.connection(ways).await?;
            match connection.ask(question).await {
                Ok(answer) => return Ok((connection, answer)),
                // It may have been closed while it lay idle, like all the others.
                Err(Failure::Silent(_)) if was_idle => self.idle.lock().clear(),
                // A refusal leaves the connection as good as it was.
                Err(refusal @ (Failure::Refused(_) | Failure::Full(_))) => {
                    self.keep(connection);
                    return Err(refusal);
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    /// Remembers what came of a question, and how long the answer took where that says something of the peer.
    fn note(&self, question: Question<'_>, outcome: Result<&Frame, &Failure>, ways: &Ways, took: Option<Duration>) {
        match outcome {
            // A promise is not yet an answer.
            Ok(frame) => {
                if !matches!(frame, Frame::Coming) {
                    self.breaker.lock().succeeded();
                }
                self.counts.answered.fetch_add(1, Relaxed);
                let Some(took) = took else { return };
                let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
                let smooth = |before: u64| Some(if before == 0 { took } else { (before * 7).saturating_add(took) / 8 });
                let _ = self.counts.latency_us.try_update(Relaxed, Relaxed, smooth);
            }
            Err(Failure::Refused(why) | Failure::Full(why)) => {
                self.breaker.lock().succeeded();
                self.counts.refused.fetch_add(1, Relaxed);
                tracing::debug!(peer = self.address, why, "a peer refused");
            }
            Err(failure) => self.failed(failure, question.wanted(), ways.now()),
        }
    }

    async fn connection(&self, ways: &Ways) -> Result<(Connection, bool), Failure> {
        loop {
            let Some((connection, since)) = self.idle.lock().pop() else { break };
            if since.elapsed() < IDLE.1 && connection.is_current(&ways.trust) {
                return Ok((connection, true));
            }
        }
        let open = Connection::open(&self.address, &ways.trust);
        let late = |_| Failure::Late(format!("cannot connect to {} in time", self.address));
        let connection = timeout(ways.patience.connect, open).await.map_err(late).flatten()?;
        Ok((connection, false))
    }

    /// Keeps a connection on which nothing is under way for the next request.
    fn keep(&self, connection: Connection) {
        let mut idle = self.idle.lock();
        if idle.len() < IDLE.0 {
            idle.push((connection, Instant::now()));
        }
    }
}
