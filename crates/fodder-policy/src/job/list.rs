//! Lists of epochs that were begun elsewhere: which are lacking here, and what another node has of them.
//!
//! A list is named by its fingerprint and is taken only if it has that. What it makes possible is decided when the next word
//! about its epoch is heeded.

use super::{
    Jobs,
    epoch::Epoch,
    member::Member,
    word::{MAX_CHAPTERS, PlanName},
};
use crate::{
    Error, Result,
    plan::{Order, Plan, Snapshot},
};
use std::sync::Arc;

/// A list that others have and this node has not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lack {
    /// How the job is called.
    pub job: String,
    /// Of which epoch.
    pub epoch: u64,
    /// The list's fingerprint.
    pub fingerprint: u64,
    /// How many items it lists.
    pub planned: u32,
    /// The snapshot whose items they are.
    pub snapshot: Snapshot,
}

impl Lack {
    /// The plan that these items make, if they are the list that is lacking: O(their number).
    pub fn plan(&self, ids: Vec<u32>) -> Result<Arc<Plan>> {
        let plan = Plan::new(self.snapshot, self.epoch, Order::Ids(ids.into()))?;
        match plan.len() == self.planned && plan.fingerprint() == self.fingerprint {
            true => Ok(Arc::new(plan)),
            false => Err(Error::Corrupt(format!("another list came for epoch {} of job {:?}", self.epoch, self.job))),
        }
    }
}

impl Jobs {
    /// The lists that others have, of the epochs that jobs are in, as far as there is room for them.
    pub fn without_lists(&self) -> Vec<Lack> {
        let room = self.settings.max_memory_bytes.saturating_sub(self.memory_bytes());
        // A listed plan, and its ledger: see what a job costs.
        let fits = |name: &PlanName| name.planned as usize * 9 + name.items as usize / 7 < room;
        let lacks = self.members.values().flat_map(|member| {
            let lacking =
                member.elsewhere.iter().filter(|(epoch, name)| member.lacks_list(**epoch, name) && fits(name));
            lacking.map(|(&epoch, name)| Lack {
                job: member.introduction.name.clone(),
                epoch,
                fingerprint: name.order,
                planned: name.planned,
                snapshot: name.snapshot(),
            })
        });
        lacks.collect()
    }

    /// The list that an epoch of a job is planned by here, if it is the one that another node lacks.
    pub fn list_of(&self, job: &str, epoch: u64, fingerprint: u64) -> Option<Arc<[u32]>> {
        let member = self.members.get(self.names.get(job)?)?;
        let epochs = member.open().chain(&member.closed).map(|open| open.deal.plan());
        let plan = epochs
            .chain(member.lists.values())
            .find(|plan| plan.epoch() == epoch && plan.seed().is_none() && plan.fingerprint() == fingerprint);
        plan?.ids().cloned()
    }

    /// A list has come that was lacking. Words about its epoch can be heeded from now on.
    pub fn take_list(&mut self, lack: &Lack, plan: Arc<Plan>) {
        let seat = self.names.get(&lack.job).copied();
        let member = seat.and_then(|seat| self.members.get_mut(&seat));
        let Some(member) = member.filter(|member| member.elsewhere.get(&lack.epoch) == Some(&PlanName::of(&plan)))
        else {
            return;
        };
        member.lists.insert(lack.epoch, plan);
        while member.lists.len() > MAX_CHAPTERS {
            member.lists.pop_first();
        }
    }
}

impl Member {
    fn lacks_list(&self, epoch: u64, name: &PlanName) -> bool {
        let is_over = self.current.as_ref().is_some_and(|current| current.number() > epoch.saturating_add(1));
        let is_here = self.open().chain(&self.closed).map(Epoch::number).any(|open| open == epoch);
        name.listed && !is_over && !is_here && !self.lists.contains_key(&epoch)
    }

    /// The plan of an epoch whose list has come.
    pub(super) fn listed(&self, epoch: u64) -> Option<&Arc<Plan>> {
        self.lists.get(&epoch)
    }
}
