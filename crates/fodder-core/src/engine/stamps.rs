//! Change times under which the cached bytes of a local file were compared with the file and found equal.
//!
//! An accepted change time is an alias of the version: the object keeps its slot and cache file, and reads of the origin
//! are conditional on the accepted time. Losing the record costs another comparison, never a wrong byte.

use crate::{
    Error, Result,
    id::{FileKey, Version},
    origin::stamp::Stamp,
};
use parking_lot::RwLock;
use rustc_hash::FxHashMap;
use std::{
    fs,
    path::PathBuf,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
};

const MAGIC: &[u8; 8] = b"FODDERST";
const ENTRY_BYTES: usize = 24;
/// Beyond this many files no further change time is accepted: the next refresh makes a new version of the file, as if its
/// contents had changed, and until then reads of pieces that are not cached end in `Stale`. About 700 MiB of memory.
const MAX_ENTRIES: usize = 16 << 20;

/// The accepted change times of one dataset.
#[derive(Debug)]
pub(super) struct Stamps {
    path: PathBuf,
    max_entries: AtomicUsize,
    accepted: RwLock<FxHashMap<FileKey, Accepted>>,
    /// Counts acceptances since the start.
    generation: AtomicU64,
}

#[derive(Debug, Clone, Copy)]
struct Accepted {
    changed_ns: i64,
    /// The acceptance that this is; 0 for one before the start.
    generation: u64,
}

/// What became of a change time that was to be accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Acceptance {
    /// It is an alias of the version.
    Accepted,
    /// The caller no longer allowed it.
    Refused,
    /// There are too many.
    NoRoom,
}

impl Stamps {
    /// Reads what was saved. A damaged file counts as empty.
    pub(super) fn open(path: PathBuf) -> Self {
        let accepted = fs::read(&path).ok().and_then(|bytes| decode(&bytes)).unwrap_or_default();
        let max_entries = AtomicUsize::new(MAX_ENTRIES);
        Self { path, max_entries, accepted: RwLock::new(accepted), generation: AtomicU64::new(0) }
    }

    /// Sets how many files may have an accepted change time. For tests.
    pub(super) fn limit(&self, max_entries: usize) {
        self.max_entries.store(max_entries, Relaxed);
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Relaxed)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.accepted.read().is_empty()
    }

    /// Whether a change time was accepted for a version.
    pub(super) fn has(&self, key: impl FnOnce() -> FileKey) -> bool {
        let accepted = self.accepted.read();
        !accepted.is_empty() && accepted.contains_key(&key())
    }

    /// The version that reads of the origin are conditional on.
    pub(super) fn condition(&self, key: impl FnOnce() -> FileKey, version: Version) -> Version {
        let accepted = self.accepted.read();
        let found = if accepted.is_empty() { None } else { accepted.get(&key()).copied() };
        let stamp = found.and_then(|found| Some((found, Stamp::parse(&version)?)));
        stamp.map_or(version, |(found, stamp)| Stamp { changed_ns: found.changed_ns, ..stamp }.version())
    }

    /// Whether a change time was accepted after that generation.
    pub(super) fn accepted_since(&self, generation: u64, key: impl FnOnce() -> FileKey) -> bool {
        self.generation() > generation && is_newer(&self.accepted.read(), generation, key)
    }

    /// Calls `publish` unless a change time was accepted after that generation; none is accepted meanwhile.
    pub(super) fn publish(&self, generation: u64, key: impl FnOnce() -> FileKey, publish: impl FnOnce()) -> bool {
        let accepted = self.accepted.read();
        let outdated = !accepted.is_empty() && is_newer(&accepted, generation, key);
        if !outdated {
            publish();
        }
        !outdated
    }

    /// Accepts a change time if `may` still allows it; nothing is published meanwhile. `renew` is given the generation of the
    /// acceptance before anyone sees it.
    pub(super) fn accept(
        &self,
        key: FileKey,
        changed_ns: i64,
        may: impl FnOnce() -> bool,
        renew: impl FnOnce(u64),
    ) -> Acceptance {
        let mut accepted = self.accepted.write();
        if accepted.len() >= self.max_entries.load(Relaxed) && !accepted.contains_key(&key) {
            return Acceptance::NoRoom;
        }
        if !may() {
            return Acceptance::Refused;
        }
        let generation = self.generation.fetch_add(1, Relaxed) + 1;
        renew(generation);
        accepted.insert(key, Accepted { changed_ns, generation });
        Acceptance::Accepted
    }

    /// Forgets versions that are not `live`, and writes the rest beside the catalog.
    pub(super) fn save(&self, live: impl Fn(&FileKey) -> bool) -> Result<()> {
        let bytes = {
            let mut accepted = self.accepted.write();
            accepted.retain(|key, _| live(key));
            encode(&accepted)
        };
        let temporary = self.path.with_extension("tmp");
        fs::write(&temporary, bytes)
            .and_then(|()| fs::rename(&temporary, &self.path))
            .map_err(|error| Error::io("write", &self.path, &error))
    }
}

