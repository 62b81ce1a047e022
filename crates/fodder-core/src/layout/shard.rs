//! Objects that hold records: which objects they are, and the machine that finds the records inside.
//!
//! A parser is pure: it says which bytes it wants next, and is given them. Who reads them, from memory or from an origin
//! with jumps over what nobody needs, is not its business.

use super::{Layout, tar::TarParser, tfrecord::TfrecordParser};
use crate::{Error, catalog::record::RecordList};

/// What a parser wants next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Want {
    /// These bytes; they lie inside the object, and behind all that were wanted before.
    Bytes { at: u64, length: usize },
    /// Nothing more: the records are complete.
    End,
}

/// Where and why a shard could not be understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The number of the record, from 0.
    pub(crate) record: u64,
    /// The byte of the shard.
    pub(crate) offset: u64,
    pub(crate) what: String,
}

impl Fault {
    pub(crate) fn into_error(self, layout: &Layout, path: &str) -> Error {
        let unit = if *layout == Layout::Tar { "sample" } else { "record" };
        let Self { record, offset, what } = self;
        Error::Corrupt(format!("{path}: {unit} {record} at byte {offset}: {what}"))
    }
}

/// A machine that finds the records of one shard.
pub(crate) trait ShardParser: Send {
    fn want(&self) -> Want;
    /// Takes the bytes that were wanted; finished records go to `records`.
    fn give(&mut self, bytes: &[u8], records: &mut RecordList) -> Result<(), Fault>;
}

/// Whether the layout looks for records in an object.
pub(crate) fn is_shard(layout: &Layout, path: &str, size: u64) -> bool {
    let (_, name) = super::files::split(path);
    let ends = |extension: &str| {
        name.len() >= extension.len()
            && name.as_bytes()[name.len() - extension.len()..].eq_ignore_ascii_case(extension.as_bytes())
    };
    match layout {
        Layout::Tar => ends(".tar"),
        Layout::Tfrecord => size > 0 && !name.starts_with(['_', '.']) && !ends(".json") && !ends(".txt"),
        Layout::Files | Layout::Blocks { .. } => false,
    }
}

/// The parser for a shard of `size` bytes; None where the layout has no records.
pub(crate) fn parser(layout: &Layout, size: u64) -> Option<Box<dyn ShardParser>> {
    match layout {
        Layout::Tar => Some(Box::new(TarParser::new(size))),
        Layout::Tfrecord => Some(Box::new(TfrecordParser::new(size))),
        Layout::Files | Layout::Blocks { .. } => None,
    }
}

/// What a file is that is not what was expected, where its first bytes tell.
pub(crate) fn guess(start: &[u8]) -> &'static str {
    match start {
        [0x1f, 0x8b, ..] => " (it is compressed with gzip: unpack it first)",
        [0x28, 0xb5, 0x2f, 0xfd, ..] => " (it is compressed with zstd: unpack it first)",
        [b'B', b'Z', b'h', ..] => " (it is compressed with bzip2: unpack it first)",
        _ => "",
    }
}
