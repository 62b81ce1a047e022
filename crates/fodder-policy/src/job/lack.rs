//! Snapshots that jobs are on elsewhere, and that are not here: whoever keeps this machine may get them from other nodes.

use super::{Jobs, member::Member, word::PlanName};
use crate::{ledger::Checkpoint, plan::Snapshot};

impl Jobs {
    /// The snapshots without which this node cannot speak of an epoch of a job, or of what a job resumed from, with the job's
    /// name. `known` are those that it has.
    pub fn without_snapshots(&self, known: &[Snapshot]) -> Vec<(String, Snapshot)> {
        let lacks = |member: &Member| {
            let name = member.introduction.name.clone();
            let lacking = member.speaks_of().filter(|on| !known.contains(on)).map(move |on| (name.clone(), on));
            lacking.collect::<Vec<_>>()
        };
        self.members.values().flat_map(lacks).collect()
    }
}

impl Member {
    /// The snapshots of epochs that were begun elsewhere, and of the checkpoint of a run that is not here yet.
    fn speaks_of(&self) -> impl Iterator<Item = Snapshot> {
        let checkpoint = self.run.checkpoint.as_deref().filter(|_| self.current.is_none());
        self.elsewhere.values().map(PlanName::snapshot).chain(checkpoint.and_then(Checkpoint::snapshot_of))
    }
}
