//! `fodder datasets`: list, add and remove the datasets of a running node.

use crate::{
    cli::{DatasetArgs, DatasetsCommand},
    command::plural,
    command::status,
    config, join,
};
use anyhow::Result;
use fodder_api::v1;
use fodder_core::{config::DatasetConfig, config::Quota, size};
use std::{fmt::Write, process::ExitCode};

pub(super) async fn run(command: DatasetsCommand) -> Result<ExitCode> {
    match command {
        DatasetsCommand::List { json, node } => {
            let datasets = join::connect(&node).await?.list_datasets().await?;
            if json {
                let datasets: Vec<_> = datasets.iter().map(status::dataset_json).collect();
                return super::print_raw(&format!("{:#}\n", serde_json::Value::from(datasets)));
            }
            super::print(&table(&datasets))
        }
        DatasetsCommand::Add { dataset, quota, node } => {
            let config = from_args(dataset, quota)?;
            let added = join::connect(&node).await?.add_dataset(to_wire(&config)).await?;
            join::warn(&added.warning);
            let (items, size) = (plural(added.items, "item"), size::human(added.total_bytes));
            super::print(&format!("added {}: {items}, {size}\n", config.name))
        }
        DatasetsCommand::Remove { name, node } => {
            join::connect(&node).await?.remove_dataset(&name).await?;
            super::print(&format!("removed {name}\n"))
        }
    }
}

fn from_args(args: DatasetArgs, quota: Option<Quota>) -> Result<DatasetConfig> {
    let dataset = config::complete(DatasetConfig {
        layout: args.layout.unwrap_or_default(),
        policy: args.policy.unwrap_or_default(),
        quota,
        refresh_interval: args.refresh,
        anonymous: args.anonymous,
        listing: args.listing.config(),
        ..DatasetConfig::new(args.name.unwrap_or_default(), args.origin)
    })?;
    config::check_name(&dataset.name)?;
    Ok(dataset)
}

/// A dataset as the wire wants it.
pub(crate) fn to_wire(config: &DatasetConfig) -> v1::DatasetConfig {
    fodder_server::config_message(config.clone())
}

fn table(datasets: &[v1::DatasetStatus]) -> String {
    if datasets.is_empty() {
        return "no datasets; add one with: fodder datasets add ORIGIN\n".into();
    }
    let name =
        |dataset: &v1::DatasetStatus| dataset.config.as_ref().map_or(String::new(), |config| config.name.clone());
    let width = datasets.iter().map(|dataset| name(dataset).len()).max().unwrap_or(0).max(4);
    let mut text = String::new();
    let _ =
        writeln!(text, "{:width$}  {:>10}  {:>10}  {:>10}  {:8}  ORIGIN", "NAME", "ITEMS", "SIZE", "ON DISK", "LAYOUT");
    for dataset in datasets {
        let config = dataset.config.clone().unwrap_or_default();
        let _ = writeln!(
            text,
            "{:width$}  {:>10}  {:>10}  {:>10}  {:8}  {}",
            config.name,
            dataset.items,
            size::human(dataset.total_bytes),
            size::human(dataset.cached_bytes),
            config.layout,
            config.origin
        );
    }
    text
}
