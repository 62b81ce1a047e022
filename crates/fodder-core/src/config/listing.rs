//! Settings of a dataset that concern the listing of its origin: which links it follows, its limits, and which removals a
//! refresh accepts.

use super::human_duration;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr, time::Duration};

/// How an origin is listed. The limits keep a listing from growing without end; one that exceeds a limit fails.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ListingConfig {
    /// Which symbolic links of a local origin are followed.
    pub follow_links: FollowLinks,
    /// How many paths through symbolic links may list the same directory. Further links to it are left out.
    pub max_aliases: u32,
    /// The largest number of entries: objects, and for a local origin directories and links as well.
    pub max_entries: u64,
    /// The deepest nesting of directories in a local origin.
    pub max_depth: u32,
    /// The largest amount of memory for names and versions while the origin is listed.
    #[serde(rename = "max_memory", with = "crate::size")]
    pub max_memory_bytes: u64,
    /// The longest time that a listing may take.
    #[serde(with = "human_duration")]
    pub timeout: Duration,
    /// A refresh that removes a larger share of the objects than this, from 0 to 1, must be confirmed.
    pub max_removed: f64,
    /// How long removed objects keep their cached data before they become the first candidates for eviction.
    #[serde(with = "human_duration")]
    pub removed_grace: Duration,
}

impl Default for ListingConfig {
    fn default() -> Self {
        Self {
            follow_links: FollowLinks::Inside,
            max_aliases: 256,
            max_entries: 1_000_000_000,
            max_depth: 1024,
            max_memory_bytes: 8 << 30,
            timeout: Duration::from_secs(6 * 3600),
            max_removed: 0.5,
            removed_grace: Duration::from_secs(3600),
        }
    }
}

impl ListingConfig {
    /// Refuses limits that no listing could meet.
    pub fn check(&self) -> Result<()> {
        if !(0.0..=1.0).contains(&self.max_removed) {
            let share = self.max_removed;
            return Err(Error::Invalid(format!(
                "max_removed (--max-removed) must be a share from 0 to 1, not {share}"
            )));
        }
        let limits = [
            ("max_entries (--max-entries)", self.max_entries == 0),
            ("max_depth (--max-depth)", self.max_depth == 0),
            ("max_memory (--max-list-memory)", self.max_memory_bytes == 0),
            ("timeout (--list-timeout)", self.timeout.is_zero()),
        ];
        match limits.into_iter().find(|(_, is_zero)| *is_zero) {
            None => Ok(()),
            Some((name, _)) => Err(Error::Invalid(format!("{name} must not be 0"))),
        }
    }
}

/// Which symbolic links of a local origin are followed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FollowLinks {
    /// Those that lead to a file or directory inside the origin.
    #[default]
    Inside,
    /// All of them. The origin then exposes every file that its links lead to.
    All,
    /// None: links are left out.
    Never,
}

impl FollowLinks {
    const NAMES: [(Self, &str); 3] = [(Self::Inside, "inside"), (Self::All, "all"), (Self::Never, "never")];
}

impl fmt::Display for FollowLinks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES.iter().find(|(value, _)| value == self).map_or("", |(_, name)| name);
        f.write_str(name)
    }
}

impl FromStr for FollowLinks {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::NAMES.iter().find(|(_, name)| *name == text);
        found
            .map(|(value, _)| *value)
            .ok_or_else(|| Error::Invalid(format!("{text:?} is unknown: use inside, all or never")))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn settings_of_a_listing_survive_serialization() {
        let config = ListingConfig { follow_links: FollowLinks::All, max_removed: 0.25, ..ListingConfig::default() };
        let json = serde_json::to_value(&config).unwrap();
        assert_eq!(json["follow_links"], "all");
        assert_eq!(serde_json::from_value::<ListingConfig>(json).unwrap(), config);
        for value in [FollowLinks::Inside, FollowLinks::All, FollowLinks::Never] {
            assert_eq!(value.to_string().parse::<FollowLinks>().unwrap(), value);
        }
        assert!("outside".parse::<FollowLinks>().is_err());
    }

    #[test]
    fn limits_that_no_listing_meets_are_refused() {
        ListingConfig::default().check().unwrap();
        for wrong in [
            ListingConfig { max_removed: 1.5, ..ListingConfig::default() },
            ListingConfig { max_removed: f64::NAN, ..ListingConfig::default() },
            ListingConfig { max_entries: 0, ..ListingConfig::default() },
            ListingConfig { timeout: Duration::ZERO, ..ListingConfig::default() },
        ] {
            assert!(matches!(wrong.check(), Err(Error::Invalid(_))), "{wrong:?}");
        }
    }
}
