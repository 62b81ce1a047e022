//! The container of every catalog file: a header, then sections, each with its checksum.
//!
//! A file is written whole under a temporary name, synced, and renamed; then it is only ever mapped for reading or
//! unlinked. Knows nothing of what is in a section.
//!
//! ```text
//! magic 8 | format u32 | kind u32 | crc u32                  the prelude: the same in every format, past and future
//! file length u64 | 16 × (id u32, crc u32, start u64, length u64) | crc u32
//! sections, one behind the other | 8 zero bytes
//! ```

use crate::{Error, Result};
use memmap2::Mmap;
use std::{
    fs::{self, File},
    io::{self, BufWriter, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

const MAGIC: [u8; 8] = *b"FODDERCT";
/// The format this code writes and reads.
const FORMAT: u32 = 4;
const PRELUDE: usize = 20;
const MAX_SECTIONS: usize = 16;
const TABLE: usize = 8 + MAX_SECTIONS * 24;
const HEADER: usize = PRELUDE + TABLE + 4;
/// Zero bytes behind the last section, so that eight bytes may be read at any byte of a section.
const TAIL: usize = 8;

/// What a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Manifest = 1,
    Segment = 2,
    Snapshot = 3,
}

/// Why a file cannot be used.
#[derive(Debug)]
pub(super) enum Unusable {
    /// It is missing, damaged or of an older format: build anew.
    Rebuild(String),
    /// Something a rebuild would not mend.
    Fail(Error),
}

impl From<Error> for Unusable {
    fn from(error: Error) -> Self {
        Self::Fail(error)
    }
}

pub(super) fn crc(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// A file on its way: sections are written one after the other.
pub(super) struct FileWriter {
    out: BufWriter<File>,
    path: PathBuf,
    temporary: PathBuf,
    kind: Kind,
    table: Vec<(u32, u32, u64, u64)>,
    at: u64,
}

impl FileWriter {
    pub(super) fn create(path: &Path, kind: Kind) -> Result<Self> {
        let temporary = path.with_extension("tmp");
        let file = File::create(&temporary).map_err(|error| Error::io("create", &temporary, &error))?;
        let mut writer = Self {
            out: BufWriter::with_capacity(1 << 20, file),
            path: path.to_owned(),
            temporary,
            kind,
            table: Vec::new(),
            at: HEADER as u64,
        };
        writer.raw(&[0; HEADER])?;
        Ok(writer)
    }

    fn raw(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).map_err(|error| Error::io("write", &self.temporary, &error))
    }

    /// Writes one section: everything `fill` writes.
    pub(super) fn section<T>(&mut self, id: u32, fill: impl FnOnce(&mut Summed<'_>) -> Result<T>) -> Result<T> {
        let mut summed = Summed {
            out: &mut self.out,
            digest: crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi),
            length: 0,
            path: &self.temporary,
        };
        let value = fill(&mut summed)?;
        let (crc, length) = (summed.digest.finalize() as u32, summed.length);
        self.table.push((id, crc, self.at, length));
        self.at += length;
        Ok(value)
    }

    /// Makes the file durable and gives it its name.
    pub(super) fn finish(mut self) -> Result<()> {
        assert!(self.table.len() <= MAX_SECTIONS, "the table holds all sections");
        self.raw(&[0; TAIL])?;
        let header = self.header();
        let written = self.out.flush().and_then(|()| {
            let file = self.out.get_mut();
            file.seek(SeekFrom::Start(0))?;
            file.write_all(&header)?;
            file.sync_all()
        });
        written.map_err(|error| Error::io("write", &self.temporary, &error))?;
        fs::rename(&self.temporary, &self.path).map_err(|error| Error::io("rename to", &self.path, &error))?;
        sync_dir(self.path.parent().unwrap_or(Path::new(".")))
    }

    fn header(&self) -> Vec<u8> {
        let mut header = Vec::with_capacity(HEADER);
        header.extend_from_slice(&MAGIC);
        header.extend_from_slice(&FORMAT.to_le_bytes());
        header.extend_from_slice(&(self.kind as u32).to_le_bytes());
        header.extend_from_slice(&crc(&header).to_le_bytes());
        header.extend_from_slice(&(self.at + TAIL as u64).to_le_bytes());
        for (id, crc, start, length) in &self.table {
            header.extend_from_slice(&id.to_le_bytes());
            header.extend_from_slice(&crc.to_le_bytes());
            header.extend_from_slice(&start.to_le_bytes());
            header.extend_from_slice(&length.to_le_bytes());
        }
        header.resize(PRELUDE + TABLE, 0);
        header.extend_from_slice(&crc(&header[PRELUDE..]).to_le_bytes());
        header
    }
}

/// A failed or abandoned write leaves no file behind. (After `finish` the name is gone, and this does nothing.)
impl Drop for FileWriter {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.temporary);
    }
}

