//! What a job needs to go on in the middle of an epoch, as bytes: which plan, and what of it was consumed.
//!
//! Format 1: `FODC`, the version, then numbers (seven bits a byte, the least first) unless said otherwise: the
//! snapshot's fingerprint (8 bytes) and items; the epoch; whether the plan is a list; its seed or the list's
//! fingerprint (8 bytes); its length; two tallies (now, and when the ranks began) of six numbers; how many were consumed
//! when the ranks began; what was consumed; how many items stood in for others, and for each its distance from the one
//! before and how often; a sum over all of it (8 bytes). What was consumed is either lengths of runs, consumed and not
//! in turn, or 64-bit words, whichever is shorter: a prefix takes one number.

use super::{
    account::{Account, Base, Tally},
    codec::{Reader, Writer, damaged},
};
use crate::{
    Error, Result,
    bits::Bits,
    plan::{Order, Plan, Rest, Snapshot},
    serving::Spent,
};
use std::sync::Arc;

const MAGIC: &[u8; 4] = b"FODC";
const VERSION: u8 = 1;

pub(crate) use super::codec::sum;

/// The state of a job's epoch at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    snapshot: Snapshot,
    epoch: u64,
    order: Named,
    account: Account,
    base: Base,
}

/// A plan's order by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Named {
    Seed(u64),
    /// A list with this fingerprint.
    List(u64),
}

impl Checkpoint {
    pub(super) fn new(plan: &Plan, account: Account, base: Base) -> Self {
        let order = plan.seed().map_or_else(|| Named::List(plan.fingerprint()), Named::Seed);
        Self { snapshot: plan.snapshot(), epoch: plan.epoch(), order, account, base }
    }

    /// The epoch it is of.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// How many items the epoch has.
    pub fn planned(&self) -> u32 {
        self.account.consumed.bound()
    }

    /// How many of them were consumed.
    pub fn consumed(&self) -> u32 {
        self.account.consumed.count()
    }

    /// Whether its plan was a list, which it does not hold.
    pub fn is_of_a_list(&self) -> bool {
        matches!(self.order, Named::List(_))
    }

    /// The positions of the plan that are left.
    pub fn rest(&self) -> Rest {
        Rest::without(&self.account.consumed)
    }

    /// The substitutes that the epoch has seen.
    pub fn spent(&self) -> Spent {
        self.account.spent()
    }

    /// The plan it is of. A list has to be given again, and must be the same.
    pub fn plan(&self, ids: Option<Arc<[u32]>>) -> Result<Plan> {
        let order = match (self.order, ids) {
            (Named::Seed(seed), _) => Order::Seed(seed),
            (Named::List(_), Some(ids)) if ids.len() == self.planned() as usize => Order::Ids(ids),
            (Named::List(_), Some(ids)) => return Err(self.other_list(ids.len())),
            (Named::List(_), None) => {
                return Err(Error::Invalid(format!(
                    "the checkpoint is of a plan of {} listed ids, which it does not hold: send the same list with it",
                    self.planned()
                )));
            }
        };
        let plan = Plan::new(self.snapshot, self.epoch, order)?;
        match self.order {
            Named::List(fingerprint) if fingerprint != plan.fingerprint() => Err(self.other_list(plan.len() as usize)),
            _ => Ok(plan),
        }
    }

    fn other_list(&self, len: usize) -> Error {
        Error::Conflict(format!(
            "the {len} ids are not the {} ids that epoch {} of the checkpoint was planned with: send the same list",
            self.planned(),
            self.epoch
        ))
    }

