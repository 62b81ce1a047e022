//! What a node sees of the others of its cluster. One series a member, so there are as many as there are members.

use super::{Out, Series};
use crate::cluster::PeerStatus;
use std::fmt;

pub(super) fn peers(out: &mut Out<'_>, all: &[PeerStatus]) -> fmt::Result {
    type Of = fn(&PeerStatus) -> u64;
    let peer = |one: &PeerStatus| ("peer", one.address.clone());
    let of = |value: Of| -> Vec<Series> { all.iter().map(|one| (vec![peer(one)], value(one))).collect() };
    let outcomes: [(&str, Of); 3] =
        [("answered", |one| one.answered), ("refused", |one| one.refused), ("failed", |one| one.failed)];
    let requests = all.iter().flat_map(|one| {
        outcomes.map(|(outcome, count)| (vec![peer(one), ("outcome", outcome.to_owned())], count(one)))
    });
    out.counter("fodder_peer_requests", "Requests to other nodes", &requests.collect::<Vec<_>>())?;
    out.counter("fodder_peer_given_bytes", "Bytes that another node gave", &of(|one| one.bytes))?;
    out.gauge("fodder_peer_latency_us", "How long another node takes to answer lately", &of(|one| one.latency_us))?;
    let is_left_alone = of(|one| u64::from(one.breaker != "closed"));
    out.gauge("fodder_peer_left_alone", "1, if another node did not answer and is left alone", &is_left_alone)
}
