//! Fodder's own record of what a node was asked for: compact, in the order of the reads.
//!
//! ```text
//! file    = "FODTRACE" version:u16le record*
//! record  = head:varint body          head = dataset << 3 | kind
//! kind 0  = a dataset                 len:varint name:utf8     datasets are numbered 0, 1, 2 … as they come
//! kind 1  = a read                    wait:varint id:zigzag bytes:varint
//! kind 2  = a read of as many bytes as the last one of its dataset
//!                                     wait:varint id:zigzag
//! kind 3  = scores that take effect   count:varint (score:f32le)*
//! ```
//! `wait` is milliseconds since the read before, of any dataset; `id` is a piece, as a difference to the last one read
//! of its dataset. Varints are LEB128. A read takes about five bytes. A file that ends inside a record is what a node
//! leaves that was killed: everything before that record counts.

mod reader;

pub(super) use reader::Reader;

/// What a file begins with.
pub(super) const MAGIC: [u8; 8] = *b"FODTRACE";
const VERSION: u16 = 1;

const DATASET: u64 = 0;
const READ: u64 = 1;
const READ_ALIKE: u64 = 2;
const SCORES: u64 = 3;

/// Writes a record of reads. It only makes bytes: whoever owns the file takes them and appends them to it.
#[derive(Debug)]
pub struct Recorder {
    bytes: Vec<u8>,
    datasets: Vec<Last>,
    last_ms: u64,
}

/// The last read of a dataset.
#[derive(Debug, Clone, Copy, Default)]
struct Last {
    id: u32,
    bytes: u32,
}

impl Default for Recorder {
    fn default() -> Self {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        Self { bytes, datasets: Vec::new(), last_ms: 0 }
    }
}

impl Recorder {
    /// Introduces a dataset; its number.
    pub fn dataset(&mut self, name: &str) -> u32 {
        let number = self.datasets.len() as u32;
        self.datasets.push(Last::default());
        self.head(number, DATASET);
        push_varint(&mut self.bytes, name.len() as u64);
        self.bytes.extend(name.as_bytes());
        number
    }

    /// A piece of a dataset was asked for, `at_ms` milliseconds after the recording began.
    pub fn read(&mut self, dataset: u32, at_ms: u64, id: u32, bytes: u32) {
        let last = std::mem::replace(&mut self.datasets[dataset as usize], Last { id, bytes });
        let wait = at_ms.saturating_sub(self.last_ms);
        self.last_ms += wait;
        self.head(dataset, if bytes == last.bytes { READ_ALIKE } else { READ });
        push_varint(&mut self.bytes, wait);
        push_varint(&mut self.bytes, zigzag(i64::from(id) - i64::from(last.id)));
        if bytes != last.bytes {
            push_varint(&mut self.bytes, u64::from(bytes));
        }
    }

    /// The pieces of a dataset are worth this from now on, by id.
    pub fn scores(&mut self, dataset: u32, scores: &[f32]) {
        self.head(dataset, SCORES);
        push_varint(&mut self.bytes, scores.len() as u64);
        self.bytes.extend(scores.iter().flat_map(|score| score.to_le_bytes()));
    }

    /// What is to be appended to the file, and has not been taken yet.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// How many bytes wait to be taken.
    pub fn pending_bytes(&self) -> usize {
        self.bytes.len()
    }

    fn head(&mut self, dataset: u32, kind: u64) {
        push_varint(&mut self.bytes, u64::from(dataset) << 3 | kind);
    }
}

/// Appends a number in seven bits a byte, the lowest first.
fn push_varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Small numbers of either sign as small numbers.
fn zigzag(number: i64) -> u64 {
    (number << 1 ^ number >> 63) as u64
}

#[cfg(test)]
mod tests;
