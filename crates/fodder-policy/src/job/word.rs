//! What one node says to another about a job, as plain data and as bytes.
//!
//! A word is a state, not an event: the newest contains all that was said before, so words may be lost, doubled and
//! come in any order. It says nothing of bytes, caches or where ranks are.
//!
//! Format 1: `FODW`, the version, then numbers (seven bits a byte, the least first) unless said otherwise, and at the end a
//! sum over all of it (8 bytes). Texts and states are their length and their bytes.

mod page;

pub use page::{Pages, Place};

use super::{Introduction, Resume, Settings, Start, member::Mark};
use crate::{
    Error, Result,
    ledger::{
        Slip, StintId, Writer,
        codec::{Reader, Writer as Out},
    },
    plan::{Plan, Snapshot, Uneven},
    serving::{Approximation, Mode},
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

const MAGIC: &[u8; 4] = b"FODW";
const VERSION: u8 = 1;

/// The most bytes that a word may have.
pub const MAX_WORD_BYTES: usize = 32 << 20;

/// Epochs that a word speaks of at most: the one that ranks are in, the one that some are still in, the last closed one.
pub(super) const MAX_CHAPTERS: usize = 3;

/// Stands for all ranks where one speaks for them.
pub(super) const ALL_RANKS: u32 = u32::MAX;

/// What a node says of a job.
#[derive(Debug, Clone, PartialEq)]
pub struct Word {
    /// How the job is called.
    pub(super) name: String,
    /// Counts the jobs that had this name: one that was introduced after another had left has the next number.
    pub(super) life: u64,
    /// None: it has left.
    pub(super) told: Option<Told>,
}

/// What a node says of a job that is there.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Told {
    pub(super) introduction: Introduction,
    /// Counts its resumes, and tells from which checkpoint the last one was.
    pub(super) number: u64,
    pub(super) sum: u64,
    /// Which ranks have said that they resume, and when told apart from when they say it again.
    pub(super) said: BTreeMap<u32, u64>,
    /// The ranks that are done, and where they were last.
    pub(super) done: BTreeMap<u32, Mark>,
    /// What it resumed from. Left out where only news are told.
    pub(super) checkpoint: Option<Arc<[u8]>>,
    /// For how long nothing was heard of it.
    pub(super) silent: Duration,
    /// Its epochs, the oldest first.
    pub(super) chapters: Vec<Chapter>,
}

/// What a node says of an epoch.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Chapter {
    pub(super) epoch: u64,
    pub(super) plan: PlanName,
    pub(super) slips: Vec<Slip>,
}

/// Tells the plans of one epoch apart. Of two that were begun at once the smaller counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PlanName {
    pub(super) fingerprint: u64,
    pub(super) items: u32,
    pub(super) listed: bool,
    /// The seed, or the list's fingerprint.
    pub(super) order: u64,
    pub(super) planned: u32,
}

impl PlanName {
    pub(super) fn of(plan: &Plan) -> Self {
        let Snapshot { fingerprint, items } = plan.snapshot();
        let (listed, order) = (plan.seed().is_none(), plan.fingerprint());
        Self { fingerprint, items, listed, order, planned: plan.len() }
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        Snapshot { fingerprint: self.fingerprint, items: self.items }
    }
}

