//! Jobs in step (CoorDL's coordinated epoch): an item that one of them takes is kept until all of them have.
//!
//! A group remembers only which items are kept. Who still needs one is asked of the jobs themselves each time, so that
//! jobs may join, leave, fall behind and roll back without any count going wrong.

use super::{BatchRequest, Effect, JobId, Jobs, member::Member};
use crate::{Error, Result, plan::Plan, serving::Look};
use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

/// The jobs that name one group.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// Seats of jobs.
    pub(super) members: BTreeSet<u64>,
    /// Items that at least one has taken and at least one still needs, with their epochs; how many bytes each has.
    staged: BTreeMap<(u64, u32), u64>,
    staged_bytes: u64,
}

impl Group {
    /// A member has taken an item; `needed` says whether another is still to take it.
    fn take(&mut self, epoch: u64, id: u32, bytes: u64, needed: bool) -> Option<Effect> {
        if !needed {
            self.staged_bytes -= self.staged.remove(&(epoch, id))?;
            return Some(Effect::Release(id));
        }
        let Entry::Vacant(place) = self.staged.entry((epoch, id)) else { return None };
        place.insert(bytes);
        self.staged_bytes += bytes;
        Some(Effect::Stage(id))
    }

    /// Releases what nobody needs any more, after a member left, went on or began anew.
    fn review(&mut self, needed: impl Fn(u64, u32) -> bool) -> Vec<Effect> {
        let released: Vec<_> = self.staged.extract_if(.., |&(epoch, id), _| !needed(epoch, id)).collect();
        self.staged_bytes -= released.iter().map(|(_, bytes)| bytes).sum::<u64>();
        released.into_iter().map(|((_, id), _)| Effect::Release(id)).collect()
    }

    /// Bytes it holds on the heap, as a tree's nodes are filled on average.
    pub(super) fn heap_bytes(&self) -> usize {
        self.staged.len() * 2 * size_of::<((u64, u32), u64)>()
    }
}

impl Jobs {
    /// Puts a job into its group.
    pub(super) fn join_group(&mut self, seat: u64, group: Option<&str>) {
        if let Some(group) = group {
            self.groups.entry(group.into()).or_default().members.insert(seat);
        }
    }

    /// Refuses a plan that differs from what another job in step has for the same epoch.
    pub(super) fn agrees(&self, job: JobId, plan: &Plan) -> Result<()> {
        let epoch = plan.epoch();
        let group = self.member(job)?.introduction.in_step.as_deref();
        let Some((name, group)) = group.and_then(|name| self.groups.get_key_value(name)) else { return Ok(()) };
        let others = group.members.iter().filter(|&&seat| seat != job.seat());
        for other in others.filter_map(|seat| self.members.get(seat)) {
            if other.open().any(|open| open.number() == epoch && !open.deal.plan().is_like(plan)) {
                return Err(Error::Conflict(format!(
                    "job {:?} of group {name:?} has begun epoch {epoch} with another plan: jobs in step must use the same seed",
                    other.introduction.name
                )));
            }
        }
        Ok(())
    }

    /// The job furthest behind, if a job in step has to wait for it. That one itself never waits.
    pub(super) fn must_wait(&self, request: &BatchRequest) -> Result<Option<JobId>> {
        let member = self.member(request.job)?;
        let group = member.introduction.in_step.as_deref();
        let Some(group) = group.and_then(|name| self.groups.get(name)) else { return Ok(None) };
        let next = member.epoch(request.epoch)?.ledger.next_number(request.rank)?;
        let room = self.settings.max_staged.saturating_sub(group.staged.len());
        let is_full = request.count as usize > room || group.staged_bytes >= self.settings.max_staged_bytes;
        if request.number < next || !is_full {
            return Ok(None);
        }
        let others = group.members.iter().filter_map(|seat| self.members.get(seat));
        let behind = others.filter_map(|other| Some((other.stand()?, other.id))).min();
        Ok(behind.filter(|&(stand, _)| Some(stand) < member.stand()).map(|(_, id)| id))
    }

    /// Notes that a job has taken items, for those in step with it.
    pub(super) fn stage(&mut self, seat: u64, epoch: u64, ids: &[u32], look: &dyn Look) -> Vec<Effect> {
        let name = self.members.get(&seat).and_then(|member| member.introduction.in_step.as_deref());
        let Some(group) = name.and_then(|name| self.groups.get_mut(name)) else { return Vec::new() };
        let members: Vec<&Member> = group.members.iter().filter_map(|seat| self.members.get(seat)).collect();
        let needed = |id| members.iter().any(|member| member.will_take(epoch, id));
        ids.iter().filter_map(|&id| group.take(epoch, id, look.bytes(id), needed(id))).collect()
    }

    /// Looks anew at what is staged, after the job in a seat has changed or left.
    pub(super) fn review(&mut self, seat: u64) -> Vec<Effect> {
        let found = self.groups.iter_mut().find(|(_, group)| group.members.contains(&seat));
        let Some((name, group)) = found else { return Vec::new() };
        group.members.retain(|seat| self.members.contains_key(seat));
        let members: Vec<&Member> = group.members.iter().filter_map(|seat| self.members.get(seat)).collect();
        let released = group.review(|epoch, id| members.iter().any(|member| member.will_take(epoch, id)));
        if group.members.is_empty() {
            let name = name.clone();
            self.groups.remove(&name);
        }
        released
    }
}
