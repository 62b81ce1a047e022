//! What a dataset consists of, for those who divide it; and which part of an object a node brings in, when all nodes of a
//! cluster bring a dataset in together.

use super::{OBJECT_BYTES, PARCEL_BYTES, Role};
use crate::{
    engine::{Dataset, warm::Share},
    id::{FileKey, ObjectSlot, PieceId},
};
use std::ops::Range;

/// What is placed together of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// The object's version.
    pub key: FileKey,
    /// Where it begins.
    pub offset: u64,
    /// What it costs to keep.
    pub bytes: u64,
}

impl Dataset {
    /// Everything that the newest snapshot consists of. None, if that is more than so many.
    pub fn extents(&self, most: usize) -> Option<Vec<Extent>> {
        let (snapshot, objects) = (self.snapshot(), self.objects());
        if snapshot.object_count() as usize > most {
            return None;
        }
        let mut all = Vec::with_capacity(snapshot.object_count() as usize);
        for object in snapshot.objects() {
            let (key, size) = (objects.key(object), objects.size(object));
            for offset in (0..size.max(1)).step_by(PARCEL_BYTES as usize) {
                if all.len() == most {
                    return None;
                }
                all.push(Extent { key, offset, bytes: (size - offset).min(PARCEL_BYTES) + OBJECT_BYTES });
            }
        }
        Some(all)
    }

    /// The pieces of an object that belong to a share, in runs of neighbours that are of one parcel each.
    pub(in crate::engine) fn runs_of(&self, object: ObjectSlot, share: Share) -> Vec<Range<u32>> {
        let pieces = self.pieces_of(object);
        if share == Share::All {
            return vec![pieces];
        }
        let objects = self.objects.load();
        let (key, step) = (objects.key(object), (PARCEL_BYTES / u64::from(objects.piece_bytes())).max(1) as usize);
        let parcels = (pieces.clone()).step_by(step).map(|first| first..pieces.end.min(first + step as u32));
        let is_ours = |(number, _): &(usize, Range<u32>)| is_of(self.role(key, *number as u64 * PARCEL_BYTES), share);
        parcels.enumerate().filter(is_ours).map(|(_, parcel)| parcel).collect()
    }

    /// Whether an object counts as one of a share: its beginning belongs to it. So each is counted on one node.
    pub(in crate::engine) fn counts(&self, object: ObjectSlot, share: Share) -> bool {
        share == Share::All || is_of(self.role(self.objects.load().key(object), 0), share)
    }

    /// Bytes of a run of pieces of an object.
    pub(in crate::engine) fn run_bytes(&self, object: ObjectSlot, run: &Range<u32>) -> u64 {
        if *run == self.pieces_of(object) {
            return self.objects.load().size(object);
        }
        run.clone().map(|piece| u64::from(self.piece_len(PieceId(piece)))).sum()
    }
}

fn is_of(role: Role, share: Share) -> bool {
    match share {
        Share::All => true,
        Share::Owned => role == Role::Owner,
        Share::Copies => role == Role::Spare,
    }
}
