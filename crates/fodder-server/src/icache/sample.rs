//! Samples in one piece, as iCache's replies need them, with a bound on what is being put together.

use bytes::{Bytes, BytesMut};
use fodder_core::{Dataset, Error, Result, catalog::Item, config::Medium, engine::Source, id::ItemId};
use futures::TryStreamExt;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The largest sample that fits a reply: a reply is one message.
const MAX_SAMPLE_BYTES: u64 = 64 << 20;

/// Bytes that all samples together may have while they are put together and sent.
const MAX_BYTES: usize = 128 << 20;

/// What the bound is counted in.
const UNIT_BYTES: usize = 64 << 10;

/// Reads samples for replies.
#[derive(Debug)]
pub(super) struct Samples {
    room: Arc<Semaphore>,
}

impl Default for Samples {
    fn default() -> Self {
        Self { room: Arc::new(Semaphore::new(MAX_BYTES / UNIT_BYTES)) }
    }
}

impl Samples {
    /// The bytes of an item, and the slowest of their sources.
    pub(super) async fn read(&self, dataset: &Arc<Dataset>, id: ItemId, item: &Item) -> Result<(Bytes, Source)> {
        let length = item.range.end - item.range.start;
        if length > MAX_SAMPLE_BYTES {
            return Err(Error::Invalid(format!(
                "sample {id} has {length} bytes, and iCache's interface takes at most {MAX_SAMPLE_BYTES}: \
                 read it by REST or by fodder.v1"
            )));
        }
        // Asked for before the engine's own budget, and given back last, so that the two cannot wait for each other.
        let units = (length as usize).div_ceil(UNIT_BYTES) as u32;
        let room = Arc::clone(&self.room).acquire_many_owned(units).await.map_err(|_| Error::Closed)?;
        if length <= Dataset::MAX_READ_BYTES {
            let mut reply = dataset.read(item.object, item.range.clone()).await?;
            let bytes = match reply.segments.len() {
                0 | 1 => reply.segments.pop().unwrap_or_default(),
                _ => join(length, reply.segments, room),
            };
            return Ok((bytes, reply.source));
        }
        let mut source = Source::Tier(Medium::Mem);
        let mut joined = BytesMut::with_capacity(length as usize);
        let mut replies = dataset.read_stream(item.object, item.range.clone());
        while let Some(reply) = replies.try_next().await? {
            source = std::cmp::max_by_key(source, reply.source, |source| slowness(*source));
            reply.segments.iter().for_each(|segment| joined.extend_from_slice(segment));
        }
        Ok((owned(joined, room), source))
    }
}

fn join(length: u64, segments: Vec<Bytes>, room: OwnedSemaphorePermit) -> Bytes {
    let mut joined = BytesMut::with_capacity(length as usize);
    segments.iter().for_each(|segment| joined.extend_from_slice(segment));
    owned(joined, room)
}

/// Bytes that keep their room until they are dropped.
fn owned(bytes: BytesMut, room: OwnedSemaphorePermit) -> Bytes {
    struct Owner(BytesMut, #[allow(dead_code, reason = "dropped with the bytes")] OwnedSemaphorePermit);
    impl AsRef<[u8]> for Owner {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    Bytes::from_owner(Owner(bytes, room))
}

fn slowness(source: Source) -> u8 {
    match source {
        Source::Tier(Medium::Mem) => 0,
        Source::Tier(Medium::Ssd) => 1,
        Source::Tier(Medium::Hdd) => 2,
        Source::Prefetched => 3,
        Source::Substituted => 4,
        Source::Joined => 5,
        Source::Peer => 6,
        Source::Origin => 7,
        Source::Bypass => 8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn joined_bytes_hold_their_room_until_they_are_dropped() {
        let samples = Samples::default();
        let room = Arc::clone(&samples.room).acquire_many_owned(3).await.expect("the semaphore is open");
        let bytes = join(4, vec![Bytes::from_static(b"ab"), Bytes::from_static(b"cd")], room);
        assert_eq!((&*bytes, samples.room.available_permits()), (&b"abcd"[..], MAX_BYTES / UNIT_BYTES - 3));
        drop(bytes);
        assert_eq!(samples.room.available_permits(), MAX_BYTES / UNIT_BYTES);
    }
}
