//! What one job makes of a word about it: which run and which plans count, and what its ranks have consumed elsewhere.

use super::{Heeded, Telling};
use crate::{
    Error, Result,
    job::{
        Prepared,
        epoch::Epoch,
        member::{Member, fits},
        run::Run,
        word::{self, Chapter, PlanName, Told, Word, introduced},
    },
    plan::{Deal, Order, Plan, Rest, Share, Snapshot},
};
use std::{sync::Arc, time::Duration};

/// On what a word can be understood.
pub(in crate::job) struct Ground<'a> {
    pub(in crate::job) known: &'a [Snapshot],
    pub(in crate::job) room_bytes: usize,
}

impl Member {
    pub(in crate::job) fn has_news(&self) -> bool {
        self.untold || self.open().chain(&self.closed).any(|epoch| epoch.ledger.has_news())
    }

    pub(in crate::job) fn word(&mut self, telling: Telling, now: Duration) -> Option<Word> {
        let only_news = telling == Telling::News;
        if only_news && !self.has_news() {
            return None;
        }
        let epochs = self.closed.iter_mut().chain(&mut self.before).chain(&mut self.current);
        let chapters = epochs.map(|epoch| Chapter {
            epoch: epoch.number(),
            plan: PlanName::of(epoch.deal.plan()),
            slips: epoch.ledger.slips(None, only_news),
        });
        let chapters = chapters.collect();
        let mut told = self.told(chapters, now.saturating_sub(self.seen));
        if only_news {
            self.untold = false;
            told.checkpoint = None;
        }
        Some(Word { name: self.introduction.name.clone(), life: self.life, told: Some(told) })
    }

    pub(in crate::job) fn told(&self, chapters: Vec<Chapter>, silent: Duration) -> Told {
        Told {
            introduction: self.introduction.clone(),
            number: self.run.number,
            sum: self.run.sum,
            said: self.run.said.clone(),
            done: self.done.clone(),
            checkpoint: self.run.checkpoint.clone(),
            silent,
            chapters,
        }
    }

    pub(in crate::job) fn is_of_this_run(&self, told: &Told, life: u64) -> bool {
        self.compare(told, life).is_eq()
    }

    pub(in crate::job) fn is_before(&self, told: &Told, life: u64) -> bool {
        self.compare(told, life).is_gt()
    }

    /// How the run that others tell of stands to the one here: the greater counts.
    fn compare(&self, told: &Told, life: u64) -> std::cmp::Ordering {
        let theirs = (life, told.number, told.sum, introduced(&told.introduction));
        theirs.cmp(&(self.life, self.run.number, self.run.sum, introduced(&self.introduction)))
    }

    pub(in crate::job) fn heed_word(
        &mut self,
        told: Told,
        life: u64,
        ground: &Ground<'_>,
        now: Duration,
        heeded: &mut Heeded,
    ) {
        match self.compare(&told, life) {
            std::cmp::Ordering::Less => return,
            std::cmp::Ordering::Equal => {
                if !self.unite_said(&told) {
                    self.begin_again(ground, heeded);
                    return;
                }
            }
            // News of a run that is not known here lack what it went on from: that comes with everything.
            std::cmp::Ordering::Greater if told.number > 0 && told.checkpoint.is_none() => return,
            std::cmp::Ordering::Greater => {
                let (number, sum, said) = (told.number, told.sum, told.said.clone());
                let checkpoint = told.checkpoint.clone().filter(|bytes| bytes.len() <= ground.room_bytes);
                let on = self.snapshot();
                let run = Run { number, sum, said, checkpoint };
                let dropped = self.go_on(run, None, told.introduction.world);
                heeded.effects.extend(on.map(|on| (on, dropped)));
                self.introduction = told.introduction.clone();
                self.life = life;
            }
        }
        self.seen = self.seen.max(now.saturating_sub(told.silent));
        for (rank, left) in told.done {
            let known = self.done.entry(rank).or_insert(left);
            *known = left.max(*known);
        }
        for chapter in told.chapters {
            self.heed_chapter(chapter, ground, heeded);
        }
        self.close_if_left(heeded);
    }

    /// Notes which ranks have said elsewhere that they resume; false if one has said it twice, which is to begin again.
    pub(in crate::job) fn unite_said(&mut self, told: &Told) -> bool {
        for (&rank, &nonce) in &told.said {
            if *self.run.said.entry(rank).or_insert(nonce) != nonce {
                return false;
            }
        }
        true
    }

