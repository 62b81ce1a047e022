//! `tar`: WebDataset shards. Consecutive files with the same key are one sample.
//!
//! The key is the path up to the first dot of the file's name. An item is everything from the first file's header
//! (with the long-name and pax blocks before it) to the end of the last file's data, padded: itself a tar without an end.

mod header;
#[cfg(test)]
pub(super) mod tests;

use super::shard::{Fault, ShardParser, Want, guess};
use crate::catalog::record::{Record, RecordList};
use header::{BLOCK, Header, Kind, Overrides};

/// The most that the long name or the pax header of a member may have.
const MAX_EXTENSION: u64 = 1 << 20;
/// The most that a file may have whose content is a label.
const MAX_LABEL: u64 = 32;

/// Finds the samples of one tar archive.
#[derive(Debug)]
pub(crate) struct TarParser {
    size: u64,
    /// Where the next header is.
    at: u64,
    reading: Reading,
    /// Where the blocks begin that belong to the next member, if there are any before its header.
    member: Option<u64>,
    next: Overrides,
    global: Overrides,
    sample: Option<Sample>,
    samples: u64,
}

/// What the wanted bytes are.
#[derive(Debug, Clone, Copy)]
enum Reading {
    Header,
    /// The data of a long name or pax header; `at` is already behind it.
    Extension {
        kind: Kind,
        from: u64,
        length: usize,
    },
    /// A further block of the map of a sparse file, whose data has so many bytes; whether it belongs to the sample.
    SparseMap {
        size: u64,
        belongs: bool,
    },
    /// A label; `at` is already behind it.
    Label {
        from: u64,
        length: usize,
    },
    Nothing,
}

#[derive(Debug)]
struct Sample {
    key: Vec<u8>,
    start: u64,
    end: u64,
    label: Option<u32>,
}

impl TarParser {
    pub(crate) fn new(size: u64) -> Self {
        Self {
            size,
            at: 0,
            reading: if size == 0 { Reading::Nothing } else { Reading::Header },
            member: None,
            next: Overrides::default(),
            global: Overrides::default(),
            sample: None,
            samples: 0,
        }
    }

    /// A fault behind the sample that is open.
    fn fault(&self, offset: u64, what: impl Into<String>) -> Fault {
        Fault { record: self.samples + u64::from(self.sample.is_some()), offset, what: what.into() }
    }

    /// A fault in a member at `offset`; `belongs`: of the sample that is open.
    fn fault_in(&self, belongs: bool, offset: u64, what: impl Into<String>) -> Fault {
        Fault { record: self.samples + u64::from(self.sample.is_some() && !belongs), offset, what: what.into() }
    }

    fn finish_sample(&mut self, records: &mut RecordList) {
        if let Some(Sample { key, start, end, label }) = self.sample.take() {
            records.push(Record { start, length: end - start, label, key: &key });
            self.samples += 1;
        }
    }

    fn end(&mut self, records: &mut RecordList) -> Result<(), Fault> {
        if self.member.is_some() {
            return Err(self.fault(self.at, "the archive ends before the member of a long name: it is truncated"));
        }
        self.finish_sample(records);
        self.reading = Reading::Nothing;
        Ok(())
    }

    /// Goes on behind `size` bytes of a member's data, which begin at `from`; says where they end, padded.
    fn skip(&mut self, from: u64, size: u64, belongs: bool) -> Result<u64, Fault> {
        let data_end = from.checked_add(size).filter(|end| *end <= self.size);
        let data_end = data_end.ok_or_else(|| {
            let what = format!("the archive ends before the {size} bytes of this member: it is truncated");
            self.fault_in(belongs, self.at, what)
        })?;
        // An archive may end without the padding of its last member.
        self.at = data_end.next_multiple_of(BLOCK as u64).min(self.size);
        Ok(self.at)
    }

    fn header(&mut self, block: &[u8], records: &mut RecordList) -> Result<(), Fault> {
        let Some(block) = block.first_chunk::<BLOCK>() else {
            return match block.iter().all(|byte| *byte == 0) {
                true => self.end(records),
                false => Err(self.fault(self.at, "the archive ends inside a header: it is truncated")),
            };
        };
        if block.iter().all(|byte| *byte == 0) {
            return self.end(records);
        }
        let header = Header::parse(block)
            .map_err(|what| self.fault(self.at, format!("{what}{}", if self.at == 0 { guess(block) } else { "" })))?;
        let (start, data) = (self.at, self.at + BLOCK as u64);
        match header.kind {
            kind @ (Kind::LongName | Kind::Pax | Kind::PaxGlobal) => {
                if header.size > MAX_EXTENSION {
                    return Err(self.fault(start, format!("a header of {} bytes is too long", header.size)));
                }
                self.skip(data, header.size, false)?;
                if kind != Kind::PaxGlobal {
                    self.member.get_or_insert(start);
                }
                self.reading = Reading::Extension { kind, from: data, length: header.size as usize };
                Ok(())
            }
            Kind::Other if block[156] == b'K' => {
                self.member.get_or_insert(start);
                self.skip(data, header.size, false).map(|_| ())
            }
            _ => self.member(header, data, records),
        }
    }

