//! Long lists that a client sends in several messages: a client that stops sending is given up, and what all of them
//! together have sent and is not yet taken is bounded.

use super::convert::refuse;
use fodder_core::Error;
use futures::Stream;
use std::{sync::Arc, time::Duration};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_stream::StreamExt;
use tonic::Status;

/// What all lists may hold while they arrive.
const MAX_BYTES: usize = 512 << 20;

/// What the bound is counted in.
const UNIT_BYTES: usize = 4 << 10;

/// Room for the lists of all clients.
#[derive(Debug, Clone)]
pub(super) struct Uploads {
    room: Arc<Semaphore>,
    stall: Duration,
}

impl Uploads {
    /// Room for lists; a client may take `stall` for its next message.
    pub(super) fn new(stall: Duration) -> Self {
        Self { room: Arc::new(Semaphore::new(MAX_BYTES / UNIT_BYTES)), stall }
    }

    /// The next message; None at the end.
    pub(super) async fn next<M>(
        &self,
        messages: &mut (impl Stream<Item = Result<M, Status>> + Unpin),
    ) -> Result<Option<M>, Status> {
        match tokio::time::timeout(self.stall, messages.next()).await {
            Ok(message) => message.transpose(),
            Err(_) => Err(refuse(Error::Unavailable(format!(
                "no more of the list arrived for {:?}: send it again",
                self.stall
            )))),
        }
    }

    /// The first message, which says what the list is about.
    pub(super) async fn first<M>(
        &self,
        messages: &mut (impl Stream<Item = Result<M, Status>> + Unpin),
    ) -> Result<M, Status> {
        let first = self.next(messages).await?;
        first.ok_or_else(|| refuse(Error::Invalid("the request has no message in it".into())))
    }

    /// An empty list of at most `most` numbers.
    pub(super) fn list<T>(&self, what: &'static str, most: u64) -> List<T> {
        List { numbers: Vec::new(), what, most, uploads: self.clone(), room: None }
    }
}

/// The part of a list that has arrived.
#[derive(Debug)]
pub(super) struct List<T> {
    numbers: Vec<T>,
    /// What its numbers are, for messages.
    what: &'static str,
    most: u64,
    uploads: Uploads,
    room: Option<OwnedSemaphorePermit>,
}

impl<T: Copy> List<T> {
    /// Appends what a message brought.
    pub(super) fn extend(&mut self, more: &[T]) -> Result<(), Status> {
        let (len, what, most) = (self.numbers.len() + more.len(), self.what, self.most);
        if len as u64 > most {
            let text = format!("the list has more than {most} {what}, which is as many as there are items");
            return Err(refuse(Error::Invalid(text)));
        }
        let needed = (len * size_of::<T>()).div_ceil(UNIT_BYTES);
        let more_units = needed - self.room.as_ref().map_or(0, OwnedSemaphorePermit::num_permits).min(needed);
        let units = u32::try_from(more_units).unwrap_or(u32::MAX);
        let Ok(room) = Arc::clone(&self.uploads.room).try_acquire_many_owned(units) else {
            let text = format!("the lists that clients send now have more than {MAX_BYTES} bytes: try again later");
            return Err(refuse(Error::Full(text)));
        };
        match &mut self.room {
            Some(held) => held.merge(room),
            None => self.room = Some(room),
        }
        self.numbers.extend_from_slice(more);
        Ok(())
    }
}

impl<T> std::ops::Deref for List<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.numbers
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use futures::stream;
    use tonic::Code;

    #[test]
    fn a_list_longer_than_the_snapshot_is_refused_at_once() {
        let uploads = Uploads::new(Duration::from_secs(1));
        let mut list = uploads.list::<u32>("ids", 3);
        list.extend(&[1, 2]).unwrap();
        assert_eq!(list.extend(&[3, 4]).unwrap_err().code(), Code::InvalidArgument);
        list.extend(&[3]).unwrap();
        assert_eq!(&*list, [1, 2, 3]);
    }

    #[test]
    fn all_lists_together_are_bounded_and_give_their_room_back() {
        let uploads = Uploads::new(Duration::from_secs(1));
        let part = vec![0u32; MAX_BYTES / 4 / 8];
        let mut lists: Vec<_> = (0..2).map(|_| uploads.list("ids", u64::MAX)).collect();
        for turn in 0..8 {
            lists[turn % 2].extend(&part).unwrap();
        }
        assert_eq!(lists[0].extend(&[1]).unwrap_err().code(), Code::ResourceExhausted);
        lists.pop();
        lists[0].extend(&part).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_stops_sending_is_given_up() {
        let uploads = Uploads::new(Duration::from_secs(30));
        let mut silent = stream::pending::<Result<u32, Status>>();
        assert_eq!(uploads.next(&mut silent).await.unwrap_err().code(), Code::Unavailable);
        let mut empty = stream::empty::<Result<u32, Status>>();
        assert_eq!(uploads.first(&mut empty).await.unwrap_err().code(), Code::InvalidArgument);
    }
}
