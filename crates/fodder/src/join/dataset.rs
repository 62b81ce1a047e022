//! A dataset as people name it: by its name at a node, or by its origin, which a node is then given.

use super::{connect, join_or_start};
use crate::{cli::NodeArgs, command::to_wire, config};
use anyhow::{Result, bail};
use fodder_api::{Client, v1};
use fodder_core::{
    config::{DatasetConfig, ListingConfig, Quota},
    layout::Layout,
    size,
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
    /// How the origin is listed.
    pub listing: ListingConfig,
    /// Only files are read, as in a mount: whether the layout fits them does not matter.
    pub files_only: bool,
}

impl Wanted {
    fn config(&self, name: String, origin: String) -> DatasetConfig {
        DatasetConfig {
            layout: self.layout.clone().unwrap_or_default(),
            policy: self.policy.unwrap_or_default(),
            refresh_interval: self.refresh,
            anonymous: self.anonymous,
            listing: self.listing.clone(),
            ..DatasetConfig::new(name, origin)
        }
    }

    /// Which settings have no effect on a dataset that the node has, and what to do. Empty: none.
    fn ignored(&self, node: &NodeArgs, has: &v1::DatasetStatus) -> String {
        let config = has.config.clone().unwrap_or_default();
        let mut ignored = Vec::new();
        if let Some(policy) = self.policy.map(|policy| policy.to_string()).filter(|policy| *policy != config.policy) {
            ignored.push(format!("policy {policy} (it has {})", config.policy));
        }
        if let Some(Quota::Share(share)) = node.cache_size
            && config.quota != Some(v1::dataset_config::Quota::QuotaShare(share))
        {
            ignored.push(format!("cache size {}", Quota::Share(share)));
        }
        let refresh = self.refresh.map(|refresh| refresh.as_millis() as u64);
        if refresh.is_some_and(|refresh| refresh != config.refresh_interval_ms) {
            ignored.push("refresh".into());
        }
        let listing = to_wire(&self.config(String::new(), String::new())).listing;
        if listing.is_some() && listing != config.listing {
            ignored.push("how the origin is listed".into());
        }
        if ignored.is_empty() {
            return String::new();
        }
        format!(
            "the node already has dataset {:?}, and these settings have no effect on it: {}; remove it first \
             (fodder datasets remove {}), or use another name",
            config.name,
            ignored.join(", "),
            config.name
        )
    }

    /// Prints warnings about a dataset that the node has.
    fn warn_of(&self, node: &NodeArgs, has: &v1::DatasetStatus) {
        warn(&self.ignored(node, has));
        self.warn_of_layout(has);
    }

    fn warn_of_layout(&self, has: &v1::DatasetStatus) {
        if !self.files_only {
            warn(&has.warning);
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
    warn(&size_ignored(&client, node).await?);
    let shown = fodder_core::origin::redacted(&origin);
    if let Some(dataset) = known(&client, wanted, &shown).await? {
        wanted.warn_of(node, &dataset);
        return Ok((client, name_of(dataset)));
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
        dataset.listing.check()?;
        match client.add_dataset(to_wire(&dataset)).await {
            Ok(added) => {
                wanted.warn_of_layout(&added);
                return Ok((client, dataset.name));
            }
            // Another who started at the same moment may have added it.
            Err(fodder_api::Error::Conflict(_)) => {
                if let Some(dataset) = known(&client, wanted, &shown).await? {
                    wanted.warn_of(node, &dataset);
                    return Ok((client, name_of(dataset)));
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    bail!(
        "the node has other datasets under every name for {shown}: add it with `fodder datasets add {shown} --name NAME`"
    )
}

/// That a node which runs already has another size than the one that is wanted. Empty: it has that size.
async fn size_ignored(client: &Client, node: &NodeArgs) -> Result<String> {
    let Some(Quota::Bytes(wanted)) = node.cache_size else { return Ok(String::new()) };
    let has = client.status().await?.tiers.iter().map(|tier| tier.quota_bytes).sum::<u64>();
    if has == wanted {
        return Ok(String::new());
    }
    let (has, wanted) = (size::human(has), size::human(wanted));
    Ok(format!(
        "the cache size {wanted} has no effect: the node of this cache directory is already running with {has}; stop it first, \
         or use another cache directory"
    ))
}

/// The dataset, if the node has it.
async fn known(client: &Client, wanted: &Wanted, shown_origin: &str) -> Result<Option<v1::DatasetStatus>> {
    let is_it =
        |dataset: &v1::DatasetStatus| dataset.config.as_ref().is_some_and(|config| wanted.is(config, shown_origin));
    Ok(client.list_datasets().await?.into_iter().find(is_it))
}

fn name_of(dataset: v1::DatasetStatus) -> String {
    dataset.config.map(|config| config.name).unwrap_or_default()
}

/// Prints a warning, unless it is empty.
pub fn warn(warning: &str) {
    if !warning.is_empty() {
        crate::output::warn(warning);
    }
}
