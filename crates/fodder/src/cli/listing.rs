//! How the origin of a dataset is listed, on the command line.

use super::serve::{parse_bytes, parse_duration};
use clap::Args;
use fodder_core::config::{FollowLinks, ListingConfig};
use std::time::Duration;

/// How an origin is listed. What is not given has its default.
#[derive(Debug, Clone, Default, PartialEq, Args)]
pub struct ListingArgs {
    /// Which symbolic links of a local directory to follow: `inside` (those that lead to a place inside the directory), `all`
    /// or `never`. Default: inside.
    #[arg(long, help_heading = "Listing", value_name = "WHICH")]
    pub follow_links: Option<FollowLinks>,
    /// How many paths through symbolic links may lead to the same directory. Default: 256.
    #[arg(long, help_heading = "Listing", value_name = "N")]
    pub max_aliases: Option<u32>,
    /// Fail if the origin has more entries. Default: 1000000000.
    #[arg(long, help_heading = "Listing", value_name = "N")]
    pub max_entries: Option<u64>,
    /// Fail if directories are nested deeper. Default: 1024.
    #[arg(long, help_heading = "Listing", value_name = "N")]
    pub max_depth: Option<u32>,
    /// Fail if listing the origin takes more memory for names and versions. Default: 8GiB.
    #[arg(long, help_heading = "Listing", value_name = "SIZE", value_parser = parse_bytes)]
    pub max_list_memory: Option<u64>,
    /// Fail if listing the origin takes longer. Default: 6h.
    #[arg(long, help_heading = "Listing", value_name = "DURATION", value_parser = parse_duration)]
    pub list_timeout: Option<Duration>,
    /// Refuse a refresh that would remove a larger share of the objects (0 to 1), until it is confirmed. Default: 0.5.
    #[arg(long, help_heading = "Listing", value_name = "SHARE")]
    pub max_removed: Option<f64>,
    /// How long to keep cached data of removed objects. Default: 1h.
    #[arg(long, help_heading = "Listing", value_name = "DURATION", value_parser = parse_duration)]
    pub removed_grace: Option<Duration>,
}

impl ListingArgs {
    /// The settings.
    pub fn config(&self) -> ListingConfig {
        let usual = ListingConfig::default();
        ListingConfig {
            follow_links: self.follow_links.unwrap_or(usual.follow_links),
            max_aliases: self.max_aliases.unwrap_or(usual.max_aliases),
            max_entries: self.max_entries.unwrap_or(usual.max_entries),
            max_depth: self.max_depth.unwrap_or(usual.max_depth),
            max_memory_bytes: self.max_list_memory.unwrap_or(usual.max_memory_bytes),
            timeout: self.list_timeout.unwrap_or(usual.timeout),
            max_removed: self.max_removed.unwrap_or(usual.max_removed),
            removed_grace: self.removed_grace.unwrap_or(usual.removed_grace),
        }
    }

    /// The flags again, for another process.
    pub fn flags(&self) -> Vec<(&'static str, Option<String>)> {
        let duration = |duration| humantime::format_duration(duration).to_string().replace(' ', "");
        vec![
            ("follow-links", self.follow_links.map(|which| which.to_string())),
            ("max-aliases", self.max_aliases.map(|count| count.to_string())),
            ("max-entries", self.max_entries.map(|count| count.to_string())),
            ("max-depth", self.max_depth.map(|depth| depth.to_string())),
            ("max-list-memory", self.max_list_memory.map(|bytes| bytes.to_string())),
            ("list-timeout", self.list_timeout.map(duration)),
            ("max-removed", self.max_removed.map(|share| share.to_string())),
            ("removed-grace", self.removed_grace.map(duration)),
        ]
    }
}
