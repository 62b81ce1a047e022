//! Words between nodes: what this one says of its jobs, and what it makes of what others say.
//!
//! Heeding is monotone: a word that was heeded before changes nothing, and the order of words makes no difference in the
//! end. Of two runs of a job the later counts, of two plans for one epoch the smaller; what ranks consumed is united.

mod member;

use super::{
    Effect, Gone, JobId, Jobs,
    epoch::Epoch,
    member::{Home, Member},
    word::{PlanName, Told, Word},
};
use crate::{Result, plan::Snapshot};
use member::Ground;
use std::time::Duration;

/// What came of a word.
#[derive(Debug, Default, PartialEq)]
pub struct Heeded {
    /// The job's id before, and its id now. They differ if its ranks here belong to a run that is over.
    pub was: Option<JobId>,
    /// See `was`.
    pub job: Option<JobId>,
    /// Epochs that are open here from now on, and their snapshots.
    pub opened: Vec<(u64, Snapshot)>,
    /// It is gone.
    pub gone: Option<Gone>,
    /// What should happen elsewhere, in items of these snapshots.
    pub effects: Vec<(Snapshot, Vec<Effect>)>,
    /// What could not be taken: it cannot be read, or would hold more than is allowed.
    pub refused: u64,
}

/// How much to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Telling {
    /// Everything that is known, whoever it is from.
    All,
    /// What has changed here since this was last asked for.
    News,
}

/// A job that has left, so that no old word brings it back.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tomb {
    pub(super) life: u64,
    since: Duration,
    /// A node that is cut off remembers the job no longer than this, if none of its ranks speaks there.
    until: Duration,
    untold: bool,
}

impl Jobs {
    /// What this node has to say of its jobs.
    pub fn words(&mut self, telling: Telling, now: Duration) -> Vec<Word> {
        self.gone.retain(|_, tomb| tomb.until > now);
        let mut words: Vec<Word> = self.members.values_mut().filter_map(|member| member.word(telling, now)).collect();
        for (name, tomb) in &mut self.gone {
            if telling == Telling::All || std::mem::take(&mut tomb.untold) {
                words.push(Word { name: name.clone(), life: tomb.life, told: None });
            }
        }
        words
    }

    /// What is known of one job.
    pub fn word_of(&mut self, name: &str, now: Duration) -> Option<Word> {
        let member = self.names.get(name).and_then(|seat| self.members.get_mut(seat));
        match (member, self.gone.get(name)) {
            (Some(member), _) => member.word(Telling::All, now),
            (None, Some(tomb)) => Some(Word { name: name.into(), life: tomb.life, told: None }),
            (None, None) => None,
        }
    }

    /// Whether there is anything new to say.
    pub fn has_news(&self) -> bool {
        self.gone.values().any(|tomb| tomb.untold) || self.members.values().any(Member::has_news)
    }

    /// The snapshot that an epoch of a job was begun on, here or elsewhere.
    pub fn begun_on(&self, job: JobId, epoch: u64) -> Option<Snapshot> {
        let member = self.member(job).ok()?;
        let here = member.epoch(epoch).ok().map(|open| open.deal.plan().snapshot());
        here.or_else(|| member.elsewhere.get(&epoch).map(PlanName::snapshot))
    }

    /// The epochs of a job that are open here, and their snapshots.
    pub fn open_epochs(&self, job: JobId) -> Vec<(u64, Snapshot)> {
        let open = self.member(job).ok().map(|member| member.open());
        let named = |epoch: &Epoch| (epoch.number(), epoch.deal.plan().snapshot());
        open.into_iter().flatten().map(named).collect()
    }

    /// How a job is called.
    pub fn name_of(&self, job: JobId) -> Option<&str> {
        self.members.get(&job.seat()).map(|member| member.introduction.name.as_str())
    }

