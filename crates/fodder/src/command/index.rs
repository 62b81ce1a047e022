//! `fodder index`: look for new, changed and removed objects.

use super::target::Target;
use crate::{cli::NodeArgs, command::plural, join};
use anyhow::Result;
use std::{fmt::Write, process::ExitCode};

pub(super) async fn run(dataset: Option<&str>, confirm_removals: bool, node: &NodeArgs) -> Result<ExitCode> {
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
    let (mut text, mut failures) = (String::new(), Vec::new());
    for name in names {
        let report = match client.refresh_with(&name, confirm_removals).await {
            Ok(report) => report,
            // The other datasets are refreshed all the same.
            Err(error) => {
                let names_it = error.to_string().contains(&format!("{name:?}"));
                failures.push(if names_it { error.to_string() } else { format!("{name}: {error}") });
                continue;
            }
        };
        writeln!(
            text,
            "{name}: {} added, {} changed, {} removed, {} unchanged; {} in snapshot {}",
            report.added,
            report.changed,
            report.removed,
            report.unchanged,
            plural(report.items, "item"),
            report.snapshot
        )?;
    }
    let printed = super::print(&text)?;
    anyhow::ensure!(failures.is_empty(), "{}", failures.join("\n"));
    Ok(printed)
}
