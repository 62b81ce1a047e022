//! How a dataset's origin is listed, as a message and back.

use fodder_api::v1;
use fodder_core::{Result, config::ListingConfig};
use std::time::Duration;

pub(super) fn message(config: &ListingConfig) -> v1::Listing {
    let ListingConfig { follow_links, max_aliases, max_entries, max_depth, .. } = *config;
    let ListingConfig { max_memory_bytes, timeout, max_removed, removed_grace, .. } = *config;
    v1::Listing {
        follow_links: follow_links.to_string(),
        max_aliases: Some(max_aliases),
        max_entries: Some(max_entries),
        max_depth: Some(max_depth),
        max_memory_bytes: Some(max_memory_bytes),
        timeout_ms: Some(millis(timeout)),
        max_removed: Some(max_removed),
        removed_grace_ms: Some(millis(removed_grace)),
    }
}

pub(super) fn config(message: &v1::Listing) -> Result<ListingConfig> {
    let usual = ListingConfig::default();
    let duration = |given: Option<u64>, usual: Duration| given.map_or(usual, Duration::from_millis);
    let config = ListingConfig {
        follow_links: match message.follow_links.as_str() {
            "" => usual.follow_links,
            text => text.parse()?,
        },
        max_aliases: message.max_aliases.unwrap_or(usual.max_aliases),
        max_entries: message.max_entries.unwrap_or(usual.max_entries),
        max_depth: message.max_depth.unwrap_or(usual.max_depth),
        max_memory_bytes: message.max_memory_bytes.unwrap_or(usual.max_memory_bytes),
        timeout: duration(message.timeout_ms, usual.timeout),
        max_removed: message.max_removed.unwrap_or(usual.max_removed),
        removed_grace: duration(message.removed_grace_ms, usual.removed_grace),
    };
    config.check()?;
    Ok(config)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use fodder_core::{Error, config::FollowLinks};

    #[test]
    fn settings_of_a_listing_survive_the_wire() {
        let config = ListingConfig {
            follow_links: FollowLinks::Never,
            max_aliases: 1,
            max_entries: 2,
            max_depth: 3,
            max_memory_bytes: 4,
            timeout: Duration::from_millis(5),
            max_removed: 0.6,
            removed_grace: Duration::ZERO,
        };
        assert_eq!(super::config(&message(&config)).unwrap(), config);
        assert_eq!(super::config(&v1::Listing::default()).unwrap(), ListingConfig::default());
        let wrong = v1::Listing { follow_links: "some".into(), ..v1::Listing::default() };
        assert!(matches!(super::config(&wrong), Err(Error::Invalid(_))));
    }
}
