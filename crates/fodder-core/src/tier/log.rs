//! The index log of a tier: which pieces of which files are durable, and their checksums.
//!
//! An append-only file of groups, each with a length, a sequence number and a CRC that also covers the tier's identity.
//! Replay ends at the first group that is not whole. It knows bytes and records, not shelves, and nothing of when to commit.
//! docs/decisions/0002-tier-files.md has the format.

mod record;
mod replay;

pub(super) use record::{PIECE_RECORD, Record};
pub(super) use replay::{Dataset, Found, FoundFiles, Replay, number};

use crate::{Error, Result};
use rustix::fs::Mode;
use std::{
    fs::{File, OpenOptions},
    io::{ErrorKind, Read, Write},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

const MAGIC: [u8; 8] = *b"FODDERTI";
/// Raised whenever an older Fodder would misread what is written.
const VERSION: u32 = 2;
const HEADER: usize = 32;
const GROUP_HEADER: usize = 16;
/// No group is longer; a length beyond it is damage.
const LONGEST_GROUP: usize = 64 << 20;

/// A group that is so long is ended, long before it would be taken for damage.
const FULL_GROUP: usize = 256 << 10;

/// The log, open for appending.
#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    file: File,
    uuid: [u8; 16],
    next: u64,
    len: u64,
    /// MEM tiers vanish with the power: nothing is synced.
    durable: bool,
}

impl Log {
    /// Opens the log and replays it. A log that is missing, older or not one is made anew, and `Replay::fresh` is set:
    /// no file of the tier means anything then.
    pub(super) fn open(path: &Path, durable: bool) -> Result<(Self, Replay)> {
        // A compaction that did not end.
        let _ = std::fs::remove_file(temporary(path));
        let mut file = match OpenOptions::new().read(true).write(true).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Self::fresh(path, durable),
            Err(error) => return Err(Error::io("open", path, &error)),
        };
        let mut header = [0; HEADER];
        match file.read_exact(&mut header) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Self::fresh(path, durable),
            Err(error) => return Err(Error::io("read", path, &error)),
        }
        let version = u32::from_le_bytes(array(&header[8..12]));
        if header[..8] == MAGIC && version > VERSION {
            return Err(Error::Invalid(format!(
                "{} was written by a newer Fodder (index format {version}, this one knows {VERSION}): use that version, \
                 or remove the tier's directory to start with an empty cache",
                path.display()
            )));
        }
        if header[..8] != MAGIC || version != VERSION || header[28..32] != crc(&[&header[..28]]).to_le_bytes() {
            tracing::warn!(path = %path.display(), "the tier's index has an older format or is damaged: starting with an empty tier");
            return Self::fresh(path, durable);
        }
        let uuid = array(&header[12..28]);
        let (replay, len, next) =
            replay::replay(&file, HEADER as u64, &uuid).map_err(|error| Error::io("read", path, &error))?;
        let on_disk = file.metadata().map_err(|error| Error::io("read", path, &error))?.len();
        if on_disk > len {
            tracing::info!(path = %path.display(), cut_bytes = on_disk - len, "removed an incomplete record from the end of the tier's index");
            file.set_len(len).map_err(|error| Error::io("cut the end off", path, &error))?;
        }
        Ok((Self { path: path.to_owned(), file, uuid, next, len, durable }, replay))
    }

    fn fresh(path: &Path, durable: bool) -> Result<(Self, Replay)> {
        let log = Self::create(path, durable, rand::random()).map_err(|error| Error::io("write", path, &error))?;
        Ok((log.install()?, Replay { fresh: true, ..Replay::default() }))
    }

    /// A new log beside this one, which takes its place with [`Log::install`].
    pub(super) fn successor(&self) -> std::io::Result<Self> {
        Self::create(&self.path, self.durable, self.uuid)
    }

    fn create(path: &Path, durable: bool, uuid: [u8; 16]) -> std::io::Result<Self> {
        let mut header = [0; HEADER];
        header[..8].copy_from_slice(&MAGIC);
        header[8..12].copy_from_slice(&VERSION.to_le_bytes());
        header[12..28].copy_from_slice(&uuid);
        let check = crc(&[&header[..28]]).to_le_bytes();
        header[28..].copy_from_slice(&check);
        let mode = Mode::RUSR.union(Mode::WUSR).as_raw_mode();
        let temporary = temporary(path);
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(true).mode(mode).open(temporary)?;
        file.write_all(&header)?;
        Ok(Self { path: path.to_owned(), file, uuid, next: 0, len: HEADER as u64, durable })
    }

    /// Makes a new log the tier's log: synced, renamed, directory synced.
    pub(super) fn install(self) -> Result<Self> {
        let install = || {
            self.sync()?;
            std::fs::rename(temporary(&self.path), &self.path)?;
            match self.path.parent() {
                Some(directory) if self.durable => File::open(directory)?.sync_all(),
                _ => Ok(()),
            }
        };
        install().map_err(|error| Error::io("replace", &self.path, &error))?;
        Ok(self)
    }

    /// Appends one group. On failure the log is as it was before, or the error says that it could not be mended.
    fn append(&mut self, payload: &[u8]) -> std::io::Result<()> {
        let mut group = Vec::with_capacity(GROUP_HEADER + payload.len());
        group.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        group.extend_from_slice(&group_crc(&self.uuid, self.next, payload).to_le_bytes());
        group.extend_from_slice(&self.next.to_le_bytes());
        group.extend_from_slice(payload);
        if let Err(error) = self.file.write_all_at(&group, self.len) {
            // Whatever part arrived is cut off; were that to fail too, replay would find it torn and cut it then.
            let _ = self.file.set_len(self.len);
            return Err(error);
        }
        self.len += group.len() as u64;
        self.next += 1;
        Ok(())
    }

    /// Begins to append records, in as many groups as they need.
    pub(super) fn groups(&mut self) -> Groups<'_> {
        Groups { log: self, payload: Vec::new(), outcome: Ok(()) }
    }

    /// Makes what was appended durable.
    pub(super) fn sync(&self) -> std::io::Result<()> {
        if self.durable { self.file.sync_data() } else { Ok(()) }
    }

    /// Bytes of the file.
    pub(super) fn len(&self) -> u64 {
        self.len
    }
}

