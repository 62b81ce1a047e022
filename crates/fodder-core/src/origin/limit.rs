//! Limits of a listing, for every kind of origin: entries, memory and time.

use super::{ObjectEntry, source::Listed};
use crate::{Error, Result, config::ListingConfig, size};
use futures::{TryStreamExt, stream, stream::BoxStream};
use rustc_hash::{FxBuildHasher, FxHashSet};
use std::hash::BuildHasher;
use tokio::time::Instant;

/// Memory that a listed object or directory takes beside its path and version, rounded up.
const ENTRY_BYTES: u64 = 24;
/// A listing without a deadline would be one that never ends.
const LONGEST: std::time::Duration = std::time::Duration::from_secs(365 * 24 * 3600);

/// A listing as it arrives.
type Entries<'a> = BoxStream<'a, Result<Listed<ObjectEntry>>>;

/// Passes a listing on until it ends or exceeds a limit.
pub(super) fn limited<'a>(entries: Entries<'a>, config: &'a ListingConfig, origin: &'a str) -> Entries<'a> {
    let deadline = Instant::now() + config.timeout.min(LONGEST);
    let next = move |(mut entries, mut count, mut bytes): (Entries<'a>, u64, u64)| async move {
        let entry = tokio::time::timeout_at(deadline, entries.try_next()).await;
        let Some(entry) = entry.map_err(|_| too_slow(config, origin))?? else { return Ok(None) };
        count += 1;
        bytes += ENTRY_BYTES
            + match &entry {
                Listed::Object(entry) => entry.path.len() + entry.version.0.len(),
                Listed::Directory(path) => path.len(),
            } as u64;
        if count > config.max_entries {
            return Err(too_many(config, origin));
        }
        if bytes > config.max_memory_bytes {
            return Err(too_large(config, origin));
        }
        Ok(Some((entry, (entries, count, bytes))))
    };
    Box::pin(stream::try_unfold((entries, 0, 0), next))
}

pub(super) fn too_many(config: &ListingConfig, origin: &str) -> Error {
    exceeded(origin, &format!("has more than {} entries", config.max_entries), "max_entries (--max-entries)")
}

pub(super) fn too_deep(config: &ListingConfig, path: &str) -> Error {
    exceeded(path, &format!("lies more than {} directories deep", config.max_depth), "max_depth (--max-depth)")
}

pub(super) fn too_large(config: &ListingConfig, origin: &str) -> Error {
    let limit = size::human(config.max_memory_bytes);
    exceeded(origin, &format!("needs more than {limit} of memory for names"), "max_memory (--max-list-memory)")
}

fn too_slow(config: &ListingConfig, origin: &str) -> Error {
    let limit = humantime::format_duration(config.timeout);
    exceeded(origin, &format!("took longer than {limit}"), "timeout (--list-timeout)")
}

fn exceeded(what: &str, how: &str, setting: &str) -> Error {
    Error::Invalid(format!(
        "the listing was stopped: {what} {how}; raise the setting {setting} of the dataset's listing, or choose a smaller origin"
    ))
}

/// The pages of a listing so far: notices a server that returns the same ones again.
#[derive(Debug, Default)]
pub(super) struct SeenPages {
    /// Hashes of continuation tokens and of first keys, which are different for every page.
    seen: FxHashSet<u64>,
}

impl SeenPages {
    /// Takes note of a page. False if its continuation token or its first key came before.
    pub(super) fn insert(&mut self, first_key: Option<&str>, token: Option<&str>) -> bool {
        let mut is_new = |kind: u8, text: &str| self.seen.insert(FxBuildHasher.hash_one((kind, text)));
        first_key.is_none_or(|key| is_new(0, key)) && token.is_none_or(|token| is_new(1, token))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::id::Version;
    use futures::StreamExt;
    use std::time::Duration;

    fn endless() -> Entries<'static> {
        let entry = |n| Listed::Object(ObjectEntry { path: format!("{n:06}"), size: 1, version: Version("v".into()) });
        stream::iter(0..).map(move |n: u64| Ok(entry(n))).boxed()
    }

    fn endless_directories() -> Entries<'static> {
        stream::iter(0..).map(|n: u64| Ok(Listed::Directory(format!("{n:06}/")))).boxed()
    }

    async fn fails(entries: Entries<'static>, config: ListingConfig) -> String {
        let listed: Result<Vec<_>> = limited(entries, &config, "origin").try_collect().await;
        listed.unwrap_err().to_string()
    }

    #[tokio::test]
    async fn an_endless_listing_ends_at_each_limit_and_names_the_setting() {
        for entries in [endless, endless_directories] {
            let config = ListingConfig { max_entries: 10, ..ListingConfig::default() };
            let error = fails(entries(), config).await;
            assert!(error.contains("more than 10 entries") && error.contains("--max-entries"), "{error}");
            let config = ListingConfig { max_memory_bytes: 1000, ..ListingConfig::default() };
            let error = fails(entries(), config).await;
            assert!(error.contains("--max-list-memory"), "{error}");
        }
        let config = ListingConfig { timeout: Duration::from_millis(1), ..ListingConfig::default() };
        let error = fails(stream::pending().boxed(), config).await;
        assert!(error.contains("longer than 1ms") && error.contains("--list-timeout"), "{error}");
    }

    #[tokio::test]
    async fn a_listing_within_its_limits_is_passed_on_whole() {
        let config = ListingConfig { max_entries: 10, ..ListingConfig::default() };
        let listed: Vec<_> = limited(endless().take(10).boxed(), &config, "origin").try_collect().await.unwrap();
        assert_eq!(listed.len(), 10);
    }

    #[test]
    fn a_page_that_comes_again_is_noticed() {
        let mut pages = SeenPages::default();
        assert!(pages.insert(Some("a"), Some("1")));
        assert!(pages.insert(Some("b"), Some("2")));
        assert!(pages.insert(None, Some("a")), "a token may look like a key");
        assert!(!pages.insert(Some("c"), Some("1")));
        assert!(!pages.insert(Some("b"), Some("3")));
        assert!(pages.insert(Some("d"), None));
    }
}
