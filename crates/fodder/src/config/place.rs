//! Where the cache lives and how large it is when nobody says so. The only part of the configuration that looks at
//! this machine.

use anyhow::{Context, Result};
use std::{
    env, fs,
    path::{Path, PathBuf},
};

/// Free disk that the cache leaves to others, whatever happens.
const FLOOR_BYTES: u64 = 1 << 30;
/// The size chosen by [`auto_size`] at an earlier start.
const REMEMBERED: &str = "auto-size";

/// `$FODDER_CACHE_DIR`, `$XDG_CACHE_HOME/fodder`, `~/.cache/fodder`, or for root `/var/cache/fodder`.
pub fn default_cache_dir() -> Result<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(dir) = set("FODDER_CACHE_DIR") {
        return Ok(std::path::absolute(dir)?);
    }
    if let Some(dir) = set("XDG_CACHE_HOME").filter(|dir| dir.is_absolute()) {
        return Ok(dir.join("fodder"));
    }
    if rustix::process::geteuid().is_root() {
        return Ok("/var/cache/fodder".into());
    }
    let home = set("HOME").context("HOME is not set: choose a cache directory with --cache-dir")?;
    Ok(home.join(".cache/fodder"))
}

/// `~/x` as people write it in files, where no shell expands it.
pub fn expand_home(path: &Path) -> Result<PathBuf> {
    match path.strip_prefix("~") {
        Ok(rest) => {
            let home =
                env::var_os("HOME").context("HOME is not set, so `~` cannot be resolved: write the path in full")?;
            Ok(PathBuf::from(home).join(rest))
        }
        Err(_) => Ok(path.into()),
    }
}

/// The cache's size when nobody chose one: 80 % of what is free, but so that a floor stays free.
///
/// What the cache itself holds is not free at the next start, so the size is remembered and never shrinks by itself;
/// the tier keeps its own floor while it runs.
pub fn auto_size(cache_dir: &Path) -> Result<u64> {
    let remembered = fs::read_to_string(cache_dir.join(REMEMBERED)).ok().and_then(|text| text.trim().parse().ok());
    let free = free_bytes(cache_dir)?;
    let now = (free / 5 * 4).min(free.saturating_sub(FLOOR_BYTES));
    // In whole MiB, which is all a person wants to read.
    Ok(now.max(remembered.unwrap_or(0)) >> 20 << 20)
}

/// Keeps what [`auto_size`] chose for the next start. Best effort: without it the size is chosen anew.
pub fn remember_auto_size(cache_dir: &Path, bytes: u64) {
    let _ = fs::write(cache_dir.join(REMEMBERED), format!("{bytes}\n"));
}

/// Free bytes on the file system that holds `path`, or will.
fn free_bytes(path: &Path) -> Result<u64> {
    let existing = path.ancestors().find(|dir| dir.exists()).unwrap_or(Path::new("/"));
    let stat = rustix::fs::statvfs(existing).with_context(|| format!("cannot read {}", existing.display()))?;
    Ok(stat.f_bavail * stat.f_frsize)
}
