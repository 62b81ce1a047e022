//! How a node stands, in the few numbers that others are told, and how all members do.

use super::{membership::ClusterStatus, peering::Peering};
use crate::{NodeInfo, grpc::stats_message};
use fodder_api::v1::{self, peer_message, peer_reply};
use fodder_core::Engine;
use futures::future::join_all;
use std::time::{Duration, Instant};

/// How long a member may take to say how it stands, before people are told without it.
const DEADLINE: Duration = Duration::from_secs(2);

/// The members as this node sees them, each with what it says of itself now. Nobody, if the node is in no cluster.
pub(crate) async fn cluster_status(engine: &Engine, info: &NodeInfo) -> ClusterStatus {
    let (Some(joined), Some(peering)) = (info.state.cluster(), info.state.peering()) else {
        return ClusterStatus::default();
    };
    let mut status = joined.status();
    let asked = status.members.iter().map(|member| async {
        let id = u128::from_str_radix(&member.id, 16).ok()?;
        if id == peering.me() {
            return Some((standing(engine, info), None));
        }
        let began = Instant::now();
        let standing = standing_of(peering, id).await?;
        Some((standing, Some(began.elapsed())))
    });
    let told = join_all(asked).await;
    for (member, told) in status.members.iter_mut().zip(told) {
        let Some((standing, took)) = told else { continue };
        member.held_bytes = Some(standing.held_bytes);
        member.hit_ratio = (standing.reads > 0).then(|| standing.hits as f64 / standing.reads as f64);
        member.latency_us = took.map(|took| u64::try_from(took.as_micros()).unwrap_or(u64::MAX)).or(member.latency_us);
    }
    status
}

/// How another node says it stands, if it answers in time.
pub(crate) async fn standing_of(peering: &Peering, id: u128) -> Option<v1::Standing> {
    let message = peer_message::Message::Standing(v1::StandingQuestion {});
    let message = v1::PeerMessage { message: Some(message) };
    match tokio::time::timeout(DEADLINE, peering.tell(id, &message)).await.ok()?.ok()?.reply {
        Some(peer_reply::Reply::Standing(standing)) => Some(standing),
        _ => None,
    }
}

/// How this node stands.
pub(crate) fn standing(engine: &Engine, info: &NodeInfo) -> v1::Standing {
    let status = engine.status();
    let mut standing = v1::Standing { rest_port: info.addresses.rest.port().into(), ..v1::Standing::default() };
    for tier in &status.tiers {
        standing.held_bytes += tier.used_bytes;
        standing.quota_bytes += tier.quota_bytes;
    }
    for stats in status.datasets.into_iter().map(|dataset| stats_message(dataset.stats)) {
        standing.hits += stats.hits();
        standing.reads += stats.reads();
        standing.from_origin_bytes += stats.bytes_from_origin;
        standing.from_peers_bytes += stats.bytes_from_peers;
        standing.to_peers_bytes += stats.bytes_to_peers;
    }
    standing
}
