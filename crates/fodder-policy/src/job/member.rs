//! One job: its epochs, its scores, its pace. It knows nothing of other jobs.

use super::{
    Begun, Effect, Gone, Introduction, JobId, Status, epoch::Epoch, pace::Pace, run::Run, score::Book, word::PlanName,
};
use crate::{
    Error, Result,
    ledger::{Audit, StintId},
    plan::{Deal, Order, Plan, Rest, Share, Snapshot},
    serving::{Look, Served, Serving, Spent},
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// A job that has introduced itself.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) id: JobId,
    pub(super) introduction: Introduction,
    /// How long it may be silent, where it does not say so.
    default_lease: Duration,
    /// Counts the jobs of its name.
    pub(super) life: u64,
    /// When it was last heard of.
    pub(super) seen: Duration,
    /// The epoch it is in.
    pub(super) current: Option<Epoch>,
    /// The epoch before, while some ranks are still in it.
    pub(super) before: Option<Epoch>,
    /// The last closed epoch, of which other nodes may still have to tell.
    pub(super) closed: Option<Epoch>,
    /// How its last closed epoch went.
    pub(super) last: Option<(u64, Audit)>,
    /// Epochs that were begun elsewhere and cannot be here: their snapshot or their list is not known.
    pub(super) elsewhere: BTreeMap<u64, PlanName>,
    /// Plans of such epochs whose lists have come, until the epochs are here.
    pub(super) lists: BTreeMap<u64, Arc<Plan>>,
    /// What it has reported of the items of a snapshot.
    pub(super) book: Book,
    pub(super) book_on: Option<Snapshot>,
    /// It was scored elsewhere before this node heard of it.
    pub(super) lacks_scores: bool,
    pub(super) pace: Pace,
    /// Answers items that are asked for outside of any epoch.
    pub(super) loose: Option<(Snapshot, Box<dyn Serving>)>,
    pub(super) run: Run,
    /// The ranks that are done, and where they were last: one that is further since is back.
    pub(super) done: BTreeMap<u32, Mark>,
    /// It has changed in more than what ranks consumed since it was last told to others.
    pub(super) untold: bool,
    /// Tells what is written here from what is written elsewhere.
    pub(super) salt: u64,
}

/// Where a rank is: in an epoch, and in a stint of it.
pub(super) type Mark = (u64, StintId);

/// What a node gives to each of its jobs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Home {
    /// How long a job that does not say so may be silent.
    pub(super) lease: Duration,
    /// Tells what is written here from what is written elsewhere.
    pub(super) salt: u64,
}

impl Member {
    pub(super) fn new(id: JobId, introduction: Introduction, life: u64, home: Home, now: Duration) -> Self {
        Self {
            id,
            life,
            salt: home.salt,
            default_lease: home.lease,
            introduction,
            seen: now,
            current: None,
            before: None,
            closed: None,
            last: None,
            elsewhere: BTreeMap::new(),
            lists: BTreeMap::new(),
            book: Book::default(),
            book_on: None,
            lacks_scores: false,
            pace: Pace::new(now),
            loose: None,
            run: Run::default(),
            done: BTreeMap::new(),
            untold: true,
        }
    }

    /// Another rank of the job introduces it.
    pub(super) fn join(&mut self, introduction: &Introduction, now: Duration) -> Result<JobId> {
        if *introduction != self.introduction {
            return Err(Error::Conflict(format!(
                "there is already a job {:?} with other settings (ranks: {}, mode: {}): use another name, resume the job, or end it",
                introduction.name,
                self.introduction.world,
                self.introduction.mode.name()
            )));
        }
        self.seen = self.seen.max(now);
        Ok(self.id)
    }

    /// How long it may be silent before it is forgotten.
    pub(super) fn lease(&self) -> Duration {
        self.introduction.lease.unwrap_or(self.default_lease)
    }

    pub(super) fn is_expired(&self, now: Duration) -> bool {
        self.seen.saturating_add(self.lease()) < now
    }

