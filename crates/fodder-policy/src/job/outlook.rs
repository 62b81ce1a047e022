//! What the cache is told of jobs, and jobs of the cache: who will need an item and when, what came and what went.

use super::{JobId, Jobs, Upcoming, epoch::Epoch, member::Member};
use crate::{Result, residency::signal::NEVER, serving::Mode};
use std::time::Duration;

impl Jobs {
    /// An item of a snapshot became readable from the cache; its label, where the layout has one.
    pub fn inserted(&mut self, snapshot: u64, id: u32, label: Option<u32>) {
        self.members.values_mut().for_each(|member| member.inserted(snapshot, id, label));
    }

    /// An item of a snapshot left the cache.
    pub fn evicted(&mut self, snapshot: u64, id: u32) {
        self.members.values_mut().for_each(|member| member.evicted(snapshot, id));
    }

    /// When an item is next needed by any job; [`NEVER`] if no plan has it. A plan by seed tells of the next epoch too.
    /// Moments compare with each other and with nothing else. O(jobs).
    pub fn next_use(&self, snapshot: u64, id: u32) -> u64 {
        self.members.values().filter_map(|member| member.next_use(snapshot, id)).min().unwrap_or(NEVER)
    }

    /// How many jobs still need an item in the epoch they are in. O(jobs).
    pub fn pending(&self, snapshot: u64, id: u32) -> u32 {
        self.members.values().filter(|member| member.needs(snapshot, id)).count() as u32
    }

    /// The next item from a progress on that a job will ask for, and when: with these a prefetch walks through plans. None
    /// if its plans say no more. Given items are passed over, many of them in several calls (`Err` is where to go on).
    pub fn upcoming(&self, job: JobId, from: u64) -> Option<Result<Upcoming, u64>> {
        self.member(job).ok()?.upcoming(from)
    }

    /// The progress at which a job will next ask for an item, if its plans tell.
    pub fn place_of(&self, job: JobId, id: u32) -> Option<u64> {
        self.member(job).ok()?.place_of(id)
    }
}

impl Member {
    /// An item came into the cache.
    pub(super) fn inserted(&mut self, snapshot: u64, id: u32, label: Option<u32>) {
        if let Some((on, serving)) = &mut self.loose
            && on.fingerprint == snapshot
        {
            serving.inserted(id, label, None);
        }
        self.heed(snapshot, |epoch| epoch.serving.inserted(id, label, epoch.deal.spot_of(id)));
    }

    /// An item left the cache.
    pub(super) fn evicted(&mut self, snapshot: u64, id: u32) {
        self.heed(snapshot, |epoch| epoch.serving.evicted(id, epoch.deal.spot_of(id)));
    }

    /// Tells the epochs on a snapshot of the cache, where the mode heeds it.
    fn heed(&mut self, snapshot: u64, tell: impl Fn(&mut Epoch)) {
        if self.introduction.mode != Mode::Strict {
            self.open_mut().filter(|epoch| epoch.deal.plan().snapshot().fingerprint == snapshot).for_each(tell);
        }
    }

    /// Whether it will take an item in an epoch that it is in.
    pub(super) fn needs(&self, snapshot: u64, id: u32) -> bool {
        self.on(snapshot).any(|epoch| epoch.needs(id))
    }

    /// Whether it will take an item in this epoch, which it may not have reached yet.
    pub(super) fn will_take(&self, epoch: u64, id: u32) -> bool {
        match self.open().find(|open| open.number() == epoch) {
            Some(open) => open.needs(id),
            None => self.current.as_ref().is_some_and(|current| current.number() < epoch),
        }
    }

    /// How far it is: epochs and items.
    pub(super) fn stand(&self) -> Option<(u64, u64)> {
        let oldest = self.open().last()?;
        Some((oldest.number(), oldest.done()))
    }

    /// When it will take an item, if its plans have it.
    pub(super) fn next_use(&self, snapshot: u64, id: u32) -> Option<u64> {
        let next = self.on(snapshot).filter_map(|epoch| epoch.next_use(id)).min()?;
        Some(self.pace.expected(next))
    }

    fn on(&self, snapshot: u64) -> impl Iterator<Item = &Epoch> {
        self.open().filter(move |epoch| epoch.deal.plan().snapshot().fingerprint == snapshot)
    }

    pub(super) fn upcoming(&self, from: u64) -> Option<Result<Upcoming, u64>> {
        self.current.as_ref()?.upcoming(from, &self.pace)
    }

    pub(super) fn place_of(&self, id: u32) -> Option<u64> {
        self.current.as_ref()?.next_use(id)
    }

    /// It has just taken something.
    pub(super) fn observe(&mut self, now: Duration, alone: bool) {
        if let Some(current) = &self.current {
            self.pace.observe(current.progress(), now, alone);
        }
    }
}
