//! Reads the parts of one object that a parser wants, front to back, in as few requests as is sensible.
//!
//! While what is wanted lies close together, everything is streamed, in requests that grow; over a large gap a new
//! request jumps. Holds one chunk of the stream and nothing else.

use super::source::Source;
use crate::{Error, Result, origin::ObjectEntry};
use bytes::{Buf, Bytes};
use futures::{TryStreamExt, stream::BoxStream};

/// A gap that is cheaper to read than to jump over: what comes in about the time of one request.
const GAP: u64 = 2 << 20;
const FIRST_WINDOW: u64 = 256 << 10;
/// After a jump little is wanted, unless what follows is close.
const JUMP_WINDOW: u64 = 16 << 10;
const LARGEST_WINDOW: u64 = 64 << 20;

/// One object being read.
pub(super) struct Reader<'a> {
    source: &'a dyn Source,
    entry: &'a ObjectEntry,
    stream: Option<BoxStream<'static, Result<Bytes>>>,
    chunk: Bytes,
    /// Where `chunk` begins.
    at: u64,
    /// Where the stream's request ends.
    end: u64,
    window: u64,
}

impl<'a> Reader<'a> {
    pub(super) fn new(source: &'a dyn Source, entry: &'a ObjectEntry) -> Self {
        Self { source, entry, stream: None, chunk: Bytes::new(), at: 0, end: 0, window: FIRST_WINDOW }
    }

    /// Makes `out` the `length` bytes from `from` on, which lie inside the object and not before what was read last.
    pub(super) async fn read(&mut self, from: u64, length: usize, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        self.seek(from, length as u64);
        while out.len() < length {
            if self.chunk.is_empty() {
                self.pull(length as u64 - out.len() as u64).await?;
            }
            // After a short jump the chunk may begin before what is wanted.
            let skipped = from.saturating_sub(self.at).min(self.chunk.len() as u64);
            self.advance(skipped as usize);
            let taken = self.chunk.len().min(length - out.len());
            out.extend_from_slice(&self.chunk[..taken]);
            self.advance(taken);
        }
        Ok(())
    }

    fn advance(&mut self, bytes: usize) {
        self.chunk.advance(bytes);
        self.at += bytes as u64;
    }

    /// Gives up a stream that is not worth reading up to `from`.
    fn seek(&mut self, from: u64, length: u64) {
        let ahead = from - self.at;
        if ahead <= self.chunk.len() as u64 || (ahead <= GAP && from < self.end) {
            return;
        }
        if ahead > GAP {
            self.window = JUMP_WINDOW.max(length);
        }
        (self.stream, self.chunk, self.at, self.end) = (None, Bytes::new(), from, from);
    }

    /// Gets the next chunk, `needed` bytes of which are wanted at least.
    async fn pull(&mut self, needed: u64) -> Result<()> {
        if self.at >= self.end {
            let end = self.entry.size.min(self.at.saturating_add(self.window.max(needed)));
            self.window = (self.window * 2).min(LARGEST_WINDOW);
            self.stream = Some(self.source.get(&self.entry.path, &self.entry.version, self.at..end).await?);
            self.end = end;
        }
        let stream = self.stream.as_mut().ok_or_else(|| Error::Internal("a window without a stream".into()))?;
        self.chunk = stream.try_next().await?.ok_or_else(|| {
            Error::Unavailable(format!("{} ended before byte {}: check the origin", self.entry.path, self.end))
        })?;
        Ok(())
    }
}
