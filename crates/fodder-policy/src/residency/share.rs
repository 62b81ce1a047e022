//! A part of a whole, as settings write it: a number from 0 to 1.

use std::fmt;

/// A number from 0 to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, PartialOrd, serde::Serialize, serde::Deserialize)]
#[serde(into = "f64", try_from = "f64")]
pub struct Share(f64);

impl Share {
    /// Nothing.
    pub const NONE: Self = Self::percent(0);

    /// So many parts in a hundred, which are at most that.
    pub const fn percent(percent: u8) -> Self {
        assert!(percent <= 100, "a share is at most the whole");
        Self(percent as f64 / 100.0)
    }

    /// That part of so many bytes, rounded down.
    pub fn of(self, bytes: u64) -> u64 {
        (bytes as f64 * self.0) as u64
    }
}

impl TryFrom<f64> for Share {
    type Error = NotAShare;

    fn try_from(number: f64) -> Result<Self, NotAShare> {
        if (0.0..=1.0).contains(&number) { Ok(Self(number)) } else { Err(NotAShare(number)) }
    }
}

impl From<Share> for f64 {
    fn from(share: Share) -> Self {
        share.0
    }
}

/// A number that is no share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NotAShare(f64);

impl fmt::Display for NotAShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not a share from 0 to 1", self.0)
    }
}

impl std::error::Error for NotAShare {}
