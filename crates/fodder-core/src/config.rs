//! What a user may set about the engine, with the defaults. Plain data: the binary reads and checks it once.

mod listing;
mod tuning;

pub use listing::{FollowLinks, ListingConfig};
pub use tuning::Tuning;

use crate::{Error, Result, layout::Layout, size};
use fodder_policy::Policy;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{fmt, path::PathBuf, str::FromStr, time::Duration};

/// The least memory budget: enough for a few fetches and writes at a time.
const MIN_BUDGET_BYTES: u64 = 32 << 20;

/// Everything the engine needs to start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EngineConfig {
    /// Where catalogs, the lock and, unless `tiers` says otherwise, the cached bytes live.
    pub cache_dir: PathBuf,
    /// Where bytes are kept, fastest first. Empty means one SSD tier in `cache_dir`.
    pub tiers: Vec<TierConfig>,
    /// Upper bound of the memory for bytes on their way: fetched, being written, being sent.
    #[serde(rename = "memory_budget", with = "crate::size")]
    pub memory_budget_bytes: u64,
    /// How much of what is fetched ahead of readers without a plan may lie unread, on disk and on its way. 0: nothing is
    /// fetched that nobody asked for.
    #[serde(rename = "readahead", with = "crate::size")]
    pub readahead_bytes: u64,
    /// How many requests may be under way at each origin.
    pub origin_concurrency: usize,
    /// A read that took longer is logged with what it waited for.
    #[serde(with = "human_duration")]
    pub slow_read: Duration,
    /// A dataset that nobody has read for this long is idle: it yields its space before any other.
    #[serde(with = "human_duration")]
    pub idle_after: Duration,
    /// The rest before everything that is cached is read again and compared with its checksums.
    #[serde(with = "human_duration")]
    pub scrub_interval: Duration,
    /// How many bytes a second that reads: slow enough that no reader notices, a terabyte in a day and a half.
    #[serde(rename = "scrub_bandwidth", with = "crate::size")]
    pub scrub_bytes_per_second: u64,
    /// Write down every read in this file, for `fodder sim --trace`. None: nothing is written down.
    pub record: Option<PathBuf>,
}

impl EngineConfig {
    /// Refuses settings with which no node could run.
    pub fn check(&self) -> Result<()> {
        let text = match () {
            () if self.memory_budget_bytes < MIN_BUDGET_BYTES => {
                let bytes = crate::size::human(self.memory_budget_bytes);
                format!("engine.memory_budget must be at least 32MiB, not {bytes}")
            }
            () if self.scrub_interval.is_zero() => {
                "engine.scrub_interval must not be 0: it is the pause between two checks of everything cached, such as 1h".into()
            }
            () => return Ok(()),
        };
        Err(Error::Invalid(text))
    }
}

/// A directory with a medium and a quota.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TierConfig {
    /// The directory. A MEM tier is on a tmpfs such as /dev/shm.
    pub path: PathBuf,
    /// What the directory is made of; tiers are used in the order MEM, SSD, HDD.
    pub medium: Medium,
    /// The most disk blocks it may hold, as `du` counts them.
    #[serde(rename = "quota", with = "crate::size")]
    pub quota_bytes: u64,
}

/// What a tier is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Medium {
    /// Memory: a tmpfs.
    Mem,
    /// A solid-state disk.
    Ssd,
    /// A spinning disk, or anything slower.
    Hdd,
}

/// A named origin with a layout, a policy and a quota.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatasetConfig {
    /// How clients call it: letters, digits, `-`, `_` and `.`, at most 64 characters.
    pub name: String,
    /// Where the data lives: a URI, or a local path.
    pub origin: String,
    /// How objects become items.
    #[serde(default)]
    pub layout: Layout,
    /// What stays when the cache is full.
    #[serde(default)]
    pub policy: Policy,
    /// What can be set about policies and jobs.
    #[serde(default)]
    pub tuning: Tuning,
    /// The share of the tiers that is this dataset's own. None: an equal share of what is left.
    #[serde(default)]
    pub quota: Option<Quota>,
    /// How often to look for new, changed and removed objects. None: only when asked.
    #[serde(default, with = "human_duration::option")]
    pub refresh_interval: Option<Duration>,
    /// Read a public bucket without credentials.
    #[serde(default)]
    pub anonymous: bool,
    /// How the origin is listed, and which removals a refresh accepts.
    #[serde(default)]
    pub listing: ListingConfig,
}

