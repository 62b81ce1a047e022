//! What a policy that chooses among others says of its choice, for people.

use super::Policy;

/// Which policy is at work, and why.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Explanation {
    /// The policy that decides now.
    pub chosen: Policy,
    /// Why, in a sentence.
    pub why: String,
    /// How each policy would do, the best first; empty until enough was seen to tell.
    pub shadows: Vec<ShadowRatio>,
}

/// How one policy would do.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct ShadowRatio {
    /// Which.
    pub policy: Policy,
    /// The share of bytes that its shadow hit lately.
    pub hit_ratio: f64,
}
