//! `fodder index`: look for new, changed and removed objects.

use crate::{cli::NodeArgs, join};
use anyhow::Result;
use std::{fmt::Write, process::ExitCode};

pub(super) async fn run(dataset: Option<&str>, node: &NodeArgs) -> Result<ExitCode> {
    let client = join::connect(node).await?;
    let names = match dataset {
        Some(name) => vec![name.to_owned()],
        None => client.list_datasets().await?.into_iter().filter_map(|dataset| Some(dataset.config?.name)).collect(),
    };
    let mut text = String::new();
    for name in names {
        let report = client.refresh(&name).await?;
        writeln!(
            text,
            "{name}: {} added, {} changed, {} removed, {} unchanged; {} items in snapshot {}",
            report.added, report.changed, report.removed, report.unchanged, report.items, report.snapshot
        )?;
    }
    super::print(&text)
}
