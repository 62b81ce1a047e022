//! Who owns what of each dataset, as it follows from the members and from what the datasets consist of. Knows no peers.

use super::parcel;
use fodder_core::{engine::peer::Extent, id::SnapshotId};
use fodder_policy::placement::{Load, Member, Placement};
use std::{collections::HashMap, sync::Arc};

/// What datasets consist of, as far as that is known.
#[derive(Debug, Default)]
pub(crate) struct Contents(HashMap<String, (SnapshotId, Vec<Load>)>);

impl Contents {
    /// Whether it is known what a snapshot consists of.
    pub(crate) fn is_known(&self, dataset: &str, snapshot: SnapshotId) -> bool {
        self.0.get(dataset).is_some_and(|(known, _)| *known == snapshot)
    }

    /// From now on a dataset consists of these; of none: of more than can be added up.
    pub(crate) fn set(&mut self, dataset: &str, snapshot: SnapshotId, extents: &[Extent]) {
        let load = |extent: &Extent| Load::new(parcel(extent.key, extent.offset), extent.bytes);
        self.0.insert(dataset.to_owned(), (snapshot, extents.iter().map(load).collect()));
    }

    pub(crate) fn forget(&mut self, dataset: &str) {
        self.0.remove(dataset);
    }
}

/// Who owns what.
#[derive(Debug, Default)]
pub(super) struct Ownership {
    /// Of datasets of which nothing is known.
    plain: Placement,
    /// Of the others, and in which snapshot.
    datasets: HashMap<String, (SnapshotId, Arc<Placement>)>,
}

impl Ownership {
    /// What follows from these members and contents; what has not changed since `before` is not added up again.
    pub(super) fn after(before: &Self, plain: Placement, contents: &Contents, replicas: usize) -> Self {
        let is_same = plain.members() == before.plain.members();
        let of = |(name, (snapshot, loads)): (&String, &(SnapshotId, Vec<Load>))| {
            let same = before.datasets.get(name).filter(|(known, _)| is_same && known == snapshot);
            let add_up = || Arc::new(plain.clone().balanced(loads, replicas));
            (name.clone(), (*snapshot, same.map_or_else(add_up, |(_, placement)| Arc::clone(placement))))
        };
        let datasets = contents.0.iter().map(of).collect();
        Self { plain, datasets }
    }

    pub(super) fn members(&self) -> &[Member] {
        self.plain.members()
    }

    /// Who owns what of a dataset.
    pub(super) fn of(&self, dataset: &str) -> &Placement {
        self.datasets.get(dataset).map_or(&self.plain, |(_, placement)| placement)
    }

    /// Whether there was somebody before, and something has another owner now.
    pub(super) fn differs_from(&self, before: &Self) -> bool {
        let names = || self.datasets.keys().chain(before.datasets.keys());
        let differs = self.members() != before.members() || names().any(|name| self.of(name) != before.of(name));
        differs && !before.members().is_empty()
    }
}
