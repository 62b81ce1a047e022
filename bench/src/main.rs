//! The scenarios that compare Fodder with its peers. Each prints its values, their ratio, the target and whether it
//! is met; a miss is a result and not an error.

mod bucket;
mod buffer;
mod contest;
mod epoch;
mod fixture;
mod machine;
mod mounted;
mod namespace;
mod node;
mod outcome;
mod process;
mod program;
mod redis;
mod scenario;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use outcome::Outcome;
use scenario::Scenario;
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Compares Fodder with its peers, as ratios within one run.
#[derive(Debug, Parser)]
#[command(name = "fodder-bench")]
struct Arguments {
    /// Keep the results in bench/results instead of bench/results/local, which git ignores.
    #[arg(long, global = true)]
    save: bool,
    /// Where to put data while measuring (up to 12 GiB); a disk, not a tmpfs.
    #[arg(long, global = true, value_name = "DIR", default_value_os_t = std::env::temp_dir())]
    dir: PathBuf,
    /// Smaller data and fewer rounds: shows that a scenario runs, measures little.
    #[arg(long, global = true)]
    quick: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Every scenario, one after the other.
    All,
    #[command(flatten)]
    One(Scenario),
    /// A process that a scenario starts.
    #[command(flatten)]
    Child(scenario::Child),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let setting = scenario::Setting { dir: arguments.dir, quick: arguments.quick };
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join(if arguments.save { "results" } else { "results/local" });
    let scenarios = match arguments.command {
        Command::All => Scenario::ALL.to_vec(),
        Command::One(scenario) => vec![scenario],
        Command::Child(child) => return report(child.run()),
    };
    let mut code = ExitCode::SUCCESS;
    for scenario in scenarios {
        eprintln!("{scenario} ...");
        let outcome = scenario.run(&setting).with_context(|| format!("{scenario} could not run"));
        if report(outcome.and_then(|outcome| publish(&outcome, &results))) != ExitCode::SUCCESS {
            code = ExitCode::FAILURE;
        }
    }
    code
}

/// Prints an outcome and keeps it.
fn publish(outcome: &Outcome, results: &Path) -> Result<()> {
    println!("{outcome}");
    outcome.save(results)
}

fn report(result: Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}
