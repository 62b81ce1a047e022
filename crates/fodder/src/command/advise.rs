//! `fodder advise`: what the readers of a dataset wait for, and what would help.

use super::target::Target;
use crate::cli::NodeArgs;
use anyhow::Result;
use std::process::ExitCode;

pub(super) async fn run(dataset: &str, as_json: bool, node: &NodeArgs) -> Result<ExitCode> {
    let target = Target::find(dataset, node).await?;
    let advice = target.client.advise(&target.dataset).await?;
    if as_json {
        return super::print_raw(&format!("{}\n", serde_json::to_string_pretty(&advice)?));
    }
    super::print(&advice.to_string())
}
