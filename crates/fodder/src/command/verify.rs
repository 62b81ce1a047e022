//! `fodder verify`: compare the cache with its checksums.

use crate::{cli::NodeArgs, join};
use anyhow::Result;
use fodder_core::size;
use std::process::ExitCode;

pub(super) async fn run(dataset: Option<&str>, node: &NodeArgs) -> Result<ExitCode> {
    let report = join::connect(node).await?.verify(dataset).await?;
    let read = size::human(report.bytes);
    super::print(&format!("{} pieces good, {} corrupt, {read} read\n", report.good, report.corrupt))?;
    if report.corrupt == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("fodder: the corrupt pieces were dropped and will be fetched again; look at the disk's health");
    Ok(ExitCode::FAILURE)
}
