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
mod remembered;
mod signal;

use std::process::ExitCode;

/// Reads the command line and does as it says. Errors go to stderr, with what to do about them.
pub fn run() -> ExitCode {
    let outcome = cli::parse().map_err(anyhow::Error::msg).and_then(command::run);
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("fodder: {error:#}");
            ExitCode::FAILURE
        }
    }
}