    /// A rank begins an epoch. Also tells whether the job has thereby left the epoch before.
    pub(super) fn begin(
        &mut self,
        rank: u32,
        plan: Arc<Plan>,
        snapshot: Snapshot,
        room_bytes: usize,
    ) -> Result<(Begun, bool)> {
        let epoch = plan.epoch();
        self.check(rank)?;
        let is_new = self.current.as_ref().is_none_or(|current| current.number() < epoch);
        let turned = is_new && self.current.is_some();
        let mut effects = Vec::new();
        if is_new {
            self.agrees_with_elsewhere(&plan)?;
            let next = self.plan(plan, snapshot, room_bytes)?;
            let planned = next.planned();
            effects.extend(self.turn(next));
            effects.push(planned);
        } else if let Some(older) = self.unheard_of(rank, &plan, room_bytes) {
            effects.push(older.planned());
            self.before = Some(older);
        } else if !self.epoch(epoch)?.deal.plan().is_like(&plan) {
            return Err(Error::Conflict(format!(
                "another rank has begun epoch {epoch} with another plan: give the same seed or ids on every rank"
            )));
        }
        let left = self.done.get(&rank).filter(|(left, _)| *left == epoch).map(|(_, stint)| *stint);
        effects.extend(self.epoch_mut(epoch)?.attend(rank, left)?);
        self.untold = true;
        let audit = self.arrive(rank, epoch, &mut effects);
        let items = self.epoch(epoch)?.deal.slice(rank).len();
        Ok((Begun { items, audit, effects }, turned))
    }

    /// Goes on to an epoch. The one before it is closed when every rank has left it, the one before that now.
    pub(super) fn turn(&mut self, next: Epoch) -> Option<Effect> {
        let dropped = self.close_before();
        self.forget_elsewhere(next.number());
        self.before = self.current.replace(next);
        self.untold = true;
        dropped
    }

    /// An epoch that was begun elsewhere is here.
    pub(super) fn forget_elsewhere(&mut self, epoch: u64) {
        self.elsewhere.remove(&epoch);
        self.lists.remove(&epoch);
    }

    /// A rank is done; whether all are.
    pub(super) fn leave(&mut self, rank: u32) -> Result<bool> {
        self.check(rank)?;
        self.done.insert(rank, self.newest(rank));
        self.untold = true;
        Ok(self.is_done())
    }

    /// Whether all ranks are done, here or elsewhere.
    pub(super) fn is_done(&self) -> bool {
        let is_done = |rank| self.done.get(&rank).is_some_and(|left| *left >= self.newest(rank));
        (0..self.introduction.world).all(is_done)
    }

    /// The newest epoch that a rank is known to be in, and its stint there.
    fn newest(&self, rank: u32) -> Mark {
        let epochs = self.open().chain(&self.closed);
        let mut stints = epochs.filter_map(|epoch| Some((epoch.number(), epoch.ledger.last_stint(rank)?)));
        stints.next().unwrap_or((0, StintId { ordinal: 0, salt: 0 }))
    }

    fn check(&self, rank: u32) -> Result<()> {
        let world = self.introduction.world;
        if rank < world { Ok(()) } else { Err(no_rank(rank, world)) }
    }

    /// Makes the next epoch, unless it would hold more memory than there is.
    pub(super) fn plan(&mut self, mut plan: Arc<Plan>, snapshot: Snapshot, room_bytes: usize) -> Result<Epoch> {
        if plan.snapshot() != snapshot && !self.elsewhere.contains_key(&plan.epoch()) {
            // The dataset was refreshed since the plan was made.
            plan = Arc::new(Plan::new(snapshot, plan.epoch(), plan.order())?);
        }
        let share = Share::new(self.introduction.world, self.introduction.uneven)?;
        fits(&plan, share, room_bytes)?;
        let rest = Rest::whole(plan.len());
        let deal = Deal::new(plan, rest, share);
        let start = self.current.as_ref().map_or(0, Epoch::end);
        Ok(Epoch::new(deal, self.introduction.mode, self.current.as_mut(), start).signed(self.salt))
    }

    /// A rank is in an epoch. When all are in the current one, the one before is closed: how it went.
    pub(super) fn arrive(&mut self, rank: u32, epoch: u64, effects: &mut Vec<Effect>) -> Option<Audit> {
        let current = self.current.as_mut().filter(|current| current.number() == epoch)?;
        if !current.arrive(rank) || self.before.is_none() {
            return None;
        }
        effects.extend(self.close_before());
        self.last.map(|(_, audit)| audit)
    }

    /// Closes the epoch before the current one, if it is open.
    pub(super) fn close_before(&mut self) -> Option<Effect> {
        let before = self.before.take()?;
        self.last = Some((before.number(), before.audit()));
        let dropped = before.dropped();
        self.closed = Some(before);
        dropped
    }

    /// The epochs that are open, the newer first.
    pub(super) fn open(&self) -> impl Iterator<Item = &Epoch> {
        self.current.iter().chain(&self.before)
    }

    pub(super) fn open_mut(&mut self) -> impl Iterator<Item = &mut Epoch> {
        self.current.iter_mut().chain(&mut self.before)
    }

    pub(super) fn epoch(&self, number: u64) -> Result<&Epoch> {
        self.open().find(|epoch| epoch.number() == number).ok_or_else(|| self.not_open(number))
    }

