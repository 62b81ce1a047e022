//! Which members of a cluster own which bytes: rendezvous hashing, weighted by capacity.
//!
//! Whoever has the same list of members computes the same owners, so there is no directory and nothing to agree on. For
//! each range of an object every member draws a number from what the range and the member are called, divided by its
//! capacity, and the smallest numbers own the range. So a member that comes takes its share from all the others, one
//! that goes leaves its share to all the others, and nothing else moves.
//!
//! All of it is done in integers: two machines never differ by a rounding.

#[cfg(test)]
mod tests;

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
#[derive(Debug, Clone, Default)]
pub struct Placement {
    members: Vec<Member>,
}

impl Placement {
    /// Over these members, in any order; whoever can hold nothing is left out, and so is a name that came before.
    pub fn new(members: impl IntoIterator<Item = Member>) -> Self {
        let mut members: Vec<_> = members.into_iter().filter(|member| member.capacity > 0).collect();
        members.sort_unstable_by_key(|member| member.key);
        members.dedup_by_key(|member| member.key);
        Self { members }
    }

    /// Those who may own something, by their keys.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// The one who owns a parcel before all others; None where there are no members.
    pub fn owner(&self, parcel: Parcel) -> Option<Member> {
        let point = parcel.point();
        self.members.iter().copied().min_by_key(|member| member.draw(point))
    }

    /// The `replicas` who own a parcel, the first owner first. They stand in as many zones as there can be.
    pub fn owners(&self, parcel: Parcel, replicas: usize) -> Vec<Member> {
        if replicas <= 1 {
            return self.owner(parcel).into_iter().take(replicas).collect();
        }
        let point = parcel.point();
        let mut left: Vec<_> = self.members.iter().map(|member| (member.draw(point), *member)).collect();
        left.sort_unstable_by_key(|(draw, _)| *draw);
        let mut owners: Vec<Member> = Vec::with_capacity(replicas.min(left.len()));
        while owners.len() < replicas && !left.is_empty() {
            let elsewhere = left.iter().position(|(_, next)| owners.iter().all(|owner| owner.zone != next.zone));
            owners.push(left.remove(elsewhere.unwrap_or(0)).1);
        }
        owners
    }
}

impl Parcel {
    /// Where on the line of all numbers it lies.
    fn point(self) -> u64 {
        let (high, low) = ((self.object >> 64) as u64, self.object as u64);
        mix(low ^ mix(high ^ mix(u64::from(self.number))))
    }
}

impl Member {
    /// Its number for a point, the smaller the better: an exponential draw whose mean is one over the capacity. The key
    /// settles what would be a draw between two.
    fn draw(&self, point: u64) -> (u128, u64) {
        let exponential = u128::from(minus_log2(mix(point ^ mix(self.key))));
        ((exponential << 64) / u128::from(self.capacity), self.key)
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
