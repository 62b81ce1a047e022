//! The jobs of one dataset: who they are, what they plan, what they were given and what they have reported.
//!
//! A synchronous machine: time is passed in (`now`, since any fixed moment), and what should happen elsewhere is
//! returned as values. It knows item ids of snapshots; it holds no bytes, and knows no pieces, sockets or clocks.
//!
//! A job's life: [`introduce`](Jobs::introduce), then for each epoch [`begin`](Jobs::begin), batches and their
//! acknowledgements, and [`leave`](Jobs::leave). Ranks do not turn the epoch at the same moment, so two epochs of a job
//! may be open at a time; requests say which they mean, and the older one is audited when every rank has left it.
//!
//! A job whose ranks talk to different nodes is at all of these: [`words`](Jobs::words) is what one of them has to say, and
//! [`heed`](Jobs::heed) what another makes of it.
//!
//! What a job costs, for n items of which m are planned: a kilobyte and 120 bytes a rank; m/4 bytes for the ledger of
//! each open epoch and the last closed one; for a listed plan 8·m + n/7 bytes; in `reorder` m/4 bytes; in `approx` up to 5 bytes a cached item
//! and a bit for each item that is asked for by id;
//! 12 bytes for each item that is delivered and not acknowledged; up to 8·n bytes if it reports scores.

mod epoch;
mod heed;
mod lack;
mod list;
mod member;
mod outlook;
mod pace;
mod prepared;
mod receipt;
mod report;
mod request;
mod run;
mod score;
mod staging;
mod word;

pub use heed::{Heeded, Telling};
pub use list::Lack;
pub use prepared::Prepared;
pub use request::{
    Answer, BatchRequest, Begun, Effect, Gone, Introduction, Resume, Resumed, Scores, Settings, Start, Status, Take,
    Upcoming,
};
pub use score::{PAGE_ITEMS, Page, Report, Reported};
pub use word::{MAX_WORD_BYTES, Pages, Place, Word};

use crate::{
    Error, Result,
    ledger::Audit,
    permutation::mix,
    plan::{Order, Plan, Snapshot},
    serving::{Look, Served},
};
use heed::Tomb;
use member::Member;
use staging::Group;
use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

/// A job as it names itself in requests. Resuming gives a new one, so that ranks of the run before are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobId(pub u64);

/// The low bits of a job's id count its runs; the others are its seat, which it keeps.
const RUN_BITS: u32 = 16;

impl JobId {
    fn seat(self) -> u64 {
        self.0 >> RUN_BITS
    }