    /// A rank has resumed from the same checkpoint at two nodes that did not know of each other. Which of its consumption
    /// counts nobody can say: none does.
    fn begin_again(&mut self, ground: &Ground<'_>, heeded: &mut Heeded) {
        let Run { number, sum, checkpoint, .. } = std::mem::take(&mut self.run);
        let on = self.snapshot();
        let run = Run { number: number.saturating_add(1), sum, checkpoint, ..Run::default() };
        let dropped = self.go_on(run, None, self.introduction.world);
        heeded.effects.extend(on.map(|on| (on, dropped)));
        if let Some(first) = self.first_epoch(ground) {
            self.open_here(first, heeded);
        }
    }

    /// The epoch that the run went on in, as its checkpoint tells.
    fn first_epoch(&self, ground: &Ground<'_>) -> Option<Epoch> {
        let told = self.told(Vec::new(), Duration::ZERO);
        let request = told.resume(self.id, None)?;
        let mut prepared = Prepared::new(&request, ground.known).ok()?;
        if prepared.plan.is_none()
            && let Some(listed) = self.listed(prepared.checkpoint.epoch())
        {
            prepared.plan = Some(Arc::new(prepared.checkpoint.plan(listed.ids().cloned()).ok()?));
        }
        self.restored(&request, prepared, ground.room_bytes).ok()
    }

    fn heed_chapter(&mut self, chapter: Chapter, ground: &Ground<'_>, heeded: &mut Heeded) {
        let number = chapter.epoch;
        let is_it = |epoch: &Option<Epoch>| epoch.as_ref().is_some_and(|epoch| epoch.number() == number);
        if is_it(&self.closed) {
            return self.heed_closed(&chapter, ground, heeded);
        }
        if is_it(&self.current) || is_it(&self.before) {
            let is_current = is_it(&self.current);
            let Ok(open) = self.epoch_mut(number) else { return };
            let (mine, on) = (PlanName::of(open.deal.plan()), open.deal.plan().snapshot());
            if chapter.plan == mine {
                let mut effects = Vec::new();
                heeded.refused += open.learn(&chapter.slips, ground.room_bytes, &mut effects);
                heeded.effects.push((on, effects));
                return;
            }
            if !is_current || chapter.plan > mine {
                return;
            }
            // Both were begun at once. Ranks that are in ours begin again.
            let lost = self.current.take();
            heeded.effects.push((on, lost.and_then(|lost| lost.dropped()).into_iter().collect()));
            self.id = self.id.next_run();
            self.untold = true;
        }
        self.open_elsewhere(chapter, ground, heeded);
    }

    /// Late news of the epoch that is over.
    fn heed_closed(&mut self, chapter: &Chapter, ground: &Ground<'_>, heeded: &mut Heeded) {
        let Some(closed) = self.closed.as_mut() else { return };
        if PlanName::of(closed.deal.plan()) == chapter.plan {
            heeded.refused += closed.learn(&chapter.slips, ground.room_bytes, &mut Vec::new());
            self.last = Some((closed.number(), closed.audit()));
        }
    }

    /// An epoch was begun elsewhere.
    fn open_elsewhere(&mut self, chapter: Chapter, ground: &Ground<'_>, heeded: &mut Heeded) {
        let Chapter { epoch, plan, slips } = chapter;
        let number = |epoch: &Option<Epoch>| epoch.as_ref().map(Epoch::number);
        let over = number(&self.closed).max(number(&self.before));
        let is_next = number(&self.current).is_none_or(|current| current < epoch);
        if over.is_some_and(|over| over >= epoch) || (!is_next && self.before.is_some()) {
            return;
        }
        match self.made_here(epoch, &plan, is_next, ground) {
            Ok(mut made) => {
                heeded.refused += made.learn(&slips, ground.room_bytes, &mut Vec::new());
                self.forget_elsewhere(epoch);
                if is_next {
                    self.open_here(made, heeded);
                } else {
                    let on = made.deal.plan().snapshot();
                    heeded.opened.push((epoch, on));
                    heeded.effects.push((on, vec![made.needed()]));
                    self.before = Some(made);
                }
            }
            Err(()) => {
                let known = self.elsewhere.entry(epoch).or_insert(plan);
                *known = plan.min(*known);
                while self.elsewhere.len() > word::MAX_CHAPTERS {
                    self.elsewhere.pop_first();
                }
            }
        }
    }

