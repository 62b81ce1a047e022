//! Front-coded names: in blocks of 16, each name says how many bytes it shares with the one before.
//!
//! Names need not be sorted, only then they are small. Knows nothing of what the names are names of.

use super::{
    file::{FileWriter, Section, Summed},
    packed::{self, Packed, put_varint, take, take_varint},
};
use crate::Result;

/// Names in a block.
pub(super) const BLOCK: usize = 16;

/// Writes names in one section and the starts of their blocks in another.
pub(super) struct NamesWriter {
    starts: Vec<u64>,
    previous: Vec<u8>,
    scratch: Vec<u8>,
    count: usize,
}

impl NamesWriter {
    /// Writes the sections `id` and `id + 1`; `each` is called with what takes a name.
    pub(super) fn write(
        file: &mut FileWriter,
        id: u32,
        each: impl FnOnce(&mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>,
    ) -> Result<()> {
        let mut writer = Self { starts: Vec::new(), previous: Vec::new(), scratch: Vec::new(), count: 0 };
        file.section(id, |out| each(&mut |name| writer.push(out, name)))?;
        file.section(id + 1, |out| packed::column(out, &writer.starts))
    }

    fn push(&mut self, out: &mut Summed<'_>, name: &[u8]) -> Result<()> {
        self.scratch.clear();
        let shared = if self.count.is_multiple_of(BLOCK) {
            self.starts.push(out.length());
            0
        } else {
            let shared = self.previous.iter().zip(name).take_while(|(a, b)| a == b).count();
            put_varint(&mut self.scratch, shared as u64);
            shared
        };
        put_varint(&mut self.scratch, (name.len() - shared) as u64);
        self.scratch.extend_from_slice(&name[shared..]);
        self.previous.truncate(shared);
        self.previous.extend_from_slice(&name[shared..]);
        self.count += 1;
        out.put(&self.scratch)
    }
}

/// Names by position.
#[derive(Debug, Clone)]
pub(super) struct Names {
    bytes: Section,
    starts: Packed,
}

impl Names {
    pub(super) fn open(bytes: Section, starts: Section, count: usize) -> Option<Self> {
        Some(Self { bytes, starts: Packed::open(starts, count.div_ceil(BLOCK))? })
    }

    /// Bytes of the front-coded names themselves.
    pub(super) fn name_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Makes `name` the name at `index`.
    pub(super) fn read(&self, index: usize, name: &mut Vec<u8>) {
        name.clear();
        let mut rest = self.block(index / BLOCK);
        for position in 0..=index % BLOCK {
            step(&mut rest, position, name);
        }
    }

    /// The bytes of a block, and what follows it.
    pub(super) fn block(&self, block: usize) -> &[u8] {
        &self.bytes.bytes()[self.starts.get(block) as usize..]
    }
}

/// Turns the name at `position - 1` of a block into the one at `position`.
pub(super) fn step(rest: &mut &[u8], position: usize, name: &mut Vec<u8>) {
    let shared = if position == 0 { 0 } else { take_varint(rest) as usize };
    let length = take_varint(rest) as usize;
    name.truncate(shared);
    name.extend_from_slice(take(rest, length));
}
