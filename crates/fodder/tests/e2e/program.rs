//! Runs the program: a node that ends with its test, a client command, a small dataset, waiting with a deadline.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Output, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// Longer than anything here takes, also on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// The program, without anything of this machine's environment that it would read.
pub(crate) fn fodder() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fodder"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("FODDER_") {
            command.env_remove(name);
        }
    }
    command.env_remove("XDG_CACHE_HOME").stdin(Stdio::null());
    command
}

/// What a command printed, and how it ended.
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Ended {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.stdout.clone()).unwrap()
    }

    #[track_caller]
    pub(crate) fn good(self) -> Self {
        assert_eq!(self.code, 0, "stderr: {}", self.stderr);
        self
    }

    /// Ended with an error, whose message is returned.
    #[track_caller]
    pub(crate) fn bad(self) -> String {
        assert_ne!(self.code, 0, "stdout: {}", self.text());
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        self.stderr
    }
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: output.stdout,
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// Runs a command to its end.
pub(crate) fn run(command: &mut Command) -> Ended {
    command.output().unwrap().into()
}

/// A dataset of classes as directories: path and content of each file, in item order.
pub(crate) struct Data {
    pub(crate) dir: TempDir,
    pub(crate) files: Vec<(String, Vec<u8>)>,
}

impl Data {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut files = Vec::new();
        for class in ["cat", "dog"] {
            fs::create_dir(dir.path().join(class)).unwrap();
            for number in 0..4 {
                let path = format!("{class}/{number}.png");
                let bytes: Vec<u8> =
                    (0..50_000 + number * 77_000).map(|i| (i * 31 + number * 7) as u8 ^ class.as_bytes()[0]).collect();
                fs::write(dir.path().join(&path), &bytes).unwrap();
                files.push((path, bytes));
            }
        }
        Self { dir, files }
    }

    pub(crate) fn path(&self) -> &str {
        self.dir.path().to_str().unwrap()
    }
}

/// A running node with a cache directory; killed when dropped.
pub(crate) struct Node {
    pub(crate) child: Child,
    stdout: BufReader<ChildStdout>,
    /// What it printed up to `ready`.
    pub(crate) lines: Vec<String>,
    stderr: PathBuf,
}

impl Node {
    /// `fodder serve ARGS` on free ports with this cache directory, waited for until it is ready.
    pub(crate) fn start(cache_dir: &Path, args: &[&str]) -> Self {
        Self::try_start(cache_dir, args).unwrap_or_else(|ended| panic!("the node did not start: {}", ended.stderr))
    }

    /// The same, for one that may refuse to start.
    pub(crate) fn try_start(cache_dir: &Path, args: &[&str]) -> Result<Self, Ended> {
        let mut command = fodder();
        command.arg("serve").args(args).arg("--cache-dir").arg(cache_dir);
        for flag in ["--rest", "--grpc"] {
            if !args.contains(&flag) {
                command.args([flag, "127.0.0.1:0"]);
            }
        }
        if !args.iter().any(|arg| *arg == "--cache-size" || *arg == "--tier") {
            command.args(["--cache-size", "64MiB"]);
        }
        let errors = tempfile::NamedTempFile::new().unwrap();
        let (file, stderr) = errors.keep().unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(file).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut node = Self { child, stdout, lines: Vec::new(), stderr };
        loop {
            let mut line = String::new();
            if node.stdout.read_line(&mut line).unwrap() == 0 {
                let code = node.child.wait().unwrap().code().unwrap_or(-1);
                return Err(Ended { code, stdout: node.lines.join("\n").into_bytes(), stderr: node.log() });
            }
            if line.trim_end() == "ready" {
                return Ok(node);
            }
            node.lines.push(line.trim_end().into());
        }
    }

    /// The rest of a line that begins with `word `.
    #[track_caller]
    pub(crate) fn line(&self, word: &str) -> &str {
        let line = self.lines.iter().find_map(|line| line.strip_prefix(&format!("{word} ")));
        line.unwrap_or_else(|| panic!("no line {word:?} in {:?}", self.lines))
    }

    /// A client command against this node.
    pub(crate) fn client(&self, args: &[&str]) -> Ended {
        run(fodder().args(args).args(["--addr", self.line("grpc")]))
    }

    pub(crate) fn status(&self) -> serde_json::Value {
        serde_json::from_slice(&self.client(&["status", "--json"]).good().stdout).unwrap()
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
        if signal == rustix::process::Signal::STOP {
            wait_for("every thread to stop", || self.is_stopped());
        }
    }

    /// Whether no thread of it runs any more. On a busy machine some still answer requests after the signal was sent.
    fn is_stopped(&self) -> bool {
        let mut threads = fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        threads.all(|thread| {
            let stat = fs::read_to_string(thread.unwrap().path().join("stat"));
            // A thread that has ended meanwhile has no state.
            stat.map_or(true, |stat| stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T')))
        })
    }

    /// SIGTERM, then its exit status.
    pub(crate) fn stop(mut self) -> i32 {
        self.signal(rustix::process::Signal::TERM);
        self.ended()
    }

    /// The exit status, waited for.
    pub(crate) fn ended(&mut self) -> i32 {
        let mut status = None;
        wait_for("the node to end", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap().code().unwrap_or(-1)
    }

    /// What it wrote to stderr so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.stderr).unwrap()
    }

    pub(crate) fn rest_of_stdout(&mut self) -> String {
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        rest
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_file(&self.stderr);
    }
}

/// Asks the REST door at an address; the status of the answer, and all of it.
pub(crate) fn ask_rest(address: &str, method: &str, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer)
}

/// Asks again and again until it is so.
#[track_caller]
pub(crate) fn wait_for(what: &str, mut so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !so() {
        assert!(started.elapsed() < DEADLINE, "waited {DEADLINE:?} for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
