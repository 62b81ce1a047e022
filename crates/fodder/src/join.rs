//! Finding the node of this host: connect to the one that runs, or start one.
//!
//! One node a host and cache directory: eight ranks that start at once must end up with one node. The lock on the
//! directory decides who serves; everybody else connects. What must not be here: what the node is then asked.

mod dataset;
mod note;
mod start;

use crate::{cli::NodeArgs, config};
use anyhow::{Result, anyhow, bail};
use fodder_api::{Address, Client, Timeouts};
use std::{
    fmt::Write,
    fs::{self, DirBuilder},
    io,
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

pub use dataset::{Wanted, open, warn};
pub use note::Note;
pub use start::join_or_start;

/// Where a node listens when nobody says so.
const DEFAULT_TCP: &str = "127.0.0.1:18284";

/// Connects to the node that the arguments mean: the address given, else the node of the cache directory, else the
/// default port. The error says what was tried.
pub async fn connect(args: &NodeArgs) -> Result<Client> {
    let mut tried = String::new();
    let candidates = candidates(args)?;
    let is_named = args.addr.is_some() && candidates.len() == 1;
    let timeouts = Timeouts::default();
    let timeouts = if candidates.len() > 1 { timeouts.among_others() } else { timeouts };
    for address in candidates {
        match Client::connect_with(&address, timeouts).await {
            Ok(client) => return Ok(client),
            // Who names an address wants to know about that one.
            Err(error) if is_named => return Err(error.into()),
            Err(error) => {
                let _ = write!(tried, "\n  {address}: {}", reason(&address, &error));
            }
        }
    }
    Err(anyhow!(
        "no node answers; start one with `fodder serve ORIGIN`, or say where it listens with --addr. Tried:{tried}"
    ))
}

/// Where to look, best first.
fn candidates(args: &NodeArgs) -> Result<Vec<Address>> {
    if let Some(addr) = &args.addr {
        // A path may have a comma.
        let is_path = Path::new(addr.trim_start_matches("unix:")).exists();
        let named: Vec<&str> = if is_path { vec![addr] } else { addr.split(',').map(str::trim).collect() };
        return named.into_iter().map(|address| Ok(address.parse()?)).collect();
    }
    let mut candidates = vec![socket_of(&cache_dir(args)?)?];
    // A directory that was named means that directory's node and no other.
    if args.cache_dir.is_none() {
        candidates.push(DEFAULT_TCP.parse()?);
    }
    Ok(candidates)
}

/// The cache directory that the arguments mean.
pub(crate) fn cache_dir(args: &NodeArgs) -> Result<PathBuf> {
    match &args.cache_dir {
        Some(dir) => Ok(std::path::absolute(dir)?),
        None => config::default_cache_dir(),
    }
}

/// Creates a cache directory that only this user can read. An existing one stays as it is.
pub(crate) fn create_cache_dir(dir: &Path) -> Result<()> {
    let shown = dir.display();
    if let Err(error) = DirBuilder::new().recursive(true).mode(0o700).create(dir) {
        bail!("cannot create the cache directory {shown}: {error}; choose another with --cache-dir");
    }
    match rustix::fs::access(dir, rustix::fs::Access::WRITE_OK) {
        Err(rustix::io::Errno::ACCESS) => {
            bail!("the cache directory {shown} belongs to another user: choose another with --cache-dir")
        }
        // Whatever else is wrong, the first file in it says better.
        _ => Ok(()),
    }
}

/// A warning for a cache directory that was there before and that other users of this machine can look into.
pub(crate) fn open_to_others(dir: &Path) -> Option<String> {
    let mode = fs::metadata(dir).ok().filter(fs::Metadata::is_dir)?.permissions().mode() & 0o777;
    let shown = dir.display();
    let text = format!(
        "other users of this machine can read the cache directory {shown} (mode {mode:03o}), which holds names, logs and data \
         of the datasets: keep them out with `chmod 700 {shown}`"
    );
    (mode & 0o007 != 0).then_some(text)
}

/// The Unix socket of a cache directory's node: where its note says, else where it is by default.
fn socket_of(dir: &Path) -> Result<Address> {
    let noted = Note::read(dir).and_then(|note| note.socket);
    Ok(Address::unix(noted.unwrap_or_else(|| dir.join("fodder.sock")))?)
}

/// Why no node answered at an address, in a few words.
fn reason(address: &Address, error: &fodder_api::Error) -> String {
    if let Address::Unix(path) = address {
        match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return "the socket does not exist".into(),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return "permission denied: the node belongs to another user".into();
            }
            Err(error) => return format!("the socket cannot be reached: {error}"),
            Ok(_) => {}
        }
    }
    let text = error.to_string();
    let text = text.strip_prefix(&format!("cannot reach the node at {address}: ")).unwrap_or(&text);
    text.split("; check that").next().unwrap_or_default().to_owned()
}

/// Connects without patience, for polling.
async fn knock(address: &Address) -> Option<Client> {
    let timeouts = Timeouts { connect: Duration::from_secs(1), ..Timeouts::default() };
    Client::connect_with(address, timeouts).await.ok()
}
