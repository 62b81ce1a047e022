//! Flights of one reader that go to the same peer together: one question, one connection, one task for all of them.
//!
//! A peer hands over so what it has at hand, in the order asked. Whatever it does not, goes its own way, as every flight does
//! that is alone. A reader's flights wait in its convoy only while it begins the reads that they are for.

use super::{
    Dataset,
    fetch::{Keeps, Trip},
    flight::Flight,
    segment::Receive,
};
use crate::{budget::Permit, engine::peer::Peers};
use parking_lot::Mutex;
use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

/// How many flights go together at most, and with how many bytes: so many that asking costs little beside sending, so few that
/// two connections share a batch.
const TOGETHER: (usize, u64) = (32, 4 << 20);

/// Flights that are about to be sent off, and who is to be asked for each.
#[derive(Debug, Default)]
pub struct Convoy {
    trips: Mutex<Vec<(u128, Trip)>>,
}

impl Dataset {
    /// Sends a flight for a reader on its way; with others, if there is a convoy and a peer that may have it at hand.
    pub(super) fn send_off(
        self: &Arc<Self>,
        flight: &Arc<Flight>,
        keeps: Keeps,
        permit: Permit,
        convoy: Option<&Convoy>,
    ) {
        let trip = Trip::new(self, Arc::clone(flight), keeps, permit);
        match convoy.and_then(|convoy| Some((convoy, self.hander(flight)?))) {
            Some((convoy, hander)) => convoy.trips.lock().push((hander, trip)),
            None => self.fly(trip, Receive::Gathered, Duration::ZERO),
        }
    }

    /// Who may have all of a flight at hand. None for one that is not alike to others of its convoy.
    fn hander(&self, flight: &Flight) -> Option<u128> {
        if flight.len() > 1 || !flight.asks_peers() {
            return None;
        }
        let key = self.objects().key(flight.object);
        if self.stamps.has(|| key) {
            return None;
        }
        self.shared.peers.get()?.hander(&self.config().name, key, flight.range.start)
    }

    /// Sends off all flights that wait in a convoy.
    pub fn depart(self: &Arc<Self>, convoy: &Convoy) {
        let mut trips = std::mem::take(&mut *convoy.trips.lock());
        // In the order begun, for each peer.
        trips.sort_by_key(|(hander, _)| *hander);
        let mut trips = trips.into_iter().peekable();
        while let Some((hander, first)) = trips.next() {
            let (mut together, mut bytes) = (vec![first], 0);
            while let Some((_, next)) = trips.next_if(|(other, next)| {
                bytes += next.flight.range.end - next.flight.range.start;
                *other == hander && together.len() < TOGETHER.0 && bytes < TOGETHER.1
            }) {
                together.push(next);
            }
            self.fly_together(hander, together);
        }
    }

    fn fly_together(self: &Arc<Self>, hander: u128, trips: Vec<Trip>) {
        let Some(peers) = self.shared.peers.get().filter(|_| trips.len() > 1).map(Arc::clone) else {
            return trips.into_iter().for_each(|trip| self.fly(trip, Receive::Gathered, Duration::ZERO));
        };
        let dataset = Arc::clone(self);
        self.shared.tasks.spawn(async move {
            tokio::select! {
                biased;
                () = dataset.closing.cancelled() => {}
                () = dataset.take_over(&*peers, hander, trips) => {}
            }
        });
    }

    /// Takes what a peer hands over, and sends what it does not its own way.
    async fn take_over(self: &Arc<Self>, peers: &dyn Peers, hander: u128, trips: Vec<Trip>) {
        let fetching = self.meter.fetch();
        let wanted = trips.iter().map(|trip| self.wanted(&trip.flight)).collect();
        let (mut handed, waited) = match peers.hand(hander, wanted).await {
            Ok(handed) => (Some(handed), Duration::ZERO),
            Err(waited) => (None, waited),
        };
        if handed.is_some() {
            fetching.answered();
        }
        let (mut trips, mut has_stopped) = (trips.into_iter(), false);
        while let Some(mut trip) = trips.next() {
            let is_abandoned = |trip: &Trip| trip.flight.abandoned.is_cancelled();
            if is_abandoned(&trip) && trips.as_slice().iter().all(is_abandoned) {
                return;
            }
            if let Some(from) = &mut handed {
                let len = (trip.flight.range.end - trip.flight.range.start) as usize;
                let mut buffer = trip.permit.split(len as u64).buffer(len);
                match from.next(buffer.as_mut()).await {
                    Ok(true) => {
                        self.counters.bytes_from_peers.fetch_add(len as u64, Relaxed);
                        trip.flight.came_from(true);
                        let keep = trip.keeps.pop().flatten().filter(|_| !is_abandoned(&trip));
                        if !self.land(&trip.flight, 0, vec![buffer.freeze()], keep).await {
                            trip.fail_with(self.changed_during_read(trip.flight.object));
                        }
                        continue;
                    }
                    Ok(false) => {}
                    Err(error) => {
                        tracing::debug!(%error, "a peer sent less than it announced; fetching from the origin");
                        (handed, has_stopped) = (None, true);
                    }
                }
                trip.permit = buffer.into_permit();
            }
            // As from one that stops in the middle of an answer to a flight by itself.
            if has_stopped {
                trip.flight.fly_straight();
            }
            self.fly(trip, Receive::Gathered, waited);
        }
    }
}
