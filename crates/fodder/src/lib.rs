//! The program `fodder`: its command line, its configuration, one small file a command.
//!
//! A library only so that tests, benchmarks and fuzzing can reach its parts; other crates do not depend on it. What
//! must not be here: anything a node does while it runs (fodder-server) or how it caches (fodder-core).

pub mod cli;
mod command;
pub mod config;
mod demo;
pub mod join;
mod log;
mod output;
mod remembered;
mod signal;

use std::process::ExitCode;

/// Reads the command line and does as it says. Errors go to stderr, with what to do about them.
pub fn run() -> ExitCode {
    let cli = match cli::parse() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    match command::run(cli) {
        Ok(code) => code,
        Err(error) => {
            output::error(format_args!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}
