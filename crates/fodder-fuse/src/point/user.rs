//! Who uses a mount: processes with an open file, a mapped file or a working directory in it.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
};

/// A process, and the first thing it was found to use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct User {
    pid: u32,
    name: String,
    what: PathBuf,
    how: &'static str,
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pid, name, what, how } = self;
        write!(f, "{name} (process {pid}), {how} {}", what.display())
    }
}

/// The processes that use what lies below a path, as far as this user may see them.
pub(super) fn users(path: &Path) -> Vec<User> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut users: Vec<User> = pids.filter_map(|pid| user(pid, path)).collect();
    users.sort_by_key(|user| user.pid);
    users
}

fn user(pid: u32, path: &Path) -> Option<User> {
    let dir = PathBuf::from(format!("/proc/{pid}"));
    let link = |name: &str| fs::read_link(dir.join(name)).ok().filter(|target| target.starts_with(path));
    // What this process itself has open is its parent's, which is found too.
    let other = (pid != std::process::id()).then_some(());
    let open = || {
        other?;
        let descriptors = fs::read_dir(dir.join("fd")).ok()?.flatten();
        descriptors.filter_map(|entry| fs::read_link(entry.path()).ok()).find(|target| target.starts_with(path))
    };
    let mapped = || {
        other?;
        let maps = fs::read_to_string(dir.join("maps")).ok()?;
        // Six columns, the last of which is the file.
        let mut files = maps.lines().filter_map(|line| line.find('/').map(|at| PathBuf::from(&line[at..])));
        files.find(|file| file.starts_with(path))
    };
    let (how, what) = link("cwd")
        .map(|what| ("working in", what))
        .or_else(|| link("root").map(|what| ("rooted in", what)))
        .or_else(|| open().map(|what| ("which has open", what)))
        .or_else(|| mapped().map(|what| ("which has mapped", what)))?;
    let name = fs::read_to_string(dir.join("comm")).unwrap_or_default().trim().to_owned();
    Some(User { pid, name, what, how })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_process_with_an_open_file_is_named_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = fs::canonicalize(dir.path()).unwrap();
        assert!(users(&path).is_empty());
        fs::write(path.join("held"), b"").unwrap();
        let mut command = std::process::Command::new("sleep");
        let mut child = command.arg("60").stdin(fs::File::open(path.join("held")).unwrap()).spawn().unwrap();
        let found = users(&path);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(found.len(), 1);
        let text = found[0].to_string();
        assert!(text.contains(&child.id().to_string()) && text.ends_with("held"), "{text}");
    }
}
