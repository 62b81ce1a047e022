//! The version of a local file: change time, modification time and size, as an ETag.
//!
//! Inode numbers are not part of it, because some file systems assign new ones at every mount.

use crate::id::Version;
use std::{fs::Metadata, os::unix::fs::MetadataExt};

/// What distinguishes one version of a local file from the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// When contents or attributes last changed, in nanoseconds since 1970. The kernel sets it; programs cannot.
    pub(crate) changed_ns: i64,
    /// When the contents were last written, in nanoseconds since 1970. Programs can set it.
    pub(crate) modified_ns: i64,
    pub(crate) size: u64,
}

impl Stamp {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        let nanos = |seconds: i64, nanos: i64| seconds.saturating_mul(1_000_000_000).saturating_add(nanos);
        Self {
            changed_ns: nanos(metadata.ctime(), metadata.ctime_nsec()),
            modified_ns: nanos(metadata.mtime(), metadata.mtime_nsec()),
            size: metadata.size(),
        }
    }

    /// The stamp that a version spells; None for versions of other origins.
    pub(crate) fn parse(version: &Version) -> Option<Self> {
        let text = version.0.strip_prefix('"')?.strip_suffix('"')?;
        let mut numbers = text.split('-').map(|part| u64::from_str_radix(part, 16).ok());
        let (changed, modified, size) = (numbers.next()??, numbers.next()??, numbers.next()??);
        let (changed_ns, modified_ns) = (changed.cast_signed(), modified.cast_signed());
        numbers.next().is_none().then_some(Self { changed_ns, modified_ns, size })
    }

    /// Times are spelled in two's complement, because a time before 1970 is negative.
    pub(crate) fn etag(&self) -> String {
        let (changed, modified) = (self.changed_ns.cast_unsigned(), self.modified_ns.cast_unsigned());
        format!("\"{changed:x}-{modified:x}-{:x}\"", self.size)
    }

    pub(crate) fn version(&self) -> Version {
        Version(self.etag().into())
    }

    /// Whether the change time is all that differs: then the contents may be the same.
    pub(crate) fn differs_only_in_change_time(&self, other: &Self) -> bool {
        self != other && Self { changed_ns: other.changed_ns, ..*self } == *other
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_stamp_survives_its_spelling_also_before_1970() {
        for (changed_ns, modified_ns) in [(1, 2), (1_763_000_000_000_000_000, -1), (i64::MAX, i64::MIN), (0, 0)] {
            let stamp = Stamp { changed_ns, modified_ns, size: 7 };
            assert_eq!(Stamp::parse(&stamp.version()).unwrap(), stamp);
        }
        for other in ["\"d41d8cd98f00b204e9800998ecf8427e\"", "\"1-2\"", "\"1-2-3-4\"", "mtime:1-2", "\"x-1-2\""] {
            assert_eq!(Stamp::parse(&Version(other.into())), None, "{other}");
        }
    }

    #[test]
    fn only_the_change_time_asks_for_a_comparison() {
        let stamp = Stamp { changed_ns: 1, modified_ns: 2, size: 3 };
        assert!(stamp.differs_only_in_change_time(&Stamp { changed_ns: 9, ..stamp }));
        assert!(!stamp.differs_only_in_change_time(&stamp));
        assert!(!stamp.differs_only_in_change_time(&Stamp { changed_ns: 9, modified_ns: 9, ..stamp }));
        assert!(!stamp.differs_only_in_change_time(&Stamp { changed_ns: 9, size: 9, ..stamp }));
    }
}
