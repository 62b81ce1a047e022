//! A dataset as people name it: by its name at a node, or by its origin, which a node is then given.

use super::{connect, join_or_start};
use crate::{cli::NodeArgs, command::to_wire, config};
use anyhow::{Result, bail};
use fodder_api::{Client, v1};
use fodder_core::{
    config::{DatasetConfig, Quota},
    layout::Layout,
};
use fodder_policy::Policy;
use std::time::Duration;

/// How a dataset should be that is given to a node, where that is not left open.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Wanted {
    /// What clients call it.
    pub name: Option<String>,
    /// How objects become items. A dataset that the node has already is used only if it has this layout.
    pub layout: Option<Layout>,
    /// What stays when the cache is full.
    pub policy: Option<Policy>,
    /// After which time to look for changes.
    pub refresh: Option<Duration>,
    /// Read a public bucket without credentials.
    pub anonymous: bool,
}

impl Wanted {
    fn config(&self, name: String, origin: String) -> DatasetConfig {
        DatasetConfig {
            layout: self.layout.clone().unwrap_or_default(),
            policy: self.policy.unwrap_or_default(),
            refresh_interval: self.refresh,
            anonymous: self.anonymous,
            ..DatasetConfig::new(name, origin)
        }
    }

    /// Whether a dataset that the node has will do.
    fn is(&self, has: &v1::DatasetConfig, shown_origin: &str) -> bool {
        let layout = self.layout.as_ref().map(|_| to_wire(&self.config(String::new(), String::new())));
        has.origin == shown_origin
            && self.name.as_ref().is_none_or(|name| *name == has.name)
            && layout.is_none_or(|want| (&want.layout, want.block_bytes) == (&has.layout, has.block_bytes))
    }
}

/// The node that has a dataset, and what the dataset is called there. For an origin the node of the cache directory is
/// joined or started, and the dataset added if it is new.
pub async fn open(dataset: &str, node: &NodeArgs, wanted: &Wanted) -> Result<(Client, String)> {
    if !config::is_origin(dataset) {
        return Ok((connect(node).await?, dataset.to_owned()));
    }
    let origin = config::resolve_origin(dataset)?;
    let client = join_or_start(node).await?;
    let shown = fodder_core::origin::redacted(&origin);
    if let Some(name) = known(&client, wanted, &shown).await? {
        return Ok((client, name));
    }
    // A name that is taken by another origin is made different by a hash of this one.
    let names = match &wanted.name {
        Some(name) => vec![name.clone()],
        None => {
            let name = config::dataset_name(&origin);
            let layout = wanted.layout.as_ref().map_or(String::new(), ToString::to_string);
            let hash = blake3::hash(format!("{origin}{layout}").as_bytes()).to_hex();
            let short: String = name.chars().take(50).collect();
            vec![name, format!("{short}-{}", &hash[..8])]
        }
    };
    // A node that is started for this dataset cannot know its size: a share of it is told with the dataset.
    let quota = node.cache_size.filter(|size| matches!(size, Quota::Share(_)));
    for name in names {
        let dataset = DatasetConfig { quota, ..wanted.config(name, origin.clone()) };
        config::check_name(&dataset.name)?;
        dataset.check_interval()?;
        match client.add_dataset(to_wire(&dataset)).await {
            Ok(_) => return Ok((client, dataset.name)),
            // Another who started at the same moment may have added it.
            Err(fodder_api::Error::Conflict(_)) => {
                if let Some(name) = known(&client, wanted, &shown).await? {
                    return Ok((client, name));
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    bail!("the node has other datasets under every name for {shown}: add it yourself with `fodder datasets add --name`")
}

/// What the dataset is called, if the node has it.
async fn known(client: &Client, wanted: &Wanted, shown_origin: &str) -> Result<Option<String>> {
    let configs = client.list_datasets().await?.into_iter().filter_map(|dataset| dataset.config);
    Ok(configs.into_iter().find(|config| wanted.is(config, shown_origin)).map(|config| config.name))
}
