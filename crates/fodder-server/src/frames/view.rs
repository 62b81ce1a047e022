//! Cache files that a client on this host reads by itself, though they may still change.

use super::connection::{Connection, End};
use crate::place::Place;
use fodder_api::frames::{Arriving, Flags, Kind, ReplyHead};
use fodder_core::{Dataset, Error, Result, engine::View};
use std::{ops::Range, os::fd::AsFd, sync::Arc};

/// What a client was shown last.
#[derive(Debug)]
pub(super) struct Shown {
    dataset: Arc<Dataset>,
    view: View,
}

impl Connection {
    /// Shows the cache file that has a range of an object.
    pub(super) fn view(
        &mut self,
        request: u32,
        dataset: Arc<Dataset>,
        place: &Place,
        range: Range<u64>,
        (reader, arriving): (u64, Arriving),
    ) -> Result<Result<(), End>> {
        if !self.socket.carries_descriptors() {
            return Err(Error::Invalid("files are shown over the Unix socket only".into()));
        }
        let ready = dataset.try_view(place.object, &range);
        let waits = ready.is_none();
        let view = match ready {
            None if arriving == Arriving::Await => self.wait(dataset.view(place.object, &range)),
            ready => Ok(ready),
        };
        let view = match view {
            // What is read in another way is noticed there.
            Ok(view) => view.ok_or_else(|| Error::Full("no tier has all of the range".into()))?,
            Err(end) => return Ok(Err(end)),
        };
        place.notice(&dataset, &range, reader, waits);
        let flags = Flags { descriptor: true, ..Flags::default() };
        let head = ReplyHead { flags, ..ReplyHead::new(Kind::View, request, 0) };
        let sent = self
            .output
            .flush(&mut self.socket)
            .and_then(|()| self.socket.send_with(&head.encode(), &[view.file().as_fd()], self.door.stall));
        self.shown = Some(Shown { dataset, view });
        Ok(sent.map_err(End::from))
    }

    /// Says whether what was read from the file that was shown last is right.
    pub(super) fn viewed(&mut self, request: u32) -> Result<Result<(), End>> {
        match self.shown.take() {
            Some(Shown { dataset, view }) if dataset.viewed(&view) => Ok(self.done(request)),
            Some(_) => Err(Error::Stale("the file has changed meanwhile: read it again".into())),
            None => Err(Error::Invalid("no file was shown on this connection".into())),
        }
    }
}
