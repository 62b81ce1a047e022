//! A dataset as people name it: by its name at a node, or by its origin, which a node is then given.

use super::{connect, join_or_start};
use crate::{cli::NodeArgs, command::to_wire, config};
use anyhow::{Result, bail};
use fodder_api::Client;
use fodder_core::config::DatasetConfig;
use std::time::Duration;

/// The node that has a dataset, and what the dataset is called there. For an origin the node of the cache directory is
/// joined or started, and the dataset added if it is new, with `refresh` as the time after which to look for changes.
pub async fn open(dataset: &str, node: &NodeArgs, refresh: Option<Duration>) -> Result<(Client, String)> {
    if !config::is_origin(dataset) {
        return Ok((connect(node).await?, dataset.to_owned()));
    }
    let origin = config::resolve_origin(dataset)?;
    let client = join_or_start(node).await?;
    let shown = fodder_core::origin::redacted(&origin);
    let known = client.list_datasets().await?.into_iter().filter_map(|dataset| dataset.config);
    if let Some(dataset) = known.into_iter().find(|config| config.origin == shown) {
        return Ok((client, dataset.name));
    }
    // A name that is taken by another origin is made different by a hash of this one.
    let name = config::dataset_name(&origin);
    let hash = blake3::hash(origin.as_bytes()).to_hex();
    let short: String = name.chars().take(50).collect();
    for name in [name, format!("{short}-{}", &hash[..8])] {
        let dataset = DatasetConfig { refresh_interval: refresh, ..DatasetConfig::new(name, origin.clone()) };
        match client.add_dataset(to_wire(&dataset)).await {
            Ok(_) => return Ok((client, dataset.name)),
            Err(fodder_api::Error::Conflict(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    bail!("the node has other datasets under every name for {shown}: add it yourself with `fodder datasets add --name`")
}