fn is_newer(accepted: &FxHashMap<FileKey, Accepted>, generation: u64, key: impl FnOnce() -> FileKey) -> bool {
    accepted.get(&key()).is_some_and(|found| found.generation > generation)
}

fn crc(bytes: &[u8]) -> [u8; 4] {
    (crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32).to_le_bytes()
}

fn encode(accepted: &FxHashMap<FileKey, Accepted>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(12 + accepted.len() * ENTRY_BYTES);
    bytes.extend_from_slice(MAGIC);
    for (key, found) in accepted {
        bytes.extend_from_slice(&key.0);
        bytes.extend_from_slice(&found.changed_ns.to_le_bytes());
    }
    let sum = crc(&bytes);
    bytes.extend_from_slice(&sum);
    bytes
}

fn decode(bytes: &[u8]) -> Option<FxHashMap<FileKey, Accepted>> {
    let (body, sum) = bytes.split_last_chunk::<4>()?;
    let entries = body.strip_prefix(MAGIC).filter(|entries| entries.len().is_multiple_of(ENTRY_BYTES))?;
    if crc(body) != *sum {
        return None;
    }
    let entry = |entry: &[u8]| {
        let (key, time) = entry.split_first_chunk::<16>()?;
        let changed_ns = i64::from_le_bytes(time.try_into().ok()?);
        Some((FileKey(*key), Accepted { changed_ns, generation: 0 }))
    };
    entries.chunks_exact(ENTRY_BYTES).map(entry).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn accepted_times_survive_a_restart_and_a_damaged_file_counts_as_empty() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stamps");
        let (kept, dead) = (FileKey([1; 16]), FileKey([2; 16]));
        let stamps = Stamps::open(path.clone());
        for (key, changed_ns) in [(kept, -5), (dead, 6)] {
            assert_eq!(stamps.accept(key, changed_ns, || true, |_| {}), Acceptance::Accepted);
        }
        assert_eq!(stamps.accept(FileKey([3; 16]), 6, || false, |_| {}), Acceptance::Refused);
        stamps.save(|key| *key == kept).unwrap();
        let version = Stamp { changed_ns: 1, modified_ns: 2, size: 3 }.version();
        let again = Stamps::open(path.clone());
        let expected = Stamp { changed_ns: -5, modified_ns: 2, size: 3 }.version();
        assert_eq!(again.condition(|| kept, version.clone()), expected);
        assert_eq!(again.condition(|| dead, version.clone()), version);
        let mut bytes = fs::read(&path).unwrap();
        bytes[12] ^= 1;
        fs::write(&path, bytes).unwrap();
        assert!(Stamps::open(path).is_empty());
    }

    #[test]
    fn change_times_beyond_the_bound_are_not_accepted() {
        let dir = tempfile::tempdir().unwrap();
        let stamps = Stamps::open(dir.path().join("stamps"));
        stamps.limit(1);
        let accept = |key, changed_ns| stamps.accept(FileKey([key; 16]), changed_ns, || true, |_| {});
        assert_eq!([accept(1, 5), accept(2, 5), accept(1, 6)], {
            [Acceptance::Accepted, Acceptance::NoRoom, Acceptance::Accepted]
        });
        stamps.save(|_| false).unwrap();
        assert_eq!(accept(2, 5), Acceptance::Accepted, "versions that are gone leave room");
    }

    #[test]
    fn bytes_of_before_an_acceptance_are_not_published_after_it() {
        let dir = tempfile::tempdir().unwrap();
        let (stamps, key) = (Stamps::open(dir.path().join("stamps")), FileKey([1; 16]));
        let before = stamps.generation();
        assert!(stamps.publish(before, || key, || {}));
        assert_eq!(stamps.accept(key, 6, || true, |_| {}), Acceptance::Accepted);
        assert!(!stamps.publish(before, || key, || {}) && stamps.accepted_since(before, || key));
        assert!(stamps.publish(stamps.generation(), || key, || {}) && !stamps.accepted_since(1, || key));
    }
}
