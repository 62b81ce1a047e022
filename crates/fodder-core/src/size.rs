//! Byte sizes as people write them: `20GiB`, `500MB`, `4096`. The one place where they are read and written.
//!
//! With `#[serde(with = "crate::size")]` a config field takes a number or such a text.

use crate::{Error, Result};
use serde::{Deserializer, Serializer, de};
use std::fmt;

/// Units by name; the binary ones first, because [`exact`] writes the first that divides evenly.
const UNITS: [(&str, u64); 12] = [
    ("PiB", 1 << 50),
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("PB", 1_000_000_000_000_000),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("kB", 1_000),
    ("B", 1),
];

/// Reads a size: a number, perhaps with a fraction, and a unit (`B`, `kB`, `KiB`, `MB`, `MiB`, … `PiB`, case ignored;
/// `K`, `M`, `G`, `T`, `P` alone are binary). No unit means bytes.
pub fn parse(text: &str) -> Result<u64> {
    let trimmed = text.trim();
    let digits = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, unit) = (&trimmed[..digits], trimmed[digits..].trim());
    let bytes = unit_bytes(unit).and_then(|unit| scale(number, unit));
    bytes.ok_or_else(|| Error::Invalid(format!("{text:?} is not a size such as 20GiB, 500MB or 4096")))
}

fn unit_bytes(unit: &str) -> Option<u64> {
    if unit.is_empty() {
        return Some(1);
    }
    let named = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit));
    let short = || UNITS[..5].iter().find(|(name, _)| name[..1].eq_ignore_ascii_case(unit));
    named.or_else(short).map(|(_, bytes)| *bytes)
}

/// `number` (digits with at most one point) times `unit`, rounded down; exact, because a size may be over 2^53.
fn scale(number: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || fraction.len() > 12 || fraction.contains('.') {
        return None;
    }
    let mut bytes = whole.parse::<u64>().ok()?.checked_mul(unit)?;
    if !fraction.is_empty() {
        let parts = fraction.parse::<u128>().ok()? * u128::from(unit);
        bytes = bytes.checked_add((parts / 10u128.pow(fraction.len() as u32)) as u64)?;
    }
    Some(bytes)
}

/// Writes a size so that [`parse`] gives back the same: in the largest binary unit that divides it, else in bytes.
pub fn exact(bytes: u64) -> String {
    let unit = UNITS[..5].iter().find(|(_, unit)| bytes != 0 && bytes.is_multiple_of(*unit));
    match unit {
        Some((name, unit)) => format!("{}{name}", bytes / unit),
        None => bytes.to_string(),
    }
}

/// Writes a size for a person, rounded: `1.5 GiB`.
pub fn human(bytes: u64) -> String {
    match UNITS[..5].iter().find(|(_, unit)| bytes >= *unit) {
        Some((name, unit)) => format!("{:.1} {name}", bytes as f64 / *unit as f64),
        None => format!("{bytes} B"),
    }
}

/// For `#[serde(with = "crate::size")]`: writes [`exact`].
pub fn serialize<S: Serializer>(bytes: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&exact(*bytes))
}

/// For `#[serde(with = "crate::size")]`: takes a number of bytes, or what [`parse`] takes.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    struct Size;
    impl de::Visitor<'_> for Size {
        type Value = u64;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a size such as 20GiB, 500MB or 4096")
        }
        fn visit_u64<E: de::Error>(self, bytes: u64) -> Result<u64, E> {
            Ok(bytes)
        }
        fn visit_i64<E: de::Error>(self, bytes: i64) -> Result<u64, E> {
            u64::try_from(bytes).map_err(|_| E::invalid_value(de::Unexpected::Signed(bytes), &self))
        }
        fn visit_str<E: de::Error>(self, text: &str) -> Result<u64, E> {
            parse(text).map_err(E::custom)
        }
    }
    deserializer.deserialize_any(Size)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, bytes) in [
            ("4096", 4096),
            ("20GiB", 20 << 30),
            ("500MB", 500_000_000),
            (" 1.5 GiB ", 3 << 29),
            ("1k", 1024),
            ("2T", 2 << 40),
            ("7 kb", 7000),
            ("0", 0),
            ("0.001MB", 1000),
        ] {
            assert_eq!(parse(text).unwrap(), bytes, "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in ["", "GiB", "-1", "1.2.3", "20%", "1 GiBs", "99999999999999999999", "20000PiB", "1e3", ".5"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_written_for_people() {
        assert_eq!(human(1536 << 20), "1.5 GiB");
        assert_eq!(human(12), "12 B");
        assert_eq!(exact(4 << 20), "4MiB");
        assert_eq!(exact(1), "1");
    }

    proptest! {
        #[test]
        fn exact_sizes_survive_the_round_trip(bytes: u64, shift in 0u32..64) {
            let bytes = bytes << shift;
            prop_assert_eq!(parse(&exact(bytes)).unwrap(), bytes);
        }
    }
}
