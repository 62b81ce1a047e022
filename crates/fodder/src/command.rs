//! The commands, one file each: convert, ask the node, print. Nothing here decides what a node does.

mod advise;
mod bench;
mod cluster;
mod completions;
mod config;
mod datasets;
mod evict;
mod get;
mod index;
mod job;
mod jobs;
mod join;
mod mount;
mod mounted;
mod serve;
mod sim;
mod status;
mod target;
mod verify;
mod warm;

use crate::{
    cli::{Cli, Command, LogArgs},
    config::LogConfig,
    demo, log,
};
use anyhow::Result;
use std::{future::Future, process::ExitCode};

pub(crate) use crate::output::{print, print_line, print_raw};
pub(crate) use datasets::to_wire;

/// The status of `fodder serve` when another node holds the cache directory; whoever wanted a node joins that one.
pub(crate) const EXIT_HELD: u8 = 3;

/// Does what the command line says.
pub(crate) fn run(cli: Cli) -> Result<ExitCode> {
    match cli.command {
        Command::Serve(args) => return serve::run(&args, &cli.log),
        Command::Mount(args) => return mount::run(&args, &cli.log),
        Command::Unmount(args) => return mount::unmount(&args),
        Command::Demo(args) => return demo::run(&args),
        Command::Bench(command) => return bench::run(&command),
        Command::Sim(args) => return sim::run(&args),
        Command::Config(command) => return config::run(&command, &cli.log),
        Command::Completions { shell } => return completions::run(shell),
        _ => {}
    }
    log::start(&with_flags(LogConfig { level: "warn".into(), ..LogConfig::default() }, &cli.log))?;
    block_on(async {
        match cli.command {
            Command::Index { dataset, confirm_removals, node } => {
                index::run(dataset.as_deref(), confirm_removals, &node).await
            }
            Command::Status { dataset, json, node } => status::run(dataset.as_deref(), json, &node).await,
            Command::Drain { node } => cluster::drain(&node).await,
            Command::Cluster(command) => cluster::run(&command).await,
            Command::Jobs { dataset, json, node } => jobs::run(dataset.as_deref(), json, &node).await,
            Command::Job(command) => job::run(command).await,
            Command::Advise { dataset, json, node } => advise::run(&dataset, json, &node).await,
            Command::Datasets(command) => datasets::run(command).await,
            Command::Get { dataset, item, offset, length, anonymous, node } => {
                let range = offset..length.map_or(u64::MAX, |n| offset.saturating_add(n));
                get::run(&dataset, &item, range, anonymous, &node).await
            }
            Command::Join(args) => join::run(*args).await,
            Command::Warm(args) => warm::run(&args).await,
            Command::Evict { dataset, prefix, this_node, node } => {
                evict::run(&dataset, &prefix, this_node, &node).await
            }
            Command::Verify { dataset, node } => verify::run(dataset.as_deref(), &node).await,
            Command::Serve(_)
            | Command::Mount(_)
            | Command::Unmount(_)
            | Command::Demo(_)
            | Command::Bench(_)
            | Command::Sim(_)
            | Command::Config(_)
            | Command::Completions { .. } => {
                unreachable!("handled above, since they need no client's runtime")
            }
        }
    })
}

/// What the file says about the log, with flags over it.
fn with_flags(mut config: LogConfig, flags: &LogArgs) -> LogConfig {
    if let Some(level) = &flags.log_level {
        config.level = level.clone();
    }
    if flags.log_file.is_some() {
        config.file = flags.log_file.clone();
    }
    config.format = flags.log_format.unwrap_or(config.format);
    config
}

/// A client has one thing to wait for at a time: one thread is enough.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

/// A count and its noun, such as `1 file` or `2 files`.
pub(crate) fn plural(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
