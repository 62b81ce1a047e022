//! Versions in few bytes: ETags that are hexadecimal as binary, the local `ctime-mtime-size` as numbers, others as text.
//!
//! Every packing is canonical: equal versions (of objects of equal size) have equal packings, so packings are compared.

use super::{
    file::{FileWriter, Section},
    name::BLOCK,
    packed::{self, Packed, put_varint, take, take_varint},
};
use crate::{Result, id::Version};

const RAW: u8 = 0;
const HEX: u8 = 1;
/// Hexadecimal, a dash, and the number of parts of a multipart upload.
const PARTS: u8 = 2;
/// Change time, modification time and size, in hexadecimal with dashes between.
const LOCAL: u8 = 3;
/// As `LOCAL`, the size being that of the object.
const LOCAL_SIZED: u8 = 4;
/// `mtime:`, milliseconds, a dash and the object's size, for origins without ETags.
const MTIME_SIZED: u8 = 5;
/// Added to a kind: the version stands between double quotes.
const QUOTED: u8 = 8;

/// Packs the version of an object of `size` bytes: a byte that says how, then the bytes.
pub(super) fn pack(version: &str, size: u64, out: &mut Vec<u8>) {
    out.clear();
    let inner = version.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let (text, quoted) = inner.map_or((version, 0), |text| (text, QUOTED));
    out.push(0);
    let kind = pack_hex(text, out).or_else(|| pack_parts(text, out)).or_else(|| pack_local(text, size, out));
    let kind = kind.or_else(|| pack_mtime(version, size, out).filter(|_| quoted == 0));
    match kind {
        Some(kind) => out[0] = kind | quoted,
        None => {
            out.truncate(1);
            out[0] = RAW;
            out.extend_from_slice(version.as_bytes());
        }
    }
}

/// The version that [`pack`] packed.
pub(super) fn unpack(packed: &[u8], size: u64) -> Version {
    let (kind, mut rest) = packed.split_first().map_or((RAW, &[][..]), |(kind, rest)| (*kind, rest));
    let text = match kind & !QUOTED {
        HEX => hex(rest),
        PARTS => {
            let parts = take_varint(&mut rest);
            format!("{}-{parts}", hex(rest))
        }
        LOCAL | LOCAL_SIZED => {
            let (ctime, mtime) = (take_varint(&mut rest), take_varint(&mut rest));
            let size = if kind & !QUOTED == LOCAL { take_varint(&mut rest) } else { size };
            format!("{ctime:x}-{mtime:x}-{size:x}")
        }
        MTIME_SIZED => format!("{}{}-{size}", Version::MTIME, take_varint(&mut rest)),
        _ => String::from_utf8_lossy(rest).into_owned(),
    };
    Version(if kind & QUOTED != 0 { format!("\"{text}\"").into() } else { text.into() })
}

fn pack_hex(text: &str, out: &mut Vec<u8>) -> Option<u8> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    if text.is_empty() || !text.len().is_multiple_of(2) || !text.bytes().all(|byte| digit(byte).is_some()) {
        return None;
    }
    out.extend(text.as_bytes().chunks_exact(2).filter_map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)));
    Some(HEX)
}

fn pack_parts(text: &str, out: &mut Vec<u8>) -> Option<u8> {
    let (sum, parts) = text.split_once('-')?;
    let number: u32 = parts.parse().ok().filter(|number: &u32| number.to_string() == parts)?;
    // An odd or empty sum must leave nothing behind; a sum of 32 digits tells it from a local version.
    if sum.len() != 32 {
        return None;
    }
    put_varint(out, u64::from(number));
    if pack_hex(sum, out).is_none() {
        out.truncate(1);
        return None;
    }
    Some(PARTS)
}

fn pack_local(text: &str, size: u64, out: &mut Vec<u8>) -> Option<u8> {
    let mut numbers = text.split('-').map(|part| {
        let number = u64::from_str_radix(part, 16).ok()?;
        (format!("{number:x}") == part).then_some(number)
    });
    let (ctime, mtime, third) = (numbers.next()??, numbers.next()??, numbers.next()??);
    if numbers.next().is_some() {
        return None;
    }
    put_varint(out, ctime);
    put_varint(out, mtime);
    if third == size {
        return Some(LOCAL_SIZED);
    }
    put_varint(out, third);
    Some(LOCAL)
}

