//! A connection to another node: greets, proves, asks, and takes apart what comes. Everything that comes is checked.

use super::{
    super::{
        peering::Patience,
        token::{Side, Token},
        trust::Trust,
        view::Manner,
    },
    Failure,
    stream::Stream,
};
use bytes::{Buf, Bytes, BytesMut};
use fodder_api::{
    frames::{
        COMPARES_SINCE, GIVES_SINCE, Give, HANDS_SINCE, Hello, HelloReply, Kind, MetHead, PartHead, ReplyHead, Request,
        RunningChecksum, TELLS_SINCE,
    },
    v1::{ErrorCode, PeerReply},
};
use fodder_core::engine::peer::Wanted;
use prost::Message;
use std::{
    io::{self, ErrorKind},
    sync::LazyLock,
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, timeout, timeout_at},
};

/// A frame of an answer.
#[derive(Debug, PartialEq)]
pub(crate) enum Frame {
    /// Bytes, which are next on the line: how they should be, and how many.
    Part(PartHead, usize),
    /// They will come.
    Coming,
    /// There are none to come.
    Done,
    /// What it says.
    Told(Box<PeerReply>),
    /// What is due is not at hand.
    Lacking,
}

/// What is asked.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Question<'a> {
    /// To give bytes.
    Give(&'a Wanted, Manner),
    /// The same, since what came did not match.
    GiveAgain(&'a Wanted, Manner),
    /// To hand over several things, as far as they are at hand.
    Hand(&'a [Wanted]),
    /// To take bytes over; how long the other side may be silent.
    Take(&'a Wanted, Duration),
    /// Something in words.
    Tell(&'a [u8], Patience),
}

impl Question<'_> {
    /// Whether somebody waits for the bytes of one thing.
    pub(super) fn is_for_bytes(&self) -> bool {
        matches!(self, Self::Give(..) | Self::GiveAgain(..))
    }

    /// What it is about, where that is one thing.
    pub(super) fn wanted(&self) -> Option<&Wanted> {
        match self {
            Self::Give(wanted, _) | Self::GiveAgain(wanted, _) | Self::Take(wanted, _) => Some(wanted),
            Self::Hand(_) | Self::Tell(..) => None,
        }
    }
}

/// The heads of a part.
const HEADS_BYTES: usize = ReplyHead::BYTES + PartHead::BYTES;

/// Bytes that are waited for at a time: a piece. On few processors being woken for each packet costs more than its bytes do: with one
/// reader two nodes on two processors were a third as fast, and at a quarter of a piece three quarters. Where others are idle, who is
/// woken early is done early.
static GULP_BYTES: LazyLock<usize> = LazyLock::new(|| {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    if processors <= FEW_PROCESSORS { 1 << 20 } else { 1 }
});
const FEW_PROCESSORS: usize = 4;

/// A peer that sends more slowly is no better than none.
const MIN_BYTES_A_SECOND: f64 = (4 << 20) as f64;

/// How long so many bytes may take on their way.
pub(super) fn fair_time(bytes: usize) -> Duration {
    Duration::from_secs_f64(bytes as f64 / MIN_BYTES_A_SECOND)
}

/// A greeted connection.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: Stream,
    /// Which certificates it was opened with.
    generation: Option<u64>,
    /// Of the frames, as agreed.
    version: u16,
    request: u32,
    /// Bytes, see [`Stream::wake_from`].
    wakes_from: usize,
    /// What was received and not yet taken apart.
    received: BytesMut,
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Silent(error.to_string())
    }
}

impl Connection {
    /// Connects, agrees on a version, and has both sides show and prove what the cluster asks for.
    pub(super) async fn open(address: &str, trust: &Trust) -> Result<Self, Failure> {
        let generation = trust.tls.as_ref().map(|tls| tls.generation());
        let (stream, hello) = greet(address, trust).await.map_err(|error| match error.kind() {
            // Of the other side's certificate, or what it says about this node's.
            ErrorKind::InvalidData if trust.tls.is_some() => {
                Failure::Lied(format!("the TLS handshake with it failed: {error}"))
            }
            _ => error.into(),
        })?;
        let hello = HelloReply::decode(&hello).map_err(|bad| Failure::Lied(bad.to_string()))?;
        if hello.version < GIVES_SINCE {
            return Err(Failure::Refused(format!(
                "it speaks version {} of the frames protocol, which does not support requests of nodes",
                hello.version
            )));
        }
        let (version, received) = (hello.version, BytesMut::new());
        let mut connection = Self { stream, generation, version, request: 0, wakes_from: 1, received };
        if let Some(token) = &trust.token {
            connection.prove(token).await?;
        }
        Ok(connection)
    }

    /// Whether it was opened with the certificates that are in use now.
    pub(super) fn is_current(&self, trust: &Trust) -> bool {
        self.generation == trust.tls.as_ref().map(|tls| tls.generation())
    }

    async fn prove(&mut self, token: &Token) -> Result<(), Failure> {
        let mine: [u8; 16] = rand::random();
        self.send(Request::Meet { nonce: mine }).await?;
        let (head, body) = self.frame().await?;
        let Some(met) = body.first_chunk::<{ MetHead::BYTES }>().filter(|_| head.kind == Kind::Met) else {
            return Err(Failure::Lied("it sent an unexpected reply to a greeting".into()));
        };
        let MetHead { nonce, proof } = MetHead::decode(met);
        if token.proof(Side::Node, &mine, &nonce) != proof {
            return Err(Failure::Lied("it does not know the cluster's token".into()));
        }
        let proof = *token.proof(Side::Peer, &mine, &nonce).as_bytes();
        self.send(Request::Prove { proof }).await?;
        match self.frame().await?.0.kind {
            Kind::Done => Ok(()),
            _ => Err(Failure::Lied("it sent an unexpected reply to a proof".into())),
        }
    }

    /// Asks: for bytes, and takes the first frame of the answer; or something else, and waits for the whole of it.
    pub(super) async fn ask(&mut self, question: Question<'_>) -> Result<Frame, Failure> {
        match question {
            Question::Give(wanted, manner) => {
                self.send(Request::Give(as_asked(wanted, manner))).await?;
                self.next(wanted).await
            }
            Question::GiveAgain(wanted, manner) => {
                let again = self.version >= COMPARES_SINCE;
                self.send(Request::Give(Give { again, ..as_asked(wanted, manner) })).await?;
                self.next(wanted).await
            }
            Question::Hand(_) if self.version < HANDS_SINCE => Err(Failure::Refused(format!(
                "it speaks version {} of the frames protocol, which does not support batches of cached items",
                self.version
            ))),
            Question::Hand(wanted) => {
                let (first, mut frames) = (following(self.request), Vec::new());
                for wanted in wanted {
                    let give = Give { at_hand: true, ..as_asked(wanted, Manner::Owner) };
                    self.request = following(self.request);
                    Request::Give(give).encode(self.request, 0, &mut frames);
                }
                self.request = first;
                self.stream.write_all(&frames).await?;
                self.stream.flush().await?;
                let Some(wanted) = wanted.first() else { return Ok(Frame::Done) };
                self.next_handed(wanted).await
            }
            Question::Take(wanted, limit) => {
                self.send(Request::Take(as_asked(wanted, Manner::Owner))).await?;
                match self.end(limit, limit).await? {
                    (Kind::Done, _) => Ok(Frame::Done),
                    _ => Err(Failure::Lied("it sent an unexpected reply".into())),
                }
            }
            Question::Tell(..) if self.version < TELLS_SINCE => Err(Failure::Refused(format!(
                "it speaks version {} of the frames protocol, which does not support messages between nodes",
                self.version
            ))),
            Question::Tell(message, patience) => {
                self.send(Request::Tell { message }).await?;
                match self.end(patience.first_word, patience.progress).await? {
                    (Kind::Told, body) => PeerReply::decode(body)
                        .map(|reply| Frame::Told(Box::new(reply)))
                        .map_err(|bad| Failure::Lied(bad.to_string())),
                    _ => Err(Failure::Lied("it sent an unexpected reply".into())),
                }
            }
        }
    }

    /// The frame behind all those that say it will come: the first word within one time, each that follows within another.
    async fn end(&mut self, first: Duration, progress: Duration) -> Result<(Kind, Bytes), Failure> {
        let mut limit = first;
        loop {
            let late = |_| Failure::Silent("its reply is incomplete".into());
            let (head, body) = timeout(limit, self.frame()).await.map_err(late).flatten()?;
            if head.kind != Kind::Coming {
                return Ok((head.kind, body));
            }
            limit = progress;
        }
    }

    /// The next frame of bytes that were asked for. Those of a part must be [received](Self::part) behind it.
    pub(super) async fn next(&mut self, wanted: &Wanted) -> Result<Frame, Failure> {
        let head = self.head().await?;
        match head.kind {
            Kind::Coming => Ok(Frame::Coming),
            Kind::Part => {
                self.receive(PartHead::BYTES, HEADS_BYTES).await?;
                let part = self.received.split_to(PartHead::BYTES);
                let part = PartHead::decode(part[..].try_into().expect("a checked length"));
                if part.object_bytes != wanted.object_bytes || part.end != wanted.range.end {
                    return Err(Failure::Lied(format!("{:?} has another size there", wanted.path)));
                }
                Ok(Frame::Part(part, head.body_bytes as usize - PartHead::BYTES))
            }
            _ => Err(Failure::Lied("it sent an unexpected reply".into())),
        }
    }

    /// The next frame of what is due of several things that were asked for.
    pub(super) async fn next_handed(&mut self, wanted: &Wanted) -> Result<Frame, Failure> {
        match self.next(wanted).await {
            Err(Failure::Refused(_)) => Ok(Frame::Lacking),
            other => other,
        }
    }

    /// The next of several things is due.
    pub(super) fn expect_following(&mut self) {
        self.request = following(self.request);
    }

    /// Receives the bytes of a part, all of them; whether they match their checksum. No byte may be later than `limit` behind
    /// the one before, and all of them together must not be slower than [`MIN_BYTES_A_SECOND`].
    pub(super) async fn part(&mut self, head: &PartHead, bytes: &mut [u8], limit: Duration) -> Result<bool, Failure> {
        let end = Instant::now() + limit + fair_time(bytes.len());
        let (had, mut rest) = bytes.split_at_mut(self.received.len().min(bytes.len()));
        self.received.copy_to_slice(had);
        let mut sum = RunningChecksum::of(had);
        while !rest.is_empty() {
            let until = end.min(Instant::now() + limit);
            let late = |_| Failure::Late("it stopped in the middle of an answer".into());
            let count = match timeout_at(until, self.stream.read(rest)).await.map_err(late)?? {
                0 => return Err(Failure::Silent("it ended the connection".into())),
                count => count,
            };
            // While they are still in the processor's cache.
            sum.add(&rest[..count]);
            rest = &mut rest[count..];
            self.wake_from(rest.len().clamp(1, *GULP_BYTES))?;
        }
        Ok(sum.value() == head.crc)
    }

    /// From how many bytes on who waits for them is woken.
    fn wake_from(&mut self, bytes: usize) -> io::Result<()> {
        if self.wakes_from != bytes {
            self.stream.wake_from(bytes)?;
            self.wakes_from = bytes;
        }
        Ok(())
    }

    async fn send(&mut self, request: Request<'_>) -> Result<(), Failure> {
        self.request = following(self.request);
        let mut frame = Vec::new();
        request.encode(self.request, 0, &mut frame);
        self.stream.write_all(&frame).await?;
        Ok(self.stream.flush().await?)
    }

    /// A frame that answers the last request; an error is a refusal.
    async fn frame(&mut self) -> Result<(ReplyHead, Bytes), Failure> {
        let head = self.head().await?;
        let body = self.body(&head).await?;
        Ok((head, body))
    }

    /// The head of a frame that answers the last request; an error is a refusal.
    async fn head(&mut self) -> Result<ReplyHead, Failure> {
        self.receive(ReplyHead::BYTES, HEADS_BYTES).await?;
        let head = self.received.split_to(ReplyHead::BYTES);
        let head = ReplyHead::decode(head[..].try_into().expect("a checked length"));
        let head = head.map_err(|bad| Failure::Lied(bad.to_string()))?;
        if head.kind == Kind::Error {
            let why = String::from_utf8_lossy(&self.body(&head).await?).into_owned();
            return Err(match head.status {
                // About the connection, or of a node that ends: not to be used again.
                _ if head.request != self.request => Failure::Silent(why),
                ErrorCode::Closed => Failure::Silent(why),
                ErrorCode::Denied => Failure::Lied(why),
                ErrorCode::Full => Failure::Full(why),
                _ => Failure::Refused(why),
            });
        }
        if head.request != self.request {
            return Err(Failure::Lied("it replied to another request".into()));
        }
        Ok(head)
    }

    /// What is behind a head, which bounds what is taken into memory.
    async fn body(&mut self, head: &ReplyHead) -> Result<Bytes, Failure> {
        let bytes = head.body_bytes as usize;
        self.receive(bytes, bytes).await?;
        Ok(self.received.split_to(bytes).freeze())
    }

    /// Receives until at least so much is there, and no more than `most`: what is behind may have a place of its own.
    async fn receive(&mut self, bytes: usize, most: usize) -> Result<(), Failure> {
        while self.received.len() < bytes {
            let room = most - self.received.len();
            self.received.reserve(room);
            if (&mut self.stream).take(room as u64).read_buf(&mut self.received).await? == 0 {
                return Err(Failure::Silent("it ended the connection".into()));
            }
        }
        Ok(())
    }
}

/// Connects, and exchanges the first words.
async fn greet(address: &str, trust: &Trust) -> io::Result<(Stream, [u8; Hello::BYTES])> {
    let mut stream = match &trust.tls {
        Some(tls) => Stream::Tls(Box::new(tls.connect(address).await?)),
        None => {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            Stream::Plain(stream)
        }
    };
    stream.write_all(&Hello::OURS.encode()).await?;
    stream.flush().await?;
    let mut hello = [0; Hello::BYTES];
    stream.read_exact(&mut hello).await?;
    Ok((stream, hello))
}

/// The number of the request behind another.
fn following(request: u32) -> u32 {
    request.checked_add(1).unwrap_or(1)
}

fn as_asked(wanted: &Wanted, manner: Manner) -> Give<'_> {
    Give {
        dataset: &wanted.dataset,
        path: &wanted.path,
        key: wanted.key.0,
        offset: wanted.range.start,
        length: wanted.range.end - wanted.range.start,
        only_held: manner.is_only_held(),
        stand_in: matches!(manner, Manner::StandIn | Manner::FormerOwner),
        at_hand: false,
        again: false,
    }
}
