//! What a listing finds beside the objects: symbolic links, empty directories, and the file system that it read.

use super::{Link, RootIdentity};

/// What a listing found beside the objects. Only a local directory has links and a file system.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListingDetails {
    /// Links that may be shown as links, see `origin/link.rs`.
    pub links: Vec<Link>,
    /// Directories without any entry that was listed, spelled as paths of objects are, each with a `/` at its end.
    pub empty_directories: Vec<String>,
    /// What was left out and why, in sentences for the operator.
    pub warnings: Vec<String>,
    /// The file system that the root was on.
    pub root: Option<RootIdentity>,
}

impl ListingDetails {
    /// Brings links into path order, each path once. Empty directories are sorted when they are compared with the objects.
    pub(crate) fn sort_links(&mut self) {
        self.links.sort_unstable();
        self.links.dedup_by(|later, earlier| later.path == earlier.path);
    }
}
