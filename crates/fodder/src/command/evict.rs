//! `fodder evict`: drop what is cached.

use super::target::Target;
use crate::cli::NodeArgs;
use anyhow::{Result, ensure};
use fodder_api::v1::EvictRequest;
use fodder_core::size;
use std::process::ExitCode;

pub(super) async fn run(dataset: &str, prefix: &str, this_node: bool, node: &NodeArgs) -> Result<ExitCode> {
    let target = Target::find(dataset, node).await?;
    ensure!(prefix.is_empty() || !target.mounted, "--prefix is for a dataset: give the path in the mount instead");
    let prefix = if target.mounted { target.path } else { prefix.into() };
    let request = EvictRequest { dataset: target.dataset, prefix, this_node, exact: target.mounted };
    let report = target.client.evict_with(request).await?;
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
