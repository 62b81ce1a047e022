//! Which part of an object a node brings in, when all nodes of a cluster bring a dataset in together.

use super::{PARCEL_BYTES, Role};
use crate::{
    engine::{Dataset, warm::Share},
    id::{ObjectSlot, PieceId},
};
use std::ops::Range;

impl Dataset {
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
