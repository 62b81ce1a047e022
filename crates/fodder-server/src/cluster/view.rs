//! Whom to ask for a parcel: pure decisions over the members and over which of them answer.

mod ownership;

pub(crate) use ownership::Contents;

use super::peer::Peer;
use fodder_core::{
    engine::peer::{PARCEL_BYTES, Role, Wanted},
    id::FileKey,
};
use fodder_policy::placement::{Member, Parcel, Placement};
use ownership::Ownership;
use std::{collections::HashMap, sync::Arc, time::Duration};

/// How long it is remembered who owned what before the members changed.
const MEMORY: Duration = Duration::from_secs(600);

/// How long others may take to hear that owners have changed.
const SETTLING: Duration = Duration::from_secs(10);

/// How many such changes are remembered.
const CHANGES: usize = 4;

/// How many of the next in the order of owners are asked for what they hold, when members have come or gone.
const HOLDERS: usize = 2;

/// A node of the cluster, as its neighbours need to know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Neighbour {
    /// Who it is: random bits.
    pub id: u128,
    /// Where it is reached: `host:port`.
    pub address: String,
    /// Where it stands; empty where nobody has said.
    pub zone: String,
    /// How much it can hold.
    pub capacity_bytes: u64,
    /// Whether it owns a share now. One that comes or goes may still be asked for what it holds.
    pub owns: bool,
    /// Whether it can be asked.
    pub answers: bool,
}

/// How another node is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// As the owner.
    Owner,
    /// In the place of an owner that does not answer.
    StandIn,
    /// For what it has in its tiers or the origin is sending it, and nothing else.
    Holder,
    /// The same; and to fetch, if it has not heard yet that it owns it no more.
    FormerOwner,
}

impl Manner {
    /// Whether it is asked for nothing for which it would have to ask others.
    pub(crate) fn is_only_held(self) -> bool {
        matches!(self, Self::Holder | Self::FormerOwner)
    }
}

/// The members as they are, and as they were.
#[derive(Debug, Default)]
pub(crate) struct View {
    /// How many were before it.
    number: u64,
    /// When members that own something last came or went.
    changed: Duration,
    me: u64,
    zone: u32,
    replicas: usize,
    owned: Arc<Ownership>,
    /// Who owned what before, and until when that is of use; the latest first.
    former: Vec<(Arc<Ownership>, Duration)>,
    /// The others, by their keys.
    peers: HashMap<u64, Arc<Peer>>,
}

impl View {
    /// The view after `before`, with these members and datasets, of a node that keeps so many replicas; `peer` gives what is
    /// known of one of them.
    pub(crate) fn after(
        before: &Self,
        (me, replicas): (u128, usize),
        members: &[Neighbour],
        contents: &Contents,
        now: Duration,
        mut peer: impl FnMut(&Neighbour) -> Arc<Peer>,
    ) -> Self {
        let member = |one: &Neighbour| Member { key: key(one.id), capacity: one.capacity_bytes, zone: zone(&one.zone) };
        let placement = Placement::new(members.iter().filter(|one| one.owns).map(member));
        let owned = Arc::new(Ownership::after(&before.owned, placement, contents, replicas));
        let others = members.iter().filter(|one| one.id != me && one.answers);
        let peers = others.map(|one| (key(one.id), peer(one))).collect();
        let (mut former, mut changed) = (before.former.clone(), before.changed);
        if owned.members() != before.owned.members() {
            changed = now;
        }
        if owned.differs_from(&before.owned) {
            former.insert(0, (Arc::clone(&before.owned), now + MEMORY));
        }
        former.retain(|(_, until)| now < *until);
        former.truncate(CHANGES);
        let zone = members.iter().find(|one| one.id == me).map_or(0, |one| zone(&one.zone));
        let (number, me, replicas) = (before.number + 1, key(me), replicas.max(1));
        Self { number, changed, me, zone, replicas, owned, former, peers }
    }

    /// Tells views apart: each has a number of its own.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Whether owners came or went so little ago that others may not have heard of it.
    pub(crate) fn is_settling(&self, now: Duration) -> bool {
        now < self.changed + SETTLING
    }

    /// Whether others own something, or did.
    pub(crate) fn is_alone(&self) -> bool {
        self.peers.is_empty()
    }

    /// Everybody else who can be asked.
    pub(crate) fn peers(&self) -> impl Iterator<Item = &Arc<Peer>> {
        self.peers.values()
    }

    /// The part of everything that a member owns, between 0 and 1.
    pub(crate) fn share(&self, id: u128) -> f64 {
        let members = self.owned.members();
        let all: u128 = members.iter().map(|member| u128::from(member.capacity)).sum();
        let own = members.iter().find(|member| member.key == key(id)).map_or(0, |member| member.capacity);
        own as f64 / all.max(1) as f64
    }

    /// How many nodes keep each parcel.
    pub(crate) fn replicas(&self) -> usize {
        self.replicas
    }

    /// What this node is to a parcel. An owner that does not answer has its work done by the next.
    pub(crate) fn role(&self, dataset: &str, object: FileKey, offset: u64, now: Duration) -> Role {
        let (placement, parcel) = (self.owned.of(dataset), parcel(object, offset));
        if self.replicas == 1 {
            match placement.owner(parcel) {
                None => return Role::Guest,
                Some(owner) if owner.key == self.me => return Role::Owner,
                Some(owner) if !self.is_gone(owner.key, now) => return Role::Guest,
                Some(_) => {}
            }
        }
        let owners = placement.owners(parcel, self.replicas + 2);
        match owners.iter().position(|owner| owner.key == self.me) {
            Some(mine) if owners[..mine].iter().all(|owner| self.is_gone(owner.key, now)) => Role::Owner,
            Some(mine) if mine < self.replicas => Role::Spare,
            _ => Role::Guest,
        }
    }

