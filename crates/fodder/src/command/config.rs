//! `fodder config`: check a file, or show what comes of file, environment and flags.

use crate::{
    cli::{ConfigCommand, LogArgs, ServeArgs},
    config::Effective,
};
use anyhow::Result;
use std::{path::Path, process::ExitCode};

pub(super) fn run(command: &ConfigCommand, log: &LogArgs) -> Result<ExitCode> {
    match command {
        ConfigCommand::Check { file } => check(file),
        ConfigCommand::Show(args) => show(args, log),
    }
}

fn check(file: &Path) -> Result<ExitCode> {
    let effective = Effective::new(&ServeArgs { config: Some(file.into()), ..ServeArgs::default() })?;
    for note in &effective.notes {
        eprintln!("note: {note}");
    }
    super::print(&format!("{} is good: {}\n", file.display(), plural(effective.config.datasets.len(), "dataset")))
}

fn show(args: &ServeArgs, log: &LogArgs) -> Result<ExitCode> {
    let Effective { mut config, notes, .. } = Effective::new(args)?;
    config.log = super::with_flags(config.log, log);
    for dataset in &mut config.datasets {
        dataset.origin = fodder_core::origin::redacted(&dataset.origin);
    }
    for note in &notes {
        eprintln!("note: {note}");
    }
    super::print(&serde_yaml_ng::to_string(&config)?)
}

fn plural(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
