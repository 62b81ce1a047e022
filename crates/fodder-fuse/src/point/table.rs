//! What is mounted, as /proc/self/mountinfo tells it.

use crate::{Error, Result};
use std::{ffi::OsString, os::unix::ffi::OsStringExt, path::PathBuf};

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The device number, as `major:minor`.
    pub device: String,
    /// The directory.
    pub point: PathBuf,
    /// What of the file system is mounted there: `/`, or below it for a bind mount.
    pub root: PathBuf,
    /// The type, such as `ext4`.
    pub kind: String,
    /// What is mounted.
    pub source: String,
}

impl Entry {
    /// Whether it is a mount of ours. Its type says so only if fusermount3 made it.
    pub fn is_ours(&self) -> bool {
        self.dataset().is_some()
    }

    /// The dataset that is mounted, if it is a mount of ours.
    pub fn dataset(&self) -> Option<&str> {
        self.source.strip_prefix(SOURCE).filter(|_| self.kind.starts_with("fuse"))
    }
}

/// What the source of a mount of ours begins with, before the dataset's name.
pub(crate) const SOURCE: &str = "fodder:";

/// All mounts of this process's namespace, those on top last.
pub fn mounts() -> Result<Vec<Entry>> {
    let text = std::fs::read("/proc/self/mountinfo");
    Ok(parse(&text.map_err(|error| Error::io("read /proc/self/mountinfo", &error))?))
}

/// The mounts that a mountinfo file tells of. Lines that are none are left out.
pub fn parse(text: &[u8]) -> Vec<Entry> {
    text.split(|byte| *byte == b'\n').filter_map(line).collect()
}

/// `36 35 98:0 /root /point options optional... - type source options`
fn line(line: &[u8]) -> Option<Entry> {
    let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let dash = fields.iter().skip(6).position(|field| *field == b"-")? + 6;
    let text = |index: usize| fields.get(index).map(|field| unescape(field));
    let string = |index: usize| text(index).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Some(Entry {
        device: string(2)?,
        point: OsString::from_vec(text(4)?).into(),
        root: OsString::from_vec(text(3)?).into(),
        kind: string(dash + 1)?,
        source: string(dash + 2)?,
    })
}

/// Spaces and the like stand as a backslash and three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, behind)) = rest.split_first() {
        let digits = behind.get(..3).filter(|digits| digits.iter().all(|digit| (b'0'..=b'7').contains(digit)));
        match digits {
            Some(digits) if byte == b'\\' => {
                plain.push(digits.iter().fold(0u8, |value, digit| value.wrapping_mul(8).wrapping_add(digit - b'0')));
                rest = &behind[3..];
            }
            _ => {
                plain.push(byte);
                rest = behind;
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_read_with_whatever_is_in_their_names() {
        let text = b"36 35 98:0 / /data/a\\040b\\134c rw,noatime shared:1 master:2 - fuse.fodder fodder:x rw\n\
                     22 1 0:20 / /proc rw - proc proc rw\n\
                     garbage\n";
        let mounts = parse(text);
        assert_eq!(mounts.len(), 2);
        assert_eq!(mounts[0].point, PathBuf::from("/data/a b\\c"));
        assert_eq!((mounts[0].kind.as_str(), mounts[0].source.as_str()), ("fuse.fodder", "fodder:x"));
        assert!(mounts[0].is_ours() && !mounts[1].is_ours());
        assert_eq!((mounts[0].device.as_str(), mounts[1].kind.as_str()), ("98:0", "proc"));
    }
}
