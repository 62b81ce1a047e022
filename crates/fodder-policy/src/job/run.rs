//! The runs of a job: it goes on from a checkpoint, and its ranks join the one that says so first.

use super::{Effect, Prepared, Resume, Resumed, epoch::Epoch, member::*, word};
use crate::{
    Result,
    plan::{Deal, Share},
};
use std::{collections::BTreeMap, sync::Arc};

/// From where a job has resumed, so that every rank may say it.
#[derive(Debug, Default)]
pub(super) struct Run {
    /// How often it has.
    pub(super) number: u64,
    /// Tells the checkpoint from others.
    pub(super) sum: u64,
    /// The ranks that have said it, and a number that is drawn each time one starts.
    pub(super) said: BTreeMap<u32, u64>,
    /// What it resumed from.
    pub(super) checkpoint: Option<Arc<[u8]>>,
}

impl Run {
    pub(super) fn heap_bytes(&self) -> usize {
        self.said.len() * 32 + self.checkpoint.as_ref().map_or(0, |bytes| bytes.len())
    }
}

impl Member {
    /// Goes on from a checkpoint; or, for a rank that says what another has said, joins it.
    pub(super) fn resume(
        &mut self,
        request: &Resume<'_>,
        prepared: Prepared,
        nonce: u64,
        room_bytes: usize,
    ) -> Result<Resumed> {
        let (sum, snapshot, was) = (prepared.sum, prepared.snapshot, self.id);
        let (epoch, left) = (prepared.checkpoint.epoch(), prepared.rest.len());
        let is_same = self.run.number > 0 && self.run.sum == sum && self.introduction.world == request.world;
        if let Some(rank) = request.rank
            && is_same
            && rank < request.world
            && self.run.said.get(&rank).is_none_or(|said| *said == nonce)
        {
            let mut effects = Vec::new();
            if self.current.is_none() {
                // Others told of the run, and this rank is the first to bring what it takes to be here.
                let next = self.restored(request, prepared, room_bytes)?;
                effects.push(next.planned());
                self.enter(next);
            }
            self.run.said.insert(rank, nonce);
            self.untold = true;
            return Ok(Resumed { job: self.id, was, snapshot, epoch, left, effects });
        }
        let next = self.restored(request, prepared, room_bytes)?;
        let said = BTreeMap::from([(request.rank.unwrap_or(word::ALL_RANKS), nonce)]);
        let number = self.run.number.saturating_add(1);
        let run = Run { number, sum, said, checkpoint: Some(request.checkpoint.into()) };
        let effects = self.go_on(run, Some(next), request.world);
        Ok(Resumed { job: self.id, was, snapshot, epoch, left, effects })
    }

    /// Goes on in another run: whatever is open is given up.
    pub(super) fn go_on(&mut self, run: Run, next: Option<Epoch>, world: u32) -> Vec<Effect> {
        let mut effects: Vec<Effect> = self.open().filter_map(Epoch::dropped).collect();
        effects.extend(next.as_ref().map(Epoch::planned));
        self.id = self.id.next_run();
        self.introduction.world = world;
        self.run = run;
        (self.current, self.before, self.closed) = (None, None, None);
        self.elsewhere.clear();
        self.lists.clear();
        self.done.clear();
        self.untold = true;
        next.into_iter().for_each(|next| self.enter(next));
        effects
    }

    /// Is in the epoch that the run went on in.
    pub(super) fn enter(&mut self, first: Epoch) {
        self.forget_elsewhere(first.number());
        self.current = Some(first);
    }

    /// The epoch that a checkpoint tells of, from where it was.
    pub(super) fn restored(&self, request: &Resume<'_>, prepared: Prepared, room_bytes: usize) -> Result<Epoch> {
        if let Some(rank) = request.rank.filter(|&rank| rank >= request.world) {
            return Err(no_rank(rank, request.world));
        }
        let checkpoint = prepared.checkpoint;
        let plan = match prepared.plan {
            Some(plan) => plan,
            None => {
                let open = self.open().find(|epoch| epoch.number() == checkpoint.epoch());
                Arc::new(checkpoint.plan(open.and_then(|epoch| epoch.deal.plan().ids().cloned()))?)
            }
        };
        let share = Share::new(request.world, self.introduction.uneven)?;
        fits(&plan, share, room_bytes)?;
        let deal = Deal::new(plan, prepared.rest, share);
        let start = self.current.as_ref().map_or(0, Epoch::progress);
        Ok(Epoch::resume(deal, self.introduction.mode, checkpoint, start).signed(self.salt))
    }
}