impl Word {
    /// How the job is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The snapshots that it speaks of.
    pub fn snapshots(&self) -> impl Iterator<Item = Snapshot> + '_ {
        self.told.iter().flat_map(|told| told.chapters.iter().map(|chapter| chapter.plan.snapshot()))
    }

    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Out::default();
        out.bytes(MAGIC);
        out.bytes(&[VERSION]);
        write_bytes(&mut out, self.name.as_bytes());
        out.number(self.life);
        out.number(self.told.is_some().into());
        if let Some(told) = &self.told {
            told.write(&mut out);
        }
        out.finish()
    }

    /// A word whose part behind the version is `rest`, with the right sum: for tests of hostile bytes.
    #[cfg(any(test, feature = "testing"))]
    pub fn sealed(rest: &[u8]) -> Vec<u8> {
        let mut out = Out::default();
        out.bytes(MAGIC);
        out.bytes(&[VERSION]);
        out.bytes(rest);
        out.finish()
    }

    /// From bytes, whatever they are. What is kept of them is no longer than they are.
    pub fn decode(bytes: &[u8], settings: &Settings) -> Result<Self> {
        if bytes.len() > MAX_WORD_BYTES {
            return Err(unreadable("is too long"));
        }
        let body = bytes.strip_prefix(MAGIC).ok_or_else(|| unreadable("is none"))?;
        if body.first() != Some(&VERSION) {
            return Err(unreadable("has another format: nodes of this cluster are too far apart in version"));
        }
        let mut input = Reader::new(bytes, MAGIC.len() + 1)?;
        let name = read_text(&mut input)?;
        let life = input.number()?;
        let told = match input.at_most(1)? {
            0 => None,
            _ => Some(Told::read(&mut input, &name, settings)?),
        };
        if input.left() == 0 { Ok(Self { name, life, told }) } else { Err(unreadable("is longer than it says")) }
    }
}

impl Told {
    fn write(&self, out: &mut Out) {
        write_introduction(out, &self.introduction);
        out.number(self.number);
        out.number(self.sum);
        out.number(self.said.len() as u64);
        for (&rank, &nonce) in &self.said {
            out.number(rank.into());
            out.number(nonce);
        }
        out.number(self.done.len() as u64);
        for (&rank, (epoch, stint)) in &self.done {
            out.number(rank.into());
            out.number(*epoch);
            out.number(stint.ordinal.into());
            out.bytes(&stint.salt.to_le_bytes());
        }
        out.number(self.checkpoint.is_some().into());
        if let Some(checkpoint) = &self.checkpoint {
            write_bytes(out, checkpoint);
        }
        out.number(millis(self.silent));
        out.number(self.chapters.len() as u64);
        self.chapters.iter().for_each(|chapter| chapter.write(out));
    }

    fn read(input: &mut Reader<'_>, name: &str, settings: &Settings) -> Result<Self> {
        let introduction = read_introduction(input, name)?;
        introduction.check(settings)?;
        let (number, sum) = (input.number()?, input.number()?);
        let mut said = BTreeMap::new();
        for _ in 0..input.at_most(introduction.world.saturating_add(1))? {
            let (rank, nonce) = (input.at_most(u32::MAX)?, input.number()?);
            // What is united over many words stays as short as one.
            if rank >= introduction.world && rank != ALL_RANKS {
                return Err(unreadable("names a rank that the job has not"));
            }
            said.insert(rank, nonce);
        }
        let mut done = BTreeMap::new();
        for _ in 0..input.at_most(introduction.world)? {
            let (rank, epoch) = (input.at_most(introduction.world.saturating_sub(1))?, input.number()?);
            let stint = StintId { ordinal: input.at_most(u32::MAX)?, salt: input.word()? };
            done.insert(rank, (epoch, stint));
        }
        let checkpoint = match input.at_most(1)? {
            0 => None,
            _ => Some(read_bytes(input)?.into()),
        };
        let silent = Duration::from_millis(input.number()?);
        let mut chapters = Vec::new();
        for _ in 0..input.at_most(MAX_CHAPTERS as u32)? {
            chapters.push(Chapter::read(input)?);
        }
        if !chapters.is_sorted_by(|one: &Chapter, next| one.epoch < next.epoch) {
            return Err(unreadable("tells of epochs in no order"));
        }
        Ok(Self { introduction, number, sum, said, done, checkpoint, silent, chapters })
    }

    /// The request to go on from its checkpoint, if it has one.
    pub(super) fn resume<'a>(&'a self, job: super::JobId, ids: Option<Arc<[u32]>>) -> Option<Resume<'a>> {
        let checkpoint = self.checkpoint.as_deref()?;
        Some(Resume { job, rank: None, world: self.introduction.world, start: Start::default(), checkpoint, ids })
    }
}