    /// Who is asked for bytes, one after the other.
    pub(crate) fn whom_to_ask(&self, wanted: &Wanted, now: Duration) -> Vec<Ask> {
        if self.peers.is_empty() {
            return Vec::new();
        }
        let (dataset, parcel) = (&wanted.dataset[..], parcel(wanted.key, wanted.range.start));
        let mut asks: Vec<Ask> = Vec::new();
        let mut add = |key: u64, manner: Manner| {
            if let Some(peer) = self.peers.get(&key)
                && !asks.iter().any(|(other, _)| Arc::ptr_eq(other, peer))
            {
                asks.push((Arc::clone(peer), manner));
            }
        };
        let owns = self.role(dataset, wanted.key, wanted.range.start, now) == Role::Owner;
        if !owns && !wanted.for_peer {
            // Only those before this node in the order of owners: so nobody waits for one who waits for it.
            let owners = self.owned.of(dataset).owners(parcel, self.replicas + 2);
            let mine = owners.iter().position(|owner| owner.key == self.me).unwrap_or(owners.len());
            let before = &owners[..mine];
            let near =
                before.iter().take(self.replicas).skip(1).filter(|owner| owner.zone == self.zone && self.zone != 0);
            near.for_each(|owner| add(owner.key, Manner::Owner));
            for owner in before.iter().filter(|owner| !self.is_gone(owner.key, now)).take(2) {
                let is_first = owner.key == owners[0].key;
                add(owner.key, if is_first { Manner::Owner } else { Manner::StandIn });
            }
        } else if owns {
            let former: Vec<_> = self.former.iter().filter(|(_, until)| now < *until).collect();
            let holders = former.iter().filter_map(|(owned, _)| owned.of(dataset).owner(parcel));
            holders.filter(|holder| !self.is_gone(holder.key, now)).for_each(|holder| add(holder.key, Manner::Holder));
            // While members come and go, or somebody does not answer, others may have fetched or kept what is looked for.
            let owners = self.owned.of(dataset).owners(parcel, self.replicas + HOLDERS);
            if !former.is_empty() || self.is_settling(now) || owners.first().is_some_and(|first| first.key != self.me) {
                let others = owners.iter().filter(|owner| !self.is_gone(owner.key, now));
                others.for_each(|owner| add(owner.key, Manner::Holder));
            }
        }
        asks
    }

    /// Who is asked first for bytes as one that may have them, and answers.
    pub(crate) fn hander(&self, dataset: &str, object: FileKey, offset: u64, now: Duration) -> Option<u128> {
        let owners = self.owned.of(dataset);
        let parcel = parcel(object, offset);
        // Where several have them, the nearest; and nobody who comes behind this node, as for a read.
        let owner = match self.replicas {
            1 => owners.owner(parcel)?.key,
            copies => {
                let owners = owners.owners(parcel, copies);
                let mine = owners.iter().position(|owner| owner.key == self.me).unwrap_or(owners.len());
                let near = owners[..mine].iter().skip(1).find(|owner| owner.zone == self.zone && self.zone != 0);
                near.or(owners[..mine].first())?.key
            }
        };
        self.peers.get(&owner).filter(|peer| !peer.is_gone(now) && !peer.is_on_trial()).map(|peer| peer.id)
    }

    /// Who owns what is offered first, if that is another node.
    pub(crate) fn owner(&self, offered: &Wanted, now: Duration) -> Option<&Arc<Peer>> {
        let parcel = parcel(offered.key, offered.range.start);
        let owners = self.owned.of(&offered.dataset).owners(parcel, self.replicas + 1);
        let alive = owners.iter().find(|owner| owner.key == self.me || !self.is_gone(owner.key, now))?;
        self.peers.get(&alive.key)
    }

    /// Whether this node owned a parcel before the members changed.
    pub(crate) fn owned_before(&self, dataset: &str, object: FileKey, offset: u64) -> bool {
        let parcel = parcel(object, offset);
        let owners = self.former.iter().flat_map(|(owned, _)| owned.of(dataset).owners(parcel, self.replicas));
        owners.into_iter().any(|owner| owner.key == self.me)
    }

    /// Whether the owner of a parcel owns it since not long ago, and did not before: it may have to look for it.
    pub(crate) fn is_sought(&self, dataset: &str, object: FileKey, offset: u64) -> bool {
        let parcel = parcel(object, offset);
        let mut former = self.former.iter().filter_map(|(owned, _)| owned.of(dataset).owner(parcel)).peekable();
        let owner = self.owned.of(dataset).owner(parcel);
        former.peek().is_some() && former.all(|former| Some(former.key) != owner.map(|owner| owner.key))
    }

    /// Whether a member does not answer, and it is not time to try it again.
    fn is_gone(&self, key: u64, now: Duration) -> bool {
        key != self.me && self.peers.get(&key).is_none_or(|peer| peer.is_gone(now))
    }
}

/// A peer, and how to ask it.
pub(crate) type Ask = (Arc<Peer>, Manner);

fn parcel(object: FileKey, offset: u64) -> Parcel {
    Parcel { object: u128::from_be_bytes(object.0), number: (offset / PARCEL_BYTES) as u32 }
}

/// What a member is called in placement.
fn key(id: u128) -> u64 {
    (id >> 64) as u64 ^ id as u64
}

/// The number of a zone; 0 for none.
fn zone(name: &str) -> u32 {
    if name.is_empty() {
        return 0;
    }
    let hash = blake3::hash(name.as_bytes());
    u32::from_le_bytes(hash.as_bytes()[..4].try_into().expect("four bytes")) | 1
}

#[cfg(test)]
mod tests;
