//! How objects become items: one file a layout.
//!
//! A layout knows names and bytes of objects, never where they come from or where they are kept. `docs/decisions/0003`
//! says which objects become items, in which order, and why.

pub(crate) mod files;
pub(crate) mod shard;
mod tar;
mod tfrecord;

use crate::catalog::record::RecordList;
use crate::{Error, Result, size};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use shard::Want;
use std::{fmt, ops::Range, str::FromStr};

/// How a dataset's objects become items.
///
/// Written `files`, `blocks`, `blocks:8MiB`, `tar` or `tfrecord`; a config file may also say `{blocks: {block_bytes: 8MiB}}`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Layout {
    /// A file is a sample is an item, in torchvision's ImageFolder order, with class labels where directories are classes.
    #[default]
    Files,
    /// Every object is cut into blocks of this many bytes.
    Blocks {
        /// Bytes of a block; the last one of an object may be shorter.
        block_bytes: u32,
    },
    /// WebDataset shards: the files of one key are one sample.
    Tar,
    /// TensorFlow records.
    Tfrecord,
}

/// A record inside an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsedRecord {
    /// The bytes of the object it is.
    pub range: Range<u64>,
    /// Its class, where the object says so.
    pub label: Option<u32>,
    /// What the object calls it; empty where records have no names.
    pub key: String,
}

impl Layout {
    /// The size of a block unless one is given.
    pub const DEFAULT_BLOCK_BYTES: u32 = 4 << 20;

    const CHOICES: &'static str = "files, blocks, blocks:SIZE (such as blocks:8MiB), tar, tfrecord";

    /// Blocks of a size that was checked: a multiple of 1 MiB, at most 1 GiB.
    pub fn blocks(block_bytes: u64) -> Result<Self> {
        match u32::try_from(block_bytes) {
            Ok(bytes @ 0x10_0000..=0x4000_0000) if bytes.is_multiple_of(1 << 20) => {
                Ok(Self::Blocks { block_bytes: bytes })
            }
            _ => Err(Error::Invalid(format!(
                "a block size of {} is not allowed: choose a multiple of 1MiB, from 1MiB to 1GiB",
                size::exact(block_bytes)
            ))),
        }
    }

    /// The grid on which objects are filled, checked and evicted. Records are smaller than files, so their grid is finer.
    pub fn piece_bytes(&self) -> u32 {
        match self {
            Self::Files | Self::Blocks { .. } => 1 << 20,
            Self::Tar | Self::Tfrecord => 128 << 10,
        }
    }

    /// The records in an object that is in memory; none where the layout has no records. [`Error::Corrupt`] names the
    /// object by `path`, with the record and the byte.
    pub fn records(&self, path: &str, bytes: &[u8]) -> Result<Vec<ParsedRecord>> {
        let Some(mut parser) = shard::parser(self, bytes.len() as u64) else { return Ok(Vec::new()) };
        let mut list = RecordList::default();
        while let Want::Bytes { at, length } = parser.want() {
            let wanted = &bytes[at as usize..at as usize + length];
            parser.give(wanted, &mut list).map_err(|fault| fault.into_error(self, path))?;
        }
        let mut records = Vec::new();
        list.each(&mut |record| {
            let key = String::from_utf8_lossy(record.key).into_owned();
            records.push(ParsedRecord { range: record.start..record.start + record.length, label: record.label, key });
            Ok(())
        })?;
        Ok(records)
    }

    /// Whether the objects' contents must be read to know the items.
    pub(crate) fn has_records(&self) -> bool {
        matches!(self, Self::Tar | Self::Tfrecord)
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Files => f.write_str("files"),
            Self::Blocks { block_bytes: Self::DEFAULT_BLOCK_BYTES } => f.write_str("blocks"),
            Self::Blocks { block_bytes } => write!(f, "blocks:{}", size::exact(u64::from(*block_bytes))),
            Self::Tar => f.write_str("tar"),
            Self::Tfrecord => f.write_str("tfrecord"),
        }
    }
}

impl FromStr for Layout {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "files" => Ok(Self::Files),
            "blocks" => Ok(Self::Blocks { block_bytes: Self::DEFAULT_BLOCK_BYTES }),
            "tar" => Ok(Self::Tar),
            "tfrecord" => Ok(Self::Tfrecord),
            _ => match text.strip_prefix("blocks:") {
                Some(bytes) => Self::blocks(size::parse(bytes)?),
                None => Err(Error::Invalid(format!("unknown layout {text:?}: choose one of {}", Self::CHOICES))),
            },
        }
    }
}

impl Serialize for Layout {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Layout {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Blocks {
            #[serde(with = "crate::size")]
            block_bytes: u64,
        }
        struct Written;
        impl<'de> de::Visitor<'de> for Written {
            type Value = Layout;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a layout: {}", Layout::CHOICES)
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Layout, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Layout, A::Error> {
                use de::Error as _;
                match map.next_key::<String>()?.as_deref() {
                    Some("blocks") => {}
                    _ => {
                        return Err(A::Error::custom(
                            "only the layout blocks has a setting: {blocks: {block_bytes: 8MiB}}",
                        ));
                    }
                }
                let Blocks { block_bytes } = map.next_value()?;
                match map.next_key::<String>()? {
                    None => Layout::blocks(block_bytes).map_err(A::Error::custom),
                    Some(key) => Err(A::Error::custom(format!("{key:?} beside blocks: a dataset has one layout"))),
                }
            }
        }
        deserializer.deserialize_any(Written)
    }
}

/// Shards for the tests of others.
#[cfg(test)]
pub(crate) mod testing {
    pub(crate) use super::{tar::tests::member as tar_member, tfrecord::tests::file as tfrecord_file};
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_layout_is_written_as_it_is_read() {
        for text in ["files", "blocks", "blocks:8MiB", "blocks:1GiB", "tar", "tfrecord"] {
            let layout: Layout = text.parse().unwrap();
            assert_eq!(layout.to_string(), text);
            let json = serde_json::to_string(&layout).unwrap();
            assert_eq!(serde_json::from_str::<Layout>(&json).unwrap(), layout);
        }
        assert_eq!("blocks:4MiB".parse::<Layout>().unwrap(), "blocks".parse().unwrap());
    }

    #[test]
    fn a_config_may_give_blocks_as_a_map() {
        for json in [r#"{"blocks":{"block_bytes":8388608}}"#, r#"{"blocks":{"block_bytes":"8MiB"}}"#] {
            assert_eq!(serde_json::from_str::<Layout>(json).unwrap(), Layout::Blocks { block_bytes: 8 << 20 });
        }
        for json in [r#"{"tar":{}}"#, r#"{"blocks":{"size":1}}"#, r#"{"blocks":{"block_bytes":5}}"#, "7"] {
            assert!(serde_json::from_str::<Layout>(json).is_err(), "{json}");
        }
    }

    #[test]
    fn an_unknown_layout_names_the_choices() {
        let error = "parquet".parse::<Layout>().unwrap_err().to_string();
        assert!(error.contains("files, blocks") && error.contains("tfrecord"), "{error}");
    }

    #[test]
    fn block_sizes_outside_the_grid_are_refused() {
        for text in ["blocks:0", "blocks:1", "blocks:1.5MiB", "blocks:2GiB", "blocks:8589934592", "blocks:"] {
            assert!(text.parse::<Layout>().is_err(), "{text}");
        }
    }
}
