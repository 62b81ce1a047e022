//! Receipts: what a rank can show to another node when its own is gone. A receipt is a word about this rank alone.

use super::{
    Effect, JobId, Jobs, superseded,
    word::{ALL_RANKS, Chapter, PlanName, Told, Word},
};
use crate::{Error, Result, ledger::Slip};
use std::{collections::BTreeMap, time::Duration};

/// What a receipt has of the checkpoint that its run went on from: all of it, unless it is longer.
const MAX_CHECKPOINT_BYTES: usize = 4 << 10;

impl Jobs {
    /// What a rank can show elsewhere, so that it goes on exactly behind what it has consumed: about a hundred bytes, unless
    /// that is scattered.
    pub fn receipt(&mut self, job: JobId, epoch: u64, rank: u32, now: Duration) -> Result<Vec<u8>> {
        let member = self.member_mut(job, now)?;
        let open = member.epoch_mut(epoch)?;
        let slips = open.ledger.slips(Some(rank), false);
        let chapter = Chapter { epoch, plan: PlanName::of(open.deal.plan()), slips };
        // In a receipt these say in which stint the rank is.
        let here = open.ledger.stint_here(rank).map(|stint| (rank, (epoch, stint)));
        let done = here.into_iter().collect();
        let told = member.told(vec![chapter], Duration::ZERO);
        let said = told.said.into_iter().filter(|(said, _)| [rank, ALL_RANKS].contains(said)).collect();
        // With it a node that has not heard of the run can be in it.
        let checkpoint = told.checkpoint.filter(|bytes| bytes.len() <= MAX_CHECKPOINT_BYTES);
        let told = Told { said, done, checkpoint, ..told };
        Ok(Word { name: member.introduction.name.clone(), life: member.life, told: Some(told) }.encode())
    }

    /// What a receipt says of a run that has not been heard of here: to be [heeded](Self::heed) before its rank begins anything.
    /// The job has another id then, and the rank has to introduce it again.
    pub fn unheard(&self, job: JobId, receipt: &[u8]) -> Result<Option<Word>> {
        let Word { name, life, told } = Word::decode(receipt, &self.settings)?;
        let member = self.member(job)?;
        let is_later = |told: &Told| name == member.introduction.name && member.is_before(told, life);
        let told = told.filter(is_later).filter(|told| told.number == 0 || told.checkpoint.is_some());
        Ok(told.map(|told| Word { name, life, told: Some(Told { done: BTreeMap::new(), ..told }) }))
    }

    /// Refuses a receipt of another run of a job than the one that is here: before its rank begins anything.
    pub fn check_receipt(&self, job: JobId, receipt: &[u8]) -> Result<()> {
        let word = Word::decode(receipt, &self.settings)?;
        let member = self.member(job)?;
        match word.told.filter(|told| member.is_of_this_run(told, word.life)) {
            // A rank that has resumed twice belongs to another start of the job than what is known here.
            Some(told)
                if told
                    .said
                    .iter()
                    .all(|(rank, nonce)| member.run.said.get(rank).is_none_or(|known| known == nonce)) =>
            {
                Ok(())
            }
            _ => Err(superseded(&member.introduction.name)),
        }
    }

    /// A rank that has just begun an epoch here shows its receipt, and tells what it has consumed since (the items that were
    /// asked). Its batches count from 0 again, and what it was given and has not consumed is given out again.
    pub fn show(&mut self, job: JobId, epoch: u64, rank: u32, receipt: &[u8], consumed: &[u32]) -> Result<Vec<Effect>> {
        let word = Word::decode(receipt, &self.settings)?;
        let room = self.settings.max_memory_bytes.saturating_sub(self.memory_bytes());
        self.check_receipt(job, receipt)?;
        let member = self.members.get_mut(&job.seat()).expect("it was just found");
        let Some(told) = word.told else { return Err(superseded(&member.introduction.name)) };
        member.unite_said(&told);
        let open = member.epoch_mut(epoch)?;
        let plan = PlanName::of(open.deal.plan());
        let chapter = told.chapters.into_iter().find(|chapter| chapter.epoch == epoch && chapter.plan == plan);
        let Some(chapter) = chapter else {
            // One of the epoch before shows at least that the rank is of this run.
            return if consumed.is_empty() {
                Ok(Vec::new())
            } else {
                Err(Error::Invalid(format!(
                    "the receipt is not for epoch {epoch} as it was begun: send the receipt of that epoch"
                )))
            };
        };
        let slips: Vec<Slip> = chapter.slips.into_iter().filter(|slip| slip.writer.rank == Some(rank)).collect();
        let mut effects = Vec::new();
        if open.learn(&slips, room, &mut effects) > 0 {
            return Err(Error::Corrupt("the receipt cannot be read: send it unchanged".into()));
        }
        match told.done.get(&rank) {
            Some((_, stint)) if slips.iter().any(|slip| slip.writer.stint == *stint) => {
                open.claim(rank, *stint, consumed, &mut effects)?
            }
            _ if consumed.is_empty() => {}
            _ => return Err(Error::Invalid(format!("the receipt is not for rank {rank}: send its own"))),
        }
        effects.extend(open.restart(rank)?);
        member.untold = true;
        Ok(effects)
    }
}