    /// Takes over what other ranks of the same job have consumed, where each rank alone wrote its own slice.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        let same = (self.snapshot, self.epoch, self.order) == (other.snapshot, other.epoch, other.order)
            && self.base == other.base
            && self.planned() == other.planned();
        if !same {
            return Err(Error::Conflict(
                "the checkpoints are of different epochs or runs: merge those that ranks made of one epoch".into(),
            ));
        }
        self.account.merge(&other.account, self.base);
        Ok(())
    }

    pub(super) fn into_account(self) -> Account {
        self.account
    }

    /// As bytes: under a hundred, unless what was consumed is scattered.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.bytes(MAGIC);
        out.bytes(&[VERSION]);
        out.bytes(&self.snapshot.fingerprint.to_le_bytes());
        out.number(self.snapshot.items.into());
        out.number(self.epoch);
        let (listed, order) = match self.order {
            Named::Seed(seed) => (0, seed),
            Named::List(fingerprint) => (1, fingerprint),
        };
        out.number(listed);
        out.bytes(&order.to_le_bytes());
        out.number(self.planned().into());
        write_tally(&mut out, self.account.tally);
        write_tally(&mut out, self.base.tally);
        out.number(self.base.consumed.into());
        write_bits(&mut out, &self.account.consumed);
        out.number(self.account.stood_in.len() as u64);
        let mut before = 0;
        for (&id, &times) in &self.account.stood_in {
            out.number((id - before).into());
            out.number(times.into());
            before = id;
        }
        out.finish()
    }

    /// The snapshot that a checkpoint says it is of, so that it can be got; None if these bytes are none that can be read here.
    pub fn snapshot_of(bytes: &[u8]) -> Option<Snapshot> {
        bytes.strip_prefix(MAGIC)?.strip_prefix(&[VERSION])?;
        let mut input = Reader::new(bytes, MAGIC.len() + 1).ok()?;
        Some(Snapshot { fingerprint: input.word().ok()?, items: input.at_most(u32::MAX).ok()? })
    }

    /// From bytes, whatever they are. Memory is taken only for what the snapshot, which is known to be true, can need.
    pub fn decode(bytes: &[u8], snapshot: Snapshot) -> Result<Self> {
        let body =
            bytes.strip_prefix(MAGIC).ok_or_else(|| Error::Corrupt("this is not a checkpoint of Fodder".into()))?;
        match body.first() {
            Some(&VERSION) => {}
            Some(version) => {
                return Err(Error::Corrupt(format!(
                    "the checkpoint has format {version}, and this version of Fodder reads format {VERSION}: use the version that wrote it"
                )));
            }
            None => return Err(damaged()),
        }
        let mut input = Reader::new(bytes, MAGIC.len() + 1)?;
        let written = Snapshot { fingerprint: input.word()?, items: input.at_most(u32::MAX)? };
        if written != snapshot {
            return Err(Error::Conflict(format!(
                "the checkpoint is of a snapshot of {} items, and the dataset now has another one, of {} items: \
                 resume on the snapshot of the checkpoint, or begin the next epoch",
                written.items, snapshot.items
            )));
        }
        let checkpoint = Self::read(&mut input, snapshot)?;
        if input.left() == 0 { Ok(checkpoint) } else { Err(damaged()) }
    }

    /// A checkpoint of a snapshot whose part behind the snapshot is `rest`, with the right sum: for tests of hostile bytes,
    /// which would not come past the sum by chance.
    #[cfg(any(test, feature = "testing"))]
    pub fn sealed(snapshot: Snapshot, rest: &[u8]) -> Vec<u8> {
        let mut out = Writer::default();
        out.bytes(MAGIC);
        out.bytes(&[VERSION]);
        out.bytes(&snapshot.fingerprint.to_le_bytes());
        out.number(snapshot.items.into());
        out.bytes(rest);
        out.finish()
    }

    fn read(input: &mut Reader<'_>, snapshot: Snapshot) -> Result<Self> {
        let epoch = input.number()?;
        let order = match (input.number()?, input.word()?) {
            (0, seed) => Named::Seed(seed),
            (1, fingerprint) => Named::List(fingerprint),
            _ => return Err(damaged()),
        };
        let planned = input.at_most(snapshot.items)?;
        if matches!(order, Named::Seed(_)) && planned != snapshot.items {
            return Err(damaged());
        }
        let tally = read_tally(input)?;
        let base = Base { tally: read_tally(input)?, consumed: input.at_most(planned)? };
        let consumed = read_bits(input, planned)?;
        if base.consumed > consumed.count() {
            return Err(damaged());
        }
        let mut account = Account { consumed, tally, ..Account::new(0) };
        let mut id = 0u32;
        for _ in 0..input.at_most(snapshot.items)? {
            id =
                id.checked_add(input.at_most(snapshot.items)?).filter(|&id| id < snapshot.items).ok_or_else(damaged)?;
            let times = input.at_most(u32::MAX)?;
            if account.stood_in.insert(id, times).is_some() {
                return Err(damaged());
            }
        }
        Ok(Self { snapshot, epoch, order, account, base })
    }
}

