//! Even shares: the weights with which members own, of what there is, as much as their capacities say.
//!
//! Of few parcels, or of some that are much larger than others, one member draws more than its share and another less. So
//! what everybody draws is added up, whoever has too much is given less weight and the others more, again and again.
//! Whoever knows the same members and the same parcels comes to the same weights. They stay close to the capacities, so
//! that few parcels move for them; where shares are even by chance, as they are of many parcels, nothing is changed.

use super::{MAX_RESISTANCE, Parcel, Placement, front::Front};

/// Of more parcels than this, shares are as even as they need to be.
pub const MAX_LOADS: usize = 1 << 18;

/// Shares are looked at so often.
const ROUNDS: usize = 24;

/// Nobody has more than 1/GOOD above its share: that is even.
const GOOD: u128 = 100;

/// 1, among ratios.
const ONE: u128 = 1 << 32;

/// A parcel, and how much it weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    pub(super) point: u64,
    pub(super) bytes: u64,
}

impl Load {
    /// A parcel of so many bytes.
    pub fn new(parcel: Parcel, bytes: u64) -> Self {
        Self { point: parcel.point(), bytes }
    }
}

impl Placement {
    /// The same members, with weights of which each owns its share of these parcels, as far as parcels can be divided like
    /// that. `replicas` own each.
    pub fn balanced(mut self, loads: &[Load], replicas: usize) -> Self {
        let (bytes, count) = (loads.iter().map(|load| u128::from(load.bytes)).sum::<u128>(), self.members.len());
        if loads.len() > MAX_LOADS || bytes == 0 || replicas.max(1) >= count {
            return self;
        }
        let capacity: u128 = self.members.iter().map(|member| u128::from(member.capacity)).sum();
        let owed = |member: usize| {
            let bytes = bytes * replicas.max(1) as u128;
            (mul_div(bytes, u128::from(self.members[member].capacity), capacity)).max(1)
        };
        let owed: Vec<u128> = (0..count).map(owed).collect();
        let front = Front::new(&self, loads, replicas.max(1));
        let mut best: Option<(u128, Self)> = None;
        for round in 0..ROUNDS {
            let shares = front.shares(&self);
            let ratios: Vec<u128> = shares.iter().zip(&owed).map(|(share, owed)| mul_div(*share, ONE, *owed)).collect();
            let most = ratios.iter().copied().max().unwrap_or(ONE);
            if best.as_ref().is_none_or(|(least, _)| most < *least) {
                best = Some((most, self.clone()));
            }
            if most <= ONE + ONE / GOOD {
                break;
            }
            // Large steps at first, then smaller ones: few large parcels jump from one to the other.
            let caution = 1 + (round / 6) as u128;
            for (hand, ratio) in self.hands.iter_mut().zip(&ratios) {
                let step = (ratio.clamp(&(ONE / 2), &(ONE * 2)) + ONE * (caution - 1)) / caution;
                hand.resistance = (hand.resistance * step / ONE).clamp(1, MAX_RESISTANCE);
            }
        }
        best.map_or(self, |(_, best)| best)
    }
}

/// a · b / c, where a and b may be so large that their product is not a number.
fn mul_div(a: u128, b: u128, c: u128) -> u128 {
    let spare = (128 - a.leading_zeros() + 128 - b.leading_zeros()).saturating_sub(128);
    // What is cut off is far below what anybody could see in a share.
    let (a, c) = (a >> spare.min(64), (c >> spare.min(64)).max(1));
    a.saturating_mul(b) / c
}