    /// The same job in its next run.
    fn next_run(self) -> Self {
        Self(self.seat() << RUN_BITS | (self.0 + 1) & ((1 << RUN_BITS) - 1))
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// All jobs of a dataset.
#[derive(Debug)]
pub struct Jobs {
    settings: Settings,
    snapshot: Snapshot,
    /// By seat.
    members: BTreeMap<u64, Member>,
    names: BTreeMap<String, u64>,
    groups: BTreeMap<String, Group>,
    /// Jobs that have left lately.
    gone: BTreeMap<String, Tomb>,
    /// From which the next seat is drawn.
    draw: u64,
    /// Tells what is written here from what is written elsewhere.
    salt: u64,
    /// Whether scores wait to be combined, and since when none were.
    scores_due: bool,
    scored: Duration,
}

impl Jobs {
    /// No jobs yet. `salt` makes the ids of jobs differ from those that a node gave before it restarted.
    pub fn new(snapshot: Snapshot, settings: Settings, salt: u64) -> Self {
        Self {
            settings,
            snapshot,
            members: BTreeMap::new(),
            names: BTreeMap::new(),
            groups: BTreeMap::new(),
            gone: BTreeMap::new(),
            draw: salt,
            salt: mix(salt),
            scores_due: false,
            scored: Duration::ZERO,
        }
    }

    /// The dataset has a new snapshot. A job stays on its own until its next epoch.
    pub fn refreshed(&mut self, snapshot: Snapshot) {
        self.snapshot = snapshot;
    }

    /// A job introduces itself. Every rank may: the same introduction again is the same job. A job that comes back on
    /// another number of ranks is [found](Self::find) by its name and [resumed](Self::resume).
    pub fn introduce(&mut self, introduction: Introduction, now: Duration) -> Result<JobId> {
        introduction.check(&self.settings)?;
        if let Some(seat) = self.names.get(&introduction.name) {
            let member = self.members.get_mut(seat).expect("every name has a member");
            return member.join(&introduction, now);
        }
        if self.members.len() >= self.settings.max_jobs {
            return Err(Error::Full(format!(
                "this dataset has {} jobs, which is the maximum: end jobs that are done, or wait until their leases \
                 run out",
                self.members.len()
            )));
        }
        let life = self.gone.get(&introduction.name).map_or(1, |tomb| tomb.life.saturating_add(1));
        self.insert(introduction, life, now)
    }

    fn draw_id(&mut self) -> JobId {
        loop {
            self.draw = self.draw.wrapping_add(1);
            let job = JobId(mix(self.draw) >> RUN_BITS << RUN_BITS);
            if !self.members.contains_key(&job.seat()) {
                return job;
            }
        }
    }

    /// The job called so.
    pub fn find(&self, name: &str) -> Option<JobId> {
        let seat = self.names.get(name)?;
        self.members.get(seat).map(|member| member.id)
    }

    /// The job is alive though it asks for nothing.
    pub fn renew(&mut self, job: JobId, now: Duration) -> Result<()> {
        self.member_mut(job, now).map(drop)
    }

    /// A rank begins an epoch, and thereby ends the one before. The first rank to do so plans it for all; the others
    /// say the same. A listed order is checked the first time and compared from then on: O(its length), see
    /// [`begin_with`](Self::begin_with).
    pub fn begin(&mut self, job: JobId, rank: u32, epoch: u64, order: Order, now: Duration) -> Result<Begun> {
        let plan = match self.member(job)?.epoch(epoch) {
            Ok(open) if open.deal.plan().follows(&order) => Arc::clone(open.deal.plan()),
            _ => Arc::new(Plan::new(self.begun_on(job, epoch).unwrap_or(self.snapshot), epoch, order)?),
        };
        self.begin_with(job, rank, plan, now)
    }

    /// The same with a plan that was made elsewhere, for the dataset's newest snapshot: O(1).
    pub fn begin_with(&mut self, job: JobId, rank: u32, plan: Arc<Plan>, now: Duration) -> Result<Begun> {
        let snapshot = self.snapshot;
        let room = self.settings.max_memory_bytes.saturating_sub(self.memory_bytes());
        let at_the_end = self.settings.update_interval.is_none();
        self.agrees(job, &plan)?;
        let member = self.member_mut(job, now)?;
        let (mut begun, turned) = member.begin(rank, plan, snapshot, room)?;
        self.scores_due |= turned && at_the_end && member.book.settle();
        begun.effects.extend(self.review(job.seat()));
        Ok(begun)
    }

    /// A rank asks for a batch.
    pub fn next_batch(&mut self, request: BatchRequest, look: &dyn Look, now: Duration) -> Result<Answer> {
        let BatchRequest { job, epoch, rank, .. } = request;
        if let Some(behind) = self.must_wait(&request)? {
            self.renew(job, now)?;
            return Ok(Answer::Wait { behind });
        }
        let alone = self.members.len() == 1;
        let most = self.settings.max_unacknowledged;
        let member = self.member_mut(job, now)?;
        let given = member.epoch_mut(epoch)?.next_batch(&request, look, most)?;
        member.observe(now, alone);
        let mut effects: Vec<Effect> = given.consumed.iter().copied().map(Effect::Consumed).collect();
        let closed = member.arrive(rank, epoch, &mut effects);
        effects.extend(self.stage(job.seat(), epoch, &given.consumed, look));
        if closed.is_some() {
            effects.extend(self.review(job.seat()));
        }
        Ok(Answer::Batch { items: given.items, effects })
    }

    /// A rank has consumed a batch. Saying it again is no error.
    pub fn acknowledge(&mut self, job: JobId, epoch: u64, rank: u32, number: u64, now: Duration) -> Result<()> {
        self.member_mut(job, now)?.epoch_mut(epoch)?.acknowledge(rank, number)
    }

    /// Items were consumed that were read by id and not in batches (an epoch does one or the other, else the audit finds
    /// duplicates). Returns what should happen elsewhere.
    pub fn consumed(
        &mut self,
        job: JobId,
        epoch: u64,
        ids: &[u32],
        look: &dyn Look,
        now: Duration,
    ) -> Result<Vec<Effect>> {
        let alone = self.members.len() == 1;
        let member = self.member_mut(job, now)?;
        let first = member.epoch_mut(epoch)?.consume(ids)?;
        member.observe(now, alone);
        let mut effects: Vec<Effect> = first.iter().copied().map(Effect::Consumed).collect();
        effects.extend(self.stage(job.seat(), epoch, &first, look));
        Ok(effects)
    }

    /// A job consumes one planned item out of turn, if it is cached and this epoch has not given it yet.
    pub fn take(&mut self, job: JobId, epoch: u64, id: u32, look: &dyn Look, now: Duration) -> Result<Take> {
        let member = self.member_mut(job, now)?;
        let current = member.epoch_mut(epoch)?;
        if current.is_exhausted() {
            return Ok(Take::Exhausted);
        }
        if !current.needs(id) || !look.cached(id) {
            return Ok(Take::Absent);
        }
        self.consumed(job, epoch, &[id], look, now).map(Take::Taken)
    }

    /// A job asks for one item outside its plan (iCache's clients do): itself, or in `approx` perhaps another.
    pub fn ask(&mut self, job: JobId, id: u32, look: &dyn Look, now: Duration) -> Result<Served> {
        let snapshot = self.snapshot;
        self.member_mut(job, now)?.ask(id, snapshot, look)
    }

    /// What a job needs to go on from here: under a hundred bytes, unless what was consumed is scattered. While ranks turn
    /// the epoch, it is of the older one.
    pub fn checkpoint(&self, job: JobId) -> Result<Vec<u8>> {
        let epoch = self.member(job)?.oldest()?;
        Ok(epoch.ledger.checkpoint(epoch.deal.plan()).encode())
    }

    /// A job goes on from a checkpoint, an older one too, on any number of ranks, under a new id: what it has consumed
    /// since is given out again and is no duplicate.
    /// Reads the checkpoint, and checks a list, in time in proportion to them: see [`resume_with`](Self::resume_with).
    pub fn resume(&mut self, request: Resume<'_>, now: Duration) -> Result<Resumed> {
        let prepared = Prepared::new(&request, &self.snapshots_of(request.job)?)?;
        self.resume_with(request, prepared, now)
    }

    /// The snapshots whose checkpoints a job can go on from, the newest first: the dataset's, and those it is on. An id that
    /// the job had before it resumed names it too.
    pub fn snapshots_of(&self, job: JobId) -> Result<Vec<Snapshot>> {
        let member = self.members.get(&job.seat()).ok_or_else(|| unknown(job))?;
        let own = member.snapshots().filter(|on| *on != self.snapshot);
        Ok(std::iter::once(self.snapshot).chain(own).collect())
    }

    /// The same with a checkpoint that was read elsewhere, of a snapshot that the dataset has.
    pub fn resume_with(&mut self, request: Resume<'_>, prepared: Prepared, now: Duration) -> Result<Resumed> {
        let room = self.settings.max_memory_bytes.saturating_sub(self.memory_bytes());
        let seat = request.job.seat();
        let member = self.members.get_mut(&seat).ok_or_else(|| unknown(request.job))?;
        if request.world == 0 || request.world > self.settings.max_world {
            return Err(Error::Invalid(format!(
                "a job has 1 to {} ranks, not {}",
                self.settings.max_world, request.world
            )));
        }
        member.seen = member.seen.max(now);
        self.draw = self.draw.wrapping_add(1);
        let nonce = if request.start.nonce == 0 { mix(self.draw) } else { request.start.nonce };
        let mut resumed = member.resume(&request, prepared, nonce, room)?;
        resumed.effects.extend(self.review(seat));
        Ok(resumed)
    }

    /// What an open epoch has come to so far, or how the last closed one went.
    pub fn audit(&self, job: JobId, epoch: u64) -> Result<Audit> {
        self.member(job)?.audit(epoch)
    }

    /// A job is done.
    pub fn leave(&mut self, job: JobId, now: Duration) -> Result<Gone> {
        self.member(job)?;
        Ok(self.depart(job.seat(), now).expect("it was just found"))
    }

    /// One rank of a job is done. The job is when all of them are; a rank that begins an epoch is back.
    pub fn leave_rank(&mut self, job: JobId, rank: u32, now: Duration) -> Result<Option<Gone>> {
        let is_done = self.member_mut(job, now)?.leave(rank)?;
        Ok(if is_done { self.depart(job.seat(), now) } else { None })
    }

    /// Forgets the jobs whose leases have run out.
    pub fn expire(&mut self, now: Duration) -> Vec<Gone> {
        let silent = self.members.iter().filter(|(_, member)| member.is_expired(now));
        let seats: Vec<u64> = silent.map(|(&seat, _)| seat).collect();
        seats.into_iter().filter_map(|seat| self.remove(seat)).collect()
    }

    fn remove(&mut self, seat: u64) -> Option<Gone> {
        let member = self.members.remove(&seat)?;
        self.names.remove(&member.introduction.name);
        self.scores_due |= !member.book.is_empty();
        let mut gone = member.into_gone();
        gone.effects.extend(self.review(seat));
        Some(gone)
    }

    /// Every job, for people.
    pub fn status(&self, now: Duration) -> Vec<Status> {
        self.members.values().map(|member| member.status(now)).collect()
    }

    /// Bytes of memory held. O(ranks of all jobs).
    pub fn memory_bytes(&self) -> usize {
        let members = self.members.values().map(Member::memory_bytes).sum::<usize>();
        let staged = self.groups.values().map(Group::heap_bytes).sum::<usize>();
        size_of::<Self>() + members + staged
    }

    fn member(&self, job: JobId) -> Result<&Member> {
        let member = self.members.get(&job.seat()).ok_or_else(|| unknown(job))?;
        if member.id == job { Ok(member) } else { Err(superseded(&member.introduction.name)) }
    }

    /// A job that was just heard of.
    fn member_mut(&mut self, job: JobId, now: Duration) -> Result<&mut Member> {
        let member = self.members.get_mut(&job.seat()).ok_or_else(|| unknown(job))?;
        if member.id != job {
            return Err(superseded(&member.introduction.name));
        }
        member.seen = member.seen.max(now);
        Ok(member)
    }
}

fn unknown(job: JobId) -> Error {
    Error::NotFound(format!(
        "this node has no job {job}: it was ended, its lease ran out, or the id is that of another node (ids are \
         local to a node; names work on every node); introduce it again"
    ))
}

fn superseded(name: &str) -> Error {
    Error::Conflict(format!(
        "job {name:?} continues under another id, because it was resumed or begun differently on another node: this \
         rank belongs to the earlier run and should stop"
    ))
}

#[cfg(test)]
mod tests;
