//! The members as people and tools are shown them.

use super::Joined;
use fodder_api::v1;
use serde::Serialize;
use utoipa::ToSchema;

/// The cluster, as one of its nodes sees it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
pub struct ClusterStatus {
    /// The identity of the node that was asked; none, if it is in no cluster.
    pub me: Option<String>,
    /// The members, by identity.
    pub members: Vec<MemberStatus>,
}

/// One member.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct MemberStatus {
    /// Who it is: 32 hex digits.
    pub id: String,
    /// How often it has started.
    pub incarnation: u64,
    /// Where its gRPC and frames are reached.
    pub address: String,
    /// Where it stands; empty where nobody has said.
    pub zone: String,
    /// joining, serving, draining or unreachable.
    pub state: String,
    /// How much it can hold.
    pub capacity_bytes: u64,
    /// The part of what the cluster caches that it owns, between 0 and 1.
    pub share: f64,
    /// The oldest version of the protocol between nodes that it speaks.
    pub oldest_version: u16,
    /// The newest.
    pub newest_version: u16,
    /// How many microseconds it took to answer when it was last asked; null where that is not known.
    pub latency_us: Option<u64>,
    /// Bytes that it holds; null, if it did not say so in time.
    pub held_bytes: Option<u64>,
    /// Hits of all reads, as `fodder status` counts them, between 0 and 1; null also where nothing was read.
    pub hit_ratio: Option<f64>,
}

impl Joined {
    /// The cluster as this node sees it, without what the others would say of themselves.
    pub fn status(&self) -> ClusterStatus {
        let members = self.membership.members().borrow().clone();
        let whole: u128 = members.owners().map(|seen| u128::from(seen.member.capacity_bytes)).sum();
        let list = members.all().iter().map(|seen| {
            let member = &seen.member;
            let owned = if seen.owns() { member.capacity_bytes } else { 0 };
            let latency = self.board.answered_in(member.id).filter(|_| !seen.unreachable);
            MemberStatus {
                id: member.id.to_string(),
                incarnation: member.incarnation.0,
                address: member.address.clone(),
                zone: member.zone.clone(),
                state: seen.state(),
                capacity_bytes: member.capacity_bytes,
                share: owned as f64 / whole.max(1) as f64,
                oldest_version: member.versions.oldest,
                newest_version: member.versions.newest,
                latency_us: latency.map(|took| u64::try_from(took.as_micros()).unwrap_or(u64::MAX)),
                held_bytes: None,
                hit_ratio: None,
            }
        });
        ClusterStatus { me: Some(members.me().id.to_string()), members: list.collect() }
    }
}

impl From<ClusterStatus> for v1::MembersReply {
    fn from(status: ClusterStatus) -> Self {
        let members = status.members.into_iter().map(Into::into).collect();
        Self { me: status.me.unwrap_or_default(), members }
    }
}

impl From<MemberStatus> for v1::MemberStatus {
    fn from(status: MemberStatus) -> Self {
        Self {
            id: status.id,
            incarnation: status.incarnation,
            address: status.address,
            zone: status.zone,
            state: status.state,
            capacity_bytes: status.capacity_bytes,
            share: status.share,
            oldest_version: status.oldest_version.into(),
            newest_version: status.newest_version.into(),
            latency_us: status.latency_us,
            held_bytes: status.held_bytes,
            hit_ratio: status.hit_ratio,
        }
    }
}
