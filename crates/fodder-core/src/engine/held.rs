//! Cache files that clients still have open after their connection, or the node that leased them, is gone.

use super::dataset::Dataset;
use crate::{Error, Result, id::ObjectSlot, tier::HeldFile};
use std::{
    fs::File,
    os::{fd::AsRawFd, unix::fs::MetadataExt},
};

impl Dataset {
    /// A client has a cache file open that an earlier node gave it, or this one on a connection that was lost. The file is
    /// charged until the answer is dropped. [`Error::Invalid`] if it is no cache file of this dataset's tiers.
    pub fn renew_lease(&self, object: Option<ObjectSlot>, file: &File) -> Result<HeldFile> {
        let unknown = || Error::Invalid("the file is not a cache file of this node".into());
        let found = file.metadata().map_err(|_| unknown())?;
        for (_, stock) in self.stocks.iter().filter(|_| found.nlink() > 0) {
            // A file that cannot be pinned now, because no descriptor is left, is counted as well.
            if let Some(object) = object
                && let Ok(Some(held)) = stock.shelf.hold(object, &found)
            {
                return Ok(held);
            }
        }
        let candidates: Vec<_> = self.stocks.iter().filter(|(_, stock)| stock.shelf.may_own(&found, None)).collect();
        let path = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok();
        let inside = candidates.iter().find(|(_, stock)| stock.shelf.may_own(&found, path.as_deref()));
        let (space, stock) = inside.or(candidates.first()).ok_or_else(unknown)?;
        // A file that is linked is charged already, though it may be another object's.
        if found.nlink() > 0
            && let Some(held) = stock.shelf.hold_linked(file)
        {
            return Ok(held);
        }
        let held = stock.shelf.hold_unlinked(&found).ok_or(Error::Closed)?;
        space.shrink();
        Ok(held)
    }
}