    /// A member whose header, with all that belongs to it, is known.
    fn member(&mut self, header: Header, data: u64, records: &mut RecordList) -> Result<(), Fault> {
        let start = self.member.take().unwrap_or(self.at);
        let next = std::mem::take(&mut self.next);
        let size = next.size.or(self.global.size).unwrap_or(header.size);
        match header.kind {
            Kind::File | Kind::Sparse(_) => {}
            Kind::Bare => return self.skip(data, 0, false).map(|_| ()),
            _ => return self.skip(data, size, false).map(|_| ()),
        }
        let name = next.name.or_else(|| self.global.name.clone()).unwrap_or(header.name);
        let key = split_key(&name).filter(|_| !is_meta(&name));
        if let Some((key, _)) = key
            && self.sample.as_ref().is_none_or(|sample| sample.key != key)
        {
            self.finish_sample(records);
            self.sample = Some(Sample { key: key.to_vec(), start, end: start, label: None });
        }
        let belongs = key.is_some();
        if header.kind == Kind::Sparse(true) {
            self.at = data;
            self.reading = Reading::SparseMap { size, belongs };
            return Ok(());
        }
        let end = self.skip(data, size, belongs)?;
        if let Some((_, suffix)) = key {
            self.extend_sample(end);
            if suffix.eq_ignore_ascii_case(b"cls") && (1..=MAX_LABEL).contains(&size) {
                self.reading = Reading::Label { from: data, length: size as usize };
            }
        }
        Ok(())
    }

    fn sparse_map(&mut self, block: &[u8], size: u64, belongs: bool) -> Result<(), Fault> {
        if block.len() < BLOCK {
            let what = "the archive ends inside the map of a sparse file: it is truncated";
            return Err(self.fault_in(belongs, self.at, what));
        }
        self.at += BLOCK as u64;
        if block[504] != 0 {
            self.reading = Reading::SparseMap { size, belongs };
            return Ok(());
        }
        let end = self.skip(self.at, size, belongs)?;
        if belongs {
            self.extend_sample(end);
        }
        Ok(())
    }

    fn extend_sample(&mut self, end: u64) {
        if let Some(sample) = &mut self.sample {
            sample.end = end;
        }
    }
}

impl ShardParser for TarParser {
    fn want(&self) -> Want {
        match self.reading {
            Reading::Nothing => Want::End,
            Reading::Header | Reading::SparseMap { .. } => {
                Want::Bytes { at: self.at, length: (self.size - self.at).min(BLOCK as u64) as usize }
            }
            Reading::Extension { from, length, .. } | Reading::Label { from, length } => {
                Want::Bytes { at: from, length }
            }
        }
    }

    fn give(&mut self, bytes: &[u8], records: &mut RecordList) -> Result<(), Fault> {
        match std::mem::replace(&mut self.reading, Reading::Header) {
            Reading::Nothing => self.reading = Reading::Nothing,
            Reading::Header => self.header(bytes, records)?,
            Reading::Extension { kind: Kind::LongName, .. } => self.next.name = Some(header::text(bytes).to_vec()),
            Reading::Extension { kind, from, .. } => {
                let overrides = if kind == Kind::PaxGlobal { &mut self.global } else { &mut self.next };
                overrides.read_pax(bytes).map_err(|what| self.fault(from - BLOCK as u64, what))?;
            }
            Reading::SparseMap { size, belongs } => self.sparse_map(bytes, size, belongs)?,
            Reading::Label { .. } => {
                let label = std::str::from_utf8(bytes).ok().and_then(|text| text.trim().parse().ok());
                if let Some(sample) = &mut self.sample {
                    sample.label = label;
                }
            }
        }
        if self.at == self.size && matches!(self.reading, Reading::Header) {
            self.end(records)?;
        }
        Ok(())
    }
}

/// WebDataset's key and suffix: the path is cut at the first dot of the file's name. None if there is no dot, or nothing
/// before it. As there, a hidden file in a directory takes the directory for its key.
fn split_key(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let name = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let dot = name + path[name..].iter().position(|byte| *byte == b'.')?;
    if dot == name {
        let directory = path[..name].strip_suffix(b"/")?;
        let last = directory.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        if last.contains(&b'.') {
            return None;
        }
    }
    Some((&path[..dot], &path[dot + 1..]))
}

/// Whether WebDataset skips a member: the first directory, or the name, is of the form `__…__`.
fn is_meta(path: &[u8]) -> bool {
    let first = path.split(|byte| *byte == b'/').next().unwrap_or_default();
    first.len() >= 4 && first.starts_with(b"__") && first.ends_with(b"__")
}
