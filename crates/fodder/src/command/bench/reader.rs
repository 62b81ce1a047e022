//! One reader of a directory: it goes on where it was when its turn comes again.

use super::{
    checksum::other_bytes,
    files::Files,
    histogram::Histogram,
    sums::{Sum, Sums},
};
use crate::cli::BenchReadArgs;
use anyhow::{Context, Result, bail};
use fodder_api::frames::{RunningChecksum, checksum};
use memmap2::Mmap;
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use std::{
    collections::{BTreeMap, btree_map::Entry},
    fs::File,
    io::{self, Read},
    os::unix::fs::FileExt,
    time::Instant,
};

/// Files that a reader keeps open.
const MAX_OPEN: usize = 64;

/// How a reader reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Chunk by chunk, one file after the other.
    Sequential,
    /// Chunks anywhere.
    Random,
    /// Whole files, opened and closed.
    Whole { random: bool },
}

/// A file that is kept open.
enum Open {
    File(File),
    Mapped(Mmap),
}

impl Open {
    fn new(file: File, mapped: bool) -> io::Result<Self> {
        if !mapped {
            return Ok(Self::File(file));
        }
        // SAFETY: the bytes are copied out and never relied on; a file cut short meanwhile ends the benchmark (SIGBUS).
        #[allow(unsafe_code, reason = "what a mapping gives is what is measured")]
        let map = unsafe { Mmap::map(&file)? };
        Ok(Self::Mapped(map))
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match self {
            Self::File(file) => file.read_at(buffer, offset),
            Self::Mapped(map) => {
                let from = map.get(offset as usize..).unwrap_or_default();
                let n = from.len().min(buffer.len());
                buffer[..n].copy_from_slice(&from[..n]);
                Ok(n)
            }
        }
    }
}

/// One reader, what it has measured, and where it is.
pub(super) struct Reader {
    way: Way,
    buffer: Vec<u8>,
    dice: SmallRng,
    open: BTreeMap<usize, Open>,
    mapped: bool,
    file: usize,
    offset: u64,
    pub(super) times: Histogram,
    pub(super) bytes: u64,
    /// What it has read, if that is to be compared.
    pub(super) sums: Option<Sums>,
}

impl Reader {
    /// One of many, who begin at different files.
    pub(super) fn new(number: usize, files: &Files, args: &BenchReadArgs) -> Self {
        let way = match (args.small, args.random) {
            (true, random) => Way::Whole { random },
            (false, true) => Way::Random,
            (false, false) => Way::Sequential,
        };
        let count = files.files.len();
        Self {
            way,
            buffer: vec![0; args.chunk as usize],
            dice: SmallRng::seed_from_u64(number as u64),
            open: BTreeMap::new(),
            mapped: args.mmap,
            file: number * count / args.readers as usize,
            offset: 0,
            times: Histogram::default(),
            bytes: 0,
            sums: args.checksum.then(|| Sums::new(args.readers)),
        }
    }

    /// Reads until it is time.
    pub(super) fn read_until(&mut self, files: &Files, end: Instant) -> Result<()> {
        loop {
            self.choose(files);
            let began = Instant::now();
            if began >= end {
                return Ok(());
            }
            let read = self.operation(files);
            let read = read.with_context(|| format!("cannot read {}", files.path(self.file).display()))?;
            self.times.add(began.elapsed());
            self.bytes += read.bytes;
            if self.sums.as_mut().is_some_and(|sums| !sums.keep(self.file, self.offset, read)) {
                bail!(other_bytes(&files.path(self.file), self.offset));
            }
            self.advance(files, read.bytes);
        }
    }

    /// Where the next operation is, for one who jumps.
    fn choose(&mut self, files: &Files) {
        if matches!(self.way, Way::Random | Way::Whole { random: true }) {
            self.file = self.dice.random_range(0..files.files.len());
        }
        if self.way == Way::Random {
            let chunks = files.files[self.file].1.div_ceil(self.buffer.len() as u64);
            self.offset = self.dice.random_range(0..chunks) * self.buffer.len() as u64;
        }
    }

    fn operation(&mut self, files: &Files) -> io::Result<Sum> {
        if let Way::Whole { .. } = self.way {
            return self.read_whole(files);
        }
        if self.open.len() >= MAX_OPEN && !self.open.contains_key(&self.file) {
            self.open.clear();
        }
        let file = match self.open.entry(self.file) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(place) => place.insert(Open::new(File::open(files.path(self.file))?, self.mapped)?),
        };
        let n = file.read_at(&mut self.buffer, self.offset)?;
        let crc = if self.sums.is_some() { checksum(&self.buffer[..n]) } else { 0 };
        Ok(Sum { bytes: n as u64, crc })
    }

    fn read_whole(&mut self, files: &Files) -> io::Result<Sum> {
        let mut file = File::open(files.path(self.file))?;
        let (mut bytes, mut sum) = (0, self.sums.as_ref().map(|_| RunningChecksum::of(&[])));
        loop {
            match file.read(&mut self.buffer)? {
                0 => return Ok(Sum { bytes, crc: sum.map_or(0, |sum| sum.value()) }),
                n => {
                    bytes += n as u64;
                    sum.iter_mut().for_each(|sum| sum.add(&self.buffer[..n]));
                }
            }
        }
    }

    /// Where the next operation is, for one who does not jump. A file that is shorter than it was ends where it ends.
    fn advance(&mut self, files: &Files, bytes: u64) {
        let end = self.offset + bytes;
        match self.way {
            Way::Random => {}
            Way::Sequential if bytes > 0 && end < files.files[self.file].1 => self.offset = end,
            Way::Sequential | Way::Whole { .. } => {
                self.open.remove(&self.file);
                self.file = (self.file + 1) % files.files.len();
                self.offset = 0;
            }
        }
    }
}
