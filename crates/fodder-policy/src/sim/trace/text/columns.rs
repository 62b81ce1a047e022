//! Which column of a text trace says what.

use crate::{Error, Result};
use std::str::FromStr;

/// The columns that matter, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Columns {
    pub(super) id: usize,
    pub(super) size: Option<usize>,
}

/// How headers call the id of an object, best first.
const IDS: [&str; 8] = ["obj_id", "object_id", "objid", "id", "key", "object", "obj", "lbn"];
/// How headers call its size.
const SIZES: [&str; 6] = ["obj_size", "object_size", "objsize", "size", "bytes", "length"];

impl Columns {
    /// What so many columns usually are.
    pub(super) fn usual(count: usize) -> Self {
        Self { id: usize::from(count > 1), size: (count > 2).then_some(2) }
    }

    /// The columns a header names.
    pub(super) fn named<'a>(names: impl Iterator<Item = &'a str>) -> Option<Self> {
        let names: Vec<String> = names.map(|name| name.trim_matches('"').to_lowercase().replace('-', "_")).collect();
        let find = |known: &[&str]| known.iter().find_map(|known| names.iter().position(|name| name == known));
        Some(Self { id: find(&IDS)?, size: find(&SIZES) })
    }
}

impl FromStr for Columns {
    type Err = Error;

    /// In the words of libCacheSim, which counts columns from 1. Words that are not needed here are let pass.
    fn from_str(text: &str) -> Result<Self> {
        let (mut id, mut size) = (None, None);
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let invalid = || Error::Invalid(format!("{part:?} is not NAME=NUMBER, such as obj-id-col=2"));
            let (key, value) = part.split_once('=').ok_or_else(invalid)?;
            let column = value.trim().parse().ok().and_then(|column: usize| column.checked_sub(1)).ok_or_else(invalid);
            match key.trim() {
                "obj-id-col" => id = Some(column?),
                "obj-size-col" => size = Some(column?),
                "time-col" | "obj-id-is-num" | "has-header" | "delimiter" => {}
                _ => return Err(invalid()),
            }
        }
        let id = id.ok_or_else(|| Error::Invalid("the column of the id is missing: add obj-id-col=…".into()))?;
        Ok(Self { id, size })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_said_as_libcachesim_says_them() {
        let columns = "time-col=2, obj-id-col=5, obj-size-col=4, obj-id-is-num=true, delimiter=,, has-header=true";
        assert_eq!(columns.parse(), Ok(Columns { id: 4, size: Some(3) }));
        assert_eq!("obj-id-col=1".parse(), Ok(Columns { id: 0, size: None }));
        for wrong in ["", "obj-size-col=1", "obj-id-col=0", "obj-id-col=x", "id=2", "obj-id-col"] {
            assert!(matches!(wrong.parse::<Columns>(), Err(Error::Invalid(_))), "{wrong:?}");
        }
    }

    #[test]
    fn a_header_names_them_in_any_order() {
        let named = |header: &str| Columns::named(header.split(','));
        assert_eq!(named("version,time,op,size,lbn"), Some(Columns { id: 4, size: Some(3) }));
        assert_eq!(named("Time,\"Obj-ID\""), Some(Columns { id: 1, size: None }));
        assert_eq!(named("time,size"), None);
    }
}