/// Records that are being appended. After a failure those that come are left out.
#[derive(Debug)]
pub(super) struct Groups<'a> {
    log: &'a mut Log,
    payload: Vec<u8>,
    outcome: std::io::Result<()>,
}

impl Groups<'_> {
    pub(super) fn push(&mut self, record: &Record) {
        if self.outcome.is_ok() {
            record.encode(&mut self.payload);
            if self.payload.len() >= FULL_GROUP {
                self.end_group();
            }
        }
    }

    /// Ends the last group. On failure the first ones may be in the log.
    pub(super) fn finish(mut self) -> std::io::Result<()> {
        if self.outcome.is_ok() && !self.payload.is_empty() {
            self.end_group();
        }
        self.outcome
    }

    fn end_group(&mut self) {
        self.outcome = self.log.append(&self.payload);
        self.payload.clear();
    }
}

fn temporary(path: &Path) -> PathBuf {
    path.with_extension("new")
}

fn group_crc(uuid: &[u8; 16], sequence: u64, payload: &[u8]) -> u32 {
    crc(&[uuid, &sequence.to_le_bytes(), &(payload.len() as u32).to_le_bytes(), payload])
}

fn crc(parts: &[&[u8]]) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    parts.iter().for_each(|part| digest.update(part));
    digest.finalize() as u32
}

/// The first bytes of a slice whose length the caller has checked.
fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes[..N].try_into().expect("the slice was cut to this length")
}

#[cfg(test)]
mod tests;
