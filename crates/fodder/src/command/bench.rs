//! `fodder bench`: how fast a directory is read, beside another one in the same run.

mod checksum;
mod files;
mod histogram;
mod reader;
mod report;
mod shown;
mod sums;
mod turns;

use super::block_on;
use crate::{
    cli::{BenchCommand, BenchReadArgs, NodeArgs},
    output,
};
use anyhow::{Context, Result, bail};
use checksum::Right;
use files::Files;
use report::Report;
use shown::Shown;
use std::process::ExitCode;
use turns::Side;

pub(super) fn run(command: &BenchCommand) -> Result<ExitCode> {
    let BenchCommand::Read(args) = command;
    read(args)
}

fn read(args: &BenchReadArgs) -> Result<ExitCode> {
    let files = Files::below(&args.dir)?;
    let against = args.against.as_deref().map(Files::below).transpose()?;
    if let Some(against) = &against {
        warn_of_difference(&files, against);
    }
    let right = args.checksum.then(|| Right::find(&files, args)).transpose()?;
    let shown = args.cached.then(|| Shown::by(&files).context("--cached needs a mount of Fodder")).transpose()?;
    let mut sides: Vec<_> = [Some(files), against].into_iter().flatten().map(|files| Side::new(files, args)).collect();
    let before = shown.as_ref().map(|shown| misses(shown, &args.node)).transpose()?;
    turns::take(&mut sides, args)?;
    let missed = match (shown, before) {
        (Some(shown), Some(before)) => Some(misses(&shown, &args.node)?.saturating_sub(before)),
        _ => None,
    };
    let checked = right.map(|right| checksum::compare(&sides[0], &right, args)).transpose()?;
    let report = Report::new(&sides, args, missed, checked);
    match args.json {
        true => super::print_raw(&report.json()?)?,
        false => super::print(&report.text())?,
    };
    match missed {
        Some(1) => bail!("1 read was not answered from this node's cache"),
        Some(missed @ 2..) => bail!("{missed} reads were not answered from this node's cache"),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Directories with different files are measured all the same, but their ratio says something else then.
fn warn_of_difference(one: &Files, other: &Files) {
    if let Some(first) = one.first_difference(other) {
        let (one, other, first) = (one.root.display(), other.root.display(), first.display());
        output::warn(format_args!(
            "{one} and {other} have different files, the first of which is {first}: the ratio compares different reads"
        ));
    }
}

/// Reads of these datasets so far that the node's cache did not answer.
fn misses(shown: &Shown, node: &NodeArgs) -> Result<u64> {
    let datasets = block_on(shown.datasets(node)).context("--cached")?;
    let stats = datasets.into_values().filter_map(|dataset| dataset.stats);
    Ok(stats.map(|stats| stats.joined + stats.peer + stats.origin + stats.bypass + stats.failed).sum())
}
