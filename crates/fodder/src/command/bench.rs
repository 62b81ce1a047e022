//! `fodder bench`: how fast a directory is read, beside another one in the same run.

mod checksum;
mod files;
mod histogram;
mod reader;
mod report;
mod turns;

use super::block_on;
use crate::{
    cli::{BenchCommand, BenchReadArgs, NodeArgs},
    join,
};
use anyhow::{Context, Result, bail};
use files::Files;
use report::Report;
use std::process::ExitCode;
use turns::Side;

pub(super) fn run(command: &BenchCommand) -> Result<ExitCode> {
    let BenchCommand::Read(args) = command;
    read(args)
}

fn read(args: &BenchReadArgs) -> Result<ExitCode> {
    if args.checksum && args.against.is_none() && args.origin.is_none() {
        bail!("--checksum compares with --against DIR2 or --origin URI: give one of them");
    }
    let mut sides = vec![Side::new(Files::below(&args.dir)?, args)];
    if let Some(against) = &args.against {
        sides.push(Side::new(Files::below(against)?, args));
    }
    let before = args.cached.then(|| misses(&args.node)).transpose()?;
    turns::take(&mut sides, args)?;
    let missed = match before {
        Some(before) => Some(misses(&args.node)?.saturating_sub(before)),
        None => None,
    };
    let checked = if args.checksum { Some(checksum::compare(&sides[0], args)?) } else { None };
    let report = Report::new(&sides, args, missed, checked);
    super::print(&if args.json { report.json()? } else { report.text() })?;
    match missed {
        Some(1) => bail!("1 read was not answered from the cache alone"),
        Some(missed @ 2..) => bail!("{missed} reads were not answered from the cache alone"),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Reads of a node so far that its cache did not answer.
fn misses(node: &NodeArgs) -> Result<u64> {
    block_on(async {
        let client = join::connect(node).await.context("--cached asks the node")?;
        let stats = client.list_datasets().await?.into_iter().filter_map(|dataset| dataset.stats);
        Ok(stats.map(|stats| stats.joined + stats.peer + stats.origin + stats.bypass + stats.failed).sum())
    })
}
