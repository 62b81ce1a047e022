//! Numbers that look random and are the same on every machine: SplitMix64. Results of a simulation are quoted by
//! their seed, so the generator may never change under them; no other crate is asked for it.

use crate::permutation::mix;

/// A stream of numbers that its seed decides.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// A stream of its own for each `purpose`, so that drawing more for one changes nothing for another.
    pub(crate) fn of(seed: u64, purpose: u64) -> Self {
        Self(mix(seed ^ mix(purpose.wrapping_add(1))))
    }

    /// Any 64 bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `end`, which is not 0. By multiplication: its bias is below `end` / 2^64.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    /// A number in [0, 1), with 53 random bits.
    pub(crate) fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_on_every_machine() {
        // The reference outputs of SplitMix64 for the seed 1234567.
        let mut random = Random(1_234_567);
        let expected = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!([random.next(), random.next(), random.next()], expected);
    }

    #[test]
    fn streams_for_different_purposes_differ() {
        let first = |purpose| Random::of(1, purpose).next();
        assert_ne!(first(0), first(1));
        assert_eq!(first(1), first(1));
        assert!((0..1000).all(|_| Random::of(3, 4).share() < 1.0));
    }
}