fn pack_mtime(version: &str, size: u64, out: &mut Vec<u8>) -> Option<u8> {
    let (millis, rest) = version.strip_prefix(Version::MTIME)?.split_once('-')?;
    let number: u64 = millis.parse().ok()?;
    if number.to_string() != millis || size.to_string() != rest {
        return None;
    }
    put_varint(out, number);
    Some(MTIME_SIZED)
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// The column of versions: all of one length, or each with its length and the starts of blocks of 16.
#[derive(Debug, Clone)]
pub(super) enum Versions {
    Fixed { kind: u8, length: usize, bytes: Section },
    Varying { bytes: Section, starts: Packed },
}

/// The kind and length that all versions of a segment have in common.
pub(super) type Shape = (u8, usize);

/// Writes the sections `id` and `id + 1`. `shape` is what all packings have in common, if they do.
pub(super) fn write(
    file: &mut FileWriter,
    id: u32,
    shape: Option<Shape>,
    each: impl FnOnce(&mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>,
) -> Result<()> {
    if shape.is_some() {
        return file.section(id, |out| each(&mut |packed| out.put(&packed[1..])));
    }
    let (mut starts, mut count, mut length) = (Vec::new(), 0usize, Vec::new());
    file.section(id, |out| {
        each(&mut |packed| {
            if count.is_multiple_of(BLOCK) {
                starts.push(out.length());
            }
            count += 1;
            length.clear();
            put_varint(&mut length, packed.len() as u64);
            out.put(&length)?;
            out.put(packed)
        })
    })?;
    file.section(id + 1, |out| packed::column(out, &starts))
}

impl Versions {
    pub(super) fn open(bytes: Section, starts: Section, shape: Option<Shape>, count: usize) -> Option<Self> {
        match shape {
            Some((kind, length)) => {
                (bytes.len() == count.checked_mul(length)?).then_some(Self::Fixed { kind, length, bytes })
            }
            None => Some(Self::Varying { bytes, starts: Packed::open(starts, count.div_ceil(BLOCK))? }),
        }
    }

    /// Makes `out` the packing at `index`.
    pub(super) fn read(&self, index: usize, out: &mut Vec<u8>) {
        out.clear();
        match self {
            Self::Fixed { kind, length, bytes } => {
                out.push(*kind);
                out.extend_from_slice(&bytes.bytes()[index * length..(index + 1) * length]);
            }
            Self::Varying { bytes, starts } => {
                let mut rest = &bytes.bytes()[starts.get(index / BLOCK) as usize..];
                for _ in 0..index % BLOCK {
                    let length = take_varint(&mut rest) as usize;
                    take(&mut rest, length);
                }
                let length = take_varint(&mut rest) as usize;
                out.extend_from_slice(take(&mut rest, length));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn round_trip(version: &str, size: u64) -> usize {
        let mut packed = Vec::new();
        pack(version, size, &mut packed);
        assert_eq!(&*unpack(&packed, size).0, version);
        packed.len()
    }

    #[test]
    fn common_versions_take_few_bytes() {
        assert_eq!(round_trip("\"d41d8cd98f00b204e9800998ecf8427e\"", 0), 17);
        assert_eq!(round_trip("d41d8cd98f00b204e9800998ecf8427e", 0), 17);
        assert_eq!(round_trip("\"d41d8cd98f00b204e9800998ecf8427e-12\"", 0), 18);
        assert!(round_trip("4d2f1-5f3e2a1b4c5d6-3e8", 1000) <= 12);
        assert!(round_trip("4d2f1-5f3e2a1b4c5d6-3e8", 7) <= 14);
        assert!(round_trip("\"4d2f1-18781e6bd2f1b4c5-3e8\"", 1000) <= 13);
        assert_eq!(round_trip("mtime:1763200000000-77", 77), 7);
    }

    #[test]
    fn odd_versions_are_kept_exactly() {
        for version in [
            "",
            "\"",
            "\"\"",
            "W/\"abc\"",
            "ABCDEF",
            "abc",
            "0-0-0",
            "00-1-2",
            "1-2-3-4",
            "-",
            "--",
            "d41d8cd98f00b204e9800998ecf8427e-012",
            "d41d8cd98f00b204e9800998ecf8427x-12",
            "mtime:17-5",
            "mtime:017-3",
            "mtime:-17-3",
            "mtime:17-3",
            "\"mtime:17-3\"",
            "\"1-2-3\"",
            "ffffffffffffffff-ffffffffffffffff-ffffffffffffffff",
            "é",
        ] {
            round_trip(version, 3);
        }
    }

    proptest! {
        #[test]
        fn any_version_survives_the_round_trip(version in r#""?[0-9a-f]{0,40}(-[0-9a-f]{0,3}){0,3}"?|.*"#, size: u64) {
            round_trip(&version, size);
        }
    }
}
