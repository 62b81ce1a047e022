//! `fodder serve --mount`: the node's datasets as a directory, by a process of its own that ends with the node.

use anyhow::{Context, Result, bail};
use std::{path::Path, process::Stdio, time::Duration};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

/// How long a mount may take to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// The process that mounts.
pub(super) struct Mounting(Child);

impl Mounting {
    /// Mounts datasets of the node on a directory, and waits until they are there.
    pub(super) async fn start(dir: &Path, datasets: &[String], socket: &Path) -> Result<Self> {
        if datasets.is_empty() {
            bail!("--mount needs a dataset: name an origin, or add one to the configuration");
        }
        let program = std::env::current_exe().context("cannot find this program, to mount with it")?;
        let mut child = Command::new(program)
            .args(["mount", "--foreground", "--addr"])
            .arg(socket)
            .arg("--")
            .args(datasets)
            .arg(dir)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .context("cannot mount")?;
        let mut lines = BufReader::new(child.stdout.take().context("the mount has no output")?).lines();
        while let Some(line) = lines.next_line().await? {
            if line == "ready" {
                return Ok(Self(child));
            }
            super::print_line(&line);
        }
        bail!("cannot mount on {}", dir.display())
    }

    /// Unmounts.
    pub(super) async fn end(mut self) {
        let Some(pid) = self.0.id().and_then(|pid| rustix::process::Pid::from_raw(pid.cast_signed())) else { return };
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        if tokio::time::timeout(PATIENCE, self.0.wait()).await.is_err() {
            tracing::warn!("the mount did not end in time");
        }
    }
}
