//! `fodder evict`: drop what is cached.

use crate::{cli::NodeArgs, join};
use anyhow::Result;
use fodder_api::v1::EvictRequest;
use fodder_core::size;
use std::process::ExitCode;

pub(super) async fn run(dataset: &str, prefix: &str, this_node: bool, node: &NodeArgs) -> Result<ExitCode> {
    let request = EvictRequest { dataset: dataset.into(), prefix: prefix.into(), this_node };
    let report = join::connect(node).await?.evict_with(request).await?;
    let mut text = format!("evicted {} pieces, {} freed\n", report.pieces, size::human(report.bytes));
    for node in report.nodes.iter().filter(|node| node.error.is_empty()) {
        text += &format!("  {}: {} pieces, {}\n", node.address, node.pieces, size::human(node.bytes));
    }
    super::print(&text)?;
    let failed: Vec<_> = report.nodes.iter().filter(|node| !node.error.is_empty()).collect();
    for node in &failed {
        eprintln!("fodder: {} evicted nothing: {}", node.address, node.error);
    }
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
