//! Who draws the smallest numbers for each of many parcels, under weights that change a little again and again.
//!
//! What members draw stays as it is; only what it is multiplied by changes. So of each parcel the few who come first are
//! kept, and how far the others are behind them. Those are drawn for again only where weights have changed so much that one
//! of them may have come to the front. So what follows is what drawing for all of them each time would say.

use super::{Load, Placement, drawn_at_least, minus_log2, mix};

/// So many more are kept of each parcel than own it: weights change by some percent, and the next of these is farther.
const SPARE: usize = 3;

/// Bits behind the point, of how weights have changed.
const FRACTION: u32 = 32;

/// The members at the front of each parcel.
#[derive(Debug)]
pub(super) struct Front<'a> {
    loads: &'a [Load],
    replicas: usize,
    /// Where members stand, counted.
    zones: usize,
    /// How many are kept of each parcel; those of the first parcel come first.
    kept: usize,
    near: Vec<Near>,
    /// What everybody else has at least, of each parcel.
    behind: Vec<u128>,
    /// What draws were multiplied by then.
    resistances: Vec<u128>,
}

/// A member, and what it drew.
#[derive(Debug, Clone, Copy)]
struct Near {
    drawn: u64,
    member: u32,
}

impl<'a> Front<'a> {
    /// Of these parcels, of each of which `replicas` members own a copy: at least one.
    pub(super) fn new(placement: &Placement, loads: &'a [Load], replicas: usize) -> Self {
        let (members, hands) = (&placement.members, &placement.hands);
        let mut zones: Vec<_> = members.iter().map(|member| member.zone).collect();
        zones.sort_unstable();
        zones.dedup();
        let kept = (replicas + SPARE).min(members.len());
        let (mut near, mut behind) = (Vec::with_capacity(loads.len() * kept), Vec::with_capacity(loads.len()));
        let mut first: Vec<(u128, Near)> = Vec::with_capacity(kept + 2);
        for load in loads {
            first.clear();
            let mut last = u128::MAX;
            for (member, hand) in hands.iter().enumerate() {
                let hash = mix(load.point ^ hand.salt);
                if u128::from(drawn_at_least(hash)) * hand.resistance >= last {
                    continue;
                }
                let drawn = minus_log2(hash);
                let number = u128::from(drawn) * hand.resistance;
                let place = first.iter().rposition(|(before, _)| *before <= number).map_or(0, |before| before + 1);
                first.insert(place, (number, Near { drawn, member: member as u32 }));
                first.truncate(kept + 1);
                last = first.get(kept).map_or(u128::MAX, |(number, _)| *number);
            }
            near.extend(first.iter().take(kept).map(|(_, near)| *near));
            behind.push(last);
        }
        let resistances = hands.iter().map(|hand| hand.resistance).collect();
        Self { loads, replicas, zones: zones.len(), kept, near, behind, resistances }
    }

    /// Bytes that each member owns, with the weights that it has now.
    pub(super) fn shares(&self, now: &Placement) -> Vec<u128> {
        let mut shares = vec![0; now.members.len()];
        let changed = |(hand, before): (&super::Hand, &u128)| (hand.resistance << FRACTION) / before;
        let least = now.hands.iter().zip(&self.resistances).map(changed).min().unwrap_or(0);
        let (mut left, mut owners) = (Vec::new(), Vec::new());
        for ((load, near), behind) in self.loads.iter().zip(self.near.chunks(self.kept)).zip(&self.behind) {
            let others = match self.kept == now.members.len() {
                true => u128::MAX,
                false => (behind >> FRACTION).saturating_mul(least),
            };
            left.clear();
            left.extend(near.iter().map(|near| now.weighed(near.member as usize, near.drawn)));
            now.spread(&mut left, self.replicas, &mut owners);
            if !self.is_sure(now, &owners, others) {
                left.clear();
                left.extend((0..now.members.len()).map(|member| now.drawn(member, load.point)));
                now.spread(&mut left, self.replicas, &mut owners);
            }
            for (_, owner) in &owners {
                shares[*owner] += u128::from(load.bytes);
            }
        }
        shares
    }

    /// Whether these are the owners, though others were not looked at that have at least so much.
    fn is_sure(&self, now: &Placement, owners: &[super::Drawn], others: u128) -> bool {
        let zone = |place: usize| now.members[owners[place].1].zone;
        let is_first_there = |place: &usize| (0..*place).all(|before| zone(before) != zone(*place));
        let in_zones = (0..owners.len()).filter(is_first_there).count();
        owners.iter().all(|((number, _), _)| *number < others) && in_zones == self.zones.min(self.replicas)
    }
}
