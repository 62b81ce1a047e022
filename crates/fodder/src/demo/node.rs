//! The demonstration's node: this same program, `fodder serve`, as a child process.

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    time::Duration,
};

/// A running node and where it listens. Dropped, it is told to end, and is waited for.
pub(super) struct ChildNode {
    child: Child,
    /// Kept open: the node may print until it ends.
    _stdout: BufReader<ChildStdout>,
    pub(super) rest: String,
    pub(super) grpc: String,
    pub(super) socket: PathBuf,
}

impl ChildNode {
    /// Starts a node for `origin` below `dir` and waits until it is ready.
    pub(super) fn start(origin: &str, name: &str, dir: &Path) -> Result<Self> {
        let complaint = dir.join("node.err");
        let mut child = Command::new(std::env::current_exe()?)
            .args(["serve", origin, "--name", name, "--cache-size", "2GiB"])
            .args(["--rest", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--log-level", "warn", "--cache-dir"])
            .arg(dir.join("cache"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&complaint)?)
            .spawn()
            .context("cannot start a node")?;
        let mut stdout = BufReader::new(child.stdout.take().expect("stdout was asked for"));
        let [mut rest, mut grpc, mut socket] = [const { String::new() }; 3];
        loop {
            let mut line = String::new();
            if stdout.read_line(&mut line)? == 0 {
                child.wait()?;
                bail!("the node did not start: {}", fs::read_to_string(&complaint).unwrap_or_default().trim());
            }
            match line.trim_end().split_once(' ') {
                Some(("rest", address)) => rest = address.into(),
                Some(("grpc", address)) => grpc = address.into(),
                Some(("socket", path)) => socket = path.into(),
                None if line.trim_end() == "ready" => break,
                _ => {}
            }
        }
        Ok(Self { child, _stdout: stdout, rest, grpc, socket: socket.into() })
    }

    /// What the node answers to a GET.
    pub(super) fn http_get(&self, path: &str) -> Result<String> {
        let host = self.rest.trim_start_matches("http://");
        let mut stream = TcpStream::connect(host)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        write!(stream, "GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").context("the node did not speak HTTP")?;
        if head.split(' ').nth(1) != Some("200") {
            bail!("{path}: {}", head.lines().next().unwrap_or_default());
        }
        Ok(body.into())
    }

    /// Ends it as an operator would, and says whether it ended well.
    pub(super) fn stop(mut self) -> Result<()> {
        self.terminate();
        let status = self.child.wait()?;
        if !status.success() {
            bail!("the node ended with {status}");
        }
        Ok(())
    }

    fn terminate(&self) {
        if let Some(pid) = Pid::from_raw(self.child.id().cast_signed()) {
            let _ = kill_process(pid, Signal::TERM);
        }
    }
}

impl Drop for ChildNode {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            self.terminate();
            let _ = self.child.wait();
        }
    }
}