    /// The epoch that a plan names, if this node can make it.
    fn made_here(&mut self, epoch: u64, name: &PlanName, is_next: bool, ground: &Ground<'_>) -> Result<Epoch, ()> {
        if !ground.known.contains(&name.snapshot()) {
            return Err(());
        }
        if self.run.number > 0 && (self.current.is_none() || !is_next) {
            match self.first_epoch(ground) {
                Some(first) if first.number() == epoch && PlanName::of(first.deal.plan()) == *name => return Ok(first),
                Some(first) if first.number() < epoch => {}
                _ => return Err(()),
            }
        }
        let plan = match name.listed {
            true => self.listed(epoch).filter(|plan| PlanName::of(plan) == *name).cloned().ok_or(())?,
            false => Arc::new(Plan::new(name.snapshot(), epoch, Order::Seed(name.order)).map_err(drop)?),
        };
        match is_next {
            true => self.plan(plan, name.snapshot(), ground.room_bytes).map_err(drop),
            false => self.whole(plan, ground.room_bytes).map_err(drop),
        }
    }

    /// All of an epoch that is not the newest.
    fn whole(&self, plan: Arc<Plan>, room_bytes: usize) -> Result<Epoch> {
        let share = Share::new(self.introduction.world, self.introduction.uneven)?;
        fits(&plan, share, room_bytes)?;
        let rest = Rest::whole(plan.len());
        Ok(Epoch::new(Deal::new(plan, rest, share), self.introduction.mode, None, 0).signed(self.salt))
    }

    /// The epoch before the current one, where a rank is still in it and everybody who is here has not heard of it.
    pub(in crate::job) fn unheard_of(&self, rank: u32, plan: &Arc<Plan>, room_bytes: usize) -> Option<Epoch> {
        let epoch = plan.epoch();
        let current = self.current.as_ref().filter(|current| current.number() > epoch && !current.has(rank))?;
        let is_over = self.closed.as_ref().is_some_and(|closed| closed.number() >= epoch);
        if is_over || self.before.is_some() || current.is_full() || epoch.checked_add(1) != Some(current.number()) {
            return None;
        }
        if self.run.number > 0 {
            let first = self.first_epoch(&Ground { known: &[plan.snapshot()], room_bytes })?;
            if first.number() >= epoch {
                return Some(first).filter(|first| first.number() == epoch && **first.deal.plan() == **plan);
            }
        }
        self.whole(Arc::clone(plan), room_bytes).ok()
    }

    /// Goes on to an epoch that others have begun.
    fn open_here(&mut self, next: Epoch, heeded: &mut Heeded) {
        let on = next.deal.plan().snapshot();
        heeded.opened.push((next.number(), on));
        heeded.effects.push((on, vec![next.needed()]));
        if self.current.is_none() && self.before.is_none() && self.run.number > 0 {
            self.enter(next);
            self.untold = true;
            return;
        }
        let before = self.before.as_ref().map(|before| before.deal.plan().snapshot());
        let dropped = self.turn(next);
        heeded.effects.extend(before.map(|before| (before, dropped.into_iter().collect())));
    }

    /// Closes the epoch before, if every rank has left it.
    fn close_if_left(&mut self, heeded: &mut Heeded) {
        if let (Some(before), true) = (&self.before, self.current.as_ref().is_some_and(Epoch::is_full)) {
            let on = before.deal.plan().snapshot();
            let dropped = self.close_before();
            heeded.effects.push((on, dropped.into_iter().collect()));
        }
    }

    /// Refuses a plan that differs from what was begun elsewhere.
    pub(in crate::job) fn agrees_with_elsewhere(&self, plan: &Plan) -> Result<()> {
        let name = &self.introduction.name;
        if self.current.is_none() && self.run.number > 0 {
            return Err(Error::Conflict(format!(
                "job {name:?} was resumed on another node from a checkpoint whose snapshot or list this node lacks: \
                 refresh the dataset, or resume the job here with the same checkpoint and list"
            )));
        }
        let (epoch, mine) = (plan.epoch(), PlanName::of(plan));
        match self.elsewhere.get(&epoch) {
            Some(theirs) if theirs.snapshot() != mine.snapshot() => Err(Error::Conflict(format!(
                "epoch {epoch} of job {name:?} was begun on another node, on a snapshot of {} items that this node \
                 lacks: refresh the dataset here, then begin again",
                theirs.items
            ))),
            Some(theirs) if *theirs != mine => Err(Error::Conflict(format!(
                "another rank has begun epoch {epoch} with another plan: give the same seed or ids on every rank"
            ))),
            _ => Ok(()),
        }
    }
}