/// Makes renames and unlinks in a directory durable.
pub(super) fn sync_dir(dir: &Path) -> Result<()> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(|error| Error::io("sync", dir, &error))
}

/// The section being written: sums what passes.
pub(super) struct Summed<'a> {
    out: &'a mut BufWriter<File>,
    digest: crc_fast::Digest,
    length: u64,
    path: &'a Path,
}

impl Summed<'_> {
    pub(super) fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.digest.update(bytes);
        self.length += bytes.len() as u64;
        self.out.write_all(bytes).map_err(|error| Error::io("write", self.path, &error))
    }

    /// How many bytes the section has so far.
    pub(super) fn length(&self) -> u64 {
        self.length
    }
}

/// A published file, mapped and checked.
#[derive(Debug)]
pub(super) struct MappedFile {
    map: Mmap,
    sections: Vec<(u32, usize, usize)>,
}

impl MappedFile {
    pub(super) fn open(path: &Path, kind: Kind) -> Result<Arc<Self>, Unusable> {
        let file = File::open(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Unusable::Rebuild(format!("{} is missing", path.display())),
            _ => Unusable::Fail(Error::io("open", path, &error)),
        })?;
        let map = map(&file).map_err(|error| Error::io("map", path, &error))?;
        check_prelude(&map, kind, path)?;
        let sections = check_sections(&map)
            .ok_or_else(|| Unusable::Rebuild(format!("{} is damaged: a checksum does not match", path.display())))?;
        Ok(Arc::new(Self { map, sections }))
    }

    /// A section by its id; an empty one if the file has none of that id.
    pub(super) fn section(self: &Arc<Self>, id: u32) -> Section {
        let found = self.sections.iter().find(|section| section.0 == id);
        let (start, length) = found.map_or((HEADER, 0), |(_, start, length)| (*start, *length));
        Section { file: self.clone(), start, length }
    }

    /// How large the file is: all of it may be resident.
    pub(super) fn len(&self) -> usize {
        self.map.len()
    }
}

