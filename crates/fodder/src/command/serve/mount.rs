//! `fodder serve --mount`: the node's datasets as a directory, by a process of its own that ends with the node.

use anyhow::{Context, Result, bail};
use fodder_fuse::point;
use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, ChildStdin, Command},
    time::sleep,
};

/// How long a mount may take to end, this node's own or that of a node that was killed.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often it is looked whether the mount of a node that was killed has ended.
const LOOK: Duration = Duration::from_millis(50);

/// How often in a row a mount that was lost is made again, and the pause before the first time; each is twice the one before.
const AGAIN: (u32, Duration) = (6, Duration::from_millis(500));

/// A mount that has lasted so long is not one of those that are lost in a row.
const LASTING: Duration = Duration::from_secs(60);

/// The process that mounts, and what it needs to be started again.
pub(super) struct Mounting {
    dir: PathBuf,
    datasets: Vec<String>,
    socket: PathBuf,
    process: Process,
}

/// A process that mounts.
struct Process {
    child: Child,
    /// Ends with this node, however that ends; and the mount with it.
    _tie: Option<ChildStdin>,
}

impl Mounting {
    /// Mounts datasets of the node on a directory, and waits until they are there.
    pub(super) async fn start(dir: &Path, datasets: &[String], socket: &Path) -> Result<Self> {
        if datasets.is_empty() {
            bail!("--mount needs a dataset: give an origin, or add one to the configuration file");
        }
        let points = match datasets {
            [_] => vec![dir.to_owned()],
            several => several.iter().map(|dataset| dir.join(dataset)).collect(),
        };
        tokio::task::spawn_blocking(move || wait_for_others(&points)).await?;
        let process = Process::start(dir, datasets, socket).await?;
        Ok(Self { dir: dir.to_owned(), datasets: datasets.to_vec(), socket: socket.to_owned(), process })
    }

    /// Makes a mount again that was lost. Ends when somebody has unmounted it, or when it is lost again and again.
    pub(super) async fn watch(&mut self) {
        let (mut left, mut pause) = AGAIN;
        loop {
            let began = Instant::now();
            let why = match self.process.child.wait().await {
                Ok(status) if status.success() => {
                    return tracing::info!("unmounted; the node continues without the mount");
                }
                Ok(status) => status.to_string(),
                Err(error) => error.to_string(),
            };
            if began.elapsed() > LASTING {
                (left, pause) = AGAIN;
            }
            tracing::warn!(dir = %self.dir.display(), "the mount ended unexpectedly ({why}); mounting again");
            loop {
                if left == 0 {
                    return tracing::error!("the mount keeps ending unexpectedly; the node continues without it");
                }
                sleep(pause).await;
                (left, pause) = (left - 1, pause * 2);
                match Process::start(&self.dir, &self.datasets, &self.socket).await {
                    Ok(process) => {
                        self.process = process;
                        break;
                    }
                    Err(error) => tracing::warn!("{error:#}"),
                }
            }
        }
    }

    /// Unmounts.
    pub(super) async fn end(mut self) {
        let child = &mut self.process.child;
        let Some(pid) = child.id().and_then(|pid| rustix::process::Pid::from_raw(pid.cast_signed())) else { return };
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        if tokio::time::timeout(PATIENCE, child.wait()).await.is_err() {
            tracing::warn!("the mount did not end in time");
        }
    }
}

impl Process {
    async fn start(dir: &Path, datasets: &[String], socket: &Path) -> Result<Self> {
        let program = std::env::current_exe().context("cannot find the program fodder, to mount")?;
        let mut child = Command::new(program)
            .args(["mount", "--foreground", "--starter=stays", "--addr"])
            .arg(socket)
            .arg("--")
            .args(datasets)
            .arg(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .context("cannot mount")?;
        // Waiting for a process closes what it has as its input.
        let tie = child.stdin.take();
        let mut lines = BufReader::new(child.stdout.take().context("the mount has no output")?).lines();
        while let Some(line) = lines.next_line().await? {
            if line == "ready" {
                return Ok(Self { child, _tie: tie });
            }
            super::print_line(&line);
        }
        bail!("cannot mount on {}", dir.display())
    }
}

/// What a node that was killed had mounted ends by itself, which takes a moment. Other mounts that are in the way do not.
fn wait_for_others(points: &[PathBuf]) {
    let is_taken = |point: &PathBuf| matches!(point::prepare(point), Err(fodder_fuse::Error::Busy(_)));
    let deadline = Instant::now() + PATIENCE;
    while points.iter().any(is_taken) && Instant::now() < deadline {
        std::thread::sleep(LOOK);
    }
}
