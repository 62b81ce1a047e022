//! What an id is worth, as a key that can be sorted: scores are floats, and come from outside.

use super::signal::UNSCORED;

/// A finite number, ordered like the float it was made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Worth(u32);

impl From<f32> for Worth {
    /// What is not finite counts as 0: it is no score, and must not outlive every other for ever.
    fn from(number: f32) -> Self {
        const SIGN: u32 = 1 << 31;
        // Adding makes a negative zero positive.
        let bits = if number.is_finite() { (number + 0.0).to_bits() } else { 0 };
        Self(if bits & SIGN == 0 { bits | SIGN } else { !bits })
    }
}

/// The score of an id, which may be past their end.
pub(super) fn score(scores: &[f32], id: u32) -> f32 {
    scores.get(id as usize).copied().unwrap_or(UNSCORED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_ordered_like_the_floats(a: f32, b: f32) {
            let finite = |number: f32| if number.is_finite() { number } else { 0.0 };
            let expected = finite(a).partial_cmp(&finite(b));
            prop_assert_eq!(Some(Worth::from(a).cmp(&Worth::from(b))), expected);
        }
    }

    #[test]
    fn what_is_no_score_counts_as_zero() {
        for odd in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0] {
            assert_eq!(Worth::from(odd), Worth::from(0.0));
        }
    }
}
