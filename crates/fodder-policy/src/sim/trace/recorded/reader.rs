//! Reads what a [`Recorder`](super::Recorder) wrote, in parts of any length, and says where it is not that.

use super::{DATASET, Last, MAGIC, READ, READ_ALIKE, SCORES, VERSION};
use crate::{
    Error, Result,
    sim::trace::{Trace, builder::Builder},
};

const HEADER_BYTES: usize = MAGIC.len() + size_of::<u16>();
/// The longest name of a dataset that is believed.
const MAX_NAME_BYTES: u64 = 4096;
/// The most datasets that are believed.
const MAX_DATASETS: usize = 1 << 16;

/// Reads one dataset's part of a record.
#[derive(Debug)]
pub(in crate::sim::trace) struct Reader {
    /// Which dataset is wanted. None wants the only one.
    wanted: Option<String>,
    datasets: Vec<Dataset>,
    records: u64,
    offset: u64,
}

#[derive(Debug)]
struct Dataset {
    name: String,
    last: Last,
    trace: Builder,
}

/// What a record says.
enum Record<'a> {
    Dataset { name: &'a str },
    Read { dataset: usize, read: Last },
    Scores { dataset: usize, scores: &'a [[u8; 4]] },
}

/// Why no record could be read.
enum Stop {
    /// It goes on in the next part.
    Incomplete,
    /// It is none.
    Junk(String),
}

impl Reader {
    pub(in crate::sim::trace) fn new(wanted: Option<String>) -> Self {
        Self { wanted, datasets: Vec::new(), records: 0, offset: 0 }
    }

    /// Reads the whole records in `bytes`; how many bytes they are. The next part begins with those left over.
    pub(in crate::sim::trace) fn feed(&mut self, bytes: &[u8]) -> Result<usize> {
        let mut rest = Bytes(bytes);
        if self.offset == 0 {
            let Ok(header) = rest.take(HEADER_BYTES as u64) else { return Ok(0) };
            check_header(header)?;
            self.offset = HEADER_BYTES as u64;
        }
        loop {
            let mut after = Bytes(rest.0);
            match self.parse(&mut after) {
                Ok(record) => self.apply(record),
                Err(Stop::Incomplete) => return Ok(bytes.len() - rest.0.len()),
                Err(Stop::Junk(message)) => return Err(self.junk(&message)),
            }
            self.offset += (rest.0.len() - after.0.len()) as u64;
            self.records += 1;
            rest = after;
        }
    }

    /// The trace of the wanted dataset.
    pub(in crate::sim::trace) fn finish(mut self) -> Result<Trace> {
        let names: Vec<&str> = self.datasets.iter().map(|dataset| &*dataset.name).collect();
        let found = match &self.wanted {
            Some(wanted) => names.iter().position(|name| name == wanted),
            None => (names.len() == 1).then_some(0),
        };
        match found {
            Some(found) => Ok(self.datasets.swap_remove(found).trace.build()),
            None if names.is_empty() => Err(Error::Invalid("the recording is empty: no dataset was read".into())),
            None => Err(Error::Invalid(match &self.wanted {
                Some(wanted) => format!("the recording has no dataset {wanted:?}, but {}", names.join(", ")),
                None => format!("the recording has several datasets: choose one of {}", names.join(", ")),
            })),
        }
    }

    fn junk(&self, message: &str) -> Error {
        Error::Corrupt(format!("record {} (at byte {}) {message}", self.records + 1, self.offset))
    }

    fn parse<'a>(&self, bytes: &mut Bytes<'a>) -> Result<Record<'a>, Stop> {
        let head = bytes.varint()?;
        let (number, kind) = (head >> 3, head & 7);
        if kind == DATASET {
            if number != self.datasets.len() as u64 || self.datasets.len() == MAX_DATASETS {
                return Err(Stop::Junk(format!("introduces dataset {number} out of turn")));
            }
            return Ok(Record::Dataset { name: bytes.name()? });
        }
        let dataset = number as usize;
        let Some(last) = self.datasets.get(dataset).map(|dataset| dataset.last) else {
            return Err(Stop::Junk(format!("speaks of dataset {number}, which was not introduced")));
        };
        match kind {
            READ | READ_ALIKE => {
                let _wait = bytes.varint()?;
                let id = unzigzag(bytes.varint()?).checked_add(i64::from(last.id));
                let id = id.and_then(|id| u32::try_from(id).ok()).filter(|&id| id < u32::MAX);
                let size = if kind == READ { bytes.varint()? } else { u64::from(last.bytes) };
                match (id, u32::try_from(size)) {
                    (Some(id), Ok(bytes)) => Ok(Record::Read { dataset, read: Last { id, bytes } }),
                    _ => Err(Stop::Junk("reads a piece that cannot be".into())),
                }
            }
            SCORES => {
                let count = bytes.varint()?;
                let scores = bytes.take(count.saturating_mul(4))?.as_chunks().0;
                Ok(Record::Scores { dataset, scores })
            }
            _ => Err(Stop::Junk(format!("is of the kind {kind}, which does not exist"))),
        }
    }

    fn apply(&mut self, record: Record<'_>) {
        match record {
            Record::Dataset { name } => {
                self.datasets.push(Dataset { name: name.into(), last: Last::default(), trace: Builder::default() })
            }
            Record::Read { dataset, read } => {
                let dataset = &mut self.datasets[dataset];
                dataset.last = read;
                dataset.trace.request(u64::from(read.id), Some(read.bytes));
            }
            Record::Scores { dataset, scores } => {
                let scores = scores.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
                self.datasets[dataset].trace.scores(scores);
            }
        }
    }
}

fn check_header(header: &[u8]) -> Result<()> {
    let (magic, version) = header.split_at(MAGIC.len());
    let version = u16::from_le_bytes([version[0], version[1]]);
    if magic != MAGIC {
        return Err(Error::Invalid("this is not a recording of Fodder".into()));
    }
    if version != VERSION {
        return Err(Error::Invalid(format!(
            "the recording has version {version}, and this version of Fodder reads version {VERSION}: use the version that wrote it"
        )));
    }
    Ok(())
}

/// Bytes yet to be read.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: u64) -> Result<&'a [u8], Stop> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Stop::Incomplete)?;
        self.0 = rest;
        Ok(taken)
    }

    fn varint(&mut self) -> Result<u64, Stop> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.take(1)?[0];
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Stop::Junk("has a number without an end".into()))
    }

    fn name(&mut self) -> Result<&'a str, Stop> {
        let count = self.varint()?;
        if count > MAX_NAME_BYTES {
            return Err(Stop::Junk(format!("names a dataset with {count} bytes")));
        }
        str::from_utf8(self.take(count)?).map_err(|_| Stop::Junk("names a dataset with bytes that are no text".into()))
    }
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}