impl Chapter {
    fn write(&self, out: &mut Out) {
        let PlanName { fingerprint, items, listed, order, planned } = self.plan;
        out.number(self.epoch);
        out.bytes(&fingerprint.to_le_bytes());
        out.number(items.into());
        out.number(listed.into());
        out.bytes(&order.to_le_bytes());
        out.number(planned.into());
        out.number(self.slips.len() as u64);
        for Slip { writer, state } in &self.slips {
            out.number(writer.rank.map_or(0, |rank| u64::from(rank) + 1));
            out.number(writer.stint.ordinal.into());
            out.bytes(&writer.stint.salt.to_le_bytes());
            write_bytes(out, state);
        }
    }

    fn read(input: &mut Reader<'_>) -> Result<Self> {
        let epoch = input.number()?;
        let (fingerprint, items) = (input.word()?, input.at_most(u32::MAX)?);
        let (listed, order) = (input.at_most(1)? == 1, input.word()?);
        let planned = input.at_most(items)?;
        let mut slips = Vec::new();
        for _ in 0..input.number()? {
            let rank = input.number()?.checked_sub(1).map(u32::try_from).transpose().map_err(|_| unreadable("lies"))?;
            let stint = StintId { ordinal: input.at_most(u32::MAX)?, salt: input.word()? };
            slips.push(Slip { writer: Writer { rank, stint }, state: read_bytes(input)?.into() });
        }
        Ok(Self { epoch, plan: PlanName { fingerprint, items, listed, order, planned }, slips })
    }
}

fn write_introduction(out: &mut Out, introduction: &Introduction) {
    let Introduction { name: _, mode, world, uneven, weight, lease, in_step } = introduction;
    match mode {
        Mode::Strict => out.number(0),
        Mode::Reorder { window } => {
            out.number(1);
            out.number((*window).into());
        }
        Mode::Approx(bounds) => {
            out.number(2);
            out.bytes(&bounds.max_fraction.to_le_bytes());
            out.number(bounds.same_class.into());
            out.number(bounds.max_repeats.into());
        }
    }
    out.number((*world).into());
    out.number(match uneven {
        Uneven::Pad => 0,
        Uneven::Drop => 1,
        Uneven::Exact => 2,
    });
    out.number(weight.to_bits().into());
    out.number(lease.map_or(0, |lease| millis(lease).saturating_add(1)));
    write_bytes(out, in_step.as_deref().unwrap_or_default().as_bytes());
}

/// An introduction as bytes: alike for equal ones.
pub(super) fn introduced(introduction: &Introduction) -> Vec<u8> {
    let mut out = Out::default();
    write_introduction(&mut out, introduction);
    out.0
}

fn read_introduction(input: &mut Reader<'_>, name: &str) -> Result<Introduction> {
    let mode = match input.at_most(2)? {
        0 => Mode::Strict,
        1 => Mode::Reorder { window: input.at_most(u32::MAX)? },
        _ => Mode::Approx(Approximation {
            max_fraction: f64::from_bits(input.word()?),
            same_class: input.at_most(1)? == 1,
            max_repeats: input.at_most(u32::MAX)?,
        }),
    };
    let world = input.at_most(u32::MAX)?;
    let uneven = [Uneven::Pad, Uneven::Drop, Uneven::Exact][input.at_most(2)? as usize];
    let weight = f32::from_bits(input.at_most(u32::MAX)?);
    let lease = input.number()?.checked_sub(1).map(Duration::from_millis);
    let in_step = Some(read_text(input)?).filter(|group| !group.is_empty());
    Ok(Introduction { name: name.into(), mode, world, uneven, weight, lease, in_step })
}

fn write_bytes(out: &mut Out, bytes: &[u8]) {
    out.number(bytes.len() as u64);
    out.bytes(bytes);
}

fn read_bytes<'a>(input: &mut Reader<'a>) -> Result<&'a [u8]> {
    let len = input.number()?;
    input.bytes(usize::try_from(len).map_err(|_| unreadable("is longer than it is"))?)
}

fn read_text(input: &mut Reader<'_>) -> Result<String> {
    let text = std::str::from_utf8(read_bytes(input)?);
    text.map(Into::into).map_err(|_| unreadable("names what is no text"))
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn unreadable(why: &str) -> Error {
    Error::Corrupt(format!("a word about a job {why}"))
}
