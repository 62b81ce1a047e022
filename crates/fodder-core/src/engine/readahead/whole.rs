//! Large objects that are read one after another, each from its beginning to its end: who opens the next waits for all of it, if
//! that does not take long, since a file that is whole is read by the kernel alone.

use super::{HEAD_BYTES, Wish, split};
use crate::{
    engine::Dataset,
    id::{ObjectSlot, PieceId},
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::time::timeout;

/// After one so-manieth of the time a little more than that part must have come.
const LOOKS: u32 = 5;
/// After somebody has waited in vain nobody does for so long.
const REST: Duration = Duration::from_secs(10);

impl Dataset {
    /// A door says that an object is opened as a file, and whether it is whole here. If it is not, whether all of it comes now:
    /// then it is to be waited for.
    pub fn notice_open_file(&self, object: ObjectSlot, is_whole: bool) -> bool {
        self.notice_open(object, !is_whole);
        let size = self.objects.load().size(object);
        let fits = (HEAD_BYTES + 1..=self.shared.guesses.most_bytes()).contains(&size);
        if !fits || !self.guesses() || self.lookahead.rests() {
            return false;
        }
        let mut machine = self.lookahead.machine.lock();
        let opened = machine.open_all(object.0, size);
        if is_whole {
            machine.all_given(object.0);
        }
        drop(machine);
        let Some((reader, beyond_bytes)) = opened else { return false };
        if !is_whole {
            self.lookahead.wish(split(0..size).map(|range| Wish::Next { object, range }));
        }
        if beyond_bytes > 0 {
            // Whoever has all of an object at once comes to the next as soon: as much of that as may lie unread.
            self.look_beyond(reader, beyond_bytes.max(self.shared.guesses.most_bytes() - size));
        }
        !is_whole
    }

    /// Waits for so long until all of an object is here that comes now, and gives up early if it comes too slowly: whether it came
    /// in time.
    pub async fn comes_whole(&self, object: ObjectSlot, patience: Duration) -> bool {
        let reader = Arc::default();
        let waiting = (self.shared.demand.wait(), self.meter.wait(&reader));
        let missing = || self.missing(self.pieces_of(object)).count();
        let before = missing();
        let mut all =
            std::pin::pin!(self.flights.landed_all(self.pieces_of(object), |piece| self.holds(PieceId(piece))));
        let look = patience / LOOKS;
        let came = timeout(look, &mut all).await.is_ok()
            || (missing() <= before - before / (LOOKS - 1) as usize
                && timeout(patience - look, &mut all).await.is_ok());
        drop(waiting);
        let mut machine = self.lookahead.machine.lock();
        if came {
            machine.all_given(object.0);
        } else {
            machine.all_late(object.0);
            *self.lookahead.in_vain.lock() = Some(Instant::now());
        }
        came
    }
}

impl super::Lookahead {
    fn rests(&self) -> bool {
        self.in_vain.lock().is_some_and(|since| since.elapsed() < REST)
    }
}
