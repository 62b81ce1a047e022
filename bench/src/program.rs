//! The `fodder` program as users run it: a node, a mount, and what they print.

use anyhow::{Context, Result, bail, ensure};
use std::{
    ffi::OsStr,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// The program, built beside this one.
fn fodder() -> Result<Command> {
    let program = std::env::current_exe()?.with_file_name("fodder");
    ensure!(program.exists(), "{} is not there: cargo build --release --package fodder", program.display());
    Ok(Command::new(program))
}

/// Runs a command of it to its end; what it printed.
pub(crate) fn run<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Result<String> {
    finish(fodder()?.args(arguments))
}

/// Runs any command to its end; what it printed.
pub(crate) fn finish(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?} ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// A node over one dataset, `bench`. It is told to end when dropped.
#[derive(Debug)]
pub(crate) struct Node {
    child: Child,
    socket: String,
    grpc: String,
}

impl Node {
    /// Starts one over an origin.
    pub(crate) fn start(origin: &str, cache_dir: &Path, cache_bytes: u64, more: &[&str]) -> Result<Self> {
        let mut command = fodder()?;
        command.args(["serve", origin, "--name", "bench", "--rest", "127.0.0.1:0", "--grpc", "127.0.0.1:0"]);
        command.args(["--log-level", "error", "--cache-size", &cache_bytes.to_string()]);
        command.arg("--cache-dir").arg(cache_dir).args(more);
        let mut child = command.stdout(Stdio::piped()).spawn().context("cannot start fodder")?;
        let output = child.stdout.take().context("it is piped")?;
        let mut node = Self { child, socket: String::new(), grpc: String::new() };
        for line in BufReader::new(output).lines() {
            match line?.split_once(' ') {
                Some(("socket", socket)) => socket.clone_into(&mut node.socket),
                Some(("grpc", grpc)) => grpc.clone_into(&mut node.grpc),
                Some(_) => {}
                // The last line is one word: ready.
                None => return Ok(node),
            }
        }
        bail!("a node did not start")
    }

    /// The number of its process.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Where it listens on this host.
    pub(crate) fn socket(&self) -> &str {
        &self.socket
    }

    /// Where other nodes reach it.
    pub(crate) fn grpc(&self) -> &str {
        &self.grpc
    }

    /// How many nodes of its cluster serve, as it sees them.
    pub(crate) fn serving(&self) -> Result<usize> {
        let said: serde_json::Value =
            serde_json::from_str(&run(["cluster", "status", "--json", "--addr", &self.socket])?)?;
        let members = said["members"].as_array().context("a list of members")?;
        Ok(members.iter().filter(|member| member["state"] == "serving").count())
    }

    /// Brings everything in.
    pub(crate) fn warm(&self) -> Result<()> {
        run(["warm", "bench", "--json", "--addr", &self.socket]).map(drop)
    }

    /// What it says of its dataset.
    fn status(&self) -> Result<serde_json::Value> {
        let status: serde_json::Value = serde_json::from_str(&run(["status", "--json", "--addr", &self.socket])?)?;
        Ok(status["datasets"][0].clone())
    }

    /// One of the counts of its dataset.
    pub(crate) fn count(&self, name: &str) -> Result<u64> {
        self.status()?["stats"][name].as_u64().with_context(|| format!("a node does not count {name}"))
    }

    /// Whether every piece of its dataset is in its own cache.
    pub(crate) fn holds_everything(&self) -> Result<bool> {
        let status = self.status()?;
        let number = |name: &str| status[name].as_u64().with_context(|| format!("a node does not say {name}"));
        Ok(number("cached_pieces")? == number("pieces")?)
    }

    /// Mounts its dataset.
    pub(crate) fn mount(&self, dir: &Path, more: &[&str]) -> Result<Mount> {
        std::fs::create_dir_all(dir)?;
        let mut command = fodder()?;
        command.args(["mount", "--foreground", "--log-level", "error", "bench"]).arg(dir);
        command.args(["--addr", &self.socket]).args(more);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("cannot start fodder")?;
        let mut lines = BufReader::new(child.stdout.take().context("it is piped")?).lines();
        if !lines.any(|line| line.is_ok_and(|line| line == "ready")) {
            bail!("{command:?} ended with {}", child.wait()?);
        }
        Ok(Mount { child, dir: dir.into() })
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.child.wait();
    }
}

/// A mounted dataset; unmounted when dropped.
#[derive(Debug)]
pub(crate) struct Mount {
    child: Child,
    dir: PathBuf,
}

impl Mount {
    /// Where.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The number of its process.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if let Err(error) = run([OsStr::new("unmount"), self.dir.as_os_str(), OsStr::new("--lazy")]) {
            eprintln!("{error:#}");
        }
        // It would wait for whoever has a file open there.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
