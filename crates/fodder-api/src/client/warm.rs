//! Warming, as a client sees it: an order, perhaps with a long list of paths, and a stream of progress.

use super::{Client, Peer, stream::Messages};
use crate::{Error, Result, v1};
use futures::stream;
use std::sync::Arc;
use tonic::Streaming;

/// Bytes of paths in one message, about.
const CHUNK_BYTES: usize = 256 << 10;

impl Client {
    /// Brings in what a request asks for. Dropping the stream ends the work; what has arrived stays.
    pub async fn warm(&self, request: v1::WarmRequest) -> Result<WarmStream> {
        self.warm_messages(vec![request]).await
    }

    /// Brings in the objects at these paths, the first ones first; all else is as the request says.
    pub async fn warm_listed(&self, request: v1::WarmRequest, paths: Vec<String>) -> Result<WarmStream> {
        let mut messages = vec![v1::WarmRequest { listed: true, paths: Vec::new(), ..request }];
        let mut left = CHUNK_BYTES;
        for path in paths {
            if path.len() > left {
                messages.push(v1::WarmRequest::default());
                left = CHUNK_BYTES;
            }
            left = left.saturating_sub(path.len());
            messages.last_mut().expect("there is a first message").paths.push(path);
        }
        self.warm_messages(messages).await
    }

    async fn warm_messages(&self, messages: Vec<v1::WarmRequest>) -> Result<WarmStream> {
        let call = self.node.clone();
        let stream = self.peer.long(async move { { call }.warm(stream::iter(messages)).await }).await?;
        Ok(WarmStream::new(stream, Arc::clone(&self.peer)))
    }
}

/// The progress of a warming.
#[derive(Debug)]
pub struct WarmStream {
    messages: Messages<v1::WarmProgress>,
    finished: bool,
}

impl WarmStream {
    fn new(stream: Streaming<v1::WarmProgress>, peer: Arc<Peer>) -> Self {
        Self { messages: Messages::new(stream, peer), finished: false }
    }

    /// How far it is, about twice a second; None behind the message that says it is finished. A stream that ends before
    /// is an error.
    pub async fn next(&mut self) -> Result<Option<v1::WarmProgress>> {
        let next = self.messages.next().await?;
        match &next {
            Some(progress) => self.finished = progress.finished,
            None if !self.finished => return Err(Error::Unavailable("the node ended the warm-up early".into())),
            None => {}
        }
        Ok(next)
    }
}
