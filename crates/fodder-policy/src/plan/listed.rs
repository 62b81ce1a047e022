//! An order that was sent as a list of ids, made ready to be looked up in both directions.

use crate::{
    Error, Result,
    bits::{Bits, Ranked},
    permutation::mix,
};
use std::sync::Arc;

/// A list of ids, each at most once: 8 bytes an id, and a seventh of a byte an item of the snapshot.
#[derive(Debug)]
pub(super) struct Listed {
    ids: Arc<[u32]>,
    /// Which ids are in the list.
    members: Ranked,
    /// The position of each member, by the rank of its id.
    positions: Box<[u32]>,
    fingerprint: u64,
}

impl Listed {
    /// Refuses an id that is there twice, or that a snapshot of so many items does not have.
    pub(super) fn new(items: u32, ids: Arc<[u32]>) -> Result<Self> {
        let mut members = Bits::new(items);
        for (position, &id) in ids.iter().enumerate() {
            if id >= items {
                return Err(unknown(id, position, items));
            }
            if !members.insert(id) {
                return Err(twice(id, position, &ids));
            }
        }
        let members = Ranked::of(&members);
        let mut positions = vec![0; ids.len()];
        for (position, &id) in (0..).zip(ids.iter()) {
            let rank = members.rank(id).expect("every listed id was just added");
            positions[rank as usize] = position;
        }
        let fingerprint = ids.iter().fold(mix(ids.len() as u64), |hash, &id| mix(hash ^ u64::from(id)));
        Ok(Self { ids, members, positions: positions.into(), fingerprint })
    }

    pub(super) fn ids(&self) -> &Arc<[u32]> {
        &self.ids
    }

    pub(super) fn contains(&self, id: u32) -> bool {
        self.members.contains(id)
    }

    pub(super) fn position_of(&self, id: u32) -> Option<u32> {
        self.members.rank(id).map(|rank| self.positions[rank as usize])
    }

    /// A hash of the list.
    pub(super) fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    pub(super) fn heap_bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.ids) + size_of_val(&*self.positions) + self.members.heap_bytes()
    }
}

fn unknown(id: u32, position: usize, items: u32) -> Error {
    Error::Invalid(format!(
        "the plan asks for item {id} at position {position}, but the snapshot has {items} items, numbered from 0: \
         plan with ids of this snapshot"
    ))
}

fn twice(id: u32, position: usize, ids: &[u32]) -> Error {
    let first = ids.iter().position(|&other| other == id).unwrap_or_default();
    Error::Invalid(format!(
        "the plan has item {id} at positions {first} and {position}: an epoch asks for an item at most once"
    ))
}
