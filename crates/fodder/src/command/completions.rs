//! `fodder completions`: a completion script for a shell.

use crate::cli::Cli;
use anyhow::Result;
use clap::CommandFactory;
use std::process::ExitCode;

pub(super) fn run(shell: clap_complete::Shell) -> Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "fodder", &mut script);
    super::print_raw(&String::from_utf8_lossy(&script))
}
