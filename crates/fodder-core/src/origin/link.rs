//! Symbolic links of an origin: which of them may be shown as links.
//!
//! A link is shown only if following it, step by step, never leaves the origin: then it leads to the same place wherever
//! the data is shown. Every other link is followed where the data lives. Object stores have no links.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::Path,
};

/// Links that may lead through one another, as for the kernel.
const MAX_HOPS: usize = 40;

/// A symbolic link of an origin, which leads to an object or a directory of the same origin.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link {
    /// Where it is, spelled as paths of objects are.
    pub path: String,
    /// What it says: relative, and spelled as paths are.
    pub target: String,
    /// When it was made, in nanoseconds since 1970.
    pub modified_ns: i64,
}

/// Whether a link in a directory (a real one, below `root`) leads through nothing but `root`.
pub(super) fn stays_inside(root: &Path, directory: &Path, target: &OsStr) -> bool {
    let Ok(below) = directory.strip_prefix(root) else { return false };
    let mut at: Vec<OsString> = below.iter().map(OsStr::to_owned).collect();
    let (mut steps, mut hops) = (Vec::new(), 0);
    if !follow(target, &mut steps) {
        return false;
    }
    while let Some(step) = steps.pop() {
        if step == ".." {
            if at.pop().is_none() {
                return false;
            }
            continue;
        }
        at.push(step);
        let mut here = root.to_owned();
        here.extend(&at);
        match std::fs::read_link(here) {
            Ok(target) => {
                hops += 1;
                at.pop();
                if hops > MAX_HOPS || !follow(target.as_os_str(), &mut steps) {
                    return false;
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => {}
            Err(_) => return false,
        }
    }
    true
}

/// Puts the parts of a relative target before the steps still to go; false if it is not relative.
fn follow(target: &OsStr, steps: &mut Vec<OsString>) -> bool {
    let bytes = target.as_bytes();
    if bytes.is_empty() || bytes[0] == b'/' {
        return false;
    }
    let parts = bytes.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".");
    steps.extend(parts.rev().map(|part| OsStr::from_bytes(part).to_owned()));
    true
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::{fs, os::unix::fs::symlink};

    #[test]
    fn only_links_that_never_leave_the_origin_may_be_shown() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::create_dir(dir.path().join("outside")).unwrap();
        for (target, link) in [("b", "a/inner"), ("/etc", "abroad"), ("../outside", "out"), ("x", "y"), ("y", "x")] {
            symlink(target, root.join(link)).unwrap();
        }
        let inside = |directory: &str, target: &str| stays_inside(&root, &root.join(directory), target.as_ref());
        for (directory, target) in [("a", "b"), ("a", "./b//"), ("a/b", "../.."), ("", "a/inner"), ("", "a/inner/../b")]
        {
            assert!(inside(directory, target), "{target} in {directory}");
        }
        for (directory, target) in [
            ("", ".."),
            ("", "../root/a"),
            ("a", "../../root/a"),
            ("a", "../abroad/passwd"),
            ("a", "../out"),
            ("a", "/etc"),
            ("", "x"),
            ("", "nothing/../a"),
            ("", ""),
        ] {
            assert!(!inside(directory, target), "{target} in {directory}");
        }
    }
}
