//! Processes that a scenario starts: this program again (or Python), told what to do by its arguments and then line by line.
//! Each ends when its parent closes its standard input, or ends.

use anyhow::{Context, Result, ensure};
use std::{
    fs,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

/// A child of this process, as its parent sees it.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    /// Closed first of all when dropped: the child then ends by itself.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Process {
    /// Starts this program with other arguments.
    pub(crate) fn start(arguments: &[&str]) -> Result<Self> {
        Self::spawn(Command::new(std::env::current_exe()?).args(arguments))
    }

    /// Starts another program that obeys in the same way.
    pub(crate) fn spawn(command: &mut Command) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {command:?}"))?;
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        Ok(Self { input: child.stdin.take(), output, child })
    }

    /// Its number.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Tells it something.
    pub(crate) fn tell(&mut self, line: &str) -> Result<()> {
        let input = self.input.as_mut().expect("it is open until dropped");
        writeln!(input, "{line}").context("a child process ended early")
    }

    /// Waits for a line from it.
    pub(crate) fn answer(&mut self) -> Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        ensure!(line.ends_with('\n'), "a child process ended early");
        line.pop();
        Ok(line)
    }

    /// Tells it something, and waits for a line.
    pub(crate) fn ask(&mut self, line: &str) -> Result<String> {
        self.tell(line)?;
        self.answer()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.child.wait();
    }
}

/// KiB of memory that a process has: `VmRSS`, all that is resident, or one of its parts, such as `RssAnon`.
pub(crate) fn memory_kib(process: u32, which: &str) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(which)?.strip_prefix(':'));
    let text = line.with_context(|| format!("no {which}"))?.trim().trim_end_matches(" kB");
    text.parse().with_context(|| format!("{which} is {text:?}"))
}

/// The child's side: answers each line that its parent says with one of its own.
pub(crate) fn obey(mut answer: impl FnMut(&str) -> Result<String>) -> Result<()> {
    for line in std::io::stdin().lines() {
        let reply = answer(&line?)?;
        say(&reply)?;
    }
    Ok(())
}

/// The child's side: says a line unasked.
pub(crate) fn say(line: &str) -> Result<()> {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{line}")?;
    Ok(output.flush()?)
}