fn write_tally(out: &mut Writer, tally: Tally) {
    let Tally { deliveries, duplicates, pads, substitutions, displacement_sum, displacement_max } = tally;
    for number in [deliveries, duplicates, pads, substitutions, displacement_sum, displacement_max] {
        out.number(number);
    }
}

fn read_tally(input: &mut Reader<'_>) -> Result<Tally> {
    Ok(Tally {
        deliveries: input.number()?,
        duplicates: input.number()?,
        pads: input.number()?,
        substitutions: input.number()?,
        displacement_sum: input.number()?,
        displacement_max: input.number()?,
    })
}

/// Lengths of runs: how many of them, then each, those of members first.
const RUNS: u64 = 0;
/// Words: the first that is given, how many are, then 8 bytes each.
const WORDS: u64 = 1;

pub(super) fn write_bits(out: &mut Writer, bits: &Bits) {
    let words = bits.words();
    let first = (bits.first_absent(0) / u64::BITS) as usize;
    let last = words.iter().rposition(|&word| word != 0).map_or(first, |last| last + 1).max(first);
    match runs(bits, (last - first) * size_of::<u64>()) {
        Some((count, runs)) => {
            out.number(RUNS);
            out.number(count);
            out.bytes(&runs);
        }
        None => {
            out.number(WORDS);
            out.number(first as u64);
            out.number((last - first) as u64);
            words[first..last].iter().for_each(|word| out.bytes(&word.to_le_bytes()));
        }
    }
}

/// The lengths of all runs up to the last member and how many they are, unless they take more bytes than `most`.
fn runs(bits: &Bits, most: usize) -> Option<(u64, Vec<u8>)> {
    let mut out = Writer::default();
    let (mut at, mut count) = (0, 0);
    loop {
        let end = bits.first_absent(at);
        out.number((end - at).into());
        count += 1;
        at = bits.first_present(end);
        if at == bits.bound() {
            // One number is always as short as anything.
            return (count == 1 || out.0.len() <= most).then_some((count, out.0));
        }
        if out.0.len() > most {
            return None;
        }
        out.number((at - end).into());
        count += 1;
    }
}

pub(super) fn read_bits(input: &mut Reader<'_>, bound: u32) -> Result<Bits> {
    let mut bits = Bits::new(bound);
    match input.number()? {
        RUNS => {
            let mut at = 0;
            for run in 0..input.number()? {
                let end = at + input.at_most(bound - at)?;
                if run % 2 == 0 {
                    bits.insert_range(at..end);
                }
                at = end;
            }
        }
        WORDS => {
            let words = bound.div_ceil(u64::BITS);
            let first = input.at_most(words)?;
            bits.insert_range(0..first.saturating_mul(u64::BITS).min(bound));
            for word in first..first + input.at_most(words - first)? {
                bits.insert_word(word, input.word()?).ok_or_else(damaged)?;
            }
        }
        _ => return Err(damaged()),
    }
    Ok(bits)
}

#[cfg(test)]
mod tests;
