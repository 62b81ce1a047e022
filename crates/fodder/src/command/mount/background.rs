//! A mount in the background: the same command in the foreground of another process, whose first words are listened to.

use crate::{
    cli::{LogArgs, MountArgs},
    command::print,
    join, output,
};
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use rustix::fs::OFlags;
use std::{
    io::{BufRead, BufReader, ErrorKind, Read},
    path::PathBuf,
    process::{ChildStderr, Command, ExitCode, Stdio},
};

/// Starts it, and returns once it is mounted, or with why it is not.
pub(super) fn run(args: &MountArgs, log_args: &LogArgs) -> Result<ExitCode> {
    let program = std::env::current_exe().context("cannot find the program fodder, to mount in the background")?;
    let log = log_file(args, log_args)?;
    let mut command = Command::new(program);
    command
        .args(["mount", "--foreground", "--starter=leaves"])
        .args(flags(args))
        .args(log_flags(log_args))
        .arg("--log-file")
        .arg(&log);
    command.arg("--").args(&args.sources).arg(&args.dir);
    let mut child = command
        // It ends if this process does, until it is mounted.
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot mount in the background")?;
    let said = BufReader::new(child.stdout.take().context("the mount has no output")?);
    let mut shown = String::new();
    for line in said.lines() {
        let line = line.context("cannot read what the mount says")?;
        if line == "ready" {
            child.stderr.take().map_or(Ok(()), show_warnings).context("cannot read the warnings of the mount")?;
            let (log, dir) = (log.display(), args.dir.display());
            return print(&format!("{shown}log {log}\nunmount with: fodder unmount {dir}\n"));
        }
        shown += &line;
        shown.push('\n');
    }
    let mut why = String::new();
    child.stderr.take().map(|mut errors| errors.read_to_string(&mut why));
    child.wait()?;
    let why = why.trim();
    let why = why.strip_prefix("error: ").unwrap_or(why);
    if why.is_empty() {
        bail!("the mount ended without an error message; see its log, {}", log.display());
    }
    bail!("{why}")
}

/// Shows the warnings that the mount printed before it was ready. It keeps its end of the pipe open, so nothing is waited for.
fn show_warnings(mut errors: ChildStderr) -> std::io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(&errors)?;
    rustix::fs::fcntl_setfl(&errors, flags | OFlags::NONBLOCK)?;
    let mut said = Vec::new();
    match errors.read_to_end(&mut said) {
        Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
        _ => {}
    }
    for line in String::from_utf8_lossy(&said).lines().filter(|line| line.starts_with("warning: ")) {
        eprintln!("{line}");
    }
    Ok(())
}

/// Leaves the session of whoever started this process: what is typed into that terminal is not meant for it, once it is
/// mounted. Not before: where an automounter waits for the mount, the kernel lets only the automounter's own group of
/// processes at the directory, and holds up everybody else until it is mounted.
pub(super) fn leave() {
    if let Err(error) = rustix::process::setsid() {
        tracing::debug!(%error, "the mount stays in the session of whoever started it");
    }
}

/// Where it logs: nobody sees what it would say.
fn log_file(args: &MountArgs, log_args: &LogArgs) -> Result<PathBuf> {
    if let Some(file) = &log_args.log_file {
        return Ok(file.clone());
    }
    let dir = join::cache_dir(&args.node)?;
    join::create_cache_dir(&dir)?;
    if let Some(warning) = join::open_to_others(&dir) {
        output::warn(warning);
    }
    Ok(dir.join("mount.log"))
}

/// How it logs, as that was given.
fn log_flags(log_args: &LogArgs) -> impl Iterator<Item = String> {
    let level = log_args.log_level.as_ref().map(|level| format!("--log-level={level}"));
    let format = log_args.log_format.and_then(|format| format.to_possible_value());
    level.into_iter().chain(format.map(|format| format!("--log-format={}", format.get_name())))
}

/// The flags again, as they were given.
fn flags(args: &MountArgs) -> Vec<String> {
    let MountArgs { allow_other, immutable, anonymous, no_passthrough, refresh, patience, node, .. } = args;
    let switches = [
        ("allow-other", *allow_other),
        ("immutable", *immutable),
        ("anonymous", *anonymous),
        ("no-passthrough", *no_passthrough),
    ];
    let switches = switches.into_iter().filter(|(_, on)| *on).map(|(name, _)| format!("--{name}"));
    let duration = |duration| humantime::format_duration(duration).to_string().replace(' ', "");
    let values = [
        ("refresh", refresh.map(duration)),
        ("patience", Some(duration(*patience))),
        ("transport", Some(args.transport.to_string())),
        ("max-background", Some(args.max_background.to_string())),
        ("congestion-threshold", Some(args.congestion_threshold.to_string())),
        ("read-ahead", args.read_ahead.map(|bytes| bytes.to_string())),
        ("open-files", args.open_files.map(|files| files.to_string())),
        ("addr", node.addr.clone()),
        ("cache-size", args.cache_size.as_ref().map(ToString::to_string)),
        ("cache-dir", node.cache_dir.as_ref().map(|dir| dir.display().to_string())),
    ];
    let values = values
        .into_iter()
        .chain(args.listing.flags())
        .filter_map(|(name, value)| value.map(|value| format!("--{name}={value}")));
    switches.chain(values).collect()
}
