//! Those who were turned away because they are not of the cluster, for whoever reads the log: a node that was given a wrong token
//! or certificate tries every second.

use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    net::IpAddr,
    time::{Duration, Instant},
};

/// How long nothing more is said of the same machine.
const QUIET: Duration = Duration::from_secs(60);

/// The most machines that are told of in that time.
const MAX_TOLD: usize = 32;

/// Of whom the log has told lately.
#[derive(Debug, Default)]
pub(crate) struct Strangers(Mutex<BTreeMap<IpAddr, Instant>>);

impl Strangers {
    /// Somebody was turned away, from there if it came over a network.
    pub(crate) fn turned_away(&self, from: Option<IpAddr>, why: &str) {
        let Some(from) = from.map(|ip| ip.to_canonical()) else { return };
        if self.is_due(from, Instant::now()) {
            tracing::warn!(%from, why, "somebody who is not of this cluster was turned away");
        }
    }

    fn is_due(&self, from: IpAddr, now: Instant) -> bool {
        let mut told = self.0.lock();
        told.retain(|_, at| now.duration_since(*at) < QUIET);
        let is_due = told.len() < MAX_TOLD && !told.contains_key(&from);
        if is_due {
            told.insert(from, now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_told_of_once_a_minute_and_not_too_many_are() {
        let (strangers, now) = (Strangers::default(), Instant::now());
        let ip = |last: u8| IpAddr::from([10, 0, 0, last]);
        assert!(strangers.is_due(ip(1), now));
        assert!(!strangers.is_due(ip(1), now + QUIET / 2));
        assert!(strangers.is_due(ip(2), now + QUIET / 2));
        assert!(strangers.is_due(ip(1), now + QUIET));
        let told = (3..=255).filter(|last| strangers.is_due(ip(*last), now + QUIET)).count();
        assert_eq!(told, MAX_TOLD - 2);
        assert!(strangers.is_due(ip(255), now + QUIET * 2));
    }
}