impl DatasetConfig {
    /// A dataset of which only this is said.
    pub fn new(name: impl Into<String>, origin: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            origin: origin.into(),
            layout: Layout::default(),
            policy: Policy::default(),
            tuning: Tuning::default(),
            quota: None,
            refresh_interval: None,
            anonymous: false,
            listing: ListingConfig::default(),
        }
    }

    /// Refuses to list the origin again without any rest.
    pub fn check_interval(&self) -> Result<()> {
        let text = "refresh_interval (--refresh) must not be 0: give an interval such as 10m, or leave it out to \
         check only on `fodder index`";
        if self.refresh_interval.is_some_and(|interval| interval.is_zero()) {
            return Err(Error::Invalid(text.into()));
        }
        Ok(())
    }
}

/// How much of the tiers a dataset may claim. Written as a size, `20GiB`, or as a share, `20%`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Quota {
    /// So many bytes.
    Bytes(u64),
    /// This share of the dataset's own size, from 0 to 1 (iCache's cache_ratio).
    Share(f64),
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => f.write_str(&size::exact(*bytes)),
            // Fifteen digits hold any share that was written with fewer, and hide what the multiplication adds.
            Self::Share(share) => write!(f, "{}%", (share * 1e15).round() / 1e13),
        }
    }
}

impl FromStr for Quota {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let Some(percent) = text.trim().strip_suffix('%') else {
            return size::parse(text).map(Self::Bytes).map_err(|_| {
                Error::Invalid(format!("{text:?} is neither a size such as 20GiB or 500MB nor a share such as 20%"))
            });
        };
        match percent.trim().parse::<f64>() {
            Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(Self::Share(percent / 100.0)),
            _ => Err(Error::Invalid(format!("{text:?} is not a share above 0% and at most 100%"))),
        }
    }
}

impl Serialize for Quota {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quota {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Written;
        impl de::Visitor<'_> for Written {
            type Value = Quota;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size such as 20GiB or a share such as 20%")
            }
            fn visit_u64<E: de::Error>(self, bytes: u64) -> Result<Quota, E> {
                Ok(Quota::Bytes(bytes))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Quota, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Written)
    }
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            cache_dir: PathBuf::new(),
            tiers: Vec::new(),
            memory_budget_bytes: 256 << 20,
            readahead_bytes: 256 << 20,
            origin_concurrency: 64,
            slow_read: Duration::from_secs(1),
            idle_after: Duration::from_secs(600),
            scrub_interval: Duration::from_secs(3600),
            scrub_bytes_per_second: 8 << 20,
            record: None,
        }
    }
}

/// Durations as people write them: `90s`, `5m`, `1h 30m`.
pub(crate) mod human_duration {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use std::time::Duration;

    pub(crate) fn serialize<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&humantime::format_duration(*value))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        let text = String::deserialize(deserializer)?;
        humantime::parse_duration(&text)
            .map_err(|error| D::Error::custom(format!("{text:?} is not a duration such as 30s or 5m: {error}")))
    }

    pub(crate) mod option {
        use super::{Deserialize, Deserializer, Duration, Serializer};

        pub(crate) fn serialize<S: Serializer>(value: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
            match value {
                Some(value) => super::serialize(value, serializer),
                None => serializer.serialize_none(),
            }
        }

        pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
            #[derive(Deserialize)]
            struct Text(#[serde(with = "super")] Duration);
            Ok(Option::<Text>::deserialize(deserializer)?.map(|Text(duration)| duration))
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_quota_is_written_as_it_is_read() {
        for (text, quota) in
            [("20GiB", Quota::Bytes(20 << 30)), ("20%", Quota::Share(0.2)), ("7.5%", Quota::Share(0.075))]
        {
            assert_eq!(text.parse::<Quota>().unwrap(), quota);
            assert_eq!(quota.to_string(), text);
            assert_eq!(serde_json::from_value::<Quota>(serde_json::json!(text)).unwrap(), quota);
        }
        assert_eq!(serde_json::from_str::<Quota>("4096").unwrap(), Quota::Bytes(4096));
    }

    #[test]
    fn what_is_no_quota_says_what_one_looks_like() {
        for text in ["", "lots", "0%", "101%", "-5%", "%", "nan%", "20 per cent"] {
            let error = text.parse::<Quota>().unwrap_err().to_string();
            assert!(error.contains('%'), "{error}");
        }
    }
}
