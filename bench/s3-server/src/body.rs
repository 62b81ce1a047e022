//! The body of an answer: a range of an object, as long as nothing goes wrong with it.

use crate::{Guard, Object, State};
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use std::{
    future::Future,
    io,
    ops::Range,
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll},
    time::Duration,
};
use tokio::time::{Instant, Sleep};

/// How a body ends.
#[derive(Debug)]
pub(crate) enum End {
    /// With its last byte.
    Whole,
    /// Broken.
    Cut,
    /// In order, but early.
    Short,
    /// Never.
    Stall,
    /// Broken, and the object is another one from then on.
    Replace(String, Object),
}

/// Bytes on their way to a client.
pub(crate) struct Bytestream {
    pub(crate) state: Arc<State>,
    pub(crate) object: Object,
    /// What is still to be sent before the end.
    pub(crate) range: Range<u64>,
    pub(crate) end: End,
    /// Before a break: what was sent must leave hyper's buffer, which goes with the connection.
    pub(crate) pause: Pin<Box<Sleep>>,
    pub(crate) _guard: Guard,
}

/// Long enough to empty a buffer.
pub(crate) const PAUSE: Duration = Duration::from_millis(20);

/// An object's bytes, or a text.
pub(crate) enum Payload {
    Bytes(Box<Bytestream>),
    Text(Option<Bytes>),
}

impl Body for Payload {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match &mut *self {
            Payload::Text(text) => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
            Payload::Bytes(stream) => stream.next(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Payload::Text(text) => text.is_none(),
            Payload::Bytes(stream) => stream.range.is_empty() && matches!(stream.end, End::Whole),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Payload::Text(text) => SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64)),
            // The length is in the headers: what is announced and what comes may differ.
            Payload::Bytes(_) => SizeHint::default(),
        }
    }
}

impl Bytestream {
    fn next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if !self.range.is_empty() {
            return Poll::Ready(Some(self.object.read(self.range.clone()).map(|bytes| {
                self.range.start += bytes.len() as u64;
                self.pause.as_mut().reset(Instant::now() + PAUSE);
                self.state.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                Frame::data(bytes)
            })));
        }
        if matches!(self.end, End::Cut | End::Short | End::Replace(..))
            && self.pause.as_mut().poll(context).is_pending()
        {
            return Poll::Pending;
        }
        let broken = || Poll::Ready(Some(Err(io::Error::other("cut"))));
        match &self.end {
            End::Whole | End::Short => Poll::Ready(None),
            End::Cut => broken(),
            // Nobody wakes it; the client gives up and the connection goes.
            End::Stall => Poll::Pending,
            End::Replace(key, object) => {
                self.state.objects.lock().insert(key.clone(), object.clone());
                broken()
            }
        }
    }
}