    /// Another node has spoken. `known` are the snapshots that this one has.
    pub fn heed(&mut self, word: Word, known: &[Snapshot], now: Duration) -> Heeded {
        let mut heeded = Heeded::default();
        let Word { name, life, told } = word;
        if self.gone.get(&name).is_some_and(|tomb| tomb.life >= life) {
            return heeded;
        }
        let seat = self.names.get(&name).copied();
        let Some(told) = told else {
            let is_later = seat.and_then(|seat| self.members.get(&seat)).is_none_or(|member| member.life <= life);
            if is_later {
                let lease = seat.and_then(|seat| self.members.get(&seat)).map(Member::lease);
                heeded.gone = seat.and_then(|seat| self.remove(seat));
                self.bury(name, life, lease, now);
            }
            return heeded;
        };
        let is_new = seat.is_none();
        let Some(seat) = seat.or_else(|| self.admit(&told, life, &mut heeded, now)) else { return heeded };
        let room = self.settings.max_memory_bytes.saturating_sub(self.memory_bytes());
        let at_the_end = self.settings.update_interval.is_none();
        let Some(member) = self.members.get_mut(&seat) else { return heeded };
        heeded.was = (!is_new).then_some(member.id);
        let before = member.current.as_ref().map(Epoch::number);
        member.heed_word(told, life, &Ground { known, room_bytes: room }, now, &mut heeded);
        let turned = before.is_some() && member.current.as_ref().map(Epoch::number) > before;
        self.scores_due |= turned && at_the_end && member.book.settle();
        heeded.job = Some(member.id);
        let on = member.snapshot().unwrap_or(self.snapshot);
        if member.is_done() {
            heeded.gone = self.depart(seat, now);
        }
        let released = self.review(seat);
        if !released.is_empty() {
            heeded.effects.push((on, released));
        }
        heeded
    }

    /// A job that is at other nodes is here too.
    fn admit(&mut self, told: &Told, life: u64, heeded: &mut Heeded, now: Duration) -> Option<u64> {
        let lease = told.introduction.lease.unwrap_or(self.settings.lease);
        if told.silent > lease {
            return None;
        }
        if self.members.len() >= self.settings.max_jobs {
            heeded.refused += 1;
            return None;
        }
        let job = self.insert(told.introduction.clone(), life, now.saturating_sub(told.silent)).ok()?;
        self.members.entry(job.seat()).and_modify(|member| member.lacks_scores = true);
        Some(job.seat())
    }

    /// Puts a new job in its seat.
    pub(super) fn insert(&mut self, introduction: super::Introduction, life: u64, now: Duration) -> Result<JobId> {
        let job = self.draw_id();
        self.names.insert(introduction.name.clone(), job.seat());
        self.join_group(job.seat(), introduction.in_step.as_deref());
        let home = Home { lease: self.settings.lease, salt: self.salt };
        self.members.insert(job.seat(), Member::new(job, introduction, life, home, now));
        Ok(job)
    }

    /// A job leaves for good.
    pub(super) fn depart(&mut self, seat: u64, now: Duration) -> Option<Gone> {
        let member = self.members.get(&seat)?;
        let (name, life, lease) = (member.introduction.name.clone(), member.life, member.lease());
        self.bury(name, life, Some(lease), now);
        self.remove(seat)
    }

    /// Remembers a job that is gone for as long as others may, who have not heard of it: for its lease, where that is known.
    fn bury(&mut self, name: String, life: u64, lease: Option<Duration>, now: Duration) {
        self.gone.retain(|_, tomb| tomb.until > now);
        if self.gone.len() >= self.settings.max_jobs {
            // Everybody has had the longest to hear of the oldest.
            let oldest = self.gone.iter().min_by_key(|(_, tomb)| tomb.since).map(|(name, _)| name.clone());
            oldest.map(|name| self.gone.remove(&name));
        }
        let until = now.saturating_add(lease.unwrap_or_default().max(self.settings.lease));
        self.gone.insert(name, Tomb { life, since: now, until, untold: true });
    }
}
