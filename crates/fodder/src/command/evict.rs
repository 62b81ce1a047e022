//! `fodder evict`: drop what is cached.

use crate::{cli::NodeArgs, join};
use anyhow::Result;
use fodder_core::size;
use std::process::ExitCode;

pub(super) async fn run(dataset: &str, prefix: &str, node: &NodeArgs) -> Result<ExitCode> {
    let report = join::connect(node).await?.evict(dataset, prefix).await?;
    super::print(&format!("evicted {} pieces, {} freed\n", report.pieces, size::human(report.bytes)))
}
