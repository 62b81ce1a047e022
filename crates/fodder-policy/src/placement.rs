//! Which members of a cluster own which bytes: rendezvous hashing, weighted by capacity.
//!
//! Whoever has the same list of members computes the same owners, so there is no directory and nothing to agree on. For
//! each range of an object every member draws a number from what the range and the member are called, divided by its
//! capacity, and the smallest numbers own the range. So a member that comes takes its share from all the others, one
//! that goes leaves its share to all the others, and nothing else moves.
//!
//! Drawn like that, shares are as even as chance has it. Where it is known what is placed, they are made
//! [even](Placement::balanced): whoever drew too much is given a little less weight than its capacity.
//!
//! All of it is done in integers: two machines never differ by a rounding.

mod balance;
mod front;
#[cfg(test)]
mod tests;

pub use balance::{Load, MAX_LOADS};

/// A member as placement sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// A hash of what the member is called; two members never share it.
    pub key: u64,
    /// How much it can hold, in any unit that is the same for all. One that holds nothing owns nothing.
    pub capacity: u64,
    /// Where it stands; members of one zone are near each other.
    pub zone: u32,
}

/// Neighbouring pieces of one version of an object, which are placed together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Parcel {
    /// The name of the object's version: a hash.
    pub object: u128,
    /// Which of its parcels.
    pub number: u32,
}

/// Members, and who of them owns what. Made anew when they change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Placement {
    members: Vec<Member>,
    /// How each of them draws.
    hands: Vec<Hand>,
}

/// How a member draws its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Hand {
    /// What it is called, mixed.
    salt: u64,
    /// One over its weight, where the heaviest has 2³²: what its draws are multiplied by.
    resistance: u128,
}

impl Placement {
    /// Over these members, in any order; whoever can hold nothing is left out, and so is a name that came before.
    pub fn new(members: impl IntoIterator<Item = Member>) -> Self {
        let mut members: Vec<_> = members.into_iter().filter(|member| member.capacity > 0).collect();
        members.sort_unstable_by_key(|member| member.key);
        members.dedup_by_key(|member| member.key);
        let most = members.iter().map(|member| member.capacity).max().unwrap_or(0);
        let hand = |member: &Member| Hand {
            salt: mix(member.key),
            resistance: ((u128::from(most) << 32) / u128::from(member.capacity)).min(MAX_RESISTANCE),
        };
        let hands = members.iter().map(hand).collect();
        Self { members, hands }
    }

    /// Those who may own something, by their keys.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// The one who owns a parcel before all others; None where there are no members.
    pub fn owner(&self, parcel: Parcel) -> Option<Member> {
        self.first(parcel.point()).map(|first| self.members[first])
    }

    /// The `replicas` who own a parcel, the first owner first. They stand in as many zones as there can be.
    pub fn owners(&self, parcel: Parcel, replicas: usize) -> Vec<Member> {
        self.all(parcel.point(), replicas).into_iter().map(|owner| self.members[owner]).collect()
    }

    /// Who draws the smallest number for a point.
    fn first(&self, point: u64) -> Option<usize> {
        (0..self.members.len()).map(|member| self.drawn(member, point)).min().map(|(_, first)| first)
    }

    /// The owners of a point.
    fn all(&self, point: u64, replicas: usize) -> Vec<usize> {
        if replicas <= 1 {
            return self.first(point).into_iter().take(replicas).collect();
        }
        let mut left: Vec<_> = (0..self.members.len()).map(|member| self.drawn(member, point)).collect();
        let mut owners = Vec::with_capacity(replicas.min(left.len()));
        self.spread(&mut left, replicas, &mut owners);
        owners.into_iter().map(|(_, owner)| owner).collect()
    }

    /// Takes the owners out of those who have drawn.
    fn spread(&self, left: &mut Vec<Drawn>, replicas: usize, owners: &mut Vec<Drawn>) {
        owners.clear();
        if replicas == 1 {
            return owners.extend(left.iter().min());
        }
        left.sort_unstable();
        while owners.len() < replicas && !left.is_empty() {
            let zone = |member: usize| self.members[member].zone;
            let elsewhere =
                left.iter().position(|(_, next)| owners.iter().all(|(_, owner)| zone(*owner) != zone(*next)));
            owners.push(left.remove(elsewhere.unwrap_or(0)));
        }
    }

    /// A member's number for a point, the smaller the better: an exponential draw whose mean is one over the weight.
    fn drawn(&self, member: usize, point: u64) -> Drawn {
        self.weighed(member, minus_log2(mix(point ^ self.hands[member].salt)))
    }

    /// What a draw counts. The key settles what would be a draw between two.
    fn weighed(&self, member: usize, drawn: u64) -> Drawn {
        ((u128::from(drawn) * self.hands[member].resistance, self.members[member].key), member)
    }
}

/// What a member has drawn, and which of them it is.
type Drawn = ((u128, u64), usize);

/// A draw has 38 bits; times this it still fits.
const MAX_RESISTANCE: u128 = 1 << 88;

impl Parcel {
    /// Where on the line of all numbers it lies.
    fn point(self) -> u64 {
        let (high, low) = ((self.object >> 64) as u64, self.object as u64);
        mix(low ^ mix(high ^ mix(u64::from(self.number))))
    }
}

/// A permutation of the numbers of 64 bits in which every bit of the input changes about half the bits of the output.
fn mix(mut x: u64) -> u64 {
    x ^= x >> 32;
    x = x.wrapping_mul(0xe9846af9b1a615d);
    x ^= x >> 32;
    x = x.wrapping_mul(0xe9846af9b1a615d);
    x ^ (x >> 28)
}

/// How many bits of a fraction [`minus_log2`] gives.
const FRACTION: u32 = 32;

/// The steps of the table of logarithms between 1 and 2.
const STEPS: usize = 1 << 10;

/// log2(1 + n / STEPS) with [`FRACTION`] bits after the point.
static LOGARITHMS: [u64; STEPS + 1] = logarithms();

const fn logarithms() -> [u64; STEPS + 1] {
    let mut table = [0; STEPS + 1];
    let mut n = 0;
    while n < STEPS {
        // Squaring doubles the logarithm: each time it passes 2, the next bit of the fraction is one.
        let (mut x, mut bit) = (((1 << 62) / STEPS as u128) * (STEPS + n) as u128, 0);
        while bit < FRACTION {
            x = (x * x) >> 62;
            table[n] <<= 1;
            if x >= 1 << 63 {
                x >>= 1;
                table[n] |= 1;
            }
            bit += 1;
        }
        n += 1;
    }
    table[STEPS] = 1 << FRACTION;
    table
}

/// −log2((x + 1) / 2⁶⁴) with [`FRACTION`] bits after the point, between the steps of the table by a straight line.
fn minus_log2(x: u64) -> u64 {
    let x = u128::from(x) + 1;
    let whole = 127 - x.leading_zeros();
    // What follows the leading one, as 64 bits of a fraction.
    let fraction = ((x << (64 - whole.min(64))) & u128::from(u64::MAX)) as u64;
    let step = (fraction >> 54) as usize;
    let between = u128::from(fraction & ((1 << 54) - 1));
    let (low, high) = (LOGARITHMS[step], LOGARITHMS[step + 1]);
    let logarithm = low + ((u128::from(high - low) * between) >> 54) as u64;
    (64 << FRACTION) - ((u64::from(whole) << FRACTION) + logarithm)
}

/// At most [`minus_log2`] of the same, and sooner had: a logarithm lies below its tangent.
fn drawn_at_least(x: u64) -> u64 {
    !x >> (64 - FRACTION)
}
