//! `fodder advise`: what the readers of a dataset wait for, and what would help.

use crate::{cli::NodeArgs, join};
use anyhow::Result;
use std::process::ExitCode;

pub(super) async fn run(dataset: &str, as_json: bool, node: &NodeArgs) -> Result<ExitCode> {
    let advice = join::connect(node).await?.advise(dataset).await?;
    if as_json {
        return super::print(&format!("{}\n", serde_json::to_string_pretty(&advice)?));
    }
    super::print(&advice.to_string())
}
