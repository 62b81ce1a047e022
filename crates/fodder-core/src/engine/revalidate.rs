//! A local file of which only the change time differs: its cached pieces are compared with the file. If all are equal the
//! object keeps its version (`chmod`, a new hard link); if one differs it does not (`rsync --inplace -t`).

use super::{Dataset, flight::Flight, stamps::Acceptance};
use crate::{
    Result,
    catalog::Revalidate,
    id::{ObjectSlot, PieceId, Version},
    origin::stamp::Stamp,
};
use futures::TryStreamExt;
use rustc_hash::FxHashSet;
use std::{ops::Range, sync::Arc, time::Duration};

/// Pieces may arrive while others are compared. After so many rounds the comparison is left to a later attempt.
const MAX_ROUNDS: usize = 4;
/// How long each round waits for bytes that readers were given and that are not in a tier yet: they must be compared, too.
const LANDING_TIMEOUT: Duration = Duration::from_secs(1);

/// The result of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// Every cached piece has the bytes of the file, and the change time is accepted.
    Unchanged,
    /// The file has other bytes.
    Changed,
    /// No piece is cached, so nothing can be compared.
    NothingCached,
    /// The file could not be read, or changes now.
    Undecided,
    /// Too many change times were accepted: the file is taken as changed.
    NoRoom,
}

impl Dataset {
    /// The version that a read of the origin is conditional on.
    pub(super) fn origin_version(&self, object: ObjectSlot) -> Version {
        let objects = self.objects.load();
        self.stamps.condition(|| objects.key(object), objects.version(object))
    }

    /// The origin no longer has the version of an object. If only the change time differs and the cached pieces are equal,
    /// the version to read instead. Without cached pieces the new change time is accepted: there is nothing to mix with.
    pub(super) async fn revalidate(self: &Arc<Self>, object: ObjectSlot) -> Option<Version> {
        if !self.origin.is_local() {
            return None;
        }
        let _one_at_a_time = self.revalidating.lock().await;
        let path = self.objects().path(object);
        let now = self.origin.head(&path).await.ok()?.version;
        (self.compare_with_origin(object, &now, false).await == Verdict::Unchanged).then_some(now)
    }

    /// Compares the cached pieces of an object with its file, which is now of version `now`.
    async fn compare_with_origin(self: &Arc<Self>, object: ObjectSlot, now: &Version, needs_pieces: bool) -> Verdict {
        let stamps = (Stamp::parse(&self.origin_version(object)), Stamp::parse(now));
        let (Some(known), Some(stamp)) = stamps else { return Verdict::Changed };
        if known == stamp {
            return Verdict::Unchanged;
        }
        if !known.differs_only_in_change_time(&stamp) {
            return Verdict::Changed;
        }
        let is_staged = |piece| self.staging.has(piece);
        let (mut compared, mut staged) = (FxHashSet::default(), Vec::new());
        for _ in 0..MAX_ROUNDS {
            let _ = tokio::time::timeout(LANDING_TIMEOUT, self.flights.published_landed(object, is_staged)).await;
            let present = |piece: &u32| self.holds(PieceId(*piece));
            let missing: Vec<u32> =
                self.pieces_of(object).filter(present).filter(|piece| !compared.contains(piece)).collect();
            for piece in missing {
                match self.has_bytes_of_origin(object, PieceId(piece), now).await {
                    Ok(Some(true)) => drop(compared.insert(piece)),
                    Ok(Some(false)) => return Verdict::Changed,
                    Ok(None) => {}
                    Err(_) => return Verdict::Undecided,
                }
            }
            match self.compare_staged(object, now, &mut staged).await {
                Ok(true) => {}
                Ok(false) => return Verdict::Changed,
                Err(_) => return Verdict::Undecided,
            }
            if needs_pieces && compared.is_empty() && staged.is_empty() && stamp.size > 0 {
                return Verdict::NothingCached;
            }
            let may = || {
                let all = self.pieces_of(object).filter(present).all(|piece| compared.contains(&piece));
                all && !self.flights.has_published(object, &staged)
            };
            // Staged bytes are as good as if they were requested now.
            let renew = |generation| staged.iter().for_each(|flight| flight.requested_at(generation));
            match self.stamps.accept(self.objects.load().key(object), stamp.changed_ns, may, renew) {
                Acceptance::Accepted => return Verdict::Unchanged,
                Acceptance::NoRoom => return Verdict::NoRoom,
                Acceptance::Refused => {}
            }
        }
        Verdict::Undecided
    }