    pub(super) fn epoch_mut(&mut self, number: u64) -> Result<&mut Epoch> {
        self.epoch(number)?;
        Ok(self.open_mut().find(|epoch| epoch.number() == number).expect("it was just found"))
    }

    fn not_open(&self, number: u64) -> Error {
        let name = &self.introduction.name;
        Error::NotFound(match self.current.as_ref().map(Epoch::number) {
            Some(current) if number < current => {
                format!("epoch {number} of job {name:?} is over: it is in epoch {current}")
            }
            _ => format!("epoch {number} of job {name:?} has not begun: begin it with its plan"),
        })
    }

    /// The oldest open epoch.
    pub(super) fn oldest(&self) -> Result<&Epoch> {
        self.open().last().ok_or_else(|| {
            Error::NotFound(format!("job {:?} is not in an epoch: begin one with its plan", self.introduction.name))
        })
    }

    /// How an open epoch goes, or how the last closed one went.
    pub(super) fn audit(&self, number: u64) -> Result<Audit> {
        match self.last {
            Some((last, audit)) if last == number => Ok(audit),
            _ => self.epoch(number).map(Epoch::audit),
        }
    }

    /// Answers one item outside of the plan.
    pub(super) fn ask(&mut self, id: u32, snapshot: Snapshot, look: &dyn Look) -> Result<Served> {
        let items = self.snapshot().unwrap_or(snapshot).items;
        if id >= items {
            return Err(Error::Invalid(format!("no item {id}: the snapshot has {items} items, numbered from 0")));
        }
        if let Some(epoch) = &mut self.current {
            return Ok(epoch.serving.ask(id, look));
        }
        if self.loose.as_ref().is_none_or(|(on, _)| *on != snapshot) {
            let deal = Deal::whole(Plan::new(snapshot, 0, Order::Ids(Arc::default()))?);
            self.loose = Some((snapshot, self.introduction.mode.build(&deal, &Spent::default())));
        }
        Ok(self.loose.as_mut().map_or(Served::planned(id), |(_, serving)| serving.ask(id, look)))
    }

    /// The snapshot of the epoch it is in.
    pub(super) fn snapshot(&self) -> Option<Snapshot> {
        self.current.as_ref().map(|epoch| epoch.deal.plan().snapshot())
    }

    /// The snapshots that its open epochs are of.
    pub(super) fn snapshots(&self) -> impl Iterator<Item = Snapshot> {
        self.open().map(|epoch| epoch.deal.plan().snapshot())
    }

    pub(super) fn status(&self, now: Duration) -> Status {
        let current = self.current.as_ref();
        Status {
            job: self.id,
            introduction: self.introduction.clone(),
            epoch: current.map(Epoch::number),
            planned: current.map_or(0, |epoch| epoch.deal.plan().len()),
            delivered: current.map_or(0, |epoch| epoch.done().min(u64::from(u32::MAX)) as u32),
            consumed: current.map_or(0, |epoch| epoch.ledger.consumed()),
            rate: self.pace.rate(),
            silent: now.saturating_sub(self.seen),
            last: self.last.map(|(_, audit)| audit),
        }
    }

    /// What it leaves behind.
    pub(super) fn into_gone(self) -> Gone {
        let effects = self.open().filter_map(Epoch::dropped).collect();
        let audit = self.current.as_ref().map(Epoch::audit);
        Gone { job: self.id, name: self.introduction.name, audit, effects }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let epochs = self.open().map(Epoch::memory_bytes).sum::<usize>();
        let loose = self.loose.as_ref().map_or(0, |(_, serving)| serving.memory_bytes());
        let closed = self.closed.as_ref().map_or(0, Epoch::memory_bytes);
        let lists = self.lists.values().map(|plan| plan.heap_bytes()).sum::<usize>();
        size_of::<Self>()
            + self.introduction.name.capacity()
            + epochs
            + closed
            + lists
            + loose
            + self.book.heap_bytes()
            + self.run.heap_bytes()
    }
}

pub(super) fn no_rank(rank: u32, world: u32) -> Error {
    Error::Invalid(format!("no rank {rank}: the job has {world} ranks, numbered from 0"))
}

/// Refuses a plan that would hold more memory than there is: itself, its ledger, and two bits an item to reorder it.
pub(super) fn fits(plan: &Plan, share: Share, room_bytes: usize) -> Result<()> {
    let needed = plan.heap_bytes() + plan.len() as usize / 8 * 3 + share.world() as usize * 256;
    if needed <= room_bytes {
        return Ok(());
    }
    Err(Error::Full(format!(
        "the plan needs {needed} bytes of memory, but {room_bytes} are left for all jobs of this dataset: end jobs \
         that are done, or use a seed"
    )))
}
