//! Starting a node that others will join, and that ends when nobody uses it any more.

use super::{Note, cache_dir, create_cache_dir, knock, socket_of};
use crate::{cli::NodeArgs, command::EXIT_HELD};
use anyhow::{Context, Result, bail};
use fodder_api::Client;
use std::{
    fs::File,
    io::{Read, Seek},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// How long a node may take from its start to its first answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Connects to the node of the cache directory, or starts one that ends some seconds after its last client.
///
/// Any number of processes may call this at once: each that finds nobody starts a node, the lock lets one of them
/// serve, and the others' nodes end at once while their callers join the winner. With `--addr` nothing is started.
pub async fn join_or_start(args: &NodeArgs) -> Result<Client> {
    if args.addr.is_some() {
        return super::connect(args).await;
    }
    let dir = cache_dir(args)?;
    let deadline = Instant::now() + PATIENCE;
    let mut started: Option<Started> = None;
    let mut next_start = Instant::now();
    loop {
        if let Some(client) = knock(&socket_of(&dir)?).await {
            return Ok(client);
        }
        let ended = match &mut started {
            Some(node) => node.ended()?,
            None => true,
        };
        // Whoever lost the race lets the winner come up before it tries again.
        if ended && Instant::now() >= next_start {
            started = Some(Started::new(&dir, args)?);
            next_start = Instant::now() + Duration::from_millis(500);
        }
        if Instant::now() > deadline {
            let pid = Note::read(&dir).map_or(String::new(), |note| format!(" (process {})", note.pid));
            bail!(
                "the node of {}{pid} has not answered within {PATIENCE:?}; see its log, {}",
                dir.display(),
                log_path(&dir).display()
            );
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A node that this process started. It outlives this process.
struct Started {
    child: Child,
    /// What it says when it cannot start: in memory, since the disk may be full.
    complaint: File,
}

impl Started {
    fn new(dir: &Path, args: &NodeArgs) -> Result<Self> {
        create_cache_dir(dir)?;
        let complaint = rustix::fs::memfd_create("fodder-start", rustix::fs::MemfdFlags::CLOEXEC);
        let complaint = File::from(complaint.context("no memory for the messages of a node")?);
        let program = std::env::current_exe().context("cannot find the program fodder, to start a node")?;
        let child = Command::new(program)
            .args(["serve", "--until-idle", "--rest", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--cache-dir"])
            .arg(dir)
            .arg("--log-file")
            .arg(log_path(dir))
            .args(args.cache_size.iter().flat_map(|size| ["--cache-size".to_owned(), size.to_string()]))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(complaint.try_clone().context("cannot start a node")?)
            // A group of its own, so that Ctrl-C in this terminal is not meant for it.
            .process_group(0)
            .spawn()
            .context("cannot start a node")?;
        Ok(Self { child, complaint })
    }

    /// Whether the node has ended because another one holds the directory, or has gone idle. Any other end is an error.
    fn ended(&mut self) -> Result<bool> {
        match self.child.try_wait()? {
            None => Ok(false),
            Some(status) if status.success() || status.code() == Some(EXIT_HELD.into()) => Ok(true),
            Some(_) => {
                let mut said = String::new();
                // Whoever wrote it left it at its end.
                let _ = self.complaint.rewind().and_then(|()| self.complaint.read_to_string(&mut said));
                bail!("cannot start a node: {}", said.trim().trim_start_matches("error: "))
            }
        }
    }
}

fn log_path(dir: &Path) -> PathBuf {
    dir.join("node.log")
}