    /// Compares the staged pieces of an object, which stay in memory for long, with the file: everything that their flights have
    /// brought, because readers may have got any of it. Adds the flights that were compared. A flight that goes on is left out,
    /// and keeps the change time from being accepted.
    async fn compare_staged(
        self: &Arc<Self>,
        object: ObjectSlot,
        now: &Version,
        compared: &mut Vec<Arc<Flight>>,
    ) -> Result<bool> {
        for flight in self.flights.staged(object, |piece| self.staging.has(piece)) {
            if compared.iter().any(|other| Arc::ptr_eq(other, &flight)) {
                continue;
            }
            let Some(segments) = flight.complete() else { continue };
            for (range, segment) in segments {
                if self.bytes_of_origin(object, now, range).await? != segment.concat() {
                    return Ok(false);
                }
            }
            compared.push(flight);
        }
        Ok(true)
    }

    /// Whether a cached piece has the bytes that the file has now; None if it is not cached any more. The memory is not
    /// part of the budget, because a fetch that holds some of it may wait here; it is two pieces for each comparison.
    async fn has_bytes_of_origin(
        self: &Arc<Self>,
        object: ObjectSlot,
        piece: PieceId,
        now: &Version,
    ) -> Result<Option<bool>> {
        let bytes = self.bytes_of_origin(object, now, self.piece_range(piece).1).await?;
        let dataset = Arc::clone(self);
        let read = move || (0..dataset.stocks.len()).find_map(|level| dataset.copy_of(level, piece));
        let cached = self.shared.reads.run(read).await?;
        Ok(cached.map(|cached| cached == bytes))
    }

    /// A range of the file as it is now.
    async fn bytes_of_origin(&self, object: ObjectSlot, now: &Version, range: Range<u64>) -> Result<Vec<u8>> {
        let body = self.origin.get(&self.objects().path(object), now, range.clone()).await?;
        let bytes = Vec::with_capacity((range.end - range.start) as usize);
        let append = |mut bytes: Vec<u8>, part: bytes::Bytes| async move {
            bytes.extend_from_slice(&part);
            Ok(bytes)
        };
        body.try_fold(bytes, append).await
    }

    /// Sets how many files may have an accepted change time. For tests.
    #[doc(hidden)]
    pub fn limit_accepted_change_times(&self, max_entries: usize) {
        self.stamps.limit(max_entries);
    }

    /// Saves the accepted change times of the versions that snapshots still have.
    pub(super) async fn save_stamps(self: &Arc<Self>) -> Result<()> {
        if self.stamps.is_empty() {
            return Ok(());
        }
        let dataset = Arc::clone(self);
        let save = move || {
            let objects = dataset.objects();
            let slots: FxHashSet<_> =
                dataset.snapshots().iter().flat_map(|kept| kept.objects().collect::<Vec<_>>()).collect();
            let live: FxHashSet<_> = slots.into_iter().map(|slot| objects.key(slot)).collect();
            dataset.stamps.save(|key| live.contains(key))
        };
        self.shared.mind.run(save).await?
    }
}

/// Compares files for a refresh.
pub(super) struct Comparison(pub(super) Arc<Dataset>);

#[async_trait::async_trait]
impl Revalidate for Comparison {
    /// A file that cannot be compared now keeps its version, unless too many change times were accepted: its cached bytes are of one version, and the next read of the
    /// origin or the next refresh compares again.
    async fn is_unchanged(&self, object: ObjectSlot, now: Version) -> bool {
        let verdict = self.0.compare_with_origin(object, &now, true).await;
        matches!(verdict, Verdict::Unchanged | Verdict::Undecided)
    }
}