#[allow(unsafe_code, reason = "mapping a file is the point: 100 million items must not be on the heap")]
fn map(file: &File) -> io::Result<Mmap> {
    // SAFETY: a map is undefined only if the file changes under it. A catalog file is written under another name and
    // renamed when it is complete; from then on Fodder only ever unlinks it, which leaves mapped pages as they are. The
    // directory is 0700 and locked by one node. Checksums are verified after mapping, before anything is believed.
    unsafe { Mmap::map(file) }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn check_prelude(bytes: &[u8], kind: Kind, path: &Path) -> Result<(), Unusable> {
    let rebuild = |what: &str| Err(Unusable::Rebuild(format!("{} {what}", path.display())));
    if bytes.len() < PRELUDE || bytes[..8] != MAGIC || u32_at(bytes, 16) != crc(&bytes[..16]) {
        return rebuild("is damaged, or is not a catalog file");
    }
    match u32_at(bytes, 8) {
        FORMAT if u32_at(bytes, 12) == kind as u32 => Ok(()),
        FORMAT => rebuild("does not contain what its name says"),
        older if older < FORMAT => rebuild(&format!("has the older format {older}")),
        newer => Err(Unusable::Fail(Error::Conflict(format!(
            "{} was written by a newer version of Fodder (format {newer}; this version reads {FORMAT}): use that version, or remove the directory {} to rebuild it",
            path.display(),
            path.parent().unwrap_or(Path::new(".")).display()
        )))),
    }
}

/// The sections (id, start, length), if every checksum holds.
fn check_sections(bytes: &[u8]) -> Option<Vec<(u32, usize, usize)>> {
    let table = bytes.get(PRELUDE..PRELUDE + TABLE)?;
    let sum = bytes.get(PRELUDE + TABLE..HEADER)?;
    if u32_at(sum, 0) != crc(table) || u64_at(table, 0) != bytes.len() as u64 {
        return None;
    }
    let mut sections = Vec::new();
    for entry in table[8..].chunks_exact(24).filter(|entry| u32_at(entry, 0) != 0) {
        let start = usize::try_from(u64_at(entry, 8)).ok()?;
        let length = usize::try_from(u64_at(entry, 16)).ok()?;
        let end = start.checked_add(length)?;
        if end.checked_add(TAIL)? > bytes.len() || u32_at(entry, 4) != crc(&bytes[start..end]) {
            return None;
        }
        sections.push((u32_at(entry, 0), start, length));
    }
    Some(sections)
}

/// Bytes of a mapped file.
#[derive(Debug, Clone)]
pub(super) struct Section {
    file: Arc<MappedFile>,
    start: usize,
    length: usize,
}

impl Section {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.file.map[self.start..self.start + self.length]
    }

    /// The bytes with [`TAIL`] more behind them, whatever those are.
    pub(super) fn padded(&self) -> &[u8] {
        &self.file.map[self.start..self.start + self.length + TAIL]
    }

    pub(super) fn len(&self) -> usize {
        self.length
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn write(path: &Path) {
        let mut writer = FileWriter::create(path, Kind::Segment).unwrap();
        writer.section(7, |out| out.put(b"seven")).unwrap();
        writer.section(9, |out| out.put(b"")).unwrap();
        writer.finish().unwrap();
    }

    #[test]
    fn sections_come_back_as_they_were_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f.cat");
        write(&path);
        let file = MappedFile::open(&path, Kind::Segment).unwrap();
        assert_eq!(file.section(7).bytes(), b"seven");
        assert_eq!((file.section(9).len(), file.section(8).len()), (0, 0));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file stays");
    }

    #[test]
    fn an_abandoned_file_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        drop(FileWriter::create(&dir.path().join("f.cat"), Kind::Segment).unwrap());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_newer_format_is_refused_and_an_older_one_rebuilt() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f.cat");
        write(&path);
        let with_format = |format: u32| {
            let mut bytes = fs::read(&path).unwrap();
            bytes[8..12].copy_from_slice(&format.to_le_bytes());
            let sum = crc(&bytes[..16]).to_le_bytes();
            bytes[16..20].copy_from_slice(&sum);
            let other = dir.path().join("other.cat");
            fs::write(&other, bytes).unwrap();
            MappedFile::open(&other, Kind::Segment).unwrap_err()
        };
        assert!(matches!(with_format(0), Unusable::Rebuild(_)));
        let newer = with_format(FORMAT + 1);
        assert!(
            matches!(&newer, Unusable::Fail(Error::Conflict(text)) if text.contains("newer version of Fodder")),
            "{newer:?}"
        );
    }

    #[test]
    fn a_truncated_file_is_rebuilt() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f.cat");
        write(&path);
        let bytes = fs::read(&path).unwrap();
        for length in 0..bytes.len() {
            fs::write(&path, &bytes[..length]).unwrap();
            assert!(matches!(MappedFile::open(&path, Kind::Segment), Err(Unusable::Rebuild(_))), "{length}");
        }
    }
}
