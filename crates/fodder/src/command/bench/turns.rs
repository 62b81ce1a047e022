//! The sides take turns: in short slices, so that what else happens on the machine happens to both.

use super::{files::Files, histogram::Histogram, reader::Reader, sums::Sums};
use crate::cli::BenchReadArgs;
use anyhow::{Result, bail};
use std::{
    thread,
    time::{Duration, Instant},
};

/// How long a turn is at most; a run has at least [`MIN_TURNS`] for each side.
const SLICE: Duration = Duration::from_millis(250);
const MIN_TURNS: u32 = 4;

/// One directory, its readers, and how long they have read.
pub(super) struct Side {
    pub(super) files: Files,
    readers: Vec<Reader>,
    pub(super) elapsed: Duration,
}

impl Side {
    pub(super) fn new(files: Files, args: &BenchReadArgs) -> Self {
        let readers = (0..args.readers as usize).map(|number| Reader::new(number, &files, args)).collect();
        Self { files, readers, elapsed: Duration::ZERO }
    }

    /// All its readers read for a while.
    fn turn(&mut self, slice: Duration) -> Result<()> {
        let (files, readers) = (&self.files, &mut self.readers);
        let began = Instant::now();
        let outcomes: Vec<Result<()>> = thread::scope(|scope| {
            let reading: Vec<_> =
                readers.iter_mut().map(|reader| scope.spawn(|| reader.read_until(files, began + slice))).collect();
            reading.into_iter().map(|thread| thread.join().expect("a reader does not panic")).collect()
        });
        self.elapsed += began.elapsed();
        outcomes.into_iter().collect()
    }

    /// How long each operation took.
    pub(super) fn times(&self) -> Histogram {
        let mut times = Histogram::default();
        self.readers.iter().for_each(|reader| times.merge(&reader.times));
        times
    }

    /// The bytes that were read.
    pub(super) fn bytes(&self) -> u64 {
        self.readers.iter().map(|reader| reader.bytes).sum()
    }

    /// What was read, if it is to be compared.
    pub(super) fn sums(&self) -> impl Iterator<Item = &Sums> {
        self.readers.iter().filter_map(|reader| reader.sums.as_ref())
    }
}

/// Lets the sides read, each for an equal part of the time. Who begins changes from round to round. An error if a side had no time
/// to read anything.
pub(super) fn take(sides: &mut [Side], args: &BenchReadArgs) -> Result<()> {
    let each = args.duration / sides.len() as u32;
    let slice = SLICE.min(each / MIN_TURNS);
    let rounds = (each.as_secs_f64() / slice.as_secs_f64().max(1e-9)).round().max(1.0) as usize;
    for round in 0..rounds {
        for n in 0..sides.len() {
            let side = if round % 2 == 0 { n } else { sides.len() - 1 - n };
            sides[side].turn(slice)?;
        }
    }
    if let Some(side) = sides.iter().find(|side| side.times().len() == 0) {
        let (dir, duration) = (side.files.root.display(), humantime::format_duration(args.duration));
        bail!("nothing of {dir} was read in {duration}: give a longer --duration");
    }
    Ok(())
}
