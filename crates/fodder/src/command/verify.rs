//! `fodder verify`: compare the cache with its checksums.

use crate::{cli::NodeArgs, command::plural, join, output};
use anyhow::Result;
use fodder_core::size;
use std::process::ExitCode;

pub(super) async fn run(dataset: Option<&str>, node: &NodeArgs) -> Result<ExitCode> {
    let report = join::connect(node).await?.verify(dataset).await?;
    let read = size::human(report.bytes);
    super::print(&format!("{} good, {} corrupt, {read} read\n", plural(report.good, "piece"), report.corrupt))?;
    if report.corrupt == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    output::error("the corrupt pieces were dropped and will be fetched again; check the health of the disk");
    Ok(ExitCode::FAILURE)
}
