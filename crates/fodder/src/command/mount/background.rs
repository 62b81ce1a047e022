//! A mount in the background: the same command in the foreground of another process, whose first words are listened to.

use crate::{cli::MountArgs, command::print, join};
use anyhow::{Context, Result, bail};
use std::{
    fs,
    io::{BufRead, BufReader, Read},
    os::unix::process::CommandExt,
    process::{Command, ExitCode, Stdio},
};

/// Starts it, and returns once it is mounted, or with why it is not.
pub(super) fn run(args: &MountArgs) -> Result<ExitCode> {
    let program = std::env::current_exe().context("cannot find this program, to mount in the background")?;
    let log = join::cache_dir(&args.node)?;
    let _ = fs::create_dir_all(&log);
    let mut command = Command::new(program);
    command.arg("mount").arg("--foreground").args(flags(args)).arg("--").args(&args.sources).arg(&args.dir);
    if std::env::var_os("FODDER_LOG_FILE").is_none() {
        command.env("FODDER_LOG_FILE", log.join("mount.log"));
    }
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A group of its own, so that Ctrl-C in this terminal is not meant for it.
        .process_group(0)
        .spawn()
        .context("cannot mount in the background")?;
    let said = BufReader::new(child.stdout.take().context("the mount has no output")?);
    let mut shown = String::new();
    for line in said.lines() {
        let line = line.context("the mount ended in the middle of a word")?;
        if line == "ready" {
            return print(&shown);
        }
        shown += &line;
        shown.push('\n');
    }
    let mut why = String::new();
    child.stderr.take().map(|mut errors| errors.read_to_string(&mut why));
    child.wait()?;
    let why = why.trim();
    let why = why.strip_prefix("fodder: ").unwrap_or(why);
    if why.is_empty() {
        bail!("the mount ended without a word; see the log in {}", log.display());
    }
    bail!("{why}")
}

/// The flags again, as they were given.
fn flags(args: &MountArgs) -> Vec<String> {
    let MountArgs { allow_other, immutable, no_passthrough, refresh, patience, node, .. } = args;
    let switches = [("allow-other", *allow_other), ("immutable", *immutable), ("no-passthrough", *no_passthrough)];
    let switches = switches.into_iter().filter(|(_, on)| *on).map(|(name, _)| format!("--{name}"));
    let duration = |duration| humantime::format_duration(duration).to_string().replace(' ', "");
    let values = [
        ("refresh", refresh.map(duration)),
        ("patience", Some(duration(*patience))),
        ("transport", Some(args.transport.to_string())),
        ("max-background", Some(args.max_background.to_string())),
        ("congestion-threshold", Some(args.congestion_threshold.to_string())),
        ("read-ahead", Some(args.read_ahead.to_string())),
        ("open-files", args.open_files.map(|files| files.to_string())),
        ("addr", node.addr.clone()),
        ("cache-size", args.cache_size.as_ref().map(ToString::to_string)),
        ("cache-dir", node.cache_dir.as_ref().map(|dir| dir.display().to_string())),
    ];
    let values = values.into_iter().filter_map(|(name, value)| value.map(|value| format!("--{name}={value}")));
    switches.chain(values).collect()
}
