//! `fodder index`: look for new, changed and removed objects.

use super::target::Target;
use crate::{cli::NodeArgs, join};
use anyhow::Result;
use std::{fmt::Write, process::ExitCode};

pub(super) async fn run(dataset: Option<&str>, node: &NodeArgs) -> Result<ExitCode> {
    let (client, names) = match dataset {
        Some(named) => {
            let target = Target::find(named, node).await?;
            (target.client, vec![target.dataset])
        }
        None => {
            let client = join::connect(node).await?;
            let all = client.list_datasets().await?;
            (client, all.into_iter().filter_map(|dataset| Some(dataset.config?.name)).collect())
        }
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
