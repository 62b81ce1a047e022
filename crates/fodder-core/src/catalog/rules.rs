//! When a refresh is stopped, and when its listing is refused.

use super::RefreshReport;
use crate::{Error, Result, config::ListingConfig, origin::RootIdentity};
use tokio_util::sync::CancellationToken;

/// Fewer removed objects than this are accepted, whatever share of the dataset they are, unless they are all of it.
const MIN_REMOVED: u64 = 10;

/// How a refresh treats what it lists.
#[derive(Debug, Clone)]
pub struct RefreshRules {
    /// Cancelled when the caller has gone away: the listing stops, but a listing that is complete is still committed.
    pub cancel: CancellationToken,
    /// A listing that removes a larger share of the objects is refused.
    pub max_removed: f64,
    /// Accept every listing.
    pub confirm_removals: bool,
    /// The name of the dataset, for messages.
    pub dataset: String,
}

impl Default for RefreshRules {
    fn default() -> Self {
        Self {
            cancel: CancellationToken::new(),
            max_removed: ListingConfig::default().max_removed,
            confirm_removals: false,
            dataset: "DATASET".into(),
        }
    }
}

impl RefreshRules {
    /// Runs a listing until it ends or is cancelled.
    pub(super) async fn cancellable<T>(&self, listing: impl Future<Output = Result<T>>) -> Result<T> {
        let cancelled = || Error::Unavailable("the listing was cancelled because its caller went away".into());
        self.cancel.run_until_cancelled(listing).await.unwrap_or_else(|| Err(cancelled()))
    }

    /// Refuses a listing from which objects are missing that the origin probably still has. `before` and `now` are the file
    /// systems that were listed.
    pub(super) fn check(
        &self,
        report: &RefreshReport,
        before: Option<&RootIdentity>,
        now: Option<&RootIdentity>,
    ) -> Result<()> {
        let RefreshReport { added, changed, removed, unchanged } = *report;
        if self.confirm_removals || removed == 0 {
            return Ok(());
        }
        let known = removed + changed + unchanged;
        if let (Some(before), Some(now)) = (before, now)
            && !before.may_be(now)
        {
            let why = format!("the root was {before} and is {now}: is the origin mounted?");
            return Err(self.refused(removed, known, &why));
        }
        if added + changed + unchanged == 0 {
            return Err(self.refused(removed, known, "the origin is empty"));
        }
        if removed >= MIN_REMOVED && removed as f64 > known as f64 * self.max_removed {
            let why = format!("more than the share of {} that max_removed allows", self.max_removed);
            return Err(self.refused(removed, known, &why));
        }
        Ok(())
    }

    fn refused(&self, removed: u64, known: u64, why: &str) -> Error {
        Error::Conflict(format!(
            "the refresh was refused because it would remove {removed} of {known} objects ({why}); the dataset and its cache stay \
             as they are. If the objects are really gone, run `fodder index {} --confirm-removals`",
            self.dataset
        ))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn removing(removed: u64, unchanged: u64) -> RefreshReport {
        RefreshReport { removed, unchanged, ..RefreshReport::default() }
    }

    #[test]
    fn a_listing_that_removes_everything_or_too_much_is_refused_until_confirmed() {
        let rules = RefreshRules::default();
        for refused in [removing(1, 0), removing(20, 0), removing(11, 10)] {
            let error = rules.check(&refused, None, None).unwrap_err().to_string();
            assert!(error.contains("--confirm-removals"), "{error}");
            RefreshRules { confirm_removals: true, ..RefreshRules::default() }.check(&refused, None, None).unwrap();
        }
        for accepted in [removing(0, 0), removing(1, 1), removing(9, 1), removing(10, 10)] {
            rules.check(&accepted, None, None).unwrap();
        }
        let replaced = RefreshReport { added: 20, removed: 20, ..RefreshReport::default() };
        assert!(rules.check(&replaced, None, None).is_err());
        let all = RefreshRules { max_removed: 1.0, ..RefreshRules::default() };
        all.check(&replaced, None, None).unwrap();
        assert!(all.check(&removing(20, 0), None, None).is_err(), "an empty origin is always refused");
    }
}
